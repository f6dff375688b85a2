//! The cluster snapshot of an autoscaler.

use std::collections::BTreeMap;

use super::request::RequestKey;
use super::{Request, Shape};

/// The state of a cluster that an autoscaler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSnapshot {
    /// All ProvisioningRequests, in list order.
    pub requests: Vec<Request>,
    /// The needs of the pods of each PodTemplate, by namespace and name.
    pub templates: BTreeMap<(String, String), Shape>,
    /// The pods that have not ended.
    pub pods: Vec<Pod>,
}

/// A pod that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// The ProvisioningRequest that its annotation names.
    pub consumes: Option<String>,
    /// Whether it has a node.
    pub scheduled: bool,
    /// Its needs of a node.
    pub shape: Shape,
}

impl ClusterSnapshot {
    /// Returns the needs of the pods of `request`, one pod set after the other. The error names the
    /// first missing template.
    pub(super) fn pods_of(&self, request: &Request) -> Result<Vec<(Shape, u64)>, String> {
        let shape = |template: &str| {
            let key = (request.key.namespace.clone(), template.to_owned());
            self.templates.get(&key).ok_or_else(|| {
                format!(
                    "couldn't get ProvisioningRequest pods: podtemplate \"{template}\" not found"
                )
            })
        };
        let sets = request.pod_sets.iter();
        sets.map(|set| Ok((shape(&set.template)?.clone(), set.count)))
            .collect()
    }

    /// Returns the number of pods that consume `request` and have a node.
    pub(super) fn scheduled(&self, request: &RequestKey) -> u64 {
        let consuming = self.pods.iter().filter(|pod| {
            pod.scheduled
                && pod.namespace == request.namespace
                && pod.consumes.as_ref() == Some(&request.name)
        });
        consuming.count() as u64
    }
}
