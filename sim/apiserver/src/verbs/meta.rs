//! Validation of metadata.

use serde_json::Value;

use crate::kinds::Kind;
use crate::metadata::{ANNOTATIONS_MAX, finalizers, is_deleting, list, text};
use crate::names;
use crate::status::FieldError;

/// Returns true for a Namespace with finalizers in its spec: it waits until it is emptied.
pub(super) fn has_spec_finalizers(kind: &Kind, namespace: &Value) -> bool {
    let list = namespace["spec"]["finalizers"].as_array();
    kind.is("", "namespaces") && list.is_some_and(|list| !list.is_empty())
}

/// Returns the errors in the metadata of an object.
pub(crate) fn check(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rule = name_rule(kind);
    let prefix = text(object, "generateName");
    if !prefix.is_empty() {
        // A prefix may end in a hyphen.
        let whole = match prefix.strip_suffix('-') {
            Some(rest) => format!("{rest}a"),
            None => prefix.to_owned(),
        };
        for why in rule(&whole) {
            errors.push(invalid("metadata.generateName", prefix, why));
        }
    }
    match text(object, "name") {
        "" => errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )),
        name => {
            for why in rule(name) {
                errors.push(invalid("metadata.name", name, why));
            }
        }
    }
    errors.extend(check_content(object));
    for (index, finalizer) in finalizers(object).iter().enumerate() {
        for why in names::qualified_name(finalizer) {
            errors.push(invalid("metadata.finalizers", finalizer, why));
        }
        if !kind.custom && is_bare(finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            let path = format!("metadata.finalizers[{index}]");
            errors.push(invalid(&path, finalizer, why));
        }
    }
    errors
}

/// Returns true for a finalizer without a domain, except the standard ones.
pub(crate) fn is_bare(finalizer: &str) -> bool {
    !finalizer.contains('/') && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes")
}

fn invalid(field: &str, value: &str, why: impl std::fmt::Display) -> FieldError {
    FieldError::invalid(field, &value.into(), why)
}

fn name_rule(kind: &Kind) -> fn(&str) -> Vec<String> {
    if kind.is("", "namespaces") {
        names::dns_label
    } else if kind.resource.group == "rbac.authorization.k8s.io" {
        |_| Vec::new()
    } else {
        names::dns_subdomain
    }
}

/// Checks what new and changed objects have in common: labels, annotations and owners.
fn check_content(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_labels(object, &mut errors);
    check_annotations(object, &mut errors);
    check_owners(object, &mut errors);
    errors
}

fn pairs<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let map = object
        .get("metadata")
        .and_then(|m| m.get(field)?.as_object());
    map.into_iter().flatten()
}

fn check_labels(object: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in pairs(object, "labels") {
        for why in names::label_key(key) {
            errors.push(invalid("metadata.labels", key, why));
        }
        let value = value.as_str().unwrap_or_default();
        for why in names::label_value(value) {
            errors.push(invalid("metadata.labels", value, why));
        }
    }
}

fn check_annotations(object: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in pairs(object, "annotations") {
        size += key.len() + value.as_str().unwrap_or_default().len();
        for why in names::qualified_name(&key.to_lowercase()) {
            errors.push(invalid("metadata.annotations", key, why));
        }
    }
    if size > ANNOTATIONS_MAX {
        let error = FieldError::too_long("metadata.annotations", ANNOTATIONS_MAX as u64);
        errors.push(error);
    }
}

fn check_owners(object: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.ownerReferences";
    let owners = list(object, "ownerReferences");
    let mut controller: Option<String> = None;
    for owner in owners {
        let field = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        for (name, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if field(name).is_empty() {
                errors.push(invalid(&format!("{PATH}.{name}"), "", why));
            }
        }
        if (field("apiVersion"), field("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_with_value(
                PATH,
                &show_owner(owner),
                why,
            ));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", field("kind"), field("name"));
            if let Some(first) = &controller {
                let shown: Vec<String> = owners.iter().map(show_owner).collect();
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                let shown = format!("[{}]", shown.join(","));
                errors.push(FieldError::invalid_with_value(PATH, &shown, why));
            } else {
                controller = Some(this);
            }
        }
    }
}

/// Formats an owner in the order of the fields of its Go type.
fn show_owner(owner: &Value) -> String {
    let fields = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let shown: Vec<String> = fields
        .iter()
        .filter_map(|field| Some(format!("\"{field}\":{}", owner.get(field)?)))
        .collect();
    format!("{{{}}}", shown.join(","))
}

/// Removes duplicate owners. Returns the uids of those.
pub(crate) fn dedup_owners(object: &mut Value) -> Vec<String> {
    let list = object.pointer_mut("/metadata/ownerReferences");
    let Some(list) = list.and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let mut seen: Vec<Value> = Vec::new();
    let mut twice: Vec<String> = Vec::new();
    for owner in std::mem::take(list) {
        if seen.contains(&owner) {
            let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
            if !twice.contains(&uid) {
                twice.push(uid);
            }
        } else {
            seen.push(owner);
        }
    }
    *list = seen;
    twice
}

/// Returns the errors in a change of metadata.
pub(crate) fn check_change(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let before = finalizers(old);
    let added: Vec<String> = finalizers(new)
        .into_iter()
        .filter(|f| !before.contains(f))
        .map(|f| format!("{f:?}"))
        .collect();
    if is_deleting(old) && !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        errors.push(FieldError::forbidden("metadata.finalizers", &why));
    }
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let of = |object: &Value| object["metadata"].get(field).cloned().unwrap_or_default();
        let (was, is) = (of(old), of(new));
        if was != is {
            let path = format!("metadata.{field}");
            errors.push(FieldError::invalid(path, &is, "field is immutable"));
        }
    }
    errors.extend(check_content(new));
    errors
}
