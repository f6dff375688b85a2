//! A pod set: pods of one template.

use std::sync::Arc;
use std::time::Duration;

use crate::api::quantity::Compact;
use crate::api::{Fingerprint, Name, Quantity};

/// A pod set of a Workload, with what Kueue assigned to it.
///
/// ```
/// use kueue_check::api::Workload;
///
/// // Kueue has reserved quota for 6 of the 8 pods (partial admission).
/// let workload = Workload::from_json(serde_json::json!({
///     "metadata": {"name": "train"},
///     "spec": {"podSets": [{"name": "workers", "count": 8, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}}}]},
///     "status": {"admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "workers", "count": 6, "flavors": {"cpu": "spot"}}]}},
/// }))?;
/// let workers = &workload.pod_sets()[0];
/// assert_eq!((workers.count(), workers.spec_count(), workers.flavor("cpu")), (6, 8, Some("spot")));
/// assert_eq!(workers.requests("cpu") * workers.count(), "12".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSet {
    pub(super) shape: Arc<Shape>,
    pub(super) counts: Counts,
    /// For each of the shape's resources, the usage that is accounted to the pods that are left to
    /// run.
    pub(super) usage: Box<[Compact]>,
}

/// The numbers of pods in a pod set, as the Workload states them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Counts {
    /// `spec.podSets[].count`.
    pub(super) spec: u32,
    /// `status.admission.podSetAssignments[].count`.
    pub(super) assigned: Option<u32>,
    /// `status.reclaimablePods[].count`.
    pub(super) reclaimable: u32,
}

impl Counts {
    /// Returns the pods that run or will run: `min(assigned, spec − reclaimable)`, Kueue's own
    /// formula (`totalRequestsFromAdmission` in `pkg/workload/workload.go` of 0.19.2).
    ///
    /// Nothing else in this project subtracts reclaimable pods. After an eviction Kueue assigns
    /// only the pods that are left, while `reclaimablePods` stays; and the assignment of an elastic
    /// job stays when the job shrinks (both measured on 0.19.2).
    fn left(self) -> u32 {
        let left = self.spec.saturating_sub(self.reclaimable);
        self.assigned.map_or(left, |assigned| assigned.min(left))
    }

    /// Returns the part of `usage`, which is that of all assigned pods, for the pods that are left.
    /// Rounded up.
    pub(super) fn scale(self, usage: Quantity) -> Quantity {
        let assigned = self.assigned.unwrap_or(self.spec);
        usage.part(self.left(), assigned)
    }
}

/// What pod sets of the same template and flavors share, whatever their sizes. Stored once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) name: Name,
    pub(super) resources: Box<[ShapeResource]>,
    pub(super) template: Box<[Fingerprint]>,
    /// In seconds.
    pub(super) termination_grace: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ShapeResource {
    pub(super) name: Name,
    pub(super) flavor: Option<Name>,
    pub(super) per_pod: Compact,
}

/// One resource of a pod set.
///
/// ```
/// use kueue_check::api::Workload;
///
/// let workload = Workload::from_json(serde_json::json!({
///     "metadata": {"name": "train"},
///     "spec": {"podSets": [{"name": "workers", "count": 2, "template": {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": 4}}}]}}}]},
///     "status": {"admission": {"clusterQueue": "gpus", "podSetAssignments": [
///         {"name": "workers", "count": 2, "flavors": {"nvidia.com/gpu": "a100"}, "resourceUsage": {"nvidia.com/gpu": "8"}},
///     ]}},
/// }))?;
/// for resource in workload.pod_sets()[0].resources() {
///     assert_eq!((resource.name(), resource.flavor()), ("nvidia.com/gpu", Some("a100")));
///     assert_eq!((resource.per_pod().units(), resource.usage().units()), (4, 8));
/// }
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PodSetResource<'a> {
    shape: &'a ShapeResource,
    usage: Compact,
}

impl PodSet {
    /// Returns the name, unique in the Workload.
    pub fn name(&self) -> &str {
        &self.shape.name
    }

    /// Returns how many pods run or will run, as Kueue counts them: those of the spec without the
    /// [`reclaimable`](Self::reclaimable) ones, and at most those for which quota is reserved. Zero
    /// is legal.
    ///
    /// Partial admission reserves quota for fewer pods than the spec has, and an elastic job that
    /// shrinks keeps the larger assignment. Only this method subtracts reclaimable pods:
    ///
    /// ```
    /// # use kueue_check::api::Workload;
    /// // Two of four pods had succeeded when the job was evicted. Kueue has reserved quota for the other two.
    /// let workload = Workload::from_json(serde_json::json!({
    ///     "metadata": {"name": "train"},
    ///     "spec": {"podSets": [{"name": "main", "count": 4}]},
    ///     "status": {
    ///         "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": 2}]},
    ///         "reclaimablePods": [{"name": "main", "count": 2}],
    ///     },
    /// }))?;
    /// assert_eq!(workload.pod_sets()[0].count(), 2);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn count(&self) -> u32 {
        self.counts.left()
    }

    /// Returns the number of pods in the spec.
    pub fn spec_count(&self) -> u32 {
        self.counts.spec
    }

    /// Returns the number of pods for which quota was reserved (`podSetAssignments[].count`);
    /// `None` without a reservation.
    ///
    /// It does not change while the reservation lasts: [`count`](Self::count) is what is left of
    /// it.
    pub fn assigned_count(&self) -> Option<u32> {
        self.counts.assigned
    }

    /// Returns the number of pods that ended and are not replaced (`status.reclaimablePods`). Kueue
    /// has released their quota, and [`count`](Self::count) does not include them.
    pub fn reclaimable(&self) -> u32 {
        self.counts.reclaimable
    }

    /// Returns what one pod requests of `resource`, by Kubernetes' rule: the containers and
    /// restartable init containers together, or the largest init container, plus the pod's
    /// overhead.
    pub fn requests(&self, resource: &str) -> Quantity {
        self.resource(resource)
            .map(|resource| resource.per_pod())
            .unwrap_or_default()
    }

    /// Returns how long a pod may go on once its termination is requested:
    /// `terminationGracePeriodSeconds` of the template, or Kubernetes' default of 30 s. Users
    /// choose it, without a bound.
    ///
    /// A pod that is terminating counts neither in a Job's `status.active` nor in Kueue's quota,
    /// and uses its resources all the same (Kueue 0.19.2 releases quota once no pod is active).
    ///
    /// ```
    /// # use kueue_check::api::Workload;
    /// let workload = Workload::from_json(serde_json::json!({
    ///     "metadata": {"name": "train"},
    ///     "spec": {"podSets": [
    ///         {"name": "main", "count": 4, "template": {"spec": {"terminationGracePeriodSeconds": 3600}}},
    ///     ]},
    /// }))?;
    /// assert_eq!(workload.pod_sets()[0].termination_grace().as_secs(), 3600);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn termination_grace(&self) -> Duration {
        Duration::from_secs(self.shape.termination_grace.into())
    }

    /// Returns every resource that is requested or assigned, by name.
    pub fn resources(&self) -> impl Iterator<Item = PodSetResource<'_>> {
        let pairs = self.shape.resources.iter().zip(&self.usage);
        pairs.map(|(shape, usage)| PodSetResource {
            shape,
            usage: *usage,
        })
    }

    /// Returns one of the resources.
    pub fn resource(&self, name: &str) -> Option<PodSetResource<'_>> {
        self.resources().find(|resource| resource.name() == name)
    }

    /// Returns the ResourceFlavor assigned for `resource`; `None` without a reservation, or where
    /// the ClusterQueue does not cover the resource.
    pub fn flavor(&self, resource: &str) -> Option<&str> {
        self.resource(resource)
            .and_then(|resource| resource.flavor())
    }

    /// Returns the distinct flavors assigned to the pod set.
    pub fn flavors(&self) -> impl Iterator<Item = &str> {
        let all = || {
            self.shape
                .resources
                .iter()
                .map(|resource| resource.flavor.as_deref())
        };
        let first =
            move |at: usize, flavor: &str| all().take(at).all(|earlier| earlier != Some(flavor));
        all()
            .enumerate()
            .filter_map(move |(at, flavor)| flavor.filter(|flavor| first(at, flavor)))
    }

    /// Returns the keys that the template sets.
    pub(crate) fn template(&self) -> impl Iterator<Item = Fingerprint> {
        self.shape.template.iter().copied()
    }
}

impl<'a> PodSetResource<'a> {
    /// Returns the resource's name, such as `cpu` or `nvidia.com/gpu`.
    pub fn name(&self) -> &'a str {
        &self.shape.name
    }

    /// Returns the ResourceFlavor from which quota is reserved.
    pub fn flavor(&self) -> Option<&'a str> {
        self.shape.flavor.as_deref()
    }

    /// Returns what one pod requests: exact to a thousandth, and above 10¹⁵ units to a whole unit.
    pub fn per_pod(&self) -> Quantity {
        self.shape.per_pod.into()
    }

    /// Returns what Kueue accounts to the [`count`](PodSet::count) pods that run or will run, as
    /// exact as that. This is `resourceUsage` (of all [assigned](PodSet::assigned_count) pods),
    /// scaled down as Kueue does it.
    pub fn usage(&self) -> Quantity {
        self.usage.into()
    }
}
