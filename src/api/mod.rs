//! Kueue's API, in slim and tolerant form.
//!
//! Views are *slim*: they hold what a check can decide on and nothing else, so that a Workload
//! costs less than a kibibyte. They are *tolerant*: an unknown, missing or malformed field becomes
//! its default and is counted, so that one malformed object stops no watch.
//!
//! | view | of | kept |
//! | --- | --- | --- |
//! | [`Workload`] | `workloads.kueue.x-k8s.io` | only those that hold a quota reservation |
//! | [`AdmissionCheck`] | `admissionchecks.kueue.x-k8s.io` | all |
//! | [`ResourceFlavor`] | `resourceflavors.kueue.x-k8s.io` | node labels only |
//!
//! [`ServedApi`] contains the version and the fields of them that the cluster serves.

mod admission_check;
mod entry;
mod lenient;
mod names;
mod object;
mod pod_set_update;
mod quantity;
mod resource_flavor;
mod served;
mod toleration;
mod workload;

pub use admission_check::{AdmissionCheck, ParametersReference};
pub use entry::{AdmissionCheckState, CheckState};
pub use names::Uid;
pub use pod_set_update::PodSetUpdate;
pub use quantity::Quantity;
pub use resource_flavor::ResourceFlavor;
pub use workload::{
    Owner, PodSet, PodSetResource, PriorityClassKind, Workload, WorkloadCondition,
    WorkloadConditions,
};

// The runtime, the simulator and errors name these; check authors do not.
#[doc(hidden)]
pub use {
    entry::Other,
    names::ResourceVersion,
    quantity::QuantityError,
    served::{ApiVersion, ServedApi},
};

pub(crate) use admission_check::{AFTER_ADMISSION, AdmissionCheckObject, StatusCondition};
pub(crate) use lenient::Lenient;
pub(crate) use names::{CompactTime, Name, Names};
pub(crate) use object::{SlimMeta, slim_resource, texts};
pub(crate) use pod_set_update::{
    Fingerprint, FingerprintKind, digest, fingerprint, fingerprints, short_digest, updates_digest,
};
pub(crate) use resource_flavor::ResourceFlavorObject;
pub(crate) use served::{DiscoveryError, Probed, discover, served_versions};
pub(crate) use toleration::SlimToleration;
pub(crate) use workload::{Projection, Slice, WorkloadObject};

/// Kueue's API group.
#[doc(hidden)]
pub const GROUP: &str = "kueue.x-k8s.io";
