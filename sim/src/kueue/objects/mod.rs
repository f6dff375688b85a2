//! Kueue's objects, as far as Kueue's own decisions read them.

mod admission_check;
mod cluster_queue;
mod condition;
mod flavor;
mod local_queue;
mod pod_requests;
mod selector;
mod workload;

pub use admission_check::AdmissionCheck;
pub use cluster_queue::{
    CheckRule, ClusterQueue, FlavorFungibility, FlavorQuota, Preemption, QueueingStrategy,
    ResourceGroup, ResourceQuota, StopPolicy, WithinClusterQueue,
};
pub use condition::{Condition, Conditions, True};
pub use flavor::{NodeLabels, ResourceFlavor};
pub use local_queue::LocalQueue;
pub(crate) use pod_requests::amount_of;
pub use pod_requests::{Requests, pod_requests};
pub use selector::Selector;
pub use workload::{
    Admission, CheckEntry, Metadata, OwnerReference, PodSet, PodSetAssignment, PriorityClassRef,
    RequeueState, State, Workload, WorkloadSpec, WorkloadStatus,
};

/// A moment as Kubernetes keeps it: whole seconds.
pub fn whole_seconds(at: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// An object as one of these views; what does not fit it is as if it were not there.
pub(crate) fn read<'a, T: serde::Deserialize<'a> + Default>(object: &'a serde_json::Value) -> T {
    T::deserialize(object).unwrap_or_default()
}
