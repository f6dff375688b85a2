//! The last part of every write: admission, owners, status split, validation, storing.

use std::sync::Arc;

use serde_json::Value;

use super::managed_fields::{keep_times, own};
use super::prepared::Prepared;
use super::split::split;
use super::{Context, builtin, decode, meta};
use crate::call::{ApiResponse, Resource};
use crate::hooks::{Operation, Phase, Review};
use crate::metadata::{finalizers, is_deleting, text};
use crate::schema::{blocks_rules, duplicates, validate, validate_status, violated_rules};
use crate::status::{FieldError, Status};
use crate::store::{ChangeVerb, Write};

/// Runs the last part of a write.
pub(super) fn finish(context: &Context<'_>, mut prepared: Prepared) -> Result<ApiResponse, Status> {
    if !prepared.applied {
        own(context, &mut prepared);
    }
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

fn mutate(context: &Context<'_>, prepared: &mut Prepared) -> Result<(), Status> {
    if let Some(changed) = review(context, prepared, Phase::Mutating)? {
        prepared.new = changed;
        decode::shape(context, &mut prepared.new, true);
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
    let old = prepared.old.as_deref().unwrap_or(&Value::Null);
    let old = context.shown(old);
    admission.review(&Review {
        phase,
        operation,
        resource: &context.kind.resource,
        subresource: context.call.subresource.as_deref(),
        namespace: &context.namespace,
        name: &prepared.name,
        object: &prepared.new,
        old: &old,
        dry_run: context.dry_run,
        agent: &context.call.agent,
        stored: context.core.stored(),
    })
}

fn check(context: &Context<'_>, prepared: &Prepared) -> Vec<FieldError> {
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
    if context.subresource() == "status" {
        errors.extend(validate_status(new, &kind.schema));
    } else {
        errors.extend(validate(new, &kind.schema));
    }
    errors.extend(duplicates(new, &kind.schema));
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

/// Returns the error for a name that an existing object has.
fn taken(resource: &Resource, name: &str, known: &Value) -> Status {
    let status = Status::already_exists(resource, name);
    if is_deleting(known) {
        status.of_deleted_object()
    } else {
        status
    }
}

fn store(context: &Context<'_>, prepared: Prepared) -> Result<ApiResponse, Status> {
    let Prepared {
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
        new["apiVersion"] = old["apiVersion"].clone();
        keep_times(old, &mut new);
        if **old == new && !(is_deleting(old) && is_last(old)) {
            return Ok(ApiResponse {
                warnings,
                ..ApiResponse::new(code, context.response(old))
            });
        }
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
    if kind.converts() {
        kind.keep(&mut new);
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

/// Returns true if an object waits for the end of its grace period.
fn waits(object: &Value) -> bool {
    object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|s| s > 0)
}
