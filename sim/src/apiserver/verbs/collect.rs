//! The garbage collector and the namespace controller: what happens to others when an object goes.

use serde_json::{Value, json};

use super::meta::{finalizers, text};
use crate::apiserver::Core;
use crate::apiserver::call::{Call, Patch, Resource, Verb};
use crate::apiserver::kinds::{Kind, TableKey};
use crate::apiserver::store::owners;

const COLLECTOR: &str = "generic-garbage-collector";

/// Does what follows from `object` being gone, or being marked to go.
pub(crate) fn collect(core: &Core, kind: &Kind, object: &Value, gone: bool) {
    if kind.is("", "namespaces") && !gone {
        empty_namespace(core, object);
        return;
    }
    let dependents = core.store().dependents(text(object, "uid"));
    if gone {
        for (table, dependent) in dependents {
            drop_owner(core, &table, &dependent);
        }
    } else if finalizers(object).contains(&"orphan") {
        for (table, dependent) in dependents {
            orphan(core, &table, &dependent, text(object, "uid"));
        }
        remove_finalizer(core, &kind.table(), object, "orphan");
    } else if finalizers(object).contains(&"foregroundDeletion") {
        for (table, dependent) in dependents {
            delete(core, &table, &dependent, "Foreground");
        }
        if core.store().dependents(text(object, "uid")).is_empty() {
            remove_finalizer(core, &kind.table(), object, "foregroundDeletion");
        }
    }
    if gone {
        end_foreground(core, object);
    }
}

/// A dependent goes with the last of its owners; before that it loses this one.
fn drop_owner(core: &Core, table: &TableKey, dependent: &Value) {
    let all_gone = owners(dependent).all(|uid| !core.lives(uid));
    if all_gone {
        delete(core, table, dependent, "Background");
    }
}

/// An owner that waits for its last dependent can go.
fn end_foreground(core: &Core, gone: &Value) {
    for uid in owners(gone) {
        let Some((table, owner)) = core.find(uid) else {
            continue;
        };
        let waits = finalizers(&owner).contains(&"foregroundDeletion");
        if waits && core.store().dependents(uid).is_empty() {
            remove_finalizer(core, &table, &owner, "foregroundDeletion");
        }
    }
}

fn call(core: &Core, verb: Verb, table: &TableKey, object: &Value) -> Option<Call> {
    let resource = core.store().stored_as(table)?;
    let call = Call::new(verb, &resource)
        .namespace(text(object, "namespace"))
        .name(text(object, "name"));
    Some(call.agent(COLLECTOR))
}

fn delete(core: &Core, table: &TableKey, object: &Value, policy: &str) {
    let options =
        json!({"propagationPolicy": policy, "preconditions": {"uid": text(object, "uid")}});
    if let Some(call) = call(core, Verb::Delete, table, object) {
        core.answer(&call.body(options));
    }
}

fn patch_metadata(core: &Core, table: &TableKey, object: &Value, metadata: Value) {
    if let Some(call) = call(core, Verb::Patch(Patch::Merge), table, object) {
        core.answer(&call.body(json!({"metadata": metadata})));
    }
}

fn orphan(core: &Core, table: &TableKey, dependent: &Value, uid: &str) {
    let list = dependent.pointer("/metadata/ownerReferences");
    let mut list = list.and_then(Value::as_array).cloned().unwrap_or_default();
    list.retain(|owner| owner.get("uid").and_then(Value::as_str) != Some(uid));
    patch_metadata(core, table, dependent, json!({"ownerReferences": list}));
}

fn remove_finalizer(core: &Core, table: &TableKey, object: &Value, finalizer: &str) {
    let left: Vec<&str> = finalizers(object)
        .into_iter()
        .filter(|f| *f != finalizer)
        .collect();
    patch_metadata(core, table, object, json!({"finalizers": left}));
}

/// Deletes what is in a Namespace, then lets it go. What has finalizers keeps it waiting.
fn empty_namespace(core: &Core, namespace: &Value) {
    let name = text(namespace, "name");
    for (table, object) in core.store().contents(name) {
        delete(core, &table, &object, "Background");
    }
    core.end_namespace(name);
}

/// Lets a Namespace go if nothing is left in it.
pub(crate) fn namespace_resource() -> Resource {
    Resource::new("", "v1", "namespaces")
}
