//! The part of an object that a write may change: only the status, or all but the status.

use serde_json::{Map, Value, json};

use super::prepared::PreparedWrite;
use super::{Context, builtin};
use crate::kinds::Kind;

/// Keeps the status in writes of the object, and the rest in writes of the status. Counts
/// generations.
pub(super) fn split(context: &Context<'_>, prepared: &mut PreparedWrite) {
    let kind = &context.kind;
    let PreparedWrite { old, new, .. } = prepared;
    let Some(map) = new.as_object_mut() else {
        return;
    };
    match old.as_deref() {
        None => {
            if kind.status && !kind.is("", "nodes") {
                map.remove("status");
            }
            builtin::on_create(kind, new);
        }
        Some(old) if context.subresource() == "status" => keep_all_but_status(kind, old, map),
        Some(old) => {
            if kind.status {
                match old.get("status") {
                    Some(status) => map.insert("status".to_owned(), status.clone()),
                    None => map.remove("status"),
                };
            }
            builtin::on_update(kind, old, new);
            if (kind.custom || builtin::counts_changes(kind)) && differs(kind.status, old, new) {
                let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
                new["metadata"]["generation"] = json!(generation + 1);
            }
        }
    }
}

/// Keeps everything but the status and its field managers, for a write of the status, and the
/// metadata of a built-in kind.
fn keep_all_but_status(kind: &Kind, old: &Value, new: &mut Map<String, Value>) {
    let old = old.as_object();
    let kept = |name: &str| name == "status" || name == "metadata";
    new.retain(|name, _| kept(name) || old.is_some_and(|old| old.contains_key(name)));
    for (name, value) in old.into_iter().flatten().filter(|(name, _)| !kept(name)) {
        if new.get(name) != Some(value) {
            new.insert(name.clone(), value.clone());
        }
    }
    let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if kind.status_has_metadata() {
        if kind.is("", "pods") {
            let owners = old.and_then(|old| old.get("metadata")?.get("ownerReferences"));
            match owners {
                Some(owners) => metadata.insert("ownerReferences".to_owned(), owners.clone()),
                None => metadata.remove("ownerReferences"),
            };
        }
        return;
    }
    let managed = metadata.remove("managedFields");
    let old = old.and_then(|old| old.get("metadata")?.as_object());
    let apart = |name: &str| name == "managedFields";
    metadata.retain(|name, _| old.is_some_and(|old| old.contains_key(name)));
    for (name, value) in old.into_iter().flatten().filter(|(name, _)| !apart(name)) {
        if metadata.get(name) != Some(value) {
            metadata.insert(name.clone(), value.clone());
        }
    }
    let managed = managed.or_else(|| old?.get("managedFields").cloned());
    if let Some(managed) = managed {
        metadata.insert("managedFields".to_owned(), managed);
    }
}

/// Returns true if anything but metadata and version (and status, if it is separate) differs.
fn differs(status: bool, old: &Value, new: &Value) -> bool {
    let counts =
        |name: &str| !(name == "metadata" || name == "apiVersion" || (status && name == "status"));
    let fields = |value: &'_ Value| {
        value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(n, _)| counts(n))
            .count()
    };
    fields(old) != fields(new)
        || old
            .as_object()
            .into_iter()
            .flatten()
            .any(|(name, value)| counts(name) && new.get(name) != Some(value))
}
