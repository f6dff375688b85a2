//! CustomResourceDefinitions from files.

use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

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
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let read = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).map_err(|e| error(file, e.to_string()))?;
        serde_saphyr::from_str(&text).map_err(|e| error(file, e.to_string()))
    });
    read.collect()
}
