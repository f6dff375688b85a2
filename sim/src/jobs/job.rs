//! The actor for batch/v1 Jobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::Clock;
use serde_json::{Value, json};

use super::construct::{JOB, restored, workload_of};
use super::decide::{JobView, Move, decide};
use super::pod_set_info::{pod_set_infos, with_info};
use crate::apiserver::{ApiServer, Resource, Watch, WatchOptions};
use crate::kueue::api::{Api, Recorder, Regarding, jobs, kueue};
use crate::kueue::objects::{Condition, Metadata, ResourceFlavor, True, Workload};
use crate::kueue::reconcile::{Note, unset_quota};
use crate::kueue::{ADMISSION_MANAGER, Actor, Guard, KueueVersion, apply_body};

/// The reporter of its events.
const REPORTER: &str = "batch/job-kueue-controller";
/// The annotation of a Job that is being stopped.
const STOPPING: &str = "kueue.x-k8s.io/stopping";

/// Kueue's controller of Jobs.
pub struct JobController {
    api: Api,
    version: KueueVersion,
    recorder: Recorder,
    jobs_watch: Option<Watch>,
    workloads_watch: Option<Watch>,
    jobs: BTreeMap<String, Arc<Value>>,
    /// By the UID of the owner.
    workloads: BTreeMap<String, BTreeMap<String, Arc<Value>>>,
    todo: VecDeque<(String, String)>,
    queued: BTreeSet<(String, String)>,
}

impl std::fmt::Debug for JobController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobController")
            .field("jobs", &self.jobs.len())
            .finish_non_exhaustive()
    }
}

fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

impl JobController {
    /// The controller of a cluster's Jobs.
    pub fn new(server: &ApiServer, clock: &Clock, version: KueueVersion) -> Self {
        let watch = |resource: &Resource| server.watch(WatchOptions::all(resource)).ok();
        Self {
            api: Api::new(server, clock, "kueue"),
            version,
            recorder: Recorder::default(),
            jobs_watch: watch(&jobs()),
            workloads_watch: watch(&kueue("workloads")),
            jobs: BTreeMap::new(),
            workloads: BTreeMap::new(),
            todo: VecDeque::new(),
            queued: BTreeSet::new(),
        }
    }

    fn observe(&mut self) {
        while let Some(event) = self.jobs_watch.as_mut().and_then(Watch::ready) {
            let key = key_of(&event.object);
            let uid = event.object["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if event.kind == "DELETED" {
                self.jobs.remove(&key);
            } else {
                self.jobs.insert(key.clone(), event.object);
            }
            self.enqueue(key, uid);
        }
        while let Some(event) = self.workloads_watch.as_mut().and_then(Watch::ready) {
            self.workload_changed(event.kind, event.object);
        }
    }

    fn workload_changed(&mut self, kind: &str, object: Arc<Value>) {
        let metadata: Metadata =
            serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
        let Some(owner) = metadata.controller().filter(|owner| owner.kind == "Job") else {
            return;
        };
        let owned = self.workloads.entry(owner.uid.clone()).or_default();
        if kind == "DELETED" {
            owned.remove(&metadata.name);
        } else {
            owned.insert(metadata.name.clone(), object);
        }
        let key = format!("{}/{}", metadata.namespace, owner.name);
        self.enqueue(key, owner.uid.clone());
    }

    fn enqueue(&mut self, key: String, uid: String) {
        if self.queued.insert((key.clone(), uid.clone())) {
            self.todo.push_back((key, uid));
        }
    }

    fn reconcile(&mut self, key: &str, uid: &str) {
        let job = self
            .jobs
            .get(key)
            .filter(|job| job["metadata"]["uid"] == uid)
            .cloned();
        let owned = self.workloads.get(uid);
        let raw = owned.and_then(|owned| owned.values().next().cloned());
        match job {
            None => self.abandon(raw.as_deref()),
            Some(job)
                if job
                    .pointer("/metadata/labels/kueue.x-k8s.io~1queue-name")
                    .is_some() =>
            {
                let workload = raw.as_deref().map(read);
                let view = view(&job, workload.as_ref());
                if let Some(next) = decide(&view, workload.as_ref()) {
                    self.carry_out(next, &job, raw.as_deref(), workload.as_ref());
                }
            }
            Some(_) => {}
        }
    }

    /// The Job is gone: its Workload is finished and let go.
    fn abandon(&mut self, raw: Option<&Value>) {
        let Some(raw) = raw else { return };
        let workload = read(raw);
        if workload.metadata.finalizers.is_empty() {
            return;
        }
        if workload.is_finished() {
            self.release(raw);
        } else {
            let message = "The workload's owner no longer exists";
            self.finish(&workload, "OwnerNotFound", message);
        }
    }

    fn carry_out(
        &mut self,
        next: Move,
        job: &Value,
        raw: Option<&Value>,
        workload: Option<&Workload>,
    ) {
        match (next, raw, workload) {
            (Move::Create, ..) => self.create(job),
            (Move::TellChecks(text), ..) => self.tell(job, "UpdatedAdmissionCheck", &text),
            (Move::Suspend { message }, ..) => self.suspend(job, &message),
            (Move::Release, Some(raw), Some(workload)) => {
                let text = format!(
                    "Workload '{}' is declared finished",
                    workload.metadata.key()
                );
                self.tell(job, "FinishedWorkload", &text);
                self.release(raw);
            }
            (Move::Finish { reason, message }, _, Some(workload)) => {
                self.finish(workload, reason, &message);
            }
            (Move::PodsReady(ready), _, Some(workload)) => self.pods_ready(workload, ready),
            (Move::Restore { message }, _, Some(workload)) => self.restore(job, workload, &message),
            (
                Move::Unreserve {
                    reason,
                    message,
                    requeue,
                },
                _,
                Some(workload),
            ) => {
                self.unreserve(workload, &reason, &message, requeue);
            }
            (Move::Start, _, Some(workload)) => self.start(job, workload),
            _ => {}
        }
    }

    fn tell(&mut self, job: &Value, reason: &str, text: &str) {
        let metadata: Metadata =
            serde_json::from_value(job["metadata"].clone()).unwrap_or_default();
        let regarding = Regarding {
            api_version: "batch/v1",
            kind: "Job",
            metadata: &metadata,
        };
        let note = Note::normal(reason, text, REPORTER);
        self.recorder.tell(&self.api, &note, regarding);
    }

    fn create(&mut self, job: &Value) {
        let class = job.pointer("/metadata/labels/kueue.x-k8s.io~1priority-class");
        let class = class.and_then(Value::as_str);
        let object =
            class.and_then(|class| self.api.get(&kueue("workloadpriorityclasses"), "", class));
        let value = object.and_then(|object| object["value"].as_i64());
        let count = job["spec"]["parallelism"].as_i64().unwrap_or(1);
        let workload = workload_of(JOB, job, &job["spec"]["template"], count, class.zip(value));
        let answer = self.api.create(&kueue("workloads"), &workload);
        if answer.code == 201 {
            self.tell(
                job,
                "CreatedWorkload",
                &format!("Created Workload: {}", key_of(&workload)),
            );
        } else {
            tracing::warn!(code = answer.code, body = %answer.body, "the Workload of a Job was refused");
        }
    }

    fn release(&self, raw: &Value) {
        let mut object = raw.clone();
        object["metadata"]["finalizers"] = json!([]);
        self.api.update(&kueue("workloads"), &object, "");
    }

    fn finish(&self, workload: &Workload, reason: &str, message: &str) {
        self.condition(
            workload,
            Condition::new("Finished", True(true), reason, message, self.api.now()),
        );
    }

    fn pods_ready(&self, workload: &Workload, ready: bool) {
        let (reason, message) = if ready {
            (
                "Started",
                "All pods reached readiness and the workload is running",
            )
        } else {
            ("WaitForStart", "Not all pods are ready or succeeded")
        };
        let now = self.api.now();
        self.condition(
            workload,
            Condition::new("PodsReady", True(ready), reason, message, now),
        );
    }

    /// Writes one condition, as its own field manager.
    fn condition(&self, workload: &Workload, mut condition: Condition) {
        let metadata = &workload.metadata;
        condition.observed_generation = Some(metadata.generation);
        let manager = format!("kueue-job-controller-{}", condition.kind);
        let body = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": {"conditions": [condition]},
        });
        self.api
            .apply(&kueue("workloads"), &body, "status", &manager);
    }

    fn suspend(&self, job: &Value, _: &str) {
        let patch =
            json!({"metadata": {"annotations": {STOPPING: "true"}}, "spec": {"suspend": true}});
        self.patch_job(job, &patch, "");
    }

    fn patch_job(&self, job: &Value, patch: &Value, subresource: &str) -> u16 {
        let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
        let name = (text("namespace"), text("name"));
        self.api.merge(&jobs(), name, subresource, patch).code
    }

    /// A Job's scheduling directives may only change while it has no start time.
    fn restore(&mut self, job: &Value, workload: &Workload, message: &str) {
        if !job["status"]["startTime"].is_null() {
            self.patch_job(job, &json!({"status": {"startTime": null}}), "status");
            return;
        }
        let template = workload
            .spec
            .pod_sets
            .first()
            .map(|set| set.template.clone());
        let stopped = job["metadata"]["annotations"][STOPPING] == "true";
        let mut object = job.clone();
        object["spec"]["template"] = restored(job, &template.unwrap_or_default());
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(STOPPING);
        }
        let answer = self.api.update(&jobs(), &object, "");
        if answer.code == 200 && stopped {
            self.tell(&answer.body, "Stopped", message);
        }
    }

    fn unreserve(&self, workload: &Workload, reason: &str, message: &str, requeue: bool) {
        let now = self.api.now();
        let mut new = workload.clone();
        let requeued = Condition::new("Requeued", True(requeue), reason, message, now);
        new.status.conditions.set(requeued);
        let why = if self.version.observability_reasons {
            "PendingEvaluation"
        } else {
            "Pending"
        };
        unset_quota(&mut new, why, message, self.version, now);
        let body = apply_body(&new, Guard::Strict);
        self.api
            .apply(&kueue("workloads"), &body, "status", ADMISSION_MANAGER);
    }

    fn start(&mut self, job: &Value, workload: &Workload) {
        let flavors = self.flavors(workload);
        let template = pod_set_infos(workload, &flavors).and_then(|infos| {
            let info = infos.into_iter().next().unwrap_or_default();
            with_info(&job["spec"]["template"], &info).map_err(|conflict| conflict.to_string())
        });
        match template {
            Err(conflict) => self.finish(workload, "FailedToStart", &conflict),
            Ok(template) => {
                let mut object = job.clone();
                object["spec"]["suspend"] = json!(false);
                object["spec"]["template"] = template;
                let answer = self.api.update(&jobs(), &object, "");
                let queue = workload
                    .status
                    .admission
                    .as_ref()
                    .map(|a| a.cluster_queue.clone());
                if answer.code == 200 {
                    let text = format!("Admitted by clusterQueue {}", queue.unwrap_or_default());
                    self.tell(&answer.body, "Started", &text);
                } else {
                    tracing::warn!(code = answer.code, body = %answer.body, "the start of a Job was refused");
                }
            }
        }
    }

    fn flavors(&self, workload: &Workload) -> BTreeMap<String, ResourceFlavor> {
        let admission = workload.status.admission.iter();
        let names = admission.flat_map(|a| {
            a.pod_set_assignments
                .iter()
                .flat_map(|s| s.flavors.values())
        });
        names
            .filter_map(|name| {
                let raw = self.api.get(&kueue("resourceflavors"), "", name)?;
                Some((name.clone(), serde_json::from_value((*raw).clone()).ok()?))
            })
            .collect()
    }
}

fn read(raw: &Value) -> Workload {
    serde_json::from_value(raw.clone()).unwrap_or_default()
}

fn view(job: &Value, workload: Option<&Workload>) -> JobView {
    let suspended = job["spec"]["suspend"] == true;
    let set = workload.and_then(|w| w.spec.pod_sets.first());
    let stopping = job["metadata"]["annotations"][STOPPING] == "true";
    let mut conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let ended = conditions
        .find(|c| c["status"] == "True" && (c["type"] == "Complete" || c["type"] == "Failed"));
    let count = |field: &str| job["status"][field].as_i64().unwrap_or_default();
    let wanted = job["spec"]["parallelism"].as_i64().unwrap_or(1);
    JobView {
        suspended,
        template_changed: suspended
            && (stopping
                || set.is_some_and(|set| restored(job, &set.template) != job["spec"]["template"])),
        active: count("active") > 0,
        finished: ended.map(|c| {
            let message = c["message"].as_str().unwrap_or_default().to_owned();
            (c["type"] == "Complete", message)
        }),
        pods_ready: count("ready") + count("succeeded") >= wanted,
    }
}

impl Actor for JobController {
    fn step(&mut self) -> bool {
        self.observe();
        let Some((key, uid)) = self.todo.pop_front() else {
            return false;
        };
        self.queued.remove(&(key.clone(), uid.clone()));
        self.reconcile(&key, &uid);
        true
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        None
    }
}
