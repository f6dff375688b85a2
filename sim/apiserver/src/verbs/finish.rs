//! The last part of every write: admission, owners, status split, validation, storing.

use std::sync::Arc;

use serde_json::Value;

use super::managed_fields::{keep_times, own};
use super::prepared::PreparedWrite;
use super::split::split;
use super::{Context, builtin, decode, meta};
use crate::call::{ApiResponse, Resource};
use crate::hooks::{Operation, Phase, Review};
use crate::metadata::{finalizers, is_deleting, text};
use crate::schema::{
    Schema, blocks_rules, duplicates, validate, validate_change, validate_status_change,
    violated_rules,
};
use crate::status::{FieldError, Status};
use crate::store::{ChangeVerb, Write};

/// Runs the last part of a write.
pub(super) fn finish(
    context: &Context<'_>,
    mut prepared: PreparedWrite,
) -> Result<ApiResponse, Status> {
    if !prepared.applied {
        own(context, &mut prepared);
    }
    builtin::admit(context, prepared.old.as_deref(), &mut prepared.new)?;
    mutate(context, &mut prepared)?;
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
    if prepared.old.is_none() {
        let known = context
            .core
            .store()
            .get(&context.kind.table(), &prepared.key);
        if let Some(known) = known {
            return Err(taken(&context.kind.resource, &prepared.name, &known));
        }
    }
    review(context, &prepared, Phase::Validating)?;
    store(context, prepared)
}

fn mutate(context: &Context<'_>, prepared: &mut PreparedWrite) -> Result<(), Status> {
    if let Some(changed) = review(context, prepared, Phase::Mutating)? {
        prepared.new = changed;
        decode::shape(context, &mut prepared.new, true);
    }
    Ok(())
}

fn review(
    context: &Context<'_>,
    prepared: &PreparedWrite,
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
    let old = prepared.old.as_deref().unwrap_or(&Value::Null);
    admission.review(&Review {
        phase,
        operation,
        resource: &context.kind.resource,
        subresource: context.call.subresource.as_deref(),
        namespace: &context.namespace,
        name: &prepared.name,
        object: &prepared.new,
        old,
        dry_run: context.dry_run,
        agent: &context.call.agent,
        stored: context.core.stored(),
    })
}

fn check(context: &Context<'_>, prepared: &PreparedWrite) -> Vec<FieldError> {
    let kind = &context.kind;
    let new = &prepared.new;
    let mut errors = Vec::new();
    if let Some(old) = &prepared.old {
        let wrong = meta::check_change(old, new);
        // The real server checks changes of metadata for all kinds, and once more for each kind.
        errors.extend(wrong.iter().cloned());
        errors.extend(wrong);
    }
    errors.extend(meta::check(kind, new));
    if !kind.custom {
        errors.extend(builtin::check(kind, prepared.old.as_deref(), new));
        return errors;
    }
    errors.extend(match prepared.old.as_deref() {
        None => validate(new, &kind.schema),
        Some(old) if context.subresource() == "status" => {
            validate_status_change(new, old, &kind.schema)
        }
        Some(old) => validate_change(new, old, &kind.schema),
    });
    errors.extend(added_duplicates(prepared, &kind.schema));
    if !kind.schema.has_rules {
        return errors;
    }
    if blocks_rules(&errors) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", &Value::Null, why));
    } else {
        errors.extend(violated_rules(new, prepared.old.as_deref(), &kind.schema));
    }
    errors
}

/// Returns the duplicate items of sets and maps; none if the object had some before (Kubernetes
/// 1.36.3, `apiextensions-apiserver/pkg/registry/customresource/strategy.go`).
fn added_duplicates(prepared: &PreparedWrite, schema: &Schema) -> Vec<FieldError> {
    let found = duplicates(&prepared.new, schema);
    let had = |old: &Arc<Value>| !duplicates(old, schema).is_empty();
    if !found.is_empty() && prepared.old.as_ref().is_some_and(had) {
        return Vec::new();
    }
    found
}

/// Returns the error for a name that an existing object has.
fn taken(resource: &Resource, name: &str, known: &Value) -> Status {
    let status = Status::already_exists(resource, name);
    if is_deleting(known) {
        status.of_deleted_object()
    } else {
        status
    }
}

fn store(context: &Context<'_>, prepared: PreparedWrite) -> Result<ApiResponse, Status> {
    let PreparedWrite {
        key,
        name,
        old,
        mut new,
        warnings,
        ..
    } = prepared;
    let kind = &context.kind;
    let code = if old.is_some() { 200 } else { 201 };
    let is_last = |new: &Value| {
        finalizers(new).is_empty() && !waits(new) && !meta::has_spec_finalizers(kind, new)
    };
    if let Some(old) = &old {
        keep_times(old, &mut new);
        let is_same = **old == new && !(is_deleting(old) && is_last(old));
        if is_same && !changes_form(context, &key, &new) {
            return Ok(ApiResponse {
                warnings,
                ..ApiResponse::new(code, Arc::clone(old))
            });
        }
    }
    if !kind.has_one_form() {
        kind.keep(&mut new);
    }
    let mut store = context.core.store();
    let current = store.get(&kind.table(), &key);
    match (&old, &current) {
        (None, Some(known)) => return Err(taken(&kind.resource, &name, known)),
        (Some(_), None) => return Err(Status::not_found(&kind.resource, &name)),
        (Some(old), Some(current))
            if text(old, "resourceVersion") != text(current, "resourceVersion") =>
        {
            return Err(Status::stale(&kind.resource, &name));
        }
        _ => {}
    }
    if context.dry_run {
        return Ok(ApiResponse {
            warnings,
            ..ApiResponse::new(code, context.response(&Arc::new(new)))
        });
    }
    let ends = old.is_some() && is_deleting(&new) && is_last(&new);
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
    Ok(ApiResponse {
        warnings,
        ..ApiResponse::new(code, context.response(&stored))
    })
}

/// Returns true if a write of an unchanged object changes what is stored: the object is in another
/// version or form than it would be now (Kubernetes 1.36.3, `GuaranteedUpdate` in
/// `apiserver/pkg/storage/etcd3/store.go` compares the stored bytes).
fn changes_form(context: &Context<'_>, key: &str, new: &Value) -> bool {
    let kind = &context.kind;
    if !kind.custom || kind.has_one_form() {
        return false;
    }
    let Some(stored) = context.core.store().get(&kind.table(), key) else {
        return false;
    };
    let mut kept = new.clone();
    kind.keep(&mut kept);
    *stored != kept
}

/// Returns true if an object waits for the end of its grace period.
fn waits(object: &Value) -> bool {
    object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|s| s > 0)
}
