//! The kinds of objects that are served.

mod builtin;
mod columns;
mod crd;
mod discovery;
mod events;
mod openapi;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use super::call::Resource;
use super::schema::Schema;

pub(crate) use builtin::builtin;
pub(crate) use columns::Column;
pub(crate) use crd::{condition_status, custom_kinds};
pub(crate) use discovery::{group, groups, resources, versions};
pub(crate) use events::kept_path;
pub(crate) use openapi::{document, index};

/// One version of a kind.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "as in discovery")]
pub(crate) struct Kind {
    pub(crate) resource: Resource,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether `status` is written by itself.
    pub(crate) status: bool,
    /// Whether it comes from a CustomResourceDefinition.
    pub(crate) custom: bool,
    pub(crate) schema: Arc<Schema>,
    /// The schema as the definition has it, for OpenAPI.
    pub(crate) source: Arc<Value>,
    /// Paths such as `status.admission.clusterQueue`.
    pub(crate) selectable: Vec<String>,
    /// What `kubectl get` shows besides the name.
    pub(crate) columns: Vec<Column>,
    /// The version in which objects are kept.
    pub(crate) stored: String,
}

/// Group and plural: where objects of all versions of a kind are kept.
pub(crate) type TableKey = (String, String);

/// Where the objects of a resource are kept. Events of the core group are those of `events.k8s.io`.
pub(crate) fn table_of(resource: &Resource) -> TableKey {
    let group = match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "events") => "events.k8s.io",
        (group, _) => group,
    };
    (group.to_owned(), resource.plural.clone())
}

impl Kind {
    pub(crate) fn table(&self) -> TableKey {
        table_of(&self.resource)
    }

    /// Whether objects are kept in another form than this one.
    pub(crate) fn converts(&self) -> bool {
        self.resource.version != self.stored || self.is("", "events")
    }

    /// From the form in which objects are kept to this one.
    pub(crate) fn show(&self, object: &mut Value) {
        if self.is("", "events") {
            events::to_core(object);
        } else {
            object["apiVersion"] = self.api_version().into();
        }
    }

    /// From this form to the one in which objects are kept.
    pub(crate) fn keep(&self, object: &mut Value) {
        if self.is("", "events") {
            events::from_core(object);
        } else {
            let group = &self.resource.group;
            let kept = Resource::new(group, &self.stored, &self.resource.plural);
            object["apiVersion"] = kept.api_version().into();
        }
    }

    pub(crate) fn api_version(&self) -> String {
        self.resource.api_version()
    }

    /// Whether this is the built-in kind with this group and plural.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.resource.group == group && self.resource.plural == plural
    }
}

/// All kinds, by group, plural and version. Cheap to clone: servers start from the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    kinds: Arc<BTreeMap<Resource, Arc<Kind>>>,
    documents: Documents,
}

/// Documents about the kinds, as they are sent: made once for all servers that start from the same
/// kinds.
#[derive(Clone, Debug, Default)]
struct Documents(Arc<Mutex<BTreeMap<String, Bytes>>>);

impl Registry {
    pub(crate) fn get(&self, resource: &Resource) -> Option<Arc<Kind>> {
        self.kinds.get(resource).cloned()
    }

    /// Replaces what this group and plural had.
    pub(crate) fn set(&mut self, group: &str, plural: &str, kinds: Vec<Kind>) {
        self.documents = Documents::default();
        let all = Arc::make_mut(&mut self.kinds);
        all.retain(|r, _| r.group != group || r.plural != plural);
        for kind in kinds {
            all.insert(kind.resource.clone(), Arc::new(kind));
        }
    }

    /// The same without one version of a group.
    pub(crate) fn without(&self, group: &str, version: &str) -> Self {
        let mut kinds = (*self.kinds).clone();
        kinds.retain(|r, _| r.group != group || r.version != version);
        Self {
            kinds: Arc::new(kinds),
            documents: Documents::default(),
        }
    }

    /// The document at `path`: the one that is there, or what `make` makes. `None` if there is
    /// none.
    pub(crate) fn document(
        &self,
        path: &str,
        make: impl FnOnce(&Self) -> Option<Value>,
    ) -> Option<Bytes> {
        let mut documents = self
            .documents
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = documents.get(path) {
            return Some(document.clone());
        }
        let document: Bytes = make(self)?.to_string().into();
        documents.insert(path.to_owned(), document.clone());
        Some(document)
    }

    /// Whether this version of a group belongs to the built-in kinds.
    pub(crate) fn is_builtin(&self, group: &str, version: &str) -> bool {
        group.is_empty()
            || self.iter().any(|kind| {
                !kind.custom && kind.resource.group == group && kind.resource.version == version
            })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values()
    }
}
