//! What an autoscaler sees.

use std::collections::BTreeMap;

use super::request::RequestKey;
use super::{Request, Shape};

/// What an autoscaler sees of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSnapshot {
    /// Every ProvisioningRequest, in the order in which they are listed.
    pub requests: Vec<Request>,
    /// What the pods of each PodTemplate need, by namespace and name.
    pub templates: BTreeMap<(String, String), Shape>,
    /// The pods that have not ended.
    pub pods: Vec<Pod>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// The ProvisioningRequest that its annotation names.
    pub consumes: Option<String>,
    /// Whether it has a node.
    pub scheduled: bool,
    /// What it needs.
    pub shape: Shape,
}

impl ClusterSnapshot {
    /// What the pods of `request` need, a pod set after the other; an error names the first
    /// template that is missing.
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

    /// How many pods that consume `request` have a node.
    pub(super) fn scheduled(&self, request: &RequestKey) -> u64 {
        let consuming = self.pods.iter().filter(|pod| {
            pod.scheduled
                && pod.namespace == request.namespace
                && pod.consumes.as_ref() == Some(&request.name)
        });
        consuming.count() as u64
    }
}
