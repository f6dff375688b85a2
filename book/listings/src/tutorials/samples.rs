//! The YAML files of the book, on the cluster in a box.

use std::fs;

use kueue_check_sim::Cluster;
use serde_json::Value;

use crate::repository;

/// Applies all documents of `file`.
pub(super) fn apply(cluster: &Cluster, file: &str) {
    let path = repository().join("book/listings/yaml").join(file);
    let text = fs::read_to_string(&path).unwrap();
    for document in text.split("---\n") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        cluster.apply(&object);
    }
}
