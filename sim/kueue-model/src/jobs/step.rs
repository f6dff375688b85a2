//! One action of the job reconciler, carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::construct::{as_slice, workload_of};
use super::decide::{JobAction, JobView, NO_MATCHING_WORKLOAD, PodsReady, changes_class, decide};
use super::integration::Integration;
use super::labels::{GATED_BY, QUEUE, gates, label};
use super::priority::{class_of_pods, priority};
use super::slices::{self, Next, is_elastic};
use super::{job, pod};
use crate::kueue::KueueVersion;
use crate::kueue::api::{Api, Recorder, Regarding, kueue};
use crate::kueue::objects::{Condition, FINALIZER, Metadata, True, Workload, read};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::reconcile::{EventRecord, finish, unset_quota};

/// The context of an action.
pub(super) struct Step<'a> {
    pub(super) api: &'a Api,
    pub(super) version: KueueVersion,
    pub(super) recorder: &'a mut Recorder,
    pub(super) integration: Integration,
    /// Whether the action failed, and is tried again later.
    pub(super) failed: bool,
}

/// A Workload, and its object from the API server.
#[derive(Clone, Copy)]
pub(super) struct Owned<'a> {
    pub(super) workload: &'a Workload,
    pub(super) raw: &'a Value,
}

pub(super) fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

impl Step<'_> {
    /// Carries out the next action for a job. `all`: its Workloads, the oldest first.
    pub(super) fn reconcile(&mut self, object: &Value, all: &[(Workload, Arc<Value>)]) {
        if is_elastic(object, self.version) {
            self.reconcile_slices(object, all);
            return;
        }
        let owned = all.first().map(|(workload, raw)| Owned { workload, raw });
        self.go_on(object, owned);
    }

    fn view(&self, object: &Value, workload: Option<&Workload>) -> JobView {
        let elastic = is_elastic(object, self.version);
        let compared = workload.filter(|_| !elastic);
        let running = compared.and_then(|workload| self.running(workload));
        let workload = workload.map(|workload| (workload, running.as_ref()));
        self.integration
            .view(object, workload, elastic, self.version)
    }

    fn go_on(&mut self, object: &Value, owned: Option<Owned<'_>>) {
        let workload = owned.map(|owned| owned.workload);
        let view = self.view(object, workload);
        if let Some(next) = decide(&view, workload, self.version) {
            self.carry_out(next, object, owned);
        }
    }

    fn reconcile_slices(&mut self, object: &Value, all: &[(Workload, Arc<Value>)]) {
        let open = all.iter().filter(|(workload, _)| !workload.is_finished());
        let open: Vec<&Workload> = open.map(|(workload, _)| workload).collect();
        let owned = |slice: &Workload| {
            let mut all = all.iter();
            let found = all.find(|(known, _)| known.metadata.name == slice.metadata.name);
            found.map(|(workload, raw)| Owned { workload, raw })
        };
        let count = self.integration.count(object).pods;
        match slices::next(&open, count, self.version) {
            Next::New(replaces) => {
                let view = self.view(object, None);
                if decide(&view, None, self.version) == Some(JobAction::Create) {
                    self.create(object, replaces);
                }
            }
            Next::Current(slice) => {
                let kept = slices::kept_behind(slice, &open);
                let behind = [slice].into_iter().chain(kept).find(|slice| {
                    let view = self.view(object, Some(slice));
                    changes_class(&view, slice, self.version)
                });
                match behind {
                    Some(slice) => self.carry_out(JobAction::Prioritise, object, owned(slice)),
                    None => self.go_on(object, owned(slice)),
                }
            }
            Next::Rescale(slice) => {
                if let Some(owned) = owned(slice) {
                    self.rescale(object, owned);
                }
            }
            Next::Finish(slice, reason, message) => {
                self.finish(slice, reason, message);
            }
        }
    }

    pub(super) fn carry_out(&mut self, next: JobAction, object: &Value, owned: Option<Owned<'_>>) {
        match (next, owned) {
            (JobAction::Create, _) => self.create(object, None),
            (JobAction::LetJobGo, _) => pod::let_go(self.api, object),
            (JobAction::Suspend { message }, owned) => self.suspend(object, owned, &message),
            (JobAction::StopPod { reason, message }, Some(owned)) => {
                pod::stop(self.api, object, reason, message);
                self.record_event(object, "Stopped", message);
                if owned.workload.metadata.deletion_timestamp.is_some() {
                    self.drop_finalizer(owned);
                } else {
                    self.replace(object, owned);
                }
            }
            (JobAction::ReleaseChecks(text), _) => {
                self.record_event(object, "UpdatedAdmissionCheck", &text);
            }
            (_, None) => {}
            (JobAction::Rewrite, Some(owned)) => self.rewrite(object, owned),
            (JobAction::Replace, Some(owned)) => self.replace(object, owned),
            (JobAction::Prioritise, Some(owned)) => self.prioritise(object, owned),
            (JobAction::Gate, Some(owned)) => self.gate(object, owned),
            (JobAction::ChangeQueue, Some(owned)) => self.change_queue(object, owned),
            (JobAction::Release, Some(owned)) => {
                self.report_finished(object, owned.workload);
                self.drop_finalizer(owned);
            }
            (JobAction::DropFinalizer, Some(owned)) => self.drop_finalizer(owned),
            (JobAction::Finish { reason, message }, Some(owned)) => {
                if self.finish(owned.workload, reason, &message) {
                    self.report_finished(object, owned.workload);
                }
            }
            (JobAction::Reclaim(done), Some(owned)) => self.reclaim(owned.workload, &done),
            (JobAction::PodsReady(ready), Some(owned)) => self.pods_ready(owned.workload, ready),
            (JobAction::Restore { message }, Some(owned)) => {
                self.restore(object, owned, &message);
            }
            (JobAction::RestoreAndReplace, Some(owned)) => {
                if self.restore(object, owned, NO_MATCHING_WORKLOAD) {
                    self.replace(object, owned);
                }
            }
            (
                JobAction::Unreserve {
                    reason,
                    message,
                    requeue,
                },
                Some(owned),
            ) => {
                let gone = self.integration == Integration::Pod && !self.version.requeues_pods;
                self.unreserve(owned.workload, (&reason, &message), requeue && !gone);
            }
            (JobAction::Start, Some(owned)) => self.start(object, owned.workload),
        }
    }

    /// Finishes the Workload of a job that is gone, or removes its finalizer once it is finished or
    /// if it has no controller, as that of a group (Kueue 0.19.2, `finalizeWorkloads` in
    /// `pkg/controller/jobframework/reconciler.go`). Returns true if there was something to do.
    pub(super) fn abandon(&mut self, owned: Owned<'_>) -> bool {
        if owned.workload.metadata.finalizers.is_empty() {
            return false;
        }
        let metadata = &owned.workload.metadata;
        let finishes = self.version.finishes_orphans && metadata.controller().is_some();
        let deleted = metadata.deletion_timestamp.is_some();
        if owned.workload.is_finished() || deleted || !finishes {
            self.drop_finalizer(owned);
        } else {
            let message = "The workload's owner no longer exists";
            self.finish(owned.workload, "OwnerNotFound", message);
        }
        true
    }

    /// Removes Kueue's finalizer from a Pod that is being deleted.
    pub(super) fn let_job_go(&mut self, object: &Value) {
        if self.integration == Integration::Pod && pod::view(object).held {
            pod::let_go(self.api, object);
        }
    }

    pub(super) fn record_event(&mut self, object: &Value, reason: &str, text: &str) {
        let note = EventRecord::normal(reason, text, self.integration.reporter());
        self.record(object, &note);
    }

    /// Records a warning event.
    pub(super) fn warn(&mut self, object: &Value, reason: &str, text: &str) {
        let note = EventRecord::warning(reason, text, self.integration.reporter());
        self.record(object, &note);
    }

    pub(super) fn record_workload_event(&mut self, workload: &Workload, reason: &str, text: &str) {
        let note = EventRecord::normal(reason, text, self.integration.reporter());
        let regarding = Regarding::workload(&workload.metadata);
        self.recorder.record_event(self.api, &note, regarding);
    }

    fn record(&mut self, object: &Value, note: &EventRecord) {
        let metadata: Metadata = read(&object["metadata"]);
        let owner = self.integration.owner();
        let regarding = Regarding {
            api_version: owner.api_version,
            kind: owner.kind,
            metadata: &metadata,
        };
        self.recorder.record_event(self.api, note, regarding);
    }

    fn report_finished(&mut self, object: &Value, workload: &Workload) {
        let text = format!(
            "Workload '{}' is declared finished",
            workload.metadata.key()
        );
        self.record_event(object, "FinishedWorkload", &text);
    }

    /// Returns the Workload that the job should have. Fails if its priority class does not exist.
    pub(super) fn construct(&mut self, object: &Value) -> Option<Value> {
        let template = self.integration.template(object);
        let sets = json!([{"template": &template}]);
        self.construct_of(object, &template, class_of_pods(&sets))
    }

    /// Returns the Workload that a job with this template should have, with the priority of this
    /// class, unless the job has one of its own.
    pub(super) fn construct_of(
        &mut self,
        object: &Value,
        template: &Value,
        class: Option<&str>,
    ) -> Option<Value> {
        let priority = priority(self.api, object, class);
        self.failed |= priority.is_none();
        let priority = priority?;
        let count = self.integration.count(object);
        let gates = if self.version.admission_gates {
            gates(object)
        } else {
            ""
        };
        Some(workload_of(
            self.integration.owner(),
            object,
            template,
            count,
            priority,
            (is_elastic(object, self.version), gates),
        ))
    }

    /// Creates the Workload of a job, or the slice that replaces `replaces`.
    pub(super) fn create(&mut self, object: &Value, replaces: Option<&Workload>) {
        let Some(mut workload) = self.construct(object) else {
            return;
        };
        if is_elastic(object, self.version) {
            as_slice(&mut workload, replaces);
        }
        self.create_workload(object, workload);
    }

    pub(super) fn create_workload(&mut self, object: &Value, workload: Value) {
        let text = format!("Created Workload: {}", key_of(&workload));
        let response = self.api.create(&kueue("workloads"), workload);
        if response.code == 201 {
            self.record_event(object, "CreatedWorkload", &text);
        } else {
            tracing::warn!(code = response.code, body = %response.body, "the Workload of a job was refused");
        }
    }

    /// Sets the Pod count of a slice to that of its job.
    pub(super) fn rescale(&self, object: &Value, owned: Owned<'_>) {
        let mut workload = owned.raw.clone();
        workload["spec"]["podSets"][0]["count"] = json!(self.integration.count(object).pods);
        self.api.update(&kueue("workloads"), workload, "");
    }

    fn reclaim(&self, workload: &Workload, done: &BTreeMap<String, i64>) {
        let metadata = &workload.metadata;
        let pods: Value = done
            .iter()
            .map(|(name, count)| json!({"name": name, "count": count}))
            .collect();
        let body = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": {"reclaimablePods": pods},
        });
        let manager = "kueue-reclaimable-pods";
        self.api.apply(&kueue("workloads"), body, "status", manager);
    }

    fn rewrite(&mut self, object: &Value, owned: Owned<'_>) {
        if let Some(wanted) = self.construct(object) {
            self.rewrite_as(object, owned, &wanted);
        }
    }

    pub(super) fn rewrite_as(&mut self, object: &Value, owned: Owned<'_>, wanted: &Value) {
        let mut workload = owned.raw.clone();
        workload["spec"] = wanted["spec"].clone();
        let active = owned.workload.is_active() || !self.version.keeps_inactive;
        workload["spec"]["active"] = json!(active);
        if self.api.update(&kueue("workloads"), workload, "").code == 200 {
            let key = owned.workload.metadata.key();
            let text = format!("Updated not matching Workload for suspended job: {key}");
            self.record_event(object, "UpdatedWorkload", &text);
        }
    }

    /// Restores the template of a stopped Job. Returns true once all is restored.
    fn restore(&mut self, object: &Value, owned: Owned<'_>, message: &str) -> bool {
        let stopped = job::restore(self.api, object, owned.workload);
        if let Some(stopped) = &stopped {
            self.record_event(stopped, "Stopped", message);
        }
        stopped.is_some()
    }

    /// Deletes a Workload that does not match its job. One that is already being deleted only loses
    /// its finalizer (since 0.18).
    pub(super) fn replace(&mut self, object: &Value, owned: Owned<'_>) {
        self.drop_finalizer(owned);
        let metadata = &owned.workload.metadata;
        if self.version.deletes_once && metadata.deletion_timestamp.is_some() {
            return;
        }
        let response = self
            .api
            .delete(&kueue("workloads"), &metadata.namespace, &metadata.name);
        if response.code == 200 {
            let text = format!("Deleted not matching Workload: {}", metadata.key());
            self.record_event(object, "DeletedWorkload", &text);
        }
    }

    fn prioritise(&mut self, object: &Value, owned: Owned<'_>) {
        let Some(wanted) = self.construct(object) else {
            return;
        };
        let class = &wanted["spec"]["priorityClassRef"];
        let mut workload = owned.raw.clone();
        workload["spec"]["priority"] = wanted["spec"]["priority"].clone();
        if !class.is_null() {
            workload["spec"]["priorityClassRef"] = class.clone();
        } else if let Some(spec) = workload["spec"].as_object_mut() {
            spec.remove("priorityClassRef");
        }
        if self.api.update(&kueue("workloads"), workload, "").code == 200 {
            let key = owned.workload.metadata.key();
            let text = format!("Updated workload priority class: {key}");
            self.record_event(object, "UpdatedWorkload", &text);
        }
    }

    /// Copies the admission gates of the job to its Workload (Kueue 0.19.2,
    /// `UpdateAdmissionGatedBy` in `pkg/controller/jobframework/reconciler.go`).
    fn gate(&mut self, object: &Value, owned: Owned<'_>) {
        let metadata = &owned.workload.metadata;
        let gates = gates(object);
        let value = if gates.is_empty() {
            Value::Null
        } else {
            json!(gates)
        };
        let place = (metadata.namespace.as_str(), metadata.name.as_str());
        let patch = json!({"metadata": {"annotations": {GATED_BY: value}}});
        let response = self.api.merge(&kueue("workloads"), place, "", patch);
        if response.code == 200 {
            let text = format!("Updated workload AdmissionGatedBy to {gates:?}");
            self.record_event(object, "UpdatedWorkload", &text);
        }
    }

    fn change_queue(&self, object: &Value, owned: Owned<'_>) {
        let mut workload = owned.raw.clone();
        workload["spec"]["queueName"] = json!(label(object, QUEUE));
        self.api.update(&kueue("workloads"), workload, "");
    }

    pub(super) fn drop_finalizer(&self, owned: Owned<'_>) {
        let finalizers = owned.workload.metadata.finalizers.iter();
        let others: Vec<&String> = finalizers.filter(|f| *f != FINALIZER).collect();
        let mut object = owned.raw.clone();
        object["metadata"]["finalizers"] = json!(others);
        self.api.update(&kueue("workloads"), object, "");
    }

    pub(super) fn finish(&self, workload: &Workload, reason: &str, message: &str) -> bool {
        let now = self.api.now();
        let mut new = workload.clone();
        finish(&mut new, (reason, message), self.version, now);
        write_admission(self.api, workload, &new, Guard::Strict, self.version).code == 200
    }

    fn pods_ready(&self, workload: &Workload, ready: PodsReady) {
        let (reason, message) = (ready.reason(), ready.message());
        let status = True(ready.is_true());
        let now = self.api.now();
        self.condition(
            workload,
            Condition::new("PodsReady", status, reason, message, now),
        );
    }

    /// Writes one condition with its own field manager; returns true on success.
    ///
    /// Its time is that of the write, even if only its reason changes, since Kueue applies it
    /// without looking at the known one (0.19.2, `PatchStatus` in
    /// `pkg/workload/patching/patching.go`; 0.15.0, `UpdateStatus` in `pkg/workload/workload.go`).
    /// With a merge patch it does look, since 0.17.
    pub(super) fn condition(&self, workload: &Workload, mut condition: Condition) -> bool {
        let metadata = &workload.metadata;
        condition.observed_generation = Some(metadata.generation);
        let known = workload.status.conditions.get(&condition.kind);
        let known = known.filter(|_| self.version.merge_patches && !self.version.releases_at_end);
        if let Some(known) = known.filter(|known| known.status == condition.status) {
            condition.last_transition_time = known.last_transition_time;
        }
        let manager = format!("kueue-job-controller-{}", condition.kind);
        let body = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": {"conditions": [condition]},
        });
        let response = self
            .api
            .apply(&kueue("workloads"), body, "status", &manager);
        response.code == 200
    }

    fn unreserve(&self, workload: &Workload, (reason, message): (&str, &str), requeue: bool) {
        let now = self.api.now();
        let mut new = workload.clone();
        let requeued = Condition::new("Requeued", True(requeue), reason, message, now);
        new.set_condition(requeued);
        let why = self.version.reason_while_pending();
        unset_quota(&mut new, why, message, self.version, now);
        write_admission(self.api, workload, &new, Guard::Strict, self.version);
    }
}
