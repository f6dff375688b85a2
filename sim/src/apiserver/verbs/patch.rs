//! Patches of all kinds.

use std::sync::Arc;

use serde_json::{Value, json};

use super::meta::text;
use super::{Context, create, finish, update};
use crate::apiserver::apply::{self, Managers};
use crate::apiserver::call::{Answer, Patch};
use crate::apiserver::patch as pure;
use crate::apiserver::status::{FieldError, Status};

pub(super) fn patch(context: &Context<'_>, how: Patch) -> Result<Answer, Status> {
    if how == Patch::Strategic && context.kind.custom {
        return Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, application/apply-patch+cbor",
        ));
    }
    if how == Patch::Apply {
        return apply(context);
    }
    let old = context.live().ok_or_else(|| context.not_found())?;
    let shown = context.show(&old);
    let patch = &context.call.body;
    let new = match how {
        Patch::Json => pure::json(&shown, patch)?,
        Patch::Strategic => pure::strategic_merge(&shown, patch, &context.kind.schema),
        Patch::Merge | Patch::Apply => {
            if !patch.is_object() {
                return Err(Status::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    go_type(patch)
                )));
            }
            pure::merge(&shown, patch)
        }
    };
    let new = finish::decode(context, new)?;
    check_identity(context, &new)?;
    update::replace(context, old, new, false)
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null | Value::Object(_) => "object",
    }
}

/// A patch cannot give an object another name.
fn check_identity(context: &Context<'_>, new: &Value) -> Result<(), Status> {
    let name = text(new, "name");
    if name != context.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            context.name()
        )));
    }
    let namespace = text(new, "namespace");
    if namespace != context.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            context.namespace
        )));
    }
    Ok(())
}

fn apply(context: &Context<'_>) -> Result<Answer, Status> {
    let kind = &context.kind;
    let mut config = context.call.body.clone();
    check_config(context, &config)?;
    let live = context.live();
    let wanted_uid = text(&config, "uid").to_owned();
    if live.is_none() && !context.subresource().is_empty() {
        return Err(context.not_found());
    }
    if live.is_none() && !wanted_uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {wanted_uid}, and no existing object was found"
        );
        return Err(Status::conflict(&kind.resource, context.name(), &why));
    }
    let reset = apply::reset_fields(kind.status, context.subresource());
    let base = live.as_ref().map_or_else(
        || {
            json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": context.name()}})
        },
        |live| context.show(live),
    );
    let (version, uid) = (text(&config, "resourceVersion").to_owned(), wanted_uid);
    let mut bare = base.clone();
    if let Some(metadata) = bare.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    if let Some(map) = config.as_object_mut() {
        for field in reset.iter().filter(|f| **f != "metadata") {
            map.remove(*field);
        }
    }
    let owner = finish::owner(context, true);
    let managers = Managers::of(&base);
    let force = context.call.parameter("force") == Some("true");
    let applied = apply::apply(
        &bare,
        &config,
        &kind.schema,
        &managers,
        &owner,
        force,
        &context.now,
        reset,
    )
    .map_err(|error| error.into_status(&subject(context)))?;
    let mut new = applied.object;
    applied.managers.write_to(&mut new);
    finish::admit_shape(context, &mut new)?;
    match live {
        None => create_applied(context, new),
        Some(old) => {
            // The version of the object that was merged is not what the client asked for.
            new["metadata"]["resourceVersion"] = if version.is_empty() {
                text(&old, "resourceVersion").into()
            } else {
                version.into()
            };
            if !uid.is_empty() {
                new["metadata"]["uid"] = uid.into();
            }
            update::replace(context, Arc::clone(&old), new, true)
        }
    }
}

fn create_applied(context: &Context<'_>, object: Value) -> Result<Answer, Status> {
    if !text(&object, "resourceVersion").is_empty() {
        return Err(Status::not_found(&context.kind.resource, context.name()));
    }
    create::create_object(context, object, true)
}

/// `(ns/name; group/version, Kind=Kind)`.
fn subject(context: &Context<'_>) -> String {
    let kind = &context.kind;
    let name = if context.namespace.is_empty() {
        format!("/{}", context.name())
    } else {
        format!("{}/{}", context.namespace, context.name())
    };
    format!("({name}; {}, Kind={})", kind.api_version(), kind.kind)
}

fn check_config(context: &Context<'_>, config: &Value) -> Result<(), Status> {
    let kind = &context.kind;
    if !config.is_object() {
        return Err(Status::bad_request(
            "error decoding YAML: the applied configuration is not an object",
        ));
    }
    finish::check_type(context, config)?;
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|m| !m.is_null())
    {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let name = text(config, "name");
    if !name.is_empty() && name != context.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            context.name()
        )));
    }
    let namespace = text(config, "namespace");
    if kind.namespaced && !namespace.is_empty() && namespace != context.namespace {
        let error = FieldError::invalid(
            "metadata.namespace",
            &namespace.into(),
            "the namespace does not match the namespace on the request",
        );
        return Err(Status::bad_request(error.message));
    }
    Ok(())
}
