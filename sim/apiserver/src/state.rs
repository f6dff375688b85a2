//! The state that all handles of a server share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::call::{ApiRequest, ApiResponse, Verb};
use super::hooks::{Admission, Faults, Stored};
use super::kinds::{Kind, Registry, TableKey, custom_kinds, priority_classes};
use super::metadata::{finalizers, is_deleting};
use super::server::TimeSource;
use super::store::{ChangeVerb, Store, Write};
use super::verbs;

/// The state of a server.
pub(crate) struct Core {
    clock: TimeSource,
    store: Mutex<Store>,
    admission: Mutex<Option<Arc<dyn Admission>>>,
    faults: Mutex<Option<Arc<dyn Faults>>>,
    counters: Mutex<BTreeMap<String, Counters>>,
    collects: AtomicBool,
    /// The kinds offered to clients, if these are not all.
    offered: Mutex<Option<Registry>>,
}

/// The number of requests and events of an agent.
#[derive(Clone, Copy, Default)]
struct Counters {
    requests: u64,
    events: u64,
}

/// Locks a mutex, poisoned or not. A panic leaves the state valid: writes are stored whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    pub(crate) fn new(clock: TimeSource) -> Self {
        let mut store = Store::new();
        let now = verbs::seconds(clock());
        seed_namespaces(&mut store, &now);
        seed_priority_classes(&mut store, &now);
        Self {
            clock,
            store: Mutex::new(store),
            admission: Mutex::new(None),
            faults: Mutex::new(None),
            counters: Mutex::new(BTreeMap::new()),
            collects: AtomicBool::new(false),
            offered: Mutex::new(None),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    /// Returns the stored objects, for reads.
    pub(crate) fn stored(&self) -> Stored<'_> {
        Stored { store: &self.store }
    }

    pub(crate) fn admission(&self) -> Option<Arc<dyn Admission>> {
        lock(&self.admission).clone()
    }

    pub(crate) fn set_admission(&self, admission: Option<Arc<dyn Admission>>) {
        *lock(&self.admission) = admission;
    }

    pub(crate) fn faults(&self) -> Option<Arc<dyn Faults>> {
        lock(&self.faults).clone()
    }

    pub(crate) fn set_faults(&self, faults: Option<Arc<dyn Faults>>) {
        *lock(&self.faults) = faults;
    }

    /// Returns the kinds offered to clients.
    pub(crate) fn offered(&self) -> Registry {
        let offered = lock(&self.offered).clone();
        offered.unwrap_or_else(|| self.store().registry.clone())
    }

    pub(crate) fn offer(&self, registry: Option<Registry>) {
        *lock(&self.offered) = registry;
    }

    pub(crate) fn set_collects(&self, collects: bool) {
        self.collects.store(collects, Ordering::Relaxed);
    }

    /// Counts a request of an agent and returns its number.
    pub(crate) fn count_request(&self, agent: &str) -> u64 {
        let mut counters = lock(&self.counters);
        let counter = &mut counters.entry(agent.to_owned()).or_default().requests;
        *counter += 1;
        *counter - 1
    }

    /// Counts an event to an agent and returns its number.
    pub(crate) fn count_event(&self, agent: &str) -> u64 {
        let mut counters = lock(&self.counters);
        let counter = &mut counters.entry(agent.to_owned()).or_default().events;
        *counter += 1;
        *counter - 1
    }

    /// Processes a call. A patch without a version that loses a race is retried, as the real server
    /// does.
    pub(crate) fn process(&self, call: &ApiRequest) -> ApiResponse {
        self.process_at(call, None)
    }

    /// Processes a call in the same way; a list returns the objects at the version `view`.
    pub(crate) fn process_at(&self, call: &ApiRequest, view: Option<u64>) -> ApiResponse {
        for _ in 0..4 {
            let response = verbs::process(self, call, view);
            let retries = response.code == 409
                && matches!(call.verb, Verb::Patch(_))
                && call.body["metadata"]["resourceVersion"].is_null()
                && response.body["message"]
                    .as_str()
                    .is_some_and(|m| m.contains("the object has been modified"));
            if !retries {
                return response;
            }
        }
        verbs::process(self, call, view)
    }

    /// Processes the consequences of a write.
    pub(crate) fn after_write(&self, kind: &Kind, object: &Arc<Value>, gone: bool) {
        if kind.is_definition() {
            self.serve_definition(object, gone);
            if !gone && verbs::is_ending(object) {
                verbs::remove_objects(self, object);
            }
        } else if gone && kind.definition.ends {
            verbs::end_of_kind(self, kind);
        }
        if !self.collects.load(Ordering::Relaxed) {
            return;
        }
        verbs::collect(self, kind, object, gone);
        let namespace = object["metadata"]["namespace"].as_str();
        if let Some(namespace) = namespace.filter(|_| gone) {
            self.end_namespace(namespace);
        }
    }

    fn serve_definition(&self, definition: &Value, gone: bool) {
        if let Some((group, plural, kinds)) = custom_kinds(definition) {
            let mut store = self.store();
            if gone {
                store.registry.set(&group, &plural, Vec::new());
                return;
            }
            // Objects that were written after the definition was stored, but before this, had the
            // earlier kinds too.
            let version = store.version() + 1;
            let table = (group, plural);
            let has_objects = store.list(&table, "").next().is_some();
            let (group, plural) = &table;
            let registry = &mut store.registry;
            registry.change((group, plural), kinds, version, has_objects);
        }
    }

    pub(crate) fn find(&self, uid: &str) -> Option<(TableKey, Arc<Value>)> {
        self.store().find(uid)
    }

    /// Removes a Namespace that is being deleted, if nothing is left in it.
    pub(crate) fn end_namespace(&self, name: &str) {
        let resource = verbs::namespace_resource();
        let mut store = self.store();
        let Some(kind) = store.registry.get(&resource) else {
            return;
        };
        let Some(found) = store.get(&kind.table(), name) else {
            return;
        };
        let waits = !finalizers(&found).is_empty() || !store.contents(name).is_empty();
        if !is_deleting(&found) || waits {
            return;
        }
        store.commit(Write {
            kind,
            key: name.to_owned(),
            verb: ChangeVerb::Deleted,
            object: (*found).clone(),
            agent: "namespace-controller".to_owned(),
            at: self.now(),
        });
    }
}

/// Stores the Namespaces that every cluster has.
fn seed_namespaces(store: &mut Store, now: &str) {
    let table = (String::new(), "namespaces".to_owned());
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let uid = store.next_uid();
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": name, "uid": uid, "resourceVersion": "1", "creationTimestamp": now, "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        store.seed(&table, name.to_owned(), object);
    }
}

/// Stores the priority classes that every cluster has (Kubernetes 1.36.3,
/// `pkg/apis/scheduling/types.go`).
fn seed_priority_classes(store: &mut Store, now: &str) {
    let table = priority_classes();
    let classes = [
        ("system-cluster-critical", 2_000_000_000),
        ("system-node-critical", 2_000_001_000),
    ];
    for (name, value) in classes {
        let object = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {
                "name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": now,
                "generation": 1,
            },
            "value": value, "preemptionPolicy": "PreemptLowerPriority",
        });
        store.seed(&table, name.to_owned(), object);
    }
}
