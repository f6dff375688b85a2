//! Workload: Kueue's unit of queueing, made for a job.

mod object;
mod pod_set;
mod project;
mod requests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{AdmissionCheckState, CompactTime, Name, Quantity, ResourceVersion, Uid};

pub(crate) use object::WorkloadObject;
pub use pod_set::{PodSet, PodSetResource};
pub(crate) use project::Projection;

/// A Workload, with the fields that an admission check needs. Cheap to clone.
///
/// The runtime keeps one for each Workload that holds a quota reservation. Other fields, such as
/// whole pod templates, take one request:
/// [`Request::full_workload`](crate::Request::full_workload).
///
/// ```
/// use kueue_check::api::Workload;
///
/// /// What a decision is made of.
/// fn is_large(workload: &Workload) -> bool {
///     workload.label("size") == Some("large") || workload.requests("nvidia.com/gpu").units() > 64
/// }
///
/// let workload = Workload::from_json(serde_json::json!({
///     "metadata": {"namespace": "team-a", "name": "train", "labels": {"size": "large"}},
///     "spec": {"queueName": "main", "priority": 100},
/// }))?;
/// assert!(is_large(&workload) && !workload.holds_quota());
/// assert_eq!((workload.to_string().as_str(), workload.queue(), workload.priority()), ("team-a/train", Some("main"), 100));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Workload(Arc<Data>);

#[derive(Clone, Debug, PartialEq)]
struct Data {
    namespace: Name,
    name: Box<str>,
    uid: Uid,
    version: ResourceVersion,
    created: CompactTime,
    queue: Option<Name>,
    cluster_queue: Option<Name>,
    priority: i32,
    priority_class: Option<Name>,
    priority_class_kind: Option<PriorityClassKind>,
    active: bool,
    deleting: bool,
    max_execution_seconds: Option<u32>,
    past_execution_seconds: u32,
    owner: Option<Owner>,
    labels: Box<[(Name, Box<str>)]>,
    annotations: Box<[(Name, Box<str>)]>,
    slice: Slice,
    variant: Option<Box<Variant>>,
    /// Shared with the Workloads that have the same pod sets.
    pod_sets: Arc<[PodSet]>,
    conditions: WorkloadConditions,
    checks: Box<[AdmissionCheckState]>,
}

/// The kind of a Workload's priority class.
///
/// ```
/// use kueue_check::api::{PriorityClassKind, Workload};
///
/// let workload = Workload::from_json(serde_json::json!({"metadata": {"name": "train"}, "spec": {
///     "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
/// }}))?;
/// assert_eq!(workload.priority_class_kind(), Some(PriorityClassKind::WorkloadPriorityClass));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PriorityClassKind {
    /// Kueue's own (`kueue.x-k8s.io`).
    WorkloadPriorityClass,
    /// Kubernetes' (`scheduling.k8s.io`).
    PriorityClass,
}

/// Whether the Workload is a slice of an elastic job.
///
/// Kueue makes one Workload for the job, and another one for each growth. That one requests all
/// pods and replaces the one before. Measured on 0.19.2, where elastic jobs are on by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slice {
    /// It is the only Workload of its job.
    #[default]
    None,
    /// The first slice, which replaces none.
    First,
    /// A growth: the name of the slice that it replaces.
    Replaces(Box<str>),
}

/// A variant of a job (Kueue's concurrent admission).
///
/// Kueue makes one variant for each flavor, which hold quota at the same time. The first one that
/// is admitted starts the job. Measured on 0.19.2 with the gate `ConcurrentAdmission`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The UID of the job, or of the Parent if that has no job.
    pub(crate) family: Uid,
    /// The flavors that it may be given.
    pub(crate) flavor: Box<str>,
}

/// The label of a Workload that has variants.
const PARENT: &str = "kueue.x-k8s.io/concurrent-admission-parent";

/// The job for which Kueue made the Workload.
///
/// ```
/// use kueue_check::api::Workload;
///
/// let workload = Workload::from_json(serde_json::json!({"metadata": {"name": "job-train-1a2b3", "ownerReferences": [
///     {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "7", "controller": true},
/// ]}}))?;
/// assert_eq!(workload.owner().map(|job| (job.kind(), job.name())), Some(("Job", "train")));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub(crate) api_version: Name,
    pub(crate) kind: Name,
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    /// Whether it is the only one that controls the Workload.
    pub(crate) controls: bool,
}

impl Owner {
    /// Returns group and version, such as `batch/v1`.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the kind, such as `Job`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the name, in the Workload's namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Returns true if it is itself a Workload, of which this one is a variant.
    pub(crate) fn is_workload(&self) -> bool {
        &*self.kind == "Workload" && self.api_version.starts_with("kueue.x-k8s.io/")
    }
}

/// A condition of a Workload: its status, and when it took it (to the second). A missing condition
/// is neither true nor false.
///
/// ```
/// use kueue_check::api::Workload;
///
/// let workload = Workload::from_json(serde_json::json!({"metadata": {"name": "train"}, "status": {"conditions": [
///     {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"},
/// ]}}))?;
/// let reserved = workload.conditions().quota_reserved();
/// assert_eq!((reserved.is_true(), reserved.last_transition_time()), (true, "2026-11-21T09:00:00Z".parse().ok()));
/// assert_eq!(workload.conditions().admitted().last_transition_time(), None, "it has never been admitted");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkloadCondition {
    pub(crate) status: Option<bool>,
    pub(crate) at: CompactTime,
}

impl WorkloadCondition {
    /// Returns true if the condition is `True`.
    pub fn is_true(self) -> bool {
        self.status == Some(true)
    }

    /// Returns the time of the condition's last transition.
    pub fn last_transition_time(self) -> Option<Timestamp> {
        self.at.get()
    }
}

/// The conditions that the admission check protocol uses.
///
/// ```
/// use kueue_check::api::Workload;
///
/// let workload = Workload::from_json(serde_json::json!({"metadata": {"name": "train"}, "status": {"conditions": [
///     {"type": "QuotaReserved", "status": "False", "lastTransitionTime": "2026-11-21T09:05:00Z"},
///     {"type": "Evicted", "status": "True", "lastTransitionTime": "2026-11-21T09:05:00Z"},
/// ]}}))?;
/// assert!(workload.conditions().evicted().is_true() && !workload.conditions().quota_reserved().is_true());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadConditions {
    pub(crate) quota_reserved: WorkloadCondition,
    pub(crate) admitted: WorkloadCondition,
    pub(crate) evicted: WorkloadCondition,
    pub(crate) finished: WorkloadCondition,
    /// Whether it is `Finished` because another slice of the elastic job has replaced it.
    pub(crate) replaced: bool,
    /// Whether it is `Finished` as out of sync with its job. Up to 0.18 Kueue sets this on some
    /// slices that it has replaced, and always on those that it drops without a successor.
    pub(crate) out_of_sync: bool,
}

impl WorkloadConditions {
    /// Returns `QuotaReserved`.
    pub fn quota_reserved(&self) -> WorkloadCondition {
        self.quota_reserved
    }

    /// Returns `Admitted`: all checks were Ready and the job may run.
    pub fn admitted(&self) -> WorkloadCondition {
        self.admitted
    }

    /// Returns `Evicted`: an eviction is under way, or the Workload has not got quota again since.
    pub fn evicted(&self) -> WorkloadCondition {
        self.evicted
    }

    /// Returns `Finished`, whether it succeeded or failed.
    pub fn finished(&self) -> WorkloadCondition {
        self.finished
    }
}

impl Workload {
    /// Decodes a Workload from JSON, for tests of a check's decision. A field of the wrong shape
    /// counts as absent.
    ///
    /// ```
    /// let workload = kueue_check::api::Workload::from_json(serde_json::json!({
    ///     "metadata": {"namespace": "team-a", "name": "train", "uid": "1"},
    ///     "spec": {"queueName": "main", "podSets": [{"name": "workers", "count": 4, "template": {"spec": {"containers": [
    ///         {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "8"}}},
    ///     ]}}}]},
    /// }))?;
    /// assert_eq!(workload.requests("nvidia.com/gpu").units(), 32);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn from_json(object: serde_json::Value) -> Result<Self, serde_json::Error> {
        let object: WorkloadObject = serde_json::from_value(object)?;
        Ok(Projection::all_annotations().project(object))
    }

    /// Decodes the text of a full object, as the API server sends it. Returns the Workload, and how
    /// many of its fields have another shape than Kueue documents.
    ///
    /// # Errors
    /// If the text is not an object with metadata.
    #[doc(hidden)]
    pub fn from_slice(object: &[u8]) -> Result<(Self, u32), serde_json::Error> {
        let object: WorkloadObject = serde_json::from_slice(object)?;
        let malformed = object.malformed_fields;
        Ok((Projection::all_annotations().project(object), malformed))
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// Returns the name. Kueue derives it from the job's: see [`owner`](Self::owner) for that.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &Uid {
        &self.0.uid
    }

    /// Returns `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.0.version
    }

    /// Returns when it was created.
    pub fn created(&self) -> Option<Timestamp> {
        self.0.created.get()
    }

    /// Returns the LocalQueue (`spec.queueName`).
    pub fn queue(&self) -> Option<&str> {
        self.0.queue.as_deref()
    }

    /// Returns the ClusterQueue in which quota is reserved; `None` without a reservation.
    pub fn cluster_queue(&self) -> Option<&str> {
        self.0.cluster_queue.as_deref()
    }

    pub(crate) fn shared_cluster_queue(&self) -> Option<&Name> {
        self.0.cluster_queue.as_ref()
    }

    /// Returns `spec.priority`; 0 when absent.
    pub fn priority(&self) -> i32 {
        self.0.priority
    }

    /// Returns the WorkloadPriorityClass or PriorityClass that it names
    /// (`spec.priorityClassRef.name`; `spec.priorityClassName` in v1beta1). Users choose it.
    pub fn priority_class(&self) -> Option<&str> {
        self.0.priority_class.as_deref()
    }

    /// Returns the kind of the [priority class](Self::priority_class): classes of both kinds can
    /// have one name. `None` without a class, or if group and kind (in v1beta1
    /// `spec.priorityClassSource`) name neither kind.
    pub fn priority_class_kind(&self) -> Option<PriorityClassKind> {
        self.0.priority_class_kind
    }

    /// Returns `spec.active`: false once a user, or a Rejected check, has deactivated it.
    pub fn is_active(&self) -> bool {
        self.0.active
    }

    /// Returns true if it is being deleted.
    pub fn is_being_deleted(&self) -> bool {
        self.0.deleting
    }

    /// Returns `spec.maximumExecutionTimeSeconds`: Kueue evicts the job when it has run that long.
    pub fn max_execution_time(&self) -> Option<Duration> {
        self.0
            .max_execution_seconds
            .map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Returns for how long earlier runs of it count against
    /// [`max_execution_time`](Self::max_execution_time)
    /// (`status.accumulatedPastExecutionTimeSeconds`).
    pub fn past_execution_time(&self) -> Duration {
        Duration::from_secs(self.0.past_execution_seconds.into())
    }

    /// Returns the job that it belongs to; `None` for a bare Workload.
    pub fn owner(&self) -> Option<&Owner> {
        self.0.owner.as_ref()
    }

    /// Returns the Workload's label `key`. All labels are kept, except `kueue.x-k8s.io/job-uid`,
    /// which is `owner().uid()`.
    pub fn label(&self, key: &str) -> Option<&str> {
        find(&self.0.labels, key)
    }

    /// Returns the labels that are kept, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns the Workload's annotation `key`. Only annotations that the check has named are kept:
    /// see [`Check::annotations`](crate::Check::annotations).
    pub fn annotation(&self, key: &str) -> Option<&str> {
        find(&self.0.annotations, key)
    }

    /// Returns the annotations that are kept, by key.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .annotations
            .iter()
            .map(|(key, value)| (&**key, &**value))
    }

    /// Returns its place among the slices of an elastic job.
    pub(crate) fn slice(&self) -> &Slice {
        &self.0.slice
    }

    /// Returns the variant that it is.
    pub(crate) fn variant(&self) -> Option<&Variant> {
        self.0.variant.as_deref()
    }

    /// Returns true if it has variants (the label `concurrent-admission-parent`). Kueue copies the
    /// winner's admission to it, and it has no checks.
    pub(crate) fn is_parent(&self) -> bool {
        self.label(PARENT) == Some("true")
    }

    /// Returns the UID that all Workloads of one job have in common: the key of its
    /// [`Family`](crate::Family).
    ///
    /// It is the UID of the job that controls the Workload; for a variant, that of its Parent's
    /// job; and the Workload's own where no job controls it. A group of pods, and each replica of a
    /// `LeaderWorkerSet`, has a Workload that no job controls. They do not count as one job.
    pub fn family_key(&self) -> &Uid {
        match (&self.0.variant, &self.0.owner) {
            (Some(variant), _) => &variant.family,
            (None, Some(owner)) if owner.controls => &owner.uid,
            (None, _) => &self.0.uid,
        }
    }

    /// Returns the pod sets, in the order of the spec.
    pub fn pod_sets(&self) -> &[PodSet] {
        &self.0.pod_sets
    }

    /// Returns the flavors that are assigned to the pod sets. A flavor of several pod sets appears
    /// several times.
    pub(crate) fn flavors(&self) -> impl Iterator<Item = &str> {
        self.pod_sets().iter().flat_map(PodSet::flavors)
    }

    /// Returns the Workload in `version`, with another entry of one check and no other change.
    pub(crate) fn with_entry(&self, version: ResourceVersion, entry: AdmissionCheckState) -> Self {
        let mut data = (*self.0).clone();
        data.version = version;
        if let Some(known) = data
            .checks
            .iter_mut()
            .find(|known| known.name == entry.name)
        {
            *known = entry;
        }
        Self(Arc::new(data))
    }

    /// Returns what the pods that run or will run request of `resource`: see [`PodSet::count`].
    pub fn requests(&self, resource: &str) -> Quantity {
        self.pod_sets()
            .iter()
            .map(|pod_set| pod_set.requests(resource) * pod_set.count())
            .sum()
    }

    /// Returns what Kueue accounts to the Workload of `resource`, without reclaimable pods; zero
    /// without a reservation.
    pub fn usage(&self, resource: &str) -> Quantity {
        self.pod_sets()
            .iter()
            .filter_map(|pod_set| pod_set.resource(resource))
            .map(|resource| resource.usage())
            .sum()
    }

    /// Returns the conditions that the admission check protocol uses.
    pub fn conditions(&self) -> &WorkloadConditions {
        &self.0.conditions
    }

    /// Returns true if it holds quota: `QuotaReserved=True` and `status.admission` is set.
    pub fn holds_quota(&self) -> bool {
        self.0.conditions.quota_reserved.is_true() && self.0.cluster_queue.is_some()
    }

    /// Returns true if its job may run: `Admitted=True`.
    pub fn is_admitted(&self) -> bool {
        self.0.conditions.admitted.is_true()
    }

    /// Returns the entries of `status.admissionChecks`: this check's and the others'.
    pub fn checks(&self) -> &[AdmissionCheckState] {
        &self.0.checks
    }

    /// Returns the entry of the AdmissionCheck `name`.
    pub fn check(&self, name: &str) -> Option<&AdmissionCheckState> {
        self.0.checks.iter().find(|entry| entry.name() == name)
    }

    /// Returns true if both have the same inputs for `check`, and the same updates of the other
    /// checks, which its own must fit.
    pub(crate) fn same_inputs(&self, other: &Self, check: &str) -> bool {
        let others = |workload: &Self| -> Vec<(String, u32)> {
            let entries = workload.checks().iter();
            let others = entries.filter(|entry| entry.name() != check && entry.updates.is_some());
            let mut updates: Vec<_> = others
                .map(|entry| (entry.name().to_owned(), entry.updates_digest))
                .collect();
            updates.sort_unstable();
            updates
        };
        self.decides_like(other) && others(self) == others(other)
    }

    /// Returns true if both have the same inputs for a check: no other change needs a new
    /// evaluation.
    pub(crate) fn decides_like(&self, other: &Self) -> bool {
        let inputs = |data: &Data| {
            (
                data.priority,
                data.priority_class.clone(),
                data.queue.clone(),
                data.cluster_queue.clone(),
                data.max_execution_seconds,
            )
        };
        inputs(&self.0) == inputs(&other.0)
            && self.0.labels == other.0.labels
            && self.0.annotations == other.0.annotations
            && self.0.pod_sets == other.0.pod_sets
    }
}

fn find<'a>(pairs: &'a [(Name, Box<str>)], key: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(known, _)| &**known == key)
        .map(|(_, value)| &**value)
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workload").field(&self.0).finish()
    }
}

/// Prints `namespace/name`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name())
    }
}
