//! The observed state of the API server, without any proxy: the newest state of each object, and
//! each transition in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use kueue_check_testenv::resource;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cluster::{Failure, Writer};
use crate::judge::{Decisions, RequestView, View};
use crate::meter::Seconds;
use crate::scene::KUEUE;

/// The watched kinds of objects, in the order of [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Workload,
    Request,
    Template,
    Lease,
    Budget,
    Job,
    Pod,
}

const KINDS: [(Kind, &str, &str); 7] = [
    (Kind::Job, "batch/v1", "Job"),
    (Kind::Pod, "v1", "Pod"),
    (Kind::Workload, KUEUE, "Workload"),
    (
        Kind::Request,
        "autoscaling.x-k8s.io/v1",
        "ProvisioningRequest",
    ),
    (Kind::Template, "v1", "PodTemplate"),
    (Kind::Lease, "coordination.k8s.io/v1", "Lease"),
    (Kind::Budget, "budget.kueue-check.dev/v1alpha1", "Budget"),
];

/// All observed objects.
pub(crate) struct ObservedState {
    objects: BTreeMap<Kind, BTreeMap<String, Arc<Value>>>,
    views: BTreeMap<String, View>,
    requests: BTreeMap<String, RequestView>,
    /// The decisions of the checks.
    pub(crate) decisions: Decisions,
    history: BufWriter<File>,
}

/// The observer of the API server. Clones share their state.
#[derive(Clone)]
pub(crate) struct Witness(Arc<Mutex<ObservedState>>);

impl Witness {
    /// Creates a witness that writes each change to the file `history`.
    pub(crate) fn new(history: &Path) -> Result<Self, Failure> {
        Ok(Self(Arc::new(Mutex::new(ObservedState {
            objects: BTreeMap::new(),
            views: BTreeMap::new(),
            requests: BTreeMap::new(),
            decisions: Decisions::default(),
            history: BufWriter::new(File::create(history)?),
        }))))
    }

    /// Returns the state observed so far.
    pub(crate) fn seen(&self) -> MutexGuard<'_, ObservedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches all kinds, until the result is dropped.
    pub(crate) fn watch(&self, writer: &Writer) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        for (kind, api_version, name) in KINDS {
            let resource = resource(&json!({"apiVersion": api_version, "kind": name}));
            let api = Api::all_with(writer.client(), &resource);
            watches.spawn(watch(api, kind, self.clone(), writer.clone()));
        }
        watches
    }

    /// Writes a line to the history.
    pub(crate) fn note(&self, at: Seconds, what: &str) {
        let _ = writeln!(self.seen().history, "{at:.3} {what}");
    }
}

async fn watch(api: Api<DynamicObject>, kind: Kind, witness: Witness, writer: Writer) {
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    let mut listed = BTreeSet::new();
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(_) => {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let mut seen = witness.seen();
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                listed.insert(key(&object));
                seen.applied(kind, &object, writer.now());
            }
            Event::Apply(object) => seen.applied(kind, &object, writer.now()),
            Event::Delete(object) => seen.deleted(kind, &key(&object), writer.now()),
            Event::InitDone => {
                let all: Vec<String> = seen.all(kind).map(|(key, _)| key.to_owned()).collect();
                for key in all.iter().filter(|key| !listed.contains(*key)) {
                    seen.deleted(kind, key, writer.now());
                }
            }
        }
    }
}

fn key(object: &DynamicObject) -> String {
    let metadata = &object.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    match &metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

impl ObservedState {
    fn applied(&mut self, kind: Kind, object: &DynamicObject, at: Seconds) {
        let key = key(object);
        let mut object = json!(object);
        // Items of a list have neither `apiVersion` nor `kind`.
        for (_, api_version, name) in KINDS.iter().filter(|(one, ..)| *one == kind) {
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(name);
        }
        match kind {
            Kind::Workload => {
                let view = View::of(&object);
                let _ = writeln!(self.history, "{at:.3} {kind:?} {key} {view:?}");
                self.decisions.observe(view.clone(), at);
                self.views.insert(key.clone(), view);
            }
            Kind::Request => {
                let view = RequestView::of(&object);
                let _ = writeln!(self.history, "{at:.3} {kind:?} {key} {view:?}");
                let before = self.requests.insert(key.clone(), view.clone());
                if view.failed && before.is_none_or(|before| !before.failed) {
                    self.decisions.failed(&view.workload, at);
                }
            }
            Kind::Template => {
                let _ = writeln!(self.history, "{at:.3} {kind:?} {key}");
            }
            Kind::Job | Kind::Pod | Kind::Budget => {
                let status = &object["status"];
                let _ = writeln!(self.history, "{at:.3} {kind:?} {key} {status}");
            }
            Kind::Lease => {
                let before = self.get(kind, &key).map(|lease| holder(lease).to_owned());
                if before.as_deref() != Some(holder(&object)) {
                    let holder = holder(&object);
                    let _ = writeln!(self.history, "{at:.3} {kind:?} {key} {holder:?}");
                }
            }
        }
        let of_kind = self.objects.entry(kind).or_default();
        of_kind.insert(key, Arc::new(object));
    }

    fn deleted(&mut self, kind: Kind, key: &str, at: Seconds) {
        let _ = writeln!(self.history, "{at:.3} {kind:?} {key} is gone");
        if let Some(objects) = self.objects.get_mut(&kind) {
            objects.remove(key);
        }
        match kind {
            Kind::Workload => {
                if let Some(view) = self.views.remove(key) {
                    self.decisions.removed(&view.uid);
                }
            }
            Kind::Request => {
                self.requests.remove(key);
            }
            _ => {}
        }
    }

    /// Returns all objects of a kind, by namespace and name.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = (&str, &Arc<Value>)> {
        let of_kind = self.objects.get(&kind).into_iter().flatten();
        of_kind.map(|(key, object)| (&**key, object))
    }

    /// Returns one object.
    pub(crate) fn get(&self, kind: Kind, key: &str) -> Option<&Arc<Value>> {
        self.objects.get(&kind)?.get(key)
    }

    /// Returns all Workloads.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &View> + Clone {
        self.views.values()
    }

    /// Returns one Workload, by namespace and name.
    pub(crate) fn workload(&self, key: &str) -> Option<&View> {
        self.views.get(key)
    }

    /// Returns the Workload of the Job `job`.
    pub(crate) fn workload_of(&self, namespace: &str, job: &str) -> Option<&View> {
        let mut views = self.views.values();
        views.find(|view| view.namespace == namespace && view.owner == job)
    }

    /// Returns all `ProvisioningRequests`.
    pub(crate) fn requests(&self) -> Vec<RequestView> {
        self.requests.values().cloned().collect()
    }

    /// Returns the holder of the Lease `name`; empty if there is none.
    pub(crate) fn holder(&self, name: &str) -> String {
        let lease = self.get(Kind::Lease, &format!("{name}/{name}"));
        lease
            .map(|lease| holder(lease).to_owned())
            .unwrap_or_default()
    }

    /// Writes the history to its file.
    pub(crate) fn flush(&mut self) {
        let _ = self.history.flush();
    }
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}
