//! Kueue's cache of the cluster's objects, with its indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::requests::resource as requests;
use crate::kueue::KueueVersion;
use crate::kueue::api::kueue;
use crate::kueue::objects::{
    AdmissionCheck, ClusterQueue, Cohort, LocalQueue, Namespace, ResourceFlavor, StopPolicy,
    Workload, WorkloadPriorityClass, read,
};
use crate::kueue::queue_status::{LocalUsage, QuotaUsage};
use crate::kueue::scheduler::{Usage, usage_of};
use kueue_check_apiserver::{ApiServer, Resource, Watch, WatchOptions};

/// Returns the resource of Namespaces.
fn namespaces() -> Resource {
    Resource::new("", "v1", "namespaces")
}

/// A cached Workload, as last received.
#[derive(Clone, Debug)]
pub(super) struct CachedWorkload {
    pub(super) workload: Arc<Workload>,
    pub(super) raw: Arc<Value>,
    /// Its number in the order of arrival.
    pub(super) arrival: u64,
}

/// A change of an object.
pub(super) enum Change<T> {
    Now { old: Option<T>, new: T },
    Gone(T),
}

/// The cache of the cluster's objects.
pub(super) struct Cache {
    watches: Watches,
    pub(super) namespaces: BTreeMap<String, Namespace>,
    pub(super) workloads: BTreeMap<String, CachedWorkload>,
    pub(super) local_queues: BTreeMap<String, LocalQueue>,
    pub(super) cluster_queues: BTreeMap<String, ClusterQueue>,
    pub(super) cohorts: BTreeMap<String, Cohort>,
    pub(super) checks: BTreeMap<String, AdmissionCheck>,
    pub(super) flavors: BTreeMap<String, ResourceFlavor>,
    pub(super) classes: BTreeMap<String, WorkloadPriorityClass>,
    /// Keys of Workloads by LocalQueue, `namespace/name`.
    pub(super) of_queue: BTreeMap<String, BTreeSet<String>>,
    /// Keys of the Workloads that hold quota, by ClusterQueue.
    pub(super) holders: BTreeMap<String, BTreeSet<String>>,
    pub(super) usage: BTreeMap<String, Usage>,
    /// The number and usage of admitted Workloads, by ClusterQueue.
    pub(super) admitted: BTreeMap<String, QuotaUsage>,
    /// The number and usage of Workloads with quota, by ClusterQueue and LocalQueue.
    pub(super) local_usage: BTreeMap<(String, String), LocalUsage>,
    arrivals: u64,
    /// Whether the later of two Workloads of the same second is the first.
    reversed: bool,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("workloads", &self.workloads.len())
            .finish_non_exhaustive()
    }
}

struct Watches {
    namespaces: Option<Watch>,
    checks: Option<Watch>,
    flavors: Option<Watch>,
    classes: Option<Watch>,
    cohorts: Option<Watch>,
    cluster_queues: Option<Watch>,
    local_queues: Option<Watch>,
    workloads: Option<Watch>,
    requests: Option<Watch>,
}

impl Cache {
    pub(super) fn new(server: &ApiServer, version: KueueVersion) -> Self {
        let watch = |plural: &str| server.watch(WatchOptions::all(&kueue(plural))).ok();
        Self {
            watches: Watches {
                namespaces: server.watch(WatchOptions::all(&namespaces())).ok(),
                checks: watch("admissionchecks"),
                flavors: watch("resourceflavors"),
                classes: watch("workloadpriorityclasses"),
                cohorts: watch("cohorts"),
                cluster_queues: watch("clusterqueues"),
                local_queues: watch("localqueues"),
                workloads: watch("workloads"),
                requests: server.watch(WatchOptions::all(&requests())).ok(),
            },
            namespaces: BTreeMap::new(),
            workloads: BTreeMap::new(),
            local_queues: BTreeMap::new(),
            cluster_queues: BTreeMap::new(),
            cohorts: BTreeMap::new(),
            checks: BTreeMap::new(),
            flavors: BTreeMap::new(),
            classes: BTreeMap::new(),
            of_queue: BTreeMap::new(),
            holders: BTreeMap::new(),
            usage: BTreeMap::new(),
            admitted: BTreeMap::new(),
            local_usage: BTreeMap::new(),
            arrivals: 0,
            reversed: version.reversed_ties,
        }
    }

    /// Returns the LocalQueue of a Workload.
    pub(super) fn local_queue(&self, workload: &Workload) -> Option<&LocalQueue> {
        self.local_queues.get(&workload.queue_key())
    }

    /// Returns the LocalQueue of a Workload if it is not stopped.
    pub(super) fn started_queue(&self, workload: &Workload) -> Option<&LocalQueue> {
        let queue = self.local_queue(workload);
        queue.filter(|queue| queue.spec.stop_policy == StopPolicy::None)
    }

    /// Returns the ClusterQueue behind the LocalQueue of a Workload.
    pub(super) fn cluster_queue(&self, workload: &Workload) -> Option<&ClusterQueue> {
        let local = self.local_queue(workload)?;
        self.cluster_queues.get(&local.spec.cluster_queue)
    }

    pub(super) fn next_namespace(&mut self) -> Option<Change<Namespace>> {
        next(&mut self.watches.namespaces, &mut self.namespaces)
    }

    /// Returns the next change of an AdmissionCheck. A check that is being deleted keeps the
    /// conditions that it had before (Kueue 0.19.2, `Update` in
    /// `pkg/controller/core/admissioncheck_controller.go`).
    pub(super) fn next_check(&mut self) -> Option<Change<AdmissionCheck>> {
        next_kept(&mut self.watches.checks, &mut self.checks, |old, new| {
            new.status = old.status.clone();
        })
    }

    /// Returns the next change of a ResourceFlavor. While one is being deleted, its spec is the one
    /// before (Kueue 0.19.2, `Update` in `pkg/controller/core/resourceflavor_controller.go`).
    pub(super) fn next_flavor(&mut self) -> Option<Change<ResourceFlavor>> {
        next_kept(&mut self.watches.flavors, &mut self.flavors, |old, new| {
            new.spec = old.spec.clone();
        })
    }

    pub(super) fn next_class(&mut self) -> Option<Change<WorkloadPriorityClass>> {
        next(&mut self.watches.classes, &mut self.classes)
    }

    pub(super) fn next_cohort(&mut self) -> Option<Change<Cohort>> {
        next(&mut self.watches.cohorts, &mut self.cohorts)
    }

    /// Returns the next change of a ClusterQueue. While one is being deleted, the spec by which
    /// Kueue schedules is the one before. It reads the checks and the stop policy from the object
    /// (Kueue 0.19.2, `Update` in `pkg/controller/core/clusterqueue_controller.go`).
    pub(super) fn next_cluster_queue(&mut self) -> Option<Change<ClusterQueue>> {
        let (watch, known) = (&mut self.watches.cluster_queues, &mut self.cluster_queues);
        next_kept(watch, known, |old, new| {
            let now = std::mem::replace(&mut new.spec, old.spec.clone());
            new.spec.admission_checks_strategy = now.admission_checks_strategy;
            new.spec.stop_policy = now.stop_policy;
        })
    }

    pub(super) fn next_local_queue(&mut self) -> Option<Change<LocalQueue>> {
        next(&mut self.watches.local_queues, &mut self.local_queues)
    }

    pub(super) fn next_workload(&mut self) -> Option<Change<CachedWorkload>> {
        let event = self.watches.workloads.as_mut()?.ready()?;
        let workload: Workload = read(&event.object);
        let key = workload.metadata.key();
        let old = self.workloads.remove(&key);
        if let Some(old) = &old {
            self.unindex(&key, &old.workload);
        }
        let arrival = old.as_ref().map_or_else(
            || {
                self.arrivals += 1;
                if self.reversed {
                    u64::MAX - self.arrivals
                } else {
                    self.arrivals
                }
            },
            |old| old.arrival,
        );
        let known = CachedWorkload {
            workload: Arc::new(workload),
            raw: event.object,
            arrival,
        };
        if event.kind == "DELETED" {
            return Some(Change::Gone(known));
        }
        self.index(&key, &known.workload);
        self.workloads.insert(key, known.clone());
        Some(Change::Now { old, new: known })
    }

    /// Returns the next ProvisioningRequest that has changed or was deleted.
    pub(super) fn next_request(&mut self) -> Option<Arc<Value>> {
        Some(self.watches.requests.as_mut()?.ready()?.object)
    }

    fn index(&mut self, key: &str, workload: &Workload) {
        let queue = self.of_queue.entry(workload.queue_key()).or_default();
        queue.insert(key.to_owned());
        if let Some(name) = holds(workload) {
            self.holders
                .entry(name.to_owned())
                .or_default()
                .insert(key.to_owned());
            let usage = usage_of(workload);
            let local = (name.to_owned(), workload.queue_key());
            let local = self.local_usage.entry(local).or_default();
            local.reserved.add(&usage);
            if workload.is_admitted() {
                local.admitted.add(&usage);
                let admitted = self.admitted.entry(name.to_owned()).or_default();
                admitted.add(&usage);
            }
            self.usage
                .entry(name.to_owned())
                .or_default()
                .add_all(&usage);
        }
    }

    fn unindex(&mut self, key: &str, workload: &Workload) {
        if let Some(queue) = self.of_queue.get_mut(&workload.queue_key()) {
            queue.remove(key);
        }
        let Some(name) = holds(workload) else {
            return;
        };
        if let Some(holders) = self.holders.get_mut(name) {
            holders.remove(key);
        }
        let of_workload = usage_of(workload);
        if let Some(usage) = self.usage.get_mut(name) {
            usage.remove_all(&of_workload);
        }
        let admitted = workload.is_admitted();
        let local = (name.to_owned(), workload.queue_key());
        if let Some(local) = self.local_usage.get_mut(&local) {
            local.reserved.remove(&of_workload);
            if admitted {
                local.admitted.remove(&of_workload);
            }
        }
        if let Some(of_queue) = self.admitted.get_mut(name).filter(|_| admitted) {
            of_queue.remove(&of_workload);
        }
    }

    /// Returns true if all Pods of the Workloads with quota are ready.
    pub(super) fn all_pods_are_ready(&self) -> bool {
        let keys = self.holders.values().flatten();
        let mut holders = keys.filter_map(|key| self.workloads.get(key));
        holders.all(|known| known.workload.status.conditions.is_true("PodsReady"))
    }

    /// Returns the keys of the Workloads in all LocalQueues of a ClusterQueue.
    pub(super) fn workloads_of(&self, cluster_queue: &str) -> Vec<String> {
        let locals = self.local_queues.iter();
        locals
            .filter(|(_, local)| local.spec.cluster_queue == cluster_queue)
            .filter_map(|(key, _)| self.of_queue.get(key))
            .flatten()
            .cloned()
            .collect()
    }
}

/// Returns the ClusterQueue whose quota a Workload holds. An inactive Workload holds none, whatever
/// its status (Kueue 0.19.2, `Update` in `pkg/controller/core/workload_controller.go`).
pub(super) fn holds(workload: &Workload) -> Option<&str> {
    let admission = workload.status.admission.as_ref()?;
    let counts = workload.is_active() && !workload.is_finished() && !workload.is_parent();
    counts.then_some(admission.cluster_queue.as_str())
}

fn next<T: DeserializeOwned + Default + Clone + HasKey>(
    watch: &mut Option<Watch>,
    known: &mut BTreeMap<String, T>,
) -> Option<Change<T>> {
    let event = watch.as_mut()?.ready()?;
    let object: T = read(&event.object);
    let key = object.key();
    if event.kind == "DELETED" {
        known.remove(&key);
        return Some(Change::Gone(object));
    }
    let old = known.insert(key, object.clone());
    Some(Change::Now { old, new: object })
}

/// Returns the next change like [`next`]. `keep` puts into the state of an object that is being
/// deleted what Kueue keeps of the state before.
fn next_kept<T: DeserializeOwned + Default + Clone + HasKey>(
    watch: &mut Option<Watch>,
    known: &mut BTreeMap<String, T>,
    keep: impl FnOnce(&T, &mut T),
) -> Option<Change<T>> {
    let mut change = next(watch, known)?;
    if let Change::Now {
        old: Some(old),
        new,
    } = &mut change
        && new.is_going()
    {
        keep(old, new);
        known.insert(new.key(), new.clone());
    }
    Some(change)
}

trait HasKey {
    fn key(&self) -> String;
    fn is_going(&self) -> bool;
}

macro_rules! has_key {
    ($($kind:ty),*) => {$(impl HasKey for $kind {
        fn key(&self) -> String {
            self.metadata.key()
        }

        fn is_going(&self) -> bool {
            self.metadata.deletion_timestamp.is_some()
        }
    })*};
}

has_key!(
    Namespace,
    AdmissionCheck,
    ResourceFlavor,
    WorkloadPriorityClass,
    Cohort,
    ClusterQueue,
    LocalQueue
);
