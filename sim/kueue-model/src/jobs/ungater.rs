//! The controller that removes the gates of Pods of elastic jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kueue_check::Clock;
use serde_json::Value;

use super::integration::Integration;
use super::slices::latest_active;
use super::step::key_of;
use super::ungate::{slice_name, ungated};
use crate::kueue::api::{Api, kueue};
use crate::kueue::objects::{Metadata, Workload, read};
use crate::kueue::{Actor, KueueVersion};
use kueue_check_apiserver::{ApiServer, Watch, WatchOptions};

/// The period over which Pod changes are batched (Kueue 0.19.2, `UpdatesBatchPeriod`).
const BATCH: SignedDuration = SignedDuration::from_secs(1);

/// Kueue's controller that removes the gates of Pods of elastic jobs.
pub(super) struct Ungater {
    api: Api,
    version: KueueVersion,
    workloads_watch: Option<Watch>,
    pods_watch: Option<Watch>,
    /// Slices by the UID of the job, then by name.
    slices: BTreeMap<String, BTreeMap<String, Workload>>,
    /// Pods of elastic jobs, by key.
    pods: BTreeMap<String, Arc<Value>>,
    /// When to process the Pods of a job, by its UID.
    due: BTreeMap<String, Timestamp>,
}

impl Ungater {
    pub(super) fn new(server: &ApiServer, clock: &Clock, version: KueueVersion) -> Self {
        let watch = |resource| server.watch(WatchOptions::all(&resource)).ok();
        Self {
            api: Api::new(server, clock, "kueue"),
            version,
            workloads_watch: watch(kueue("workloads")),
            pods_watch: watch(Integration::Pod.resource()),
            slices: BTreeMap::new(),
            pods: BTreeMap::new(),
            due: BTreeMap::new(),
        }
    }

    fn observe(&mut self) {
        while let Some(event) = self.workloads_watch.as_mut().and_then(Watch::ready) {
            let workload: Workload = read(&event.object);
            if workload.is_slice() {
                self.slice_changed(workload, event.kind == "DELETED");
            }
        }
        while let Some(event) = self.pods_watch.as_mut().and_then(Watch::ready) {
            if slice_name(&event.object).is_some() {
                self.pod_changed(event.object, event.kind == "DELETED");
            }
        }
    }

    fn slice_changed(&mut self, slice: Workload, gone: bool) {
        let Some(owner) = slice.metadata.controller() else {
            return;
        };
        let job = owner.uid.clone();
        let slices = self.slices.entry(job.clone()).or_default();
        let name = slice.metadata.name.clone();
        if gone {
            slices.remove(&name);
            return;
        }
        let holds = slice.is_admitted() || slice.has_quota() && !self.version.revised_slices;
        let counts = holds && !slice.is_finished();
        slices.insert(name, slice);
        if counts && self.active(&job).is_some() {
            self.enqueue(job, SignedDuration::ZERO);
        }
    }

    fn pod_changed(&mut self, pod: Arc<Value>, gone: bool) {
        let job = self.job_of(&pod);
        let key = key_of(&pod);
        if gone {
            self.pods.remove(&key);
        } else {
            self.pods.insert(key, pod);
        }
        if let Some(job) = job.filter(|job| self.active(job).is_some()) {
            self.enqueue(job, BATCH);
        }
    }

    /// Returns the UID of the job: the owner of the slice that the Pod names, or the Pod's own
    /// controller.
    fn job_of(&self, pod: &Value) -> Option<String> {
        let name = slice_name(pod)?;
        let mut all = self.slices.iter();
        if let Some((job, _)) = all.find(|(_, slices)| slices.contains_key(name)) {
            return Some(job.clone());
        }
        let metadata: Metadata = read(&pod["metadata"]);
        metadata.controller().map(|owner| owner.uid.clone())
    }

    fn enqueue(&mut self, job: String, after: SignedDuration) {
        let at = self.api.now().saturating_add(after).unwrap_or_default();
        let due = self.due.entry(job).or_insert(at);
        *due = at.min(*due);
    }

    /// Returns the slice that limits which Pods lose their gate.
    fn active(&self, job: &str) -> Option<&Workload> {
        let slices = self.slices.get(job)?.values();
        let mut open: Vec<&Workload> = slices.filter(|slice| !slice.is_finished()).collect();
        open.sort_by_key(|slice| slice.age());
        latest_active(&open, self.version)
    }

    fn ungate(&self, job: &str) {
        let Some(slice) = self.active(job) else {
            return;
        };
        let namespace = &slice.metadata.namespace;
        let own = self.pods.values().map(Arc::as_ref).filter(|pod| {
            let theirs = pod["metadata"]["namespace"].as_str();
            theirs == Some(namespace) && slice_name(pod) == Some(slice.slice_name())
        });
        for pod in ungated(slice, own, self.version) {
            self.api.update(&Integration::Pod.resource(), pod, "");
        }
    }
}

impl Actor for Ungater {
    fn step(&mut self) -> bool {
        self.observe();
        let now = self.api.now();
        let due = self.due.iter().find(|(_, at)| **at <= now);
        let Some(job) = due.map(|(job, _)| job.clone()) else {
            return false;
        };
        self.due.remove(&job);
        self.ungate(&job);
        true
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        self.due.values().min().copied()
    }
}
