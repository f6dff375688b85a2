//! ResourceFlavor: the kind of nodes on which quota was reserved.

use std::collections::BTreeMap;

use kube::core::{ClusterResourceScope, ObjectMeta};
use serde::Deserialize;

use super::{Lenient, SlimMeta, slim_resource};

/// A ResourceFlavor (cluster-scoped). Kueue adds its node labels to the node selector of the pods that were assigned to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceFlavor {
    pub(crate) name: String,
    pub(crate) node_labels: BTreeMap<String, String>,
}

impl ResourceFlavor {
    /// The flavor's name, as in a pod set's assignment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `spec.nodeLabels`: the labels of its nodes, such as their zone.
    pub fn node_labels(&self) -> &BTreeMap<String, String> {
        &self.node_labels
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
    node_labels: Lenient<BTreeMap<String, String>>,
}

impl From<ResourceFlavorObject> for ResourceFlavor {
    fn from(object: ResourceFlavorObject) -> Self {
        Self {
            name: object.metadata.name.unwrap_or_default(),
            node_labels: object.spec.0.node_labels.0,
        }
    }
}
