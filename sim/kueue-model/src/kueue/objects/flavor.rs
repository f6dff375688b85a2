//! The ResourceFlavor object.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Metadata;

/// The labels of a flavor's nodes.
pub(crate) type NodeLabels = BTreeMap<String, String>;

/// A ResourceFlavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceFlavor {
    /// The object metadata.
    pub(crate) metadata: Metadata,
    /// The desired state.
    pub(crate) spec: ResourceFlavorSpec,
}

/// The spec of a ResourceFlavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceFlavorSpec {
    /// Its nodes' labels, which admitted Pods get as node selector.
    pub(crate) node_labels: NodeLabels,
    /// Its nodes' taints, which Pods must tolerate.
    pub(crate) node_taints: Vec<Value>,
    /// Tolerations that admitted Pods get.
    pub(crate) tolerations: Vec<Value>,
    /// Its Topology, if it has one. The model has none.
    pub(crate) topology_name: Option<String>,
}
