//! ResourceFlavor: the kind of nodes on which quota was reserved.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::core::{ClusterResourceScope, ObjectMeta};
use serde::Deserialize;

use super::{Lenient, SlimMeta, SlimToleration, slim_resource, texts};

/// A ResourceFlavor (cluster-scoped). Kueue adds its node labels to the node selector of the pods
/// that were assigned to it.
///
/// ```
/// use kueue_check::api::ResourceFlavor;
///
/// let spot = ResourceFlavor::from_json(serde_json::json!({
///     "metadata": {"name": "spot"}, "spec": {"nodeLabels": {"cloud.google.com/gke-spot": "true"}},
/// }))?;
/// assert_eq!((spot.name(), spot.node_labels()["cloud.google.com/gke-spot"].as_str()), ("spot", "true"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceFlavor {
    pub(crate) name: String,
    pub(crate) node_labels: BTreeMap<String, String>,
    pub(crate) tolerations: Vec<Toleration>,
}

impl ResourceFlavor {
    /// Decodes a flavor from JSON, for tests. A field of the wrong shape counts as absent.
    ///
    /// # Errors
    /// If it is not an object with metadata.
    pub fn from_json(object: serde_json::Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value::<ResourceFlavorObject>(object).map(Self::from)
    }

    /// Returns the flavor's name, as in a pod set's assignment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `spec.nodeLabels`: the labels of its nodes, such as their zone.
    pub fn node_labels(&self) -> &BTreeMap<String, String> {
        &self.node_labels
    }

    /// Returns `spec.tolerations`, which Kueue adds to the tolerations of the pods.
    pub fn tolerations(&self) -> &[Toleration] {
        &self.tolerations
    }
}

/// The object as it is decoded.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ResourceFlavorObject {
    #[serde(deserialize_with = "SlimMeta::object_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Lenient<Spec>,
}

slim_resource!(
    ResourceFlavorObject,
    "ResourceFlavor",
    "resourceflavors",
    ClusterResourceScope
);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_labels: Lenient<BTreeMap<String, Lenient<Option<String>>>>,
    #[serde(default)]
    tolerations: Lenient<Vec<Lenient<SlimToleration>>>,
}

impl From<ResourceFlavorObject> for ResourceFlavor {
    fn from(object: ResourceFlavorObject) -> Self {
        Self {
            name: object.metadata.name.unwrap_or_default(),
            node_labels: texts(object.spec.0.node_labels.0),
            tolerations: object
                .spec
                .0
                .tolerations
                .0
                .into_iter()
                .map(|toleration| toleration.0.0)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_and_tolerations_are_read_and_odd_ones_are_none() {
        let flavor = |spec| -> ResourceFlavor {
            let object = json!({"metadata": {"name": "spot"}, "spec": spec});
            ResourceFlavor::from_json(object).unwrap()
        };
        let spot = flavor(
            json!({"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}),
        );
        assert_eq!(spot.node_labels()["pool"], "spot");
        assert_eq!(spot.tolerations()[0].key.as_deref(), Some("spot"));
        assert!(flavor(json!({"tolerations": 3})).tolerations().is_empty());
    }
}
