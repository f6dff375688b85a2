//! Creating objects.

use serde_json::{Value, json};

use super::decode::{self, Decoded, Source};
use super::finish;
use super::meta::is_bare;
use super::prepared::PreparedWrite;
use super::{Context, builtin, method_not_allowed};
use crate::call::ApiResponse;
use crate::metadata::{finalizers, is_deleting, text};
use crate::status::Status;
use crate::store::key;

pub(super) fn create(context: &Context<'_>) -> Result<ApiResponse, Status> {
    if context.kind.namespaced && context.namespace.is_empty() {
        return Err(method_not_allowed());
    }
    let Decoded {
        object: body,
        warnings,
    } = decode::decode(context, context.call.body.clone(), Source::Body)?;
    check_namespace(context, &body)?;
    let generate = text(&body, "generateName").to_owned();
    let named = !text(&body, "name").is_empty();
    if named || generate.is_empty() {
        return create_object(context, body, false, warnings);
    }
    for attempt in 0.. {
        let mut object = body.clone();
        let cut: String = generate.chars().take(58).collect();
        let suffix = context.core.store().next_suffix();
        object["metadata"]["name"] = format!("{cut}{suffix}").into();
        match create_object(context, object, false, warnings.clone()) {
            Err(status) if status.reason == "AlreadyExists" && attempt < 8 => {}
            other => return other,
        }
    }
    Err(method_not_allowed())
}

/// Creates a decoded `object`. `applied` objects already have their managed fields.
pub(super) fn create_object(
    context: &Context<'_>,
    mut object: Value,
    applied: bool,
    mut warnings: Vec<String>,
) -> Result<ApiResponse, Status> {
    let kind = &context.kind;
    let name = text(&object, "name").to_owned();
    if !text(&object, "resourceVersion").is_empty() {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(Status::new(500, "", why));
    }
    if kind.definition.ends {
        // `forbidCreateAdmission` in `customresource_handler.go` of Kubernetes 1.36.3.
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&kind.resource, &name, why));
    }
    check_namespace_exists(context, &name)?;
    let key = key(&context.namespace, &name);
    let metadata = &mut object["metadata"];
    if kind.namespaced {
        metadata["namespace"] = context.namespace.clone().into();
    } else if let Some(map) = metadata.as_object_mut() {
        map.remove("namespace");
    }
    let uid = context.core.store().next_uid();
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = context.now.clone().into();
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "resourceVersion",
    ] {
        if let Some(map) = metadata.as_object_mut() {
            map.remove(field);
        }
    }
    if kind.custom || builtin::has_generation(kind) {
        metadata["generation"] = json!(1);
    }
    warnings.extend(bare_finalizers(context, None, &object));
    finish::finish(
        context,
        PreparedWrite {
            key,
            name,
            old: None,
            new: object,
            applied,
            warnings,
        },
    )
}

/// Returns warnings for new finalizers without a domain. Built-in kinds reject them.
pub(super) fn bare_finalizers(
    context: &Context<'_>,
    old: Option<&Value>,
    object: &Value,
) -> Vec<String> {
    let before = old.map(finalizers).unwrap_or_default();
    let added = finalizers(object).into_iter();
    let bare = added.filter(|f| context.kind.custom && is_bare(f) && !before.contains(f));
    bare.map(|finalizer| {
        let path = if finalizer.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        format!(
            "metadata.finalizers: \"{finalizer}\": prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )
    })
    .collect()
}

fn check_namespace(context: &Context<'_>, body: &Value) -> Result<(), Status> {
    let given = text(body, "namespace");
    if context.kind.namespaced && !given.is_empty() && given != context.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

fn check_namespace_exists(context: &Context<'_>, name: &str) -> Result<(), Status> {
    if !context.kind.namespaced {
        return Ok(());
    }
    let table = (String::new(), "namespaces".to_owned());
    let resource = crate::call::Resource::new("", "v1", "namespaces");
    let Some(found) = context.core.store().get(&table, &context.namespace) else {
        return Err(Status::not_found(&resource, &context.namespace));
    };
    if is_deleting(&found) {
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            context.namespace
        );
        let mut status = Status::forbidden(&context.kind.resource, name, &why);
        if let Some(details) = &mut status.details {
            details["causes"] = json!([{"reason": "NamespaceTerminating", "message": format!("namespace {} is being terminated", context.namespace), "field": "metadata.namespace"}]);
        }
        return Err(status);
    }
    Ok(())
}
