//! The ResourceFlavor.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Metadata;

/// Labels of a flavor's nodes.
pub type NodeLabels = BTreeMap<String, String>;

/// A ResourceFlavor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceFlavor {
    /// Name and the like.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: ResourceFlavorSpec,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFlavorSpec {
    /// Its nodes' labels, which admitted Pods get as node selector.
    pub node_labels: NodeLabels,
    /// Its nodes' taints, which Pods must tolerate.
    pub node_taints: Vec<Value>,
    /// Tolerations that admitted Pods get.
    pub tolerations: Vec<Value>,
}
