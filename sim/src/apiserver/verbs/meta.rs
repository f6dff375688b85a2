//! Metadata: what must hold of it.

use serde_json::Value;

use super::names;
use crate::apiserver::kinds::Kind;
use crate::apiserver::status::FieldError;

/// What is wrong with the metadata of an object.
pub(crate) fn check(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let mut errors = Vec::new();
    let prefix = text("/metadata/generateName").unwrap_or_default();
    match text("/metadata/name").unwrap_or_default() {
        "" => errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )),
        name => {
            if let Some(why) = name_rule(kind)(name) {
                errors.push(FieldError::invalid("metadata.name", &name.into(), why));
            }
        }
    }
    // A prefix may end in a hyphen.
    let whole = format!("{}a", prefix.trim_end_matches('-'));
    if !prefix.is_empty()
        && let Some(why) = name_rule(kind)(&whole)
    {
        errors.push(FieldError::invalid(
            "metadata.generateName",
            &prefix.into(),
            why,
        ));
    }
    check_labels(object, &mut errors);
    check_annotations(object, &mut errors);
    check_owners(object, &mut errors);
    check_finalizers(object, &mut errors);
    errors
}

fn name_rule(kind: &Kind) -> fn(&str) -> Option<String> {
    if kind.is("", "namespaces") {
        names::dns_label
    } else if kind.resource.group == "rbac.authorization.k8s.io" {
        |_| None
    } else {
        names::dns_subdomain
    }
}

fn check_labels(object: &Value, errors: &mut Vec<FieldError>) {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        for why in names::qualified_name(key) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                &key.as_str().into(),
                why,
            ));
        }
        if let Some(why) = names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid("metadata.labels", value, why));
        }
    }
}

fn check_annotations(object: &Value, errors: &mut Vec<FieldError>) {
    let annotations = object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object);
    for (key, _) in annotations.into_iter().flatten() {
        for why in names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                why,
            ));
        }
    }
}

fn check_owners(object: &Value, errors: &mut Vec<FieldError>) {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let mut controllers = 0;
    for (index, owner) in owners.into_iter().flatten().enumerate() {
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner
                .get(field)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                errors.push(FieldError::invalid(path, &"".into(), why));
            }
        }
        controllers += i32::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let owners = object["metadata"]["ownerReferences"].clone();
        errors.push(FieldError::invalid(
            "metadata.ownerReferences",
            &owners,
            "Only one reference can have Controller set to true",
        ));
    }
}

fn check_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    for (index, finalizer) in finalizers(object).iter().enumerate() {
        let path = format!("metadata.finalizers[{index}]");
        for why in names::qualified_name(finalizer) {
            errors.push(FieldError::invalid(
                "metadata.finalizers",
                &(*finalizer).into(),
                why,
            ));
        }
        let bare = !finalizer.contains('/')
            && !matches!(*finalizer, "orphan" | "foregroundDeletion" | "kubernetes");
        if bare {
            errors.push(FieldError::invalid(
                path,
                &(*finalizer).into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

/// The finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether it is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// What is wrong with a change of metadata.
pub(crate) fn check_change(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let before = finalizers(old);
    let added: Vec<&str> = finalizers(new)
        .into_iter()
        .filter(|f| !before.contains(f))
        .collect();
    if is_deleting(old) && !added.is_empty() {
        let list: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        );
        errors.push(FieldError::forbidden("metadata.finalizers", &why));
    }
    errors
}

/// The text of a field of metadata; empty if it is not there.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|m| m.get(field)?.as_str())
        .unwrap_or_default()
}
