//! The registry of served kinds.

mod builtin;
mod columns;
mod crd;
mod discovery;
mod events;
mod forms;
mod openapi;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use super::call::Resource;
use super::schema::Schema;

pub(crate) use builtin::builtin;
pub(crate) use columns::Column;
pub(crate) use crd::{condition_status, custom_kinds, note_storage, terminating};
pub(crate) use discovery::{group, groups, resources, versions};
pub(crate) use events::kept_path;
pub(crate) use forms::version_part;
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
    /// Whether the kind has a `status` subresource.
    pub(crate) status: bool,
    /// Whether the kind comes from a CustomResourceDefinition.
    pub(crate) custom: bool,
    pub(crate) schema: Arc<Schema>,
    /// The schema as in the definition, for OpenAPI.
    pub(crate) source: Arc<Value>,
    /// Selectable field paths, such as `status.admission.clusterQueue`.
    pub(crate) selectable: Vec<String>,
    /// The columns of `kubectl get` besides the name.
    pub(crate) columns: Vec<Column>,
    /// The warning for clients of a deprecated version.
    pub(crate) deprecation: Option<String>,
    /// The storage version.
    pub(crate) stored: String,
    /// The schemas of all versions of a custom kind, by version. Empty for built-in kinds.
    pub(crate) schemas: Arc<BTreeMap<String, Arc<Schema>>>,
    pub(crate) definition: DefinitionState,
}

/// The state of the definition of a custom kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefinitionState {
    pub(crate) generation: i64,
    /// Objects with an older `resourceVersion` were written under an earlier definition.
    pub(crate) since: u64,
    /// Whether the definition is being deleted: no objects can be created.
    pub(crate) ends: bool,
}

/// Group and plural: the table with the objects of all versions of a kind.
pub(crate) type TableKey = (String, String);

/// Returns the table of a resource. Events of the core group are stored as `events.k8s.io`.
pub(crate) fn table_of(resource: &Resource) -> TableKey {
    let group = match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "events") => "events.k8s.io",
        (group, _) => group,
    };
    (group.to_owned(), resource.plural.clone())
}

/// Returns the table of the priority classes.
pub(crate) fn priority_classes() -> TableKey {
    ("scheduling.k8s.io".to_owned(), "priorityclasses".to_owned())
}

/// The group and plural of definitions.
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// Returns the resource of definitions.
pub(crate) fn definition_resource() -> Resource {
    Resource::new(DEFINITIONS.0, "v1", DEFINITIONS.1)
}

impl Kind {
    pub(crate) fn table(&self) -> TableKey {
        table_of(&self.resource)
    }

    pub(crate) fn api_version(&self) -> String {
        self.resource.api_version()
    }

    /// Returns true if a write of the status changes metadata too, as for the old built-in kinds.
    pub(crate) fn status_has_metadata(&self) -> bool {
        self.status && !self.custom && !self.is_definition()
    }

    /// Returns true for the kind of definitions.
    pub(crate) fn is_definition(&self) -> bool {
        self.is(DEFINITIONS.0, DEFINITIONS.1)
    }

    /// Returns true if the kind has this group and plural.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.resource.group == group && self.resource.plural == plural
    }
}

/// All kinds by resource. Cheap to clone: all servers start from the same registry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    kinds: Arc<BTreeMap<Resource, Arc<Kind>>>,
    documents: Documents,
}

/// Serialized documents about the kinds, created once for all servers that start from the same
/// kinds.
#[derive(Clone, Debug, Default)]
struct Documents(Arc<Mutex<BTreeMap<String, Bytes>>>);

impl Registry {
    pub(crate) fn get(&self, resource: &Resource) -> Option<Arc<Kind>> {
        self.kinds.get(resource).cloned()
    }

    /// Serves the kinds of a changed definition of this group and plural. Objects that were written
    /// before `version` are read as the definition describes them now. Without earlier kinds, there
    /// are such objects only if `has_objects`.
    pub(crate) fn change(
        &mut self,
        (group, plural): (&str, &str),
        mut kinds: Vec<Kind>,
        version: u64,
        has_objects: bool,
    ) {
        let earlier = self.iter().find(|kind| kind.is(group, plural)).cloned();
        let Some(earlier) = earlier else {
            for kind in kinds.iter_mut().filter(|_| has_objects) {
                kind.definition.since = version;
            }
            self.set(group, plural, kinds);
            return;
        };
        let earlier = earlier.definition;
        let is_same = |kind: &Kind| kind.definition.generation == earlier.generation;
        for kind in &mut kinds {
            let since = if is_same(kind) {
                earlier.since
            } else {
                version
            };
            kind.definition.since = since;
        }
        // Most changes of the status change nothing here.
        let same = |kind: &Kind| is_same(kind) && kind.definition.ends == earlier.ends;
        if kinds.is_empty() || !kinds.iter().all(same) {
            self.set(group, plural, kinds);
        }
    }

    /// Replaces the kinds of this group and plural.
    pub(crate) fn set(&mut self, group: &str, plural: &str, kinds: Vec<Kind>) {
        self.documents = Documents::default();
        let all = Arc::make_mut(&mut self.kinds);
        all.retain(|r, _| r.group != group || r.plural != plural);
        for kind in kinds {
            all.insert(kind.resource.clone(), Arc::new(kind));
        }
    }

    /// Returns the registry without one version of a group.
    pub(crate) fn without(&self, group: &str, version: &str) -> Self {
        let mut kinds = (*self.kinds).clone();
        kinds.retain(|r, _| r.group != group || r.version != version);
        Self {
            kinds: Arc::new(kinds),
            documents: Documents::default(),
        }
    }

    /// Returns the document at `path`: the cached one, or the result of `make`. `None` if there is
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

    /// Returns true if this version of a group belongs to the built-in kinds.
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
