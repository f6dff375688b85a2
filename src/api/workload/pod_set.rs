//! A pod set: pods of one template.

use std::sync::Arc;

use crate::api::Quantity;
use crate::api::pod_set_update::Fingerprint;

/// A pod set of a Workload, with what Kueue assigned to it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSet {
    pub(crate) name: Arc<str>,
    pub(crate) count: u32,
    pub(crate) assigned_count: Option<u32>,
    pub(crate) reclaimable: u32,
    pub(crate) resources: Box<[PodSetResource]>,
    pub(crate) template: Box<[Fingerprint]>,
}

/// One resource of a pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSetResource {
    pub(crate) name: Arc<str>,
    pub(crate) flavor: Option<Arc<str>>,
    pub(crate) per_pod: Quantity,
    pub(crate) usage: Quantity,
}

impl PodSet {
    /// The name, unique in the Workload.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many pods: the count for which quota is reserved, which partial admission may have lowered; else that of the spec. Zero is legal.
    pub fn count(&self) -> u32 {
        self.assigned_count.unwrap_or(self.count)
    }

    /// How many pods the spec asks for.
    pub fn spec_count(&self) -> u32 {
        self.count
    }

    /// How many pods have ended for good while the job runs (`status.reclaimablePods`): Kueue has taken their quota back.
    pub fn reclaimable(&self) -> u32 {
        self.reclaimable
    }

    /// What one pod requests of `resource`, by Kubernetes' rule: the containers and restartable init containers together, or the largest
    /// init container, plus the pod's overhead.
    pub fn requests(&self, resource: &str) -> Quantity {
        self.resource(resource)
            .map(PodSetResource::per_pod)
            .unwrap_or_default()
    }

    /// Every resource that is requested or assigned, by name.
    pub fn resources(&self) -> &[PodSetResource] {
        &self.resources
    }

    /// One of them.
    pub fn resource(&self, name: &str) -> Option<&PodSetResource> {
        self.resources
            .iter()
            .find(|resource| resource.name() == name)
    }

    /// The ResourceFlavor assigned for `resource`; `None` without a reservation, or where the ClusterQueue does not cover the resource.
    pub fn flavor(&self, resource: &str) -> Option<&str> {
        self.resource(resource).and_then(PodSetResource::flavor)
    }

    /// The distinct flavors assigned to the pod set.
    pub fn flavors(&self) -> impl Iterator<Item = &str> {
        let flavors = self
            .resources
            .iter()
            .enumerate()
            .filter_map(|(at, resource)| Some((at, resource.flavor()?)));
        flavors
            .filter(|(at, flavor)| {
                self.resources[..*at]
                    .iter()
                    .all(|earlier| earlier.flavor() != Some(flavor))
            })
            .map(|(_, flavor)| flavor)
    }
}

impl PodSetResource {
    /// The resource's name, such as `cpu` or `nvidia.com/gpu`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ResourceFlavor from which quota is reserved.
    pub fn flavor(&self) -> Option<&str> {
        self.flavor.as_deref()
    }

    /// What one pod requests.
    pub fn per_pod(&self) -> Quantity {
        self.per_pod
    }

    /// What Kueue accounts to the whole pod set (`resourceUsage`).
    pub fn usage(&self) -> Quantity {
        self.usage
    }
}
