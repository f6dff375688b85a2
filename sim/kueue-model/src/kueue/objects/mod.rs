//! Kueue's objects, as far as Kueue's own decisions read them.

mod admission_check;
mod cluster_queue;
mod cohort;
mod condition;
mod flavor;
mod local_queue;
mod namespace;
mod pod_requests;
mod priority_class;
mod quantity;
mod selector;
mod workload;

pub(crate) use admission_check::AdmissionCheck;
pub(crate) use cluster_queue::{
    CheckRule, ClusterQueue, FairSharingStatus, FairWeight, FlavorFungibility, FlavorQuota,
    FlavorUsage, PreemptionPolicy, QueueStatus, QueueingStrategy, ResourceGroup, ResourceUsage,
    StopPolicy,
};
pub(crate) use cohort::Cohort;
pub(crate) use condition::{Condition, Conditions, True};
pub(crate) use flavor::{NodeLabels, ResourceFlavor};
pub(crate) use local_queue::LocalQueue;
pub(crate) use namespace::Namespace;
pub(crate) use pod_requests::amount_of;
pub(crate) use pod_requests::{Requests, effective_requests, pod_requests};
pub(crate) use priority_class::WorkloadPriorityClass;
pub(crate) use quantity::{scaled, with_canonical_quantities};
pub(crate) use selector::Selector;
pub(crate) use workload::{
    Admission, AdmissionCheckState, LACKS_PODS, Metadata, PodSet, PodSetAssignment, PodSetRequest,
    ReclaimablePods, RequeueState, State, Workload,
};

/// The finalizer of Workloads, ResourceFlavors and ClusterQueues that are in use.
pub(crate) const FINALIZER: &str = "kueue.x-k8s.io/resource-in-use";

/// Truncates a time to whole seconds, as Kubernetes stores it.
pub(crate) fn whole_seconds(at: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Reads an object as one of these views. An object that does not fit is read as an empty one.
pub(crate) fn read<'a, T: serde::Deserialize<'a> + Default>(object: &'a serde_json::Value) -> T {
    T::deserialize(object).unwrap_or_default()
}
