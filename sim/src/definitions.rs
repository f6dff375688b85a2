//! CustomResourceDefinitions: this crate's own copies of Kueue's, and others from files.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::apiserver::Prepared;

/// A file that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct DefinitionError {
    path: PathBuf,
    why: String,
}

/// The definitions in a directory's `.yaml` files, by file name.
pub fn read(directory: &Path) -> Result<Vec<CustomResourceDefinition>, DefinitionError> {
    let error = |path: &Path, why: String| DefinitionError {
        path: path.to_owned(),
        why,
    };
    let entries = std::fs::read_dir(directory).map_err(|e| error(directory, e.to_string()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    let read = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).map_err(|e| error(file, e.to_string()))?;
        serde_saphyr::from_str(&text).map_err(|e| error(file, e.to_string()))
    });
    read.collect()
}

/// Kueue 0.19.2's and the autoscaler's, without the schema of Pods, which is nine tenths of them.
const TEXTS: [&str; 10] = [
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_admissionchecks.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_clusterqueues.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_cohorts.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_localqueues.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_provisioningrequestconfigs.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_resourceflavors.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_topologies.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_workloadpriorityclasses.yaml"),
    include_str!("../crds/kueue-v0.19.2/kueue.x-k8s.io_workloads.yaml"),
    include_str!("../crds/autoscaler/autoscaling.x-k8s.io_provisioningrequests.yaml"),
];

/// Those of Kueue 0.19.2 and of Cluster Autoscaler, to install on a real API server. They have no descriptions, no conversion and no schema of Pods.
pub fn all() -> Vec<CustomResourceDefinition> {
    // The texts are part of this crate, and a test reads them all.
    let read = TEXTS
        .iter()
        .filter_map(|text| serde_saphyr::from_str(text).ok());
    read.collect()
}

/// The kinds of Kueue 0.19.2 and of Cluster Autoscaler, read once.
pub fn kueue() -> &'static Prepared {
    static KINDS: LazyLock<Prepared> = LazyLock::new(|| Prepared::new(all()));
    &KINDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_own_copies_are_definitions() {
        for text in TEXTS {
            serde_saphyr::from_str::<CustomResourceDefinition>(text).unwrap();
        }
    }
}
