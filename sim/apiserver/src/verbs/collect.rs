//! The garbage collector and the namespace controller: effects of a deletion on other objects.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::Core;
use crate::call::{ApiRequest, Patch, Resource, Verb};
use crate::kinds::{Kind, TableKey};
use crate::metadata::{finalizers, finalizers_without, is_deleting, list, owners, text};

const COLLECTOR: &str = "generic-garbage-collector";

/// Processes the consequences of a new, changed, deleted or removed `object`.
pub(crate) fn collect(core: &Core, kind: &Kind, object: &Value, gone: bool) {
    if kind.is("", "namespaces") && is_deleting(object) && !gone {
        empty_namespace(core, object);
        return;
    }
    if gone {
        for (table, dependent) in dependents(core, object) {
            collect_dependent(core, &table, &dependent);
        }
        end_foreground(core, object);
    } else if finalizers(object).contains(&"orphan") {
        for (table, dependent) in dependents(core, object) {
            remove_owners(core, &table, &dependent, &[text(object, "uid")]);
        }
        remove_finalizer(core, &kind.table(), object, "orphan");
    } else if waits_for_dependents(object) {
        for (table, dependent) in dependents(core, object) {
            collect_dependent(core, &table, &dependent);
        }
        end_wait(core, &kind.table(), object);
    } else if list(object, "ownerReferences")
        .iter()
        .any(|reference| referenced(core, object, reference).is_none())
    {
        collect_dependent(core, &kind.table(), object);
    }
}

/// Returns the objects that this one owns. The store is unlocked when this returns: the caller
/// writes to it.
fn dependents(core: &Core, owner: &Value) -> Vec<(TableKey, Arc<Value>)> {
    core.store().dependents(text(owner, "uid"))
}

/// Returns true if an object is removed only after its dependents.
fn waits_for_dependents(object: &Value) -> bool {
    is_deleting(object) && finalizers(object).contains(&"foregroundDeletion")
}

/// The state of an owner, for one of its dependents.
enum Owner {
    /// It exists and stays.
    Solid,
    /// It is removed.
    Gone,
    /// It waits for the removal of this dependent.
    Waiting,
}

/// Returns the owner of a dependent; `None` if it cannot be looked up, which the collector tries
/// again and again (Kubernetes 1.36.3, `isDangling` in
/// `pkg/controller/garbagecollector/garbagecollector.go`).
fn owner_of(core: &Core, dependent: &Value, reference: &Value) -> Option<Owner> {
    match referenced(core, dependent, reference) {
        Some(owner) if waits_for_dependents(&owner) && blocks(reference) => Some(Owner::Waiting),
        Some(_) => Some(Owner::Solid),
        None => is_absent(core, dependent, reference).then_some(Owner::Gone),
    }
}

/// Returns the object of a reference: it has the uid, the kind and the name, and is in the
/// dependent's Namespace or in none.
fn referenced(core: &Core, dependent: &Value, reference: &Value) -> Option<Arc<Value>> {
    let (table, owner) = core.find(reference["uid"].as_str()?)?;
    let group = reference["apiVersion"].as_str()?;
    let group = group.split_once('/').map_or("", |(group, _)| group);
    let namespace = text(&owner, "namespace");
    let matches = reference["kind"] == owner["kind"]
        && reference["name"] == text(&owner, "name")
        && group == table.0
        && (namespace.is_empty() || namespace == text(dependent, "namespace"));
    matches.then_some(owner)
}

/// Returns true if the owner of a reference can be looked up and is not there: its kind is served,
/// and no object without a Namespace refers to one in a Namespace.
fn is_absent(core: &Core, dependent: &Value, reference: &Value) -> bool {
    let store = core.store();
    let mut kinds = store.registry.iter();
    let kind = kinds.find(|kind| {
        reference["kind"] == *kind.kind && reference["apiVersion"] == *kind.api_version()
    });
    kind.is_some_and(|kind| !kind.namespaced || !text(dependent, "namespace").is_empty())
}

/// Returns true if a reference blocks the removal of its owner.
fn blocks(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
}

/// Removes other owners from a dependent with a solid owner; deletes a dependent without one.
fn collect_dependent(core: &Core, table: &TableKey, dependent: &Value) {
    let (mut solid, mut waiting, mut others) = (false, false, Vec::new());
    for reference in list(dependent, "ownerReferences") {
        match owner_of(core, dependent, reference) {
            None => return,
            Some(Owner::Solid) => solid = true,
            Some(Owner::Gone) => others.push(reference),
            Some(Owner::Waiting) => {
                waiting = true;
                others.push(reference);
            }
        }
    }
    if others.is_empty() {
        return;
    }
    if solid {
        let uids: Vec<&str> = others.iter().filter_map(|o| o["uid"].as_str()).collect();
        remove_owners(core, table, dependent, &uids);
        return;
    }
    let has_dependents = !dependents(core, dependent).is_empty();
    let requested = finalizers(dependent);
    let policy = if (waiting && has_dependents) || requested.contains(&"foregroundDeletion") {
        "Foreground"
    } else if requested.contains(&"orphan") {
        "Orphan"
    } else {
        "Background"
    };
    delete(core, table, dependent, policy);
}

/// Ends the wait of owners for a removed object.
fn end_foreground(core: &Core, gone: &Value) {
    for uid in owners(gone) {
        if let Some((table, owner)) = core.find(uid)
            && waits_for_dependents(&owner)
        {
            end_wait(core, &table, &owner);
        }
    }
}

/// Ends the wait of an owner that no dependent blocks.
fn end_wait(core: &Core, table: &TableKey, owner: &Value) {
    let uid = text(owner, "uid");
    let kept = dependents(core, owner).iter().any(|(_, dependent)| {
        let mut own = list(dependent, "ownerReferences").iter();
        own.any(|reference| reference["uid"] == uid && blocks(reference))
    });
    if !kept {
        remove_finalizer(core, table, owner, "foregroundDeletion");
    }
}

fn call(core: &Core, verb: Verb, table: &TableKey, object: &Value) -> Option<ApiRequest> {
    let resource = core.store().stored_as(table)?;
    let call = ApiRequest::new(verb, &resource)
        .namespace(text(object, "namespace"))
        .name(text(object, "name"));
    Some(call.agent(COLLECTOR))
}

fn delete(core: &Core, table: &TableKey, object: &Value, policy: &str) {
    let options =
        json!({"propagationPolicy": policy, "preconditions": {"uid": text(object, "uid")}});
    if let Some(call) = call(core, Verb::Delete, table, object) {
        core.process(&call.body(options));
    }
}

fn patch_metadata(core: &Core, table: &TableKey, object: &Value, metadata: Value) {
    if let Some(call) = call(core, Verb::Patch(Patch::Merge), table, object) {
        core.process(&call.body(json!({"metadata": metadata})));
    }
}

fn remove_owners(core: &Core, table: &TableKey, dependent: &Value, uids: &[&str]) {
    let mut list = list(dependent, "ownerReferences").to_vec();
    list.retain(|owner| owner["uid"].as_str().is_none_or(|uid| !uids.contains(&uid)));
    patch_metadata(core, table, dependent, json!({"ownerReferences": list}));
}

fn remove_finalizer(core: &Core, table: &TableKey, object: &Value, finalizer: &str) {
    let left = finalizers_without(object, finalizer);
    patch_metadata(core, table, object, json!({"finalizers": left}));
}

/// Deletes the contents of a Namespace, then removes it. Objects with finalizers delay its removal.
fn empty_namespace(core: &Core, namespace: &Value) {
    let name = text(namespace, "name");
    let contents = core.store().contents(name);
    for (table, object) in contents {
        delete(core, &table, &object, "Background");
    }
    core.end_namespace(name);
}

/// Returns the resource of Namespaces.
pub(crate) fn namespace_resource() -> Resource {
    Resource::new("", "v1", "namespaces")
}
