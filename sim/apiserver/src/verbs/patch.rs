//! Patches of all kinds.

use std::sync::Arc;

use serde_json::Value;

use super::decode::{self, Decoded, Source};
use super::update::check_identity;
use super::{Context, builtin, create, managed_fields, update};
use crate::apply::{self, Managers, Owner};
use crate::call::{ApiResponse, Patch};
use crate::http::body::unknown_patch;
use crate::metadata::text;
use crate::patch as pure;
use crate::status::Status;

pub(super) fn patch(context: &Context<'_>, how: Patch) -> Result<ApiResponse, Status> {
    if how == Patch::Strategic && context.kind.custom {
        return Err(unknown_patch());
    }
    if how == Patch::Apply {
        return apply(context);
    }
    let old = context.live().ok_or_else(|| context.not_found())?;
    let shown = (*old).clone();
    let patch = &context.call.body;
    let new = match how {
        Patch::Json => pure::json(shown, patch)?,
        Patch::Strategic if !patch.is_object() => {
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go_type(patch)
            )));
        }
        Patch::Strategic => pure::strategic_merge(&shown, patch, &context.kind.schema),
        Patch::Merge | Patch::Apply => {
            if patch.is_null() {
                return Err(Status::bad_request("Invalid JSON Patch"));
            }
            if !patch.is_object() {
                return Err(Status::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    go_type(patch)
                )));
            }
            pure::merge(shown, patch)
        }
    };
    let source = if how == Patch::Strategic {
        Source::Strategic(patch)
    } else {
        Source::Patch
    };
    let Decoded { object, warnings } = decode::decode(context, new, source)?;
    check_identity(context, &object)?;
    update::replace(context, old, object, false, warnings)
}

pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null | Value::Object(_) => "object",
    }
}

fn apply(context: &Context<'_>) -> Result<ApiResponse, Status> {
    let kind = &context.kind;
    let mut config = context.call.body.clone();
    check_config(context, &config)?;
    let live = context.live();
    if live.is_none() && !context.subresource().is_empty() {
        return Err(context.not_found());
    }
    let uid = text(&config, "uid").to_owned();
    if live.is_none() && !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&kind.resource, context.name(), &why));
    }
    let version = text(&config, "resourceVersion").to_owned();
    let reset = apply::reset_fields(kind, context.subresource());
    let zero;
    let base: &Value = if let Some(live) = &live {
        live
    } else {
        zero = builtin::zero(kind);
        &zero
    };
    let managers = known_managers(context, live.is_some(), base, reset);
    if let Some(map) = config.as_object_mut() {
        for field in reset.iter().filter(|f| **f != "metadata") {
            map.remove(*field);
        }
    }
    let request = apply::Request {
        schema: &kind.schema,
        owner: &managed_fields::owner(context, true),
        force: context.call.parameter("force") == Some("true"),
        now: &context.now,
        reset,
    };
    let applied = apply::apply_after_client(base, &config, &context.call.body, managers, &request)
        .map_err(|error| error.into_status(&subject(context, &config)))?;
    let mut new = applied.object;
    decode::shape(context, &mut new, false);
    applied.managers.write_to(&mut new);
    check_identity(context, &new)?;
    let Some(old) = live else {
        if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
            // A new object has no earlier version.
            metadata.remove("resourceVersion");
        }
        return create::create_object(context, new, true, Vec::new());
    };
    // The version of the configuration, if it has one, is the precondition.
    new["metadata"]["resourceVersion"] = if version.is_empty() {
        text(&old, "resourceVersion").into()
    } else {
        version.into()
    };
    update::replace(context, Arc::clone(&old), new, true, Vec::new())
}

/// Returns the owners before an apply. If there are none, `before-first-apply` owns all fields.
fn known_managers(context: &Context<'_>, exists: bool, base: &Value, reset: &[&str]) -> Managers {
    let managers = Managers::of(base);
    if !exists || !managers.owners.is_empty() {
        return managers;
    }
    let before = Owner {
        manager: "before-first-apply".to_owned(),
        applies: false,
        api_version: context.kind.api_version(),
        subresource: String::new(),
    };
    let empty = builtin::zero(&context.kind);
    let schema = &context.kind.schema;
    apply::update(&empty, base, schema, managers, &before, &context.now, reset)
}

/// Formats `(ns/name; group/version, Kind=Kind)` from the configuration.
fn subject(context: &Context<'_>, config: &Value) -> String {
    let kind = &context.kind;
    format!(
        "({}/{}; {}, Kind={})",
        text(config, "namespace"),
        text(config, "name"),
        full_version(kind),
        kind.kind
    )
}

/// Returns `group/version`, also for the core group.
fn full_version(kind: &crate::kinds::Kind) -> String {
    format!("{}/{}", kind.resource.group, kind.resource.version)
}

fn check_config(context: &Context<'_>, config: &Value) -> Result<(), Status> {
    let kind = &context.kind;
    if !config.is_object() && !config.is_null() {
        return Err(Status::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(config)
        )));
    }
    let field = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, found) = (field("apiVersion"), field("kind"));
    if version != kind.api_version() || found != kind.kind {
        let version = if version.contains('/') {
            version.to_owned()
        } else {
            format!("/{version}")
        };
        return Err(Status::bad_request(format!(
            "invalid object type: {version}, Kind={found}"
        )));
    }
    if !config["metadata"]["managedFields"].is_null() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}
