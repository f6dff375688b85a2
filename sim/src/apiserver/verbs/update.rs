//! Replacing objects.

use serde_json::Value;

use super::Context;
use super::finish::{self, Prepared};
use super::meta::text;
use crate::apiserver::call::Answer;
use crate::apiserver::status::{FieldError, Status};

pub(super) fn update(context: &Context<'_>) -> Result<Answer, Status> {
    let body = finish::decode(context, context.call.body.clone())?;
    let name = text(&body, "name");
    if name.is_empty() {
        return Err(Status::bad_request("name must be provided".to_owned()));
    }
    if name != context.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            context.name()
        )));
    }
    let namespace = text(&body, "namespace");
    if !namespace.is_empty() && namespace != context.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            context.namespace
        )));
    }
    let old = context.live().ok_or_else(|| context.not_found())?;
    replace(context, old, body, false)
}

/// Puts `new` where `old` is, if its version allows it.
pub(super) fn replace(
    context: &Context<'_>,
    old: std::sync::Arc<Value>,
    mut new: Value,
    applied: bool,
) -> Result<Answer, Status> {
    let kind = &context.kind;
    let version = text(&new, "resourceVersion").to_owned();
    if version.is_empty() && !allows_unconditional(context) {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            &Value::from(0),
            "must be specified for an update",
        );
        return Err(Status::invalid(
            &kind.resource.group,
            &kind.kind,
            context.name(),
            &[error],
        ));
    }
    let uid = text(&new, "uid");
    if !uid.is_empty() && uid != text(&old, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(&old, "uid")
        );
        return Err(Status::conflict(&kind.resource, context.name(), &why));
    }
    if !version.is_empty() && version != text(&old, "resourceVersion") {
        if version.parse::<u64>().is_err() {
            let error = FieldError::invalid(
                "metadata.resourceVersion",
                &version.as_str().into(),
                "must be an unsigned integer",
            );
            return Err(Status::invalid(
                &kind.resource.group,
                &kind.kind,
                context.name(),
                &[error],
            ));
        }
        return Err(Status::stale(&kind.resource, context.name()));
    }
    keep_server_fields(&old, &mut new);
    finish::finish(
        context,
        Prepared {
            key: context.key(),
            name: context.name().to_owned(),
            old: Some(old),
            new,
            applied,
        },
    )
}

/// What only the server writes stays as it is.
fn keep_server_fields(old: &Value, new: &mut Value) {
    let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "selfLink",
    ] {
        match old.get("metadata").and_then(|m| m.get(field)) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

fn allows_unconditional(context: &Context<'_>) -> bool {
    let kind = &context.kind;
    !(kind.custom
        || kind.is("coordination.k8s.io", "leases")
        || kind.is("apiextensions.k8s.io", "customresourcedefinitions"))
}
