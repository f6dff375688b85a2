//! CustomResourceDefinitions from files.

use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// An error while reading CustomResourceDefinitions.
///
/// ```
/// use kueue_check_apiserver::definitions;
///
/// let error = definitions::read("no-such-directory".as_ref()).unwrap_err();
/// assert_eq!(error.to_string(), "no-such-directory: No such file or directory (os error 2)");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct DefinitionError {
    path: PathBuf,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Reads the definitions in a directory's `.yaml` files, sorted by file name. No file is an error.
///
/// ```
/// use kueue_check_apiserver::definitions;
///
/// let read = definitions::read("../kueue-model/crds/autoscaler".as_ref())?;
/// let kinds: Vec<_> = read.iter().map(|definition| definition.spec.names.kind.as_str()).collect();
/// assert_eq!(kinds, ["ProvisioningRequest"]);
/// # Ok::<(), definitions::DefinitionError>(())
/// ```
pub fn read(directory: &Path) -> Result<Vec<CustomResourceDefinition>, DefinitionError> {
    let error = |path: &Path, source: Box<dyn std::error::Error + Send + Sync>| DefinitionError {
        path: path.to_owned(),
        source,
    };
    let entries = std::fs::read_dir(directory).map_err(|e| error(directory, e.into()))?;
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(|e| error(directory, e.into()))?.path());
    }
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    if files.is_empty() {
        return Err(error(directory, "there is no file *.yaml in it".into()));
    }
    files.sort();
    let read = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).map_err(|e| error(file, e.into()))?;
        serde_saphyr::from_str(&text).map_err(|e| error(file, e.into()))
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_definitions_is_an_error() {
        let error = read(Path::new("src")).unwrap_err();
        assert_eq!(error.to_string(), "src: there is no file *.yaml in it");
    }
}
