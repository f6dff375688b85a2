//! Definitions and objects of earlier releases.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kueue_check_schema::breaking_changes_of_definition;
use serde_json::Value;

/// The reason why a promise cannot be read, or an object did not survive.
#[derive(Debug, thiserror::Error)]
pub enum PromiseError {
    /// A file cannot be read.
    #[error("{0}: {1}")]
    File(PathBuf, String),
    /// The API server rejects a request.
    #[error("{what}: {error}")]
    Refused {
        /// The operation.
        what: String,
        /// The server's error.
        error: Box<kube::Error>,
    },
    /// The definitions cannot be installed.
    #[error("cannot install the definitions: {0}")]
    Install(String),
    /// An object has changed.
    #[error("{step}: {object} was {was} and is {is}")]
    Lost {
        /// The step after which it changed.
        step: String,
        /// The object.
        object: String,
        /// Its content before.
        was: Box<Value>,
        /// Its content now.
        is: Box<Value>,
    },
    /// The check cannot read an object.
    #[error("{step}: the check cannot read {object}: {problem}")]
    Unreadable {
        /// The step after which it is unreadable.
        step: String,
        /// The object.
        object: String,
        /// The reason.
        problem: String,
    },
}

/// A released state of the definitions.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The name of its folder.
    pub name: String,
    /// The definitions.
    pub definitions: Vec<CustomResourceDefinition>,
    /// The objects.
    pub objects: Vec<Value>,
}

impl Frozen {
    /// Returns the states in the folders of `folder`, in the order of their names.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, PromiseError> {
        let fail = |error: std::io::Error| PromiseError::File(folder.into(), error.to_string());
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            folders.push(entry.map_err(fail)?.path());
        }
        folders.sort();
        folders.iter().map(|folder| Self::read(folder)).collect()
    }

    fn read(folder: &Path) -> Result<Self, PromiseError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let definitions = documents(&folder.join("definitions.yaml"))?;
        let definitions = definitions.into_iter().map(|definition| {
            let read = serde_json::from_value(definition);
            read.map_err(|error| PromiseError::File(folder.into(), error.to_string()))
        });
        Ok(Self {
            name: name.into_owned(),
            definitions: definitions.collect::<Result<_, _>>()?,
            objects: documents(&folder.join("objects.yaml"))?,
        })
    }

    /// Returns the incompatibilities with the `present` definitions.
    pub(crate) fn broken_by(&self, present: &[Value]) -> Vec<String> {
        let mut broken = Vec::new();
        for earlier in self.definitions.iter().filter_map(crate::value) {
            let name = &earlier["metadata"]["name"];
            let name = name.as_str().unwrap_or_default();
            let later = present
                .iter()
                .find(|later| later["metadata"]["name"] == name);
            match later {
                None => broken.push(format!("{} {name}: it is gone", self.name)),
                Some(later) => {
                    let changes = breaking_changes_of_definition(&earlier, later);
                    let line = |change| format!("{} {name}: {change}", self.name);
                    broken.extend(changes.iter().map(line));
                }
            }
        }
        broken
    }

    /// Returns the fields that no object has.
    pub(crate) fn unset_fields(&self) -> Vec<String> {
        let mut unset = BTreeSet::new();
        for definition in self.definitions.iter().filter_map(crate::value) {
            let kind = &definition["spec"]["names"]["kind"];
            let objects: Vec<&Value> = self
                .objects
                .iter()
                .filter(|object| object["kind"] == *kind)
                .collect();
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let kind = kind.as_str().unwrap_or_default();
            find_unset(kind, schema, &objects, &mut unset);
        }
        unset.into_iter().collect()
    }
}

fn find_unset(path: &str, schema: &Value, values: &[&Value], unset: &mut BTreeSet<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let below: Vec<&Value> = values.iter().filter_map(|value| value.get(name)).collect();
        if below.is_empty() {
            unset.insert(path);
        } else {
            find_unset(&path, schema, &below, unset);
        }
    }
    if schema["items"].is_object() {
        let items = values.iter().filter_map(|value| value.as_array()).flatten();
        let items: Vec<&Value> = items.collect();
        find_unset(&format!("{path}[]"), &schema["items"], &items, unset);
    }
}

fn documents(path: &Path) -> Result<Vec<Value>, PromiseError> {
    let fail = |error: String| PromiseError::File(path.into(), error);
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    let documents = text.split("\n---\n").skip(1);
    documents
        .map(|document| serde_saphyr::from_str(document).map_err(|error| fail(error.to_string())))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_no_object_has_is_found_at_any_depth() {
        let schema = json!({"properties": {"spec": {"properties": {
            "list": {"items": {"properties": {"a": {}, "b": {}}}},
            "other": {},
        }}}});
        let objects = [
            json!({"spec": {"list": [{"a": 1}]}}),
            json!({"spec": {"list": [{"a": 2}], "other": 0}}),
        ];
        let mut unset = BTreeSet::new();
        find_unset(
            "Pool",
            &schema,
            &objects.iter().collect::<Vec<_>>(),
            &mut unset,
        );
        assert_eq!(
            unset.into_iter().collect::<Vec<_>>(),
            ["Pool.spec.list[].b"]
        );
    }

    #[test]
    fn a_change_that_breaks_is_named_with_the_state_that_promised_it() {
        let definition = |most: u32| -> Value {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "pools.example.com"},
                "spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Pool", "plural": "pools"},
                    "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                        {"type": "object", "properties": {"size": {"type": "integer", "maximum": most}}}}}]},
            })
        };
        let frozen = Frozen {
            name: "0.1.0".to_owned(),
            definitions: vec![serde_json::from_value(definition(8)).unwrap()],
            objects: Vec::new(),
        };
        assert_eq!(frozen.broken_by(&[definition(9)]), [""; 0]);
        assert_eq!(
            frozen.broken_by(&[definition(7)]),
            ["0.1.0 pools.example.com: size: maximum was 8.0 and is 7"]
        );
        assert_eq!(
            frozen.broken_by(&[]),
            ["0.1.0 pools.example.com: it is gone"]
        );
    }
}
