//! The end of a CustomResourceDefinition: its objects go first (Kubernetes 1.36.3,
//! `apiextensions-apiserver/pkg/registry/customresourcedefinition/etcd.go` and
//! `pkg/controller/finalizer/crd_finalizer.go`).

use std::sync::Arc;

use serde_json::Value;

use super::terminating::{ended, is_ending};
use super::{Context, delete, seconds};
use crate::Core;
use crate::call::{ApiRequest, Verb};
use crate::kinds::{Kind, TableKey, custom_kinds, definition_resource};
use crate::metadata::{finalizers, is_deleting, text};
use crate::store::{ChangeVerb, Write};

/// The user agent of the part of the API server that removes the objects.
const AGENT: &str = "kube-apiserver";

/// Removes the objects of a definition that was marked as deleted. Admission does not review this.
pub(crate) fn remove_objects(core: &Core, definition: &Value) {
    let keys: Vec<String> = match table_of_objects(definition) {
        Some(table) => {
            let store = core.store();
            let objects = store.list(&table, "");
            let left = objects.filter(|(_, object)| !is_deleting(object));
            left.map(|(key, _)| key.clone()).collect()
        }
        None => Vec::new(),
    };
    if !keys.is_empty()
        && let Some(kind) = stored_kind(definition)
    {
        let call = ApiRequest::new(Verb::Delete, &kind.resource).agent(AGENT);
        let context = Context::new(core, &call, Arc::new(kind));
        for key in &keys {
            // An object that changes all the time waits for the next change of the definition.
            let _ = delete::remove_unchecked(&context, key);
        }
    }
    end(core, text(definition, "name"));
}

/// Returns the table with the objects of a definition.
fn table_of_objects(definition: &Value) -> Option<TableKey> {
    let spec = definition.get("spec")?;
    let group = spec.get("group")?.as_str()?;
    let plural = spec.get("names")?.get("plural")?.as_str()?;
    Some((group.to_owned(), plural.to_owned()))
}

/// Returns the kind of a definition in its storage version, even if that is not served.
fn stored_kind(definition: &Value) -> Option<Kind> {
    let mut definition = definition.clone();
    let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        let storage = version.get("storage").cloned().unwrap_or_default();
        version.insert("served".to_owned(), storage);
    }
    let (_, _, kinds) = custom_kinds(&definition)?;
    let mut kind = kinds.into_iter().next()?;
    // All objects are read as the definition describes them now.
    kind.definition.since = u64::MAX;
    Some(kind)
}

/// Removes the definition of a kind whose last object went, if it is being deleted.
pub(crate) fn end_of_kind(core: &Core, kind: &Kind) {
    let resource = &kind.resource;
    end(core, &format!("{}.{}", resource.plural, resource.group));
}

/// Takes the finalizer from a definition without objects, and removes it if it has no other.
fn end(core: &Core, name: &str) {
    let resource = definition_resource();
    let mut store = core.store();
    let Some(kind) = store.registry.get(&resource) else {
        return;
    };
    let found = store.get(&kind.table(), name);
    let Some(found) = found.filter(|definition| is_ending(definition)) else {
        return;
    };
    let table = table_of_objects(&found);
    let is_empty = table.is_none_or(|table| store.list(&table, "").next().is_none());
    let Some(definition) = ended(&found, is_empty, &seconds(core.now())) else {
        return;
    };
    let gone = finalizers(&definition).is_empty();
    let stored = store.commit(Write {
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
    drop(store);
    core.after_write(&kind, &stored, gone);
}
