//! The stored form of objects, and their form in each version of a kind.

use std::sync::Arc;

use serde_json::Value;

use super::{Kind, events};
use crate::call::Resource;
use crate::metadata::text;
use crate::schema::{Schema, default_fields, drop_nulls, prune};

impl Kind {
    /// Returns true if the stored form of all objects is that of this version.
    pub(crate) fn has_one_form(&self) -> bool {
        self.schemas.len() < 2 && self.definition.since == 0 && !self.is("", "events")
    }

    /// Returns true if this stored object differs from its form in this version: it is stored in
    /// another version, or was written under an earlier definition.
    pub(crate) fn converts(&self, stored: &Value) -> bool {
        if self.has_one_form() {
            return false;
        }
        let is_earlier = || {
            let version = text(stored, "resourceVersion").parse::<u64>();
            version.is_ok_and(|version| version < self.definition.since)
        };
        self.is("", "events") || version_of(stored) != self.resource.version || is_earlier()
    }

    /// Returns the schema of another version of the kind.
    pub(crate) fn other_schema(&self, api_version: &str) -> Option<&Arc<Schema>> {
        if self.schemas.len() < 2 {
            return None;
        }
        let version = version_part(api_version);
        let others = (version != self.resource.version).then_some(&self.schemas);
        others?.get(version)
    }

    /// Converts a stored object to this version. A custom object gets the defaults of the version
    /// in which it is stored and loses the fields that one of the two versions does not have
    /// (Kubernetes 1.36.3, `crdConversionRESTOptionsGetter` in
    /// `apiextensions-apiserver/pkg/apiserver/customresource_handler.go`).
    pub(crate) fn show(&self, object: &mut Value) {
        if self.is("", "events") {
            events::to_core(object);
            return;
        }
        if let Some(schema) = self.schemas.get(version_of(object)) {
            conform(object, schema);
            default_fields(object, schema);
        }
        if version_of(object) != self.resource.version {
            object["apiVersion"] = self.api_version().into();
            conform(object, &self.schema);
        }
    }

    /// Converts an object, in whichever version it is, to its stored form.
    pub(crate) fn keep(&self, object: &mut Value) {
        if self.is("", "events") {
            if object["apiVersion"] == "v1" {
                events::from_core(object);
            }
            return;
        }
        if version_of(object) == self.stored {
            return;
        }
        let group = &self.resource.group;
        let kept = Resource::new(group, &self.stored, &self.resource.plural);
        object["apiVersion"] = kept.api_version().into();
        if let Some(schema) = self.schemas.get(&self.stored) {
            conform(object, schema);
            default_fields(object, schema);
        }
    }
}

/// Returns the version in the `apiVersion` of an object, without its group.
fn version_of(object: &Value) -> &str {
    let full = object.get("apiVersion").and_then(Value::as_str);
    version_part(full.unwrap_or_default())
}

/// Returns an `apiVersion` without its group.
pub(crate) fn version_part(api_version: &str) -> &str {
    api_version
        .split_once('/')
        .map_or(api_version, |(_, version)| version)
}

/// Drops what a schema does not allow in a stored object.
fn conform(object: &mut Value, schema: &Schema) {
    prune(object, schema);
    drop_nulls(object, schema);
}
