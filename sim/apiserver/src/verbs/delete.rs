//! Deleting objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::list::{Page, item, listed, page};
use super::{Context, builtin, integer, meta, terminating};
use crate::call::{ApiResponse, Resource};
use crate::hooks::{Operation, Phase, Review};
use crate::metadata::{finalizers, finalizers_without, is_deleting, text};
use crate::status::{FieldError, Status};
use crate::store::{ChangeVerb, Write, key};

pub(super) fn delete(context: &Context<'_>) -> Result<ApiResponse, Status> {
    let kind = &context.kind;
    let name = context.key();
    let is_needed = matches!(&*name, "default" | "kube-system" | "kube-public");
    if kind.is("", "namespaces") && is_needed {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden(&kind.resource, &name, why));
    }
    let is_definition = kind.is_definition();
    let outcome = attempt(context, &context.key(), |old| {
        if is_definition && !is_deleting(old) {
            mark_definition(context, old)
        } else {
            delete_object(context, old)
        }
    })?;
    let outcome = outcome.ok_or_else(|| context.not_found())?;
    let whole = outcome.pending || builtin::returns_deleted(&context.kind);
    let body = if whole {
        context.show(&outcome.object)
    } else {
        success(context, &outcome.object)
    };
    let mut response = ApiResponse::new(200, body);
    response.warnings.extend(orphan_warning(context));
    Ok(response)
}

/// Returns the warning for a Job deleted without a policy, which orphans its Pods.
fn orphan_warning(context: &Context<'_>) -> Option<String> {
    let has_policy = ["propagationPolicy", "orphanDependents"]
        .iter()
        .any(|name| option(context, name).is_some() || in_query(context, name).is_some());
    (context.kind.is("batch", "jobs") && !has_policy).then(|| {
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning".to_owned()
    })
}

/// Checks the options of a deletion, from the query and the body.
pub(super) fn check_options(context: &Context<'_>) -> Result<(), Status> {
    let body = &context.call.body;
    if !body.is_null() && !body.is_object() {
        return Err(Status::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            super::patch::go_type(body)
        )));
    }
    let word = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    if !matches!(word("kind"), "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            word("kind"),
            word("apiVersion")
        )));
    }
    if let Some(text) = in_query(context, "gracePeriodSeconds") {
        integer(text)?;
    }
    let mut errors = Vec::new();
    let policy = option(context, "propagationPolicy").and_then(Value::as_str);
    let policy = policy.or_else(|| in_query(context, "propagationPolicy"));
    if let Some(policy) = policy {
        let allowed = ["Foreground", "Background", "Orphan", "nil"];
        let shown = policy.into();
        if option(context, "orphanDependents").is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", &shown, why));
        } else if !allowed[..3].contains(&policy) {
            let allowed = allowed.map(Value::from);
            let error = FieldError::not_supported("propagationPolicy", &shown, &allowed);
            errors.push(error);
        }
    }
    let dry = option(context, "dryRun").and_then(Value::as_array);
    if let Some(dry) = dry.filter(|dry| dry.iter().any(|word| word != "All")) {
        let given = Value::Array(dry.clone());
        errors.push(FieldError::not_supported("dryRun", &given, &["All".into()]));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
}

pub(super) fn delete_collection(context: &Context<'_>) -> Result<ApiResponse, Status> {
    let Page { metadata, objects } = page(context, None)?;
    for (key, _) in &objects {
        // The deletion of one object may change or remove the next.
        attempt(context, key, |object| delete_object(context, object))?;
    }
    // The objects as they were before the deletion.
    let items: Vec<Value> = objects.iter().map(|(_, o)| item(context, o)).collect();
    Ok(ApiResponse::new(200, listed(context, metadata, items)))
}

fn success(context: &Context<'_>, object: &Value) -> Value {
    let resource = &context.kind.resource;
    let mut details =
        json!({"name": text(object, "name"), "kind": resource.plural, "uid": text(object, "uid")});
    if !resource.group.is_empty() {
        details["group"] = resource.group.clone().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

struct Outcome {
    object: Arc<Value>,
    /// The object still exists, with finalizers or a grace period.
    pending: bool,
}

/// Returns true if nothing is stored: a dry run by the query or the body.
fn dry_run(context: &Context<'_>) -> bool {
    let values = option(context, "dryRun").and_then(Value::as_array);
    let of_query = context.dry_run && context.call.body.is_null();
    of_query || values.is_some_and(|list| list.iter().any(|word| word == "All"))
}

/// Returns an option of the query. Options in a body replace all of them (Kubernetes 1.36.3,
/// `DeleteResource` in `apiserver/pkg/endpoints/handlers/delete.go`).
fn in_query<'a>(context: &'a Context<'_>, name: &str) -> Option<&'a str> {
    let query = context.call.body.is_null().then_some(context.call);
    query?.parameter(name)
}

fn option<'a>(context: &'a Context<'_>, name: &str) -> Option<&'a Value> {
    context.call.body.get(name).filter(|v| !v.is_null())
}

/// Deletes an object with `delete`, again if it has changed since it was read. Returns `None` if
/// there is no such object.
fn attempt(
    context: &Context<'_>,
    key: &str,
    delete: impl Fn(&Arc<Value>) -> Result<Option<Outcome>, Status>,
) -> Result<Option<Outcome>, Status> {
    const ATTEMPTS: usize = 16;
    let table = context.kind.table();
    for _ in 0..ATTEMPTS {
        let Some(old) = context.core.store().get(&table, key) else {
            return Ok(None);
        };
        if let Some(outcome) = delete(&old)? {
            return Ok(Some(outcome));
        }
    }
    Err(Status::stale(&context.kind.resource, context.name()))
}

/// Checks and deletes an object. Returns `None` if it has changed since it was read.
fn delete_object(context: &Context<'_>, old: &Arc<Value>) -> Result<Option<Outcome>, Status> {
    check_preconditions(context, old)?;
    review(context, old)?;
    Ok(remove(context, old))
}

/// Deletes an object without preconditions and admission, unless it is being deleted.
pub(super) fn remove_unchecked(context: &Context<'_>, key: &str) -> Result<(), Status> {
    let kept = |old: &Arc<Value>| Outcome {
        object: Arc::clone(old),
        pending: true,
    };
    let outcome = attempt(context, key, |old| {
        Ok(if is_deleting(old) {
            Some(kept(old))
        } else {
            remove(context, old)
        })
    });
    outcome.map(drop)
}

/// Deletes an object. Returns `None` if it has changed since it was read.
fn remove(context: &Context<'_>, old: &Arc<Value>) -> Option<Outcome> {
    let ends_in = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let shortened = ends_in.filter(|seconds| *seconds > 0);
    if let Some(seconds) = shortened
        && given_grace(context).is_none_or(|given| given >= seconds)
    {
        // Only a shorter grace period changes a Pod that waits for its end.
        return Some(Outcome {
            object: Arc::clone(old),
            pending: true,
        });
    }
    let mut new = context.show(old);
    add_policy_finalizer(context, &mut new);
    let grace = match shortened {
        Some(_) => given_grace(context).unwrap_or(0),
        None => grace_seconds(context, old),
    };
    let pending =
        !finalizers(&new).is_empty() || grace > 0 || meta::has_spec_finalizers(&context.kind, &new);
    let same_finalizers = new["metadata"]["finalizers"] == old["metadata"]["finalizers"];
    if pending && is_deleting(old) && same_finalizers && shortened.is_none() {
        return Some(Outcome {
            object: Arc::clone(old),
            pending,
        });
    }
    if let Some(seconds) = shortened {
        shorten(context, &mut new, seconds, grace);
    }
    // A Pod always gets a deletion time, even with a grace period of 0.
    if (pending || context.kind.is("", "pods")) && !is_deleting(old) {
        mark(context, &mut new, grace);
    }
    context.kind.keep(&mut new);
    store(context, old, new, pending)
}

/// Marks a definition as deleted, whose objects are removed next. Returns `None` if it has changed
/// since it was read.
fn mark_definition(context: &Context<'_>, old: &Arc<Value>) -> Result<Option<Outcome>, Status> {
    check_preconditions(context, old)?;
    review(context, old)?;
    let mut new = (**old).clone();
    terminating::mark(&mut new, &context.now);
    Ok(store(context, old, new, true))
}

/// Stores what is left of a deleted object, or removes it. Returns `None` if it has changed since
/// it was read.
fn store(context: &Context<'_>, old: &Arc<Value>, new: Value, pending: bool) -> Option<Outcome> {
    if dry_run(context) {
        return Some(Outcome {
            object: Arc::new(new),
            pending,
        });
    }
    let write = Write {
        kind: Arc::clone(&context.kind),
        key: key(text(old, "namespace"), text(old, "name")),
        verb: if pending {
            ChangeVerb::Modified
        } else {
            ChangeVerb::Deleted
        },
        object: new,
        agent: context.call.agent.clone(),
        at: context.at,
    };
    let mut store = context.core.store();
    let current = store.get(&context.kind.table(), &write.key)?;
    if !Arc::ptr_eq(&current, old) {
        return None;
    }
    let stored = store.commit(write);
    drop(store);
    context.core.after_write(&context.kind, &stored, !pending);
    Some(Outcome {
        object: stored,
        pending,
    })
}

fn mark(context: &Context<'_>, new: &mut Value, grace: i64) {
    let when = context
        .at
        .checked_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or(context.at);
    let metadata = &mut new["metadata"];
    metadata["deletionTimestamp"] = super::seconds(when).into();
    if !context.kind.is("", "namespaces") {
        metadata["deletionGracePeriodSeconds"] = grace.into();
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata["generation"] = (generation + 1).into();
    }
    if context.kind.is("", "namespaces") {
        new["status"]["phase"] = "Terminating".into();
    }
}

/// Moves the end of a Pod from `before` to `grace` seconds after the deletion, but not into the past.
fn shorten(context: &Context<'_>, new: &mut Value, before: i64, grace: i64) {
    let metadata = &mut new["metadata"];
    let end = metadata["deletionTimestamp"].as_str();
    let end: Option<jiff::Timestamp> = end.and_then(|end| end.parse().ok());
    let earlier = end.and_then(|end| {
        end.checked_sub(jiff::SignedDuration::from_secs(before - grace))
            .ok()
    });
    let is_past = earlier.is_none_or(|end| end < context.at);
    let end = earlier.filter(|_| !is_past).unwrap_or(context.at);
    metadata["deletionTimestamp"] = super::seconds(end).into();
    metadata["deletionGracePeriodSeconds"] = if is_past && grace != 0 { 1 } else { grace }.into();
}

/// Returns the grace period of the request, in seconds.
fn given_grace(context: &Context<'_>) -> Option<i64> {
    let of_query = || {
        let text = in_query(context, "gracePeriodSeconds")?;
        text.parse().ok()
    };
    let given = option(context, "gracePeriodSeconds").and_then(Value::as_i64);
    // A negative one ends the Pod after a second.
    let positive = |seconds: i64| if seconds < 0 { 1 } else { seconds };
    given.or_else(of_query).map(positive)
}

/// Returns the grace period of a Pod on a node, in seconds; 0 for other objects.
fn grace_seconds(context: &Context<'_>, old: &Value) -> i64 {
    if !context.kind.is("", "pods") {
        return 0;
    }
    let default = old["spec"]["terminationGracePeriodSeconds"].as_i64();
    let node = old["spec"]["nodeName"].as_str();
    let scheduled = node.is_some_and(|n| !n.is_empty());
    let phase = old["status"]["phase"].as_str();
    if !scheduled || matches!(phase, Some("Succeeded" | "Failed")) {
        return 0;
    }
    given_grace(context).or(default).unwrap_or(30).max(0)
}

/// Returns the policy of the request, that of an earlier deletion, or the default of the kind.
fn policy<'a>(context: &'a Context<'_>, object: &Value) -> &'a str {
    let orphan = option(context, "orphanDependents").and_then(Value::as_bool);
    option(context, "propagationPolicy")
        .and_then(Value::as_str)
        .or_else(|| in_query(context, "propagationPolicy"))
        .or(match orphan {
            Some(true) => Some("Orphan"),
            Some(false) => Some("Background"),
            None => None,
        })
        .or_else(|| {
            let policy = |finalizer: &str| match finalizer {
                "orphan" => Some("Orphan"),
                "foregroundDeletion" => Some("Foreground"),
                _ => None,
            };
            finalizers(object).into_iter().find_map(policy)
        })
        .unwrap_or_else(|| builtin::default_policy(&context.kind))
}

/// Sets the finalizer that selects what the garbage collector does.
fn add_policy_finalizer(context: &Context<'_>, new: &mut Value) {
    let wanted = match policy(context, new) {
        "Orphan" => "orphan",
        "Foreground" => "foregroundDeletion",
        _ => "",
    };
    let mut list = finalizers_without(new, "orphan");
    list.retain(|finalizer| finalizer != "foregroundDeletion");
    if !wanted.is_empty() {
        list.push(wanted.to_owned());
    }
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        if list.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), list.into());
        }
    }
}

fn check_preconditions(context: &Context<'_>, old: &Value) -> Result<(), Status> {
    let Some(wanted) = option(context, "preconditions").and_then(Value::as_object) else {
        return Ok(());
    };
    let given = |name: &str| wanted.get(name).and_then(Value::as_str);
    let kind = &context.kind;
    if kind.is_definition() && !is_deleting(old) {
        // `Delete` in `customresourcedefinition/etcd.go` has messages of its own.
        for (field, shown) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let known = text(old, field);
            if let Some(wanted) = given(field).filter(|wanted| *wanted != known) {
                let why = format!(
                    "Precondition failed: {shown} in precondition: {wanted}, {shown} in object meta: {known}"
                );
                return Err(Status::conflict(&kind.resource, text(old, "name"), &why));
            }
        }
    }
    // The real server names the kind here, not the resource.
    let named = Resource::new(&kind.resource.group, &kind.resource.version, &kind.kind);
    let conflict = |why: String| Err(Status::conflict(&named, text(old, "name"), &why));
    if let Some(uid) = given("uid").filter(|uid| *uid != text(old, "uid")) {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            text(old, "uid")
        ));
    }
    let version = text(old, "resourceVersion");
    if let Some(wanted) = given("resourceVersion").filter(|wanted| *wanted != version) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        ));
    }
    Ok(())
}

fn review(context: &Context<'_>, old: &Arc<Value>) -> Result<(), Status> {
    let Some(admission) = context.core.admission() else {
        return Ok(());
    };
    let shown = context.response(old);
    for phase in [Phase::Mutating, Phase::Validating] {
        admission.review(&Review {
            phase,
            operation: Operation::Delete,
            resource: &context.kind.resource,
            subresource: None,
            namespace: text(old, "namespace"),
            name: text(old, "name"),
            object: &Value::Null,
            old: &shown,
            dry_run: dry_run(context),
            agent: &context.call.agent,
            stored: context.core.stored(),
        })?;
    }
    Ok(())
}
