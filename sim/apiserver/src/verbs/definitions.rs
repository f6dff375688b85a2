//! The end of a CustomResourceDefinition: its objects go first (Kubernetes 1.36.3,
//! `apiextensions-apiserver/pkg/registry/customresourcedefinition/etcd.go` and
//! `pkg/controller/finalizer/crd_finalizer.go`).

use std::sync::Arc;

use serde_json::{Value, json};

use super::seconds;
use crate::Core;
use crate::call::{ApiRequest, Resource, Verb};
use crate::kinds::{Kind, table_of};
use crate::metadata::{finalizers, is_deleting, text};
use crate::store::{ChangeVerb, Write};

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The user agent of the part of the API server that removes the objects.
const AGENT: &str = "kube-apiserver";

/// Returns the resource of definitions.
pub(super) fn definition_resource() -> Resource {
    Resource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Marks a definition as deleted. Its generation stays.
pub(super) fn mark(definition: &mut Value, now: &str) {
    let mut list: Vec<String> = finalizers(definition)
        .into_iter()
        .filter(|finalizer| *finalizer != FINALIZER)
        .map(str::to_owned)
        .collect();
    list.push(FINALIZER.to_owned());
    definition["metadata"]["finalizers"] = list.into();
    definition["metadata"]["deletionTimestamp"] = now.into();
    let why =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_terminating(definition, ("True", "InstanceDeletionPending", why), now);
}

/// Sets the condition `Terminating` to a status, with reason and message.
fn set_terminating(definition: &mut Value, condition: (&str, &str, &str), now: &str) {
    let (status, reason, message) = condition;
    let conditions = &mut definition["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    let new = json!({"type": "Terminating", "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
    match list.iter_mut().find(|c| c["type"] == "Terminating") {
        Some(known) => {
            let since = if known["status"] == status {
                known["lastTransitionTime"].clone()
            } else {
                now.into()
            };
            *known = new;
            known["lastTransitionTime"] = since;
        }
        None => list.push(new),
    }
}

/// Returns true if the objects of this definition are being removed.
pub(crate) fn is_ending(definition: &Value) -> bool {
    is_deleting(definition) && finalizers(definition).contains(&FINALIZER)
}

/// Removes the objects of a definition that was marked as deleted.
pub(crate) fn remove_objects(core: &Core, definition: &Value) {
    let Some(resource) = resource_of(core, definition) else {
        return;
    };
    for (_, object) in objects_of(core, &resource)
        .iter()
        .filter(|(_, object)| !is_deleting(object))
    {
        let call = ApiRequest::new(Verb::Delete, &resource)
            .namespace(text(object, "namespace"))
            .name(text(object, "name"))
            .agent(AGENT);
        core.process(&call);
    }
    end(core, text(definition, "name"));
}

fn objects_of(core: &Core, resource: &Resource) -> Vec<(String, Arc<Value>)> {
    let store = core.store();
    store.list_at(&table_of(resource), "", store.version())
}

/// Returns a version in which the objects of a definition are served.
fn resource_of(core: &Core, definition: &Value) -> Option<Resource> {
    let spec = definition.get("spec")?;
    let group = spec.get("group")?.as_str()?;
    let plural = spec.get("names")?.get("plural")?.as_str()?;
    core.store()
        .stored_as(&(group.to_owned(), plural.to_owned()))
}

/// Removes the definition of a kind whose last object went, if it is being deleted.
pub(crate) fn end_of_kind(core: &Core, kind: &Kind) {
    let resource = &kind.resource;
    end(core, &format!("{}.{}", resource.plural, resource.group));
}

/// Takes the finalizer from a definition without objects, and removes it if it has no other.
fn end(core: &Core, name: &str) {
    let resource = definition_resource();
    let table = table_of(&resource);
    let found = core.store().get(&table, name);
    let Some(found) = found.filter(|definition| is_ending(definition)) else {
        return;
    };
    let Some(objects) = resource_of(core, &found) else {
        return;
    };
    let now = seconds(core.now());
    let mut definition = (*found).clone();
    if objects_of(core, &objects).is_empty() {
        let done = (
            "False",
            "InstanceDeletionCompleted",
            "removed all instances",
        );
        set_terminating(&mut definition, done, &now);
        let left: Vec<&str> = finalizers(&found)
            .into_iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .collect();
        definition["metadata"]["finalizers"] = left.into();
    } else {
        let waits = (
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        );
        set_terminating(&mut definition, waits, &now);
    }
    let gone = finalizers(&definition).is_empty();
    if definition == *found {
        return;
    }
    let Some(kind) = core.store().registry.get(&resource) else {
        return;
    };
    let stored = core.store().commit(Write {
        kind: Arc::clone(&kind),
        key: name.to_owned(),
        verb: if gone {
            ChangeVerb::Deleted
        } else {
            ChangeVerb::Modified
        },
        object: definition,
        agent: AGENT.to_owned(),
        at: core.now(),
    });
    core.after_write(&kind, &stored, gone);
}
