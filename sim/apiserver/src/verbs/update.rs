//! Replacing objects.

use serde_json::Value;

use super::decode::{self, Decoded, Source};
use super::finish;
use super::prepared::PreparedWrite;
use super::{Context, builtin, create};
use crate::call::{ApiResponse, Verb};
use crate::metadata::text;
use crate::status::{FieldError, Status};

pub(super) fn update(context: &Context<'_>) -> Result<ApiResponse, Status> {
    let Decoded {
        object: body,
        warnings,
    } = decode::decode(context, context.call.body.clone(), Source::Body)?;
    check_identity(context, &body)?;
    match context.live() {
        Some(old) => replace(context, old, body, false, warnings),
        None if builtin::creates_on_update(&context.kind) => {
            create::create_object(context, body, false, warnings)
        }
        None => Err(context.not_found()),
    }
}

/// Checks that a write keeps the name and the namespace of the object.
pub(super) fn check_identity(context: &Context<'_>, new: &Value) -> Result<(), Status> {
    let name = text(new, "name");
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            context.name()
        )));
    }
    if name != context.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            context.name()
        )));
    }
    let namespace = text(new, "namespace");
    // The namespace of an object without one is ignored (Kubernetes 1.36.3,
    // `EnsureObjectNamespaceMatchesRequestNamespace` in `apiserver/pkg/registry/rest/meta.go`).
    if context.kind.namespaced && !namespace.is_empty() && namespace != context.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Replaces `old` with `new`, if the version of `new` allows it.
pub(super) fn replace(
    context: &Context<'_>,
    old: std::sync::Arc<Value>,
    mut new: Value,
    applied: bool,
    mut warnings: Vec<String>,
) -> Result<ApiResponse, Status> {
    let kind = &context.kind;
    // 0 is no version.
    let version = match text(&new, "resourceVersion") {
        "0" => "",
        version => version,
    };
    let version = version.to_owned();
    if !version.is_empty() && version.parse::<u64>().is_err() {
        return Err(Status::new(
            500,
            "",
            format!("strconv.ParseUint: parsing {version:?}: invalid syntax"),
        ));
    }
    if version.is_empty() && !allows_unconditional(context) {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            &Value::from(0),
            "must be specified for an update",
        );
        let (group, plural) = (&kind.resource.group, &kind.resource.plural);
        return Err(Status::invalid(group, plural, context.name(), &[error]));
    }
    // Only an update takes the uid as a precondition; a patch that changes it is rejected later.
    let uid = text(&new, "uid");
    let replaces = context.call.verb == Verb::Update;
    if replaces && !uid.is_empty() && uid != text(&old, "uid") {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            registry_key(context),
            text(&old, "uid")
        );
        return Err(Status::conflict(&kind.resource, context.name(), &why));
    }
    if !version.is_empty() && version != text(&old, "resourceVersion") {
        return Err(Status::stale(&kind.resource, context.name()));
    }
    keep_server_fields(&old, &mut new);
    warnings.extend(create::bare_finalizers(context, Some(&old), &new));
    finish::finish(
        context,
        PreparedWrite {
            key: context.key(),
            name: context.name().to_owned(),
            old: Some(old),
            new,
            applied,
            warnings,
        },
    )
}

/// Returns the storage key of the object on the real server.
fn registry_key(context: &Context<'_>) -> String {
    let resource = &context.kind.resource;
    let key = context.key();
    if context.kind.custom {
        format!("/registry/{}/{}/{key}", resource.group, resource.plural)
    } else {
        format!("/registry/{}/{key}", resource.plural)
    }
}

/// Keeps the fields that only the server writes.
fn keep_server_fields(old: &Value, new: &mut Value) {
    let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in [
        "name",
        "namespace",
        "creationTimestamp",
        "generation",
        "resourceVersion",
        "selfLink",
    ] {
        match old.get("metadata").and_then(|m| m.get(field)) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    // A missing uid is kept, and another one is rejected later. Deletion fields are always kept.
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let is_deletion = field != "uid";
        if let Some(value) = old.get("metadata").and_then(|m| m.get(field))
            && (is_deletion || !metadata.contains_key(field))
        {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
}

fn allows_unconditional(context: &Context<'_>) -> bool {
    let kind = &context.kind;
    !(kind.custom || kind.is("coordination.k8s.io", "leases") || kind.is_definition())
}
