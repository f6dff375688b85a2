//! The last part of every write: admission, owners, status split, validation, storing.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::meta::{self, finalizers, is_deleting, text};
use super::{Context, builtin};
use crate::apiserver::apply::{self, Managers, Owner};
use crate::apiserver::call::{Answer, Resource};
use crate::apiserver::hooks::{Operation, Phase, Review};
use crate::apiserver::schema::{blocks_rules, default_fields, duplicates, prune, validate};
use crate::apiserver::status::{FieldError, Status};
use crate::apiserver::store::{ChangeVerb, Write};

/// A write, ready but for what all writes have in common.
pub(super) struct Prepared {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) old: Option<Arc<Value>>,
    pub(super) new: Value,
    /// Whether `new` has its owners already.
    pub(super) applied: bool,
}

/// Reads a body as an object of the kind: checks its type, drops unknown fields, fills in defaults.
pub(super) fn decode(context: &Context<'_>, mut body: Value) -> Result<Value, Status> {
    if !body.is_object() {
        return Err(Status::bad_request(
            "the object provided is unrecognized (must be of type Object)",
        ));
    }
    if !context.kind.custom {
        // Built-in kinds may leave their type out.
        let map = body.as_object_mut();
        if let Some(map) = map {
            let set = |v: Option<&Value>| v.and_then(Value::as_str).is_none_or(str::is_empty);
            if set(map.get("kind")) && set(map.get("apiVersion")) {
                map.insert("kind".to_owned(), context.kind.kind.clone().into());
                map.insert("apiVersion".to_owned(), context.kind.api_version().into());
            }
        }
    }
    check_type(context, &body)?;
    admit_shape(context, &mut body)?;
    Ok(body)
}

/// Drops unknown fields and fills in defaults.
pub(super) fn admit_shape(context: &Context<'_>, object: &mut Value) -> Result<(), Status> {
    let schema = &context.kind.schema;
    let dropped = prune(object, schema);
    if context.call.parameter("fieldValidation") == Some("Strict") && !dropped.is_empty() {
        let list: Vec<String> = dropped
            .iter()
            .map(|path| format!("unknown field \"{path}\""))
            .collect();
        let kind = &context.kind;
        return Err(Status::bad_request(if kind.custom {
            format!("strict decoding error: {}", list.join(", "))
        } else {
            format!(
                "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                kind.kind,
                kind.resource.version,
                kind.kind,
                list.join(", ")
            )
        }));
    }
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = Value::Object(Map::new());
    }
    if context.kind.custom {
        default_fields(object, schema);
    } else {
        drop_nulls(object);
        builtin::default_object(&context.kind, object);
    }
    tidy_metadata(object);
    Ok(())
}

/// Go's empty values are not written.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Empty parts of metadata are left out, as Go does.
fn tidy_metadata(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    });
}

/// The type in a body must be that of the URL.
pub(super) fn check_type(context: &Context<'_>, body: &Value) -> Result<(), Status> {
    let kind = &context.kind;
    let field = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let (found_kind, found_version) = (field("kind"), field("apiVersion"));
    if found_kind.is_empty() {
        return Err(Status::bad_request(format!(
            "Object 'Kind' is missing in '{body}'"
        )));
    }
    if found_kind == kind.kind && found_version == kind.api_version() {
        return Ok(());
    }
    if kind.custom && found_version != kind.api_version() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({found_version}) does not match the expected API version ({})",
            kind.api_version()
        )));
    }
    Err(Status::bad_request(format!(
        "{found_kind} in version \"{}\" cannot be handled as a {}: no kind \"{found_kind}\" is registered for version \"{found_version}\"",
        found_version.rsplit('/').next().unwrap_or_default(),
        kind.kind
    )))
}

/// Who owns what this request writes.
pub(super) fn owner(context: &Context<'_>, applies: bool) -> Owner {
    Owner {
        manager: context.manager(),
        applies,
        api_version: context.kind.api_version(),
        subresource: context.subresource().to_owned(),
    }
}

/// Ends a write.
pub(super) fn finish(context: &Context<'_>, mut prepared: Prepared) -> Result<Answer, Status> {
    mutate(context, &mut prepared)?;
    if !prepared.applied {
        own(context, &mut prepared);
    }
    split(context, &mut prepared);
    let errors = check(context, &prepared);
    if !errors.is_empty() {
        let kind = &context.kind;
        return Err(Status::invalid(
            &kind.resource.group,
            &kind.kind,
            text(&prepared.new, "name"),
            &errors,
        ));
    }
    let exists = prepared.old.is_none()
        && context
            .core
            .store()
            .get(&context.kind.table(), &prepared.key)
            .is_some();
    if exists {
        return Err(Status::already_exists(
            &context.kind.resource,
            &prepared.name,
        ));
    }
    review(context, &prepared, Phase::Validating)?;
    store(context, prepared)
}

fn mutate(context: &Context<'_>, prepared: &mut Prepared) -> Result<(), Status> {
    if let Some(changed) = review(context, prepared, Phase::Mutating)? {
        prepared.new = changed;
        admit_shape(context, &mut prepared.new)?;
    }
    Ok(())
}

fn review(
    context: &Context<'_>,
    prepared: &Prepared,
    phase: Phase,
) -> Result<Option<Value>, Status> {
    let Some(admission) = context.core.admission() else {
        return Ok(None);
    };
    let operation = if prepared.old.is_some() {
        Operation::Update
    } else {
        Operation::Create
    };
    admission.review(&Review {
        phase,
        operation,
        resource: context.kind.resource.clone(),
        subresource: context.call.subresource.clone(),
        namespace: context.namespace.clone(),
        name: prepared.name.clone(),
        object: prepared.new.clone(),
        old: prepared
            .old
            .as_ref()
            .map_or(Value::Null, |old| context.show(old)),
        dry_run: context.dry_run,
        agent: context.call.agent.clone(),
    })
}

/// Gives the writer the fields that it changed.
fn own(context: &Context<'_>, prepared: &mut Prepared) {
    let kind = &context.kind;
    let reset = apply::reset_fields(kind.status, context.subresource());
    let empty = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {}});
    let old = prepared.old.as_deref().unwrap_or(&empty);
    // Clients that know nothing of owners send none, and mean no change.
    let sent = prepared
        .new
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let cleared = sent.is_some_and(|s| s.len() == 1 && s[0].as_object().is_some_and(Map::is_empty));
    let managers = match (&prepared.old, sent) {
        (Some(old), _) if !cleared => Managers::of(old),
        (None, Some(_)) => Managers::of(&prepared.new),
        _ => Managers::default(),
    };
    if cleared && prepared.old.is_some() {
        Managers::default().write_to(&mut prepared.new);
        return;
    }
    let owner = owner(context, false);
    let next = apply::update(
        old,
        &prepared.new,
        &kind.schema,
        &managers,
        &owner,
        &context.now,
        reset,
    );
    next.write_to(&mut prepared.new);
}

/// Keeps status out of writes of the object and the rest out of writes of the status, and counts generations.
fn split(context: &Context<'_>, prepared: &mut Prepared) {
    let kind = &context.kind;
    let Prepared { old, new, .. } = prepared;
    let Some(map) = new.as_object_mut() else {
        return;
    };
    match old.as_deref() {
        None => {
            if kind.status {
                map.remove("status");
            }
            builtin::on_create(kind, new);
        }
        Some(old) if context.subresource() == "status" => {
            let managed = map
                .get("metadata")
                .and_then(|m| m.get("managedFields"))
                .cloned();
            let status = map.remove("status");
            *new = old.clone();
            if let Some(status) = status {
                new["status"] = status;
            } else if let Some(map) = new.as_object_mut() {
                map.remove("status");
            }
            if let Some(managed) = managed {
                new["metadata"]["managedFields"] = managed;
            }
        }
        Some(old) => {
            if kind.status {
                match old.get("status") {
                    Some(status) => map.insert("status".to_owned(), status.clone()),
                    None => map.remove("status"),
                };
            }
            builtin::on_update(kind, old, new);
            if (kind.custom || builtin::has_generation(kind)) && differs(kind.status, old, new) {
                let generation = old
                    .pointer("/metadata/generation")
                    .and_then(Value::as_i64)
                    .unwrap_or(0);
                new["metadata"]["generation"] = json!(generation + 1);
            }
        }
    }
}

/// Whether anything but metadata (and status, where it is apart) differs.
fn differs(status: bool, old: &Value, new: &Value) -> bool {
    let part = |value: &Value| -> Map<String, Value> {
        let fields = value.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| {
                !(*name == "metadata" || *name == "apiVersion" || (status && *name == "status"))
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    part(old) != part(new)
}

fn check(context: &Context<'_>, prepared: &Prepared) -> Vec<FieldError> {
    let kind = &context.kind;
    let mut errors = Vec::new();
    if let Some(old) = &prepared.old {
        errors.extend(meta::check_change(old, &prepared.new));
    }
    errors.extend(meta::check(kind, &prepared.new));
    if kind.custom {
        errors.extend(validate(&prepared.new, &kind.schema, ""));
        errors.extend(duplicates(&prepared.new, &kind.schema));
        if kind.schema.has_rules && blocks_rules(&errors) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid("<nil>", &Value::Null, why));
        }
    } else {
        errors.extend(builtin::check(kind, prepared.old.as_deref(), &prepared.new));
    }
    errors
}

fn store(context: &Context<'_>, prepared: Prepared) -> Result<Answer, Status> {
    let Prepared {
        key,
        name,
        old,
        mut new,
        ..
    } = prepared;
    let kind = &context.kind;
    if kind.resource.version != kind.stored {
        let stored = Resource::new(&kind.resource.group, &kind.stored, &kind.resource.plural);
        new["apiVersion"] = stored.api_version().into();
    }
    let code = if old.is_some() { 200 } else { 201 };
    if let Some(old) = old.as_deref() {
        keep_times(old, &mut new);
        if *old == new && !(is_deleting(old) && finalizers(old).is_empty()) {
            return Ok(Answer {
                code,
                body: context.show(old),
            });
        }
    }
    let mut store = context.core.store();
    let current = store.get(&kind.table(), &key);
    match (&old, &current) {
        (None, Some(_)) => return Err(Status::already_exists(&kind.resource, &name)),
        (Some(_), None) => return Err(Status::not_found(&kind.resource, &name)),
        (Some(old), Some(current)) if !Arc::ptr_eq(old, current) => {
            return Err(Status::stale(&kind.resource, &name));
        }
        _ => {}
    }
    if context.dry_run {
        return Ok(Answer {
            code,
            body: context.show(&new),
        });
    }
    let ends = old.is_some() && is_deleting(&new) && finalizers(&new).is_empty() && !waits(&new);
    let write = Write {
        kind: Arc::clone(kind),
        key,
        verb: match &old {
            None => ChangeVerb::Added,
            Some(_) if ends => ChangeVerb::Deleted,
            Some(_) => ChangeVerb::Modified,
        },
        object: new,
        agent: context.call.agent.clone(),
        at: context.at,
    };
    let stored = store.commit(write);
    drop(store);
    context.core.after_write(kind, &stored, ends);
    Ok(Answer {
        code,
        body: context.show(&stored),
    })
}

/// Whether an object waits out its grace period.
fn waits(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|s| s > 0)
}

/// If only the times of the owners differ, nothing was written: they keep their times.
fn keep_times(old: &Value, new: &mut Value) {
    let (before, after) = (Managers::of(old), Managers::of(new));
    if !before.same_fields(&after) {
        return;
    }
    let mut timeless = old.clone();
    after.write_to(&mut timeless);
    if timeless == *new {
        *new = old.clone();
    }
}
