//! Validation of a document. Pure.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kueue_check_schema::{
    CEL_ENABLED, Schema, blocks_rules, compile, default_fields, drop_nulls, duplicates, prune,
    validate, violated_rules,
};
use serde_json::{Value, json};

use crate::check::{DecodedParameters, DynCheck, metadata_errors, with_article};

/// The kinds that a program handles.
#[derive(Default)]
pub(super) struct Kinds(Vec<Kind>);

struct Kind {
    group: String,
    name: String,
    /// The schema of each version; none where another project defines the kind.
    versions: BTreeMap<String, Option<Arc<Schema>>>,
    namespaced: bool,
    /// The decoders of the checks.
    readers: Vec<fn(Value) -> Result<DecodedParameters, String>>,
}

/// The result for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DocumentResult {
    /// It is valid, as far as was checked; `notes` list what was not checked.
    Right { name: String, notes: Vec<String> },
    /// It is invalid, for each of these reasons.
    Wrong { name: String, errors: Vec<String> },
    /// It is another kind of document.
    Other(String),
}

impl Kinds {
    /// Returns the kinds of `checks`: their parameters, and their other definitions.
    pub(super) fn of(checks: &[DynCheck]) -> Self {
        let mut kinds = Self::default();
        for definition in checks.iter().flat_map(DynCheck::definitions) {
            kinds.define(&definition);
        }
        for check in checks {
            let parameters = check.parameters();
            if let Some(definition) = (parameters.definition_of_others)() {
                kinds.define(&definition);
            }
            let Some(kind) = parameters.kind else {
                continue;
            };
            let known = kinds.get(&kind.group, &kind.kind, false);
            for version in kind.versions {
                known.versions.entry(version).or_default();
            }
            known.readers.push(parameters.read);
        }
        kinds
    }

    fn get(&mut self, group: &str, kind: &str, namespaced: bool) -> &mut Kind {
        let is = |known: &Kind| known.group == group && known.name == kind;
        let at = self.0.iter().position(is).unwrap_or_else(|| {
            self.0.push(Kind {
                group: group.to_owned(),
                name: kind.to_owned(),
                versions: BTreeMap::new(),
                namespaced,
                readers: Vec::new(),
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    fn define(&mut self, definition: &CustomResourceDefinition) {
        let spec = &definition.spec;
        let namespaced = spec.scope == "Namespaced";
        let known = self.get(&spec.group, &spec.names.kind, namespaced);
        for version in spec.versions.iter().filter(|version| version.served) {
            let schema = version
                .schema
                .as_ref()
                .and_then(|schema| serde_json::to_value(schema.open_api_v3_schema.as_ref()?).ok())
                .map(with_metadata);
            known
                .versions
                .insert(version.name.clone(), schema.map(|schema| compile(&schema)));
        }
    }

    /// Returns their names, with articles.
    pub(super) fn names(&self) -> Vec<String> {
        let names = self.0.iter();
        names
            .map(|known| format!("{}.{}", with_article(&known.name), known.group))
            .collect()
    }

    /// Validates one document.
    pub(super) fn validate_document(&self, object: &Value) -> DocumentResult {
        let text = |path: &str| {
            object
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let known = self
            .0
            .iter()
            .find(|known| known.group == group && known.name == kind);
        let name = format!("{kind}/{}", text("/metadata/name"));
        let Some(known) = known else {
            return DocumentResult::Other(self.other(object, api_version, kind));
        };
        let Some(schema) = known.versions.get(version) else {
            let versions: Vec<&str> = known.versions.keys().map(String::as_str).collect();
            let error = format!(
                "apiVersion: {group} has no version `{version}` of {kind}: expected {}",
                versions.join(" or ")
            );
            return DocumentResult::Wrong {
                name,
                errors: vec![error],
            };
        };
        let (errors, notes) = known.examine(object.clone(), schema.as_deref());
        if errors.is_empty() {
            DocumentResult::Right { name, notes }
        } else {
            DocumentResult::Wrong { name, errors }
        }
    }

    /// Describes another document. A kind of this program in another group is most likely a
    /// mistake, so that is reported.
    fn other(&self, object: &Value, api_version: &str, kind: &str) -> String {
        if !object.is_object() {
            return "no Kubernetes object".to_owned();
        }
        if kind.is_empty() {
            return "it has no `kind`".to_owned();
        }
        let ours = self.0.iter().find(|known| known.name == kind);
        match ours {
            Some(known) => format!(
                "{} of {api_version}: this program takes those of {}",
                with_article(kind),
                known.group
            ),
            None => with_article(kind),
        }
    }
}

/// The schema of the metadata of all objects.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "labels": texts, "annotations": texts,
        "uid": text, "resourceVersion": text, "generation": {"type": "integer"}, "selfLink": text,
        "creationTimestamp": any, "deletionTimestamp": any, "deletionGracePeriodSeconds": any,
        "finalizers": {"type": "array", "items": text}, "ownerReferences": {"type": "array", "items": any},
        "managedFields": {"type": "array", "items": any},
    }})
});

fn with_metadata(mut schema: Value) -> Value {
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = json!({"type": "string"});
    }
    schema["properties"]["metadata"] = METADATA.clone();
    schema
}

impl Kind {
    /// Returns what is wrong with `object`, and what was not checked.
    fn examine(&self, mut object: Value, schema: Option<&Schema>) -> (Vec<String>, Vec<String>) {
        let mut errors = self.metadata(&object);
        let mut notes = Vec::new();
        match schema {
            Some(schema) => {
                errors.extend(by_schema(&mut object, schema));
                if schema.has_rules && !CEL_ENABLED {
                    notes.push("its rules in CEL were not run: this program is built without the feature `cel`; the API server runs them".to_owned());
                }
            }
            None => notes.push(
                "this program does not contain its definition: unknown fields were not checked"
                    .to_owned(),
            ),
        }
        // Errors that the schema finds would be reported twice.
        if errors.is_empty() {
            let read = self.readers.iter().map(|read| read(object.clone()));
            errors.extend(read.filter_map(Result::err));
        }
        (errors, notes)
    }

    fn metadata(&self, object: &Value) -> Vec<String> {
        let metadata = &object["metadata"];
        let given = |field: &str| {
            metadata[field]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        };
        let mut errors = Vec::new();
        if !given("name") && !given("generateName") {
            errors.push("metadata.name: Required value".to_owned());
        }
        if !self.namespaced && given("namespace") {
            errors.push(format!(
                "metadata.namespace: Forbidden: {} is in no namespace",
                with_article(&self.name)
            ));
        }
        errors.extend(metadata_errors(metadata));
        errors
    }
}

/// Returns the errors of the schema, worded as in kube-apiserver. Defaults are filled in.
fn by_schema(object: &mut Value, schema: &Schema) -> Vec<String> {
    let unknown = prune(object, schema);
    let mut errors: Vec<String> = unknown
        .into_iter()
        .map(|path| format!("{path}: unknown field"))
        .collect();
    drop_nulls(object, schema);
    default_fields(object, schema);
    let mut found = validate(object, schema);
    found.extend(duplicates(object, schema));
    if !blocks_rules(&found) {
        found.extend(violated_rules(object, None, schema));
    }
    errors.extend(found.iter().map(ToString::to_string));
    if let (Some(metadata), Some(schema)) =
        (object.get("metadata"), schema.properties.get("metadata"))
    {
        let found = validate(metadata, schema);
        errors.extend(found.iter().map(|error| format!("metadata.{error}")));
    }
    errors
}

#[cfg(test)]
#[path = "validation_tests.rs"]
mod tests;
