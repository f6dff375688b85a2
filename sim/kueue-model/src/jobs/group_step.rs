//! One action of the job reconciler for a group of Pods, carried out.

use std::sync::Arc;

use serde_json::{Value, json};

use super::decide::{
    JobAction, JobView, MISSING_WORKLOAD, NO_MATCHING_WORKLOAD, WORKLOAD_DELETED, decide,
};
use super::labels::maximum_execution_time;
use super::pod;
use super::pod_group::{self, Assembled, Members};
use super::priority::class_of_pods;
use super::step::{Owned, Step};
use crate::json::list;
use crate::kueue::api::kueue;
use crate::kueue::objects::{Workload, read};

impl Step<'_> {
    /// Carries out the next action for the group `name`. `raw`: the Workload of that name.
    pub(super) fn reconcile_group(&mut self, name: &str, pods: &[Arc<Value>], raw: Option<&Value>) {
        let all: Vec<&Value> = pods.iter().map(Arc::as_ref).collect();
        let workload: Option<Workload> = raw.map(read);
        let owned = raw.zip(workload.as_ref());
        let owned = owned.map(|(raw, workload)| Owned { workload, raw });
        let takes_over = !self.version.refuses_other_workloads;
        let ours = owned.filter(|owned| takes_over || pod_group::is_of_a_group(owned.raw));
        let Some(first) = all.first() else {
            let has_controller = |owned: &Owned<'_>| owned.workload.metadata.controller().is_some();
            // Kueue spares only another controller's Workload (0.19.2, `ListChildWorkloads` in
            // `pkg/controller/jobs/pod/pod_controller.go`).
            if let Some(owned) = owned.filter(|owned| ours.is_some() || !has_controller(owned)) {
                self.abandon(owned);
            }
            return;
        };
        if !pod::is_managed(first) {
            return;
        }
        let Some(owned) = owned else {
            self.without_workload(name, &all);
            return;
        };
        if ours.is_none() {
            let text = format!(
                "A Workload named \"{name}\" already exists but is not a pod group workload; this pod group cannot be admitted"
            );
            self.warn(first, "WorkloadNameConflict", &text);
            self.let_go(all.iter().filter(|pod| !pod_group::is_usable(pod)));
            return;
        }
        let limit = owned.workload.spec.maximum_execution_time_seconds;
        let same_limit = limit == maximum_execution_time(first);
        match pod_group::members(owned.workload, &all, self.version).filter(|_| same_limit) {
            Some(members) => self.with_workload(&all, owned, &members),
            None => self.mismatched(name, &all, owned),
        }
    }

    fn with_workload(&mut self, all: &[&Value], owned: Owned<'_>, members: &Members<'_>) {
        let now = self.api.now();
        let workload = owned.workload;
        if let Some((owners, added)) = pod_group::with_owners(owned.raw, &members.kept) {
            let mut object = owned.raw.clone();
            object["metadata"]["ownerReferences"] = owners;
            let response = self.api.update(&kueue("workloads"), object, "");
            if response.code == 200 {
                let text = format!("Added {added} owner reference(s)");
                self.record_workload_event(workload, "OwnerReferencesAdded", &text);
            }
            return;
        }
        self.remove(&members.excess);
        self.let_go(members.replaced.iter());
        if let Some(condition) = pod_group::lacks_pods(workload, members.absent, now) {
            self.condition(workload, condition);
            return;
        }
        if workload.metadata.deletion_timestamp.is_some() && !workload.is_finished() {
            self.stop(&members.kept, "WorkloadDeleted", WORKLOAD_DELETED, true);
            self.let_go(all.iter());
            self.drop_finalizer(owned);
            return;
        }
        let mut view = pod_group::view(&members.kept, now, self.version);
        if let Some(evicted) = workload.eviction().filter(|_| !workload.is_finished()) {
            let reason = format!("WorkloadEvictedDueTo{}", evicted.reason);
            self.stop(&members.kept, &reason, &evicted.message, false);
            // Nothing else has to be stopped.
            view.suspended = true;
        }
        if let Some(next) = decide(&view, Some(workload), self.version) {
            self.carry_out_of_group(next, all, members, owned);
        }
    }

    fn carry_out_of_group(
        &mut self,
        next: JobAction,
        all: &[&Value],
        members: &Members<'_>,
        owned: Owned<'_>,
    ) {
        let kept = &members.kept;
        match next {
            JobAction::LetJobGo => self.let_go(all.iter()),
            JobAction::Suspend { message } => self.stop(kept, "NotAdmitted", &message, false),
            JobAction::Start => {
                for pod in kept.iter().filter(|pod| pod::has_gate(pod)) {
                    self.start(pod, owned.workload);
                }
            }
            JobAction::ReleaseChecks(text) => {
                for pod in kept {
                    self.record_event(pod, "UpdatedAdmissionCheck", &text);
                }
            }
            other => {
                if let Some(first) = kept.first() {
                    self.carry_out(other, first, Some(owned));
                }
            }
        }
    }

    /// Rewrites the mismatched Workload for the Pods, or replaces it.
    fn mismatched(&mut self, name: &str, all: &[&Value], owned: Owned<'_>) {
        let view = pod_group::view(all, self.api.now(), self.version);
        let first = all.first().copied().unwrap_or(&Value::Null);
        if view.suspended && !owned.workload.has_quota() {
            if let Some(wanted) = self.assembled(name, all) {
                self.rewrite_as(first, owned, &wanted);
            }
            return;
        }
        if !view.suspended && view.finished.is_none() {
            self.stop(all, "NoMatchingWorkload", NO_MATCHING_WORKLOAD, false);
        }
        self.replace(first, owned);
        // Kueue tries again after the deletion (0.18.3, `ErrNoMatchingWorkloads` in
        // `pkg/controller/jobframework/reconciler.go`).
        self.failed = true;
    }

    fn without_workload(&mut self, name: &str, all: &[&Value]) {
        let view: JobView = pod_group::view(all, self.api.now(), self.version);
        if view.finished.is_some() {
            self.let_go(all.iter());
            return;
        }
        if !view.suspended {
            self.stop(all, "NoMatchingWorkload", MISSING_WORKLOAD, false);
        }
        if view.active {
            return;
        }
        if let Some(workload) = self.assembled(name, all)
            && let Some(first) = all.first()
        {
            self.create_workload(first, workload);
        }
    }

    /// Returns the Workload of a complete group, or `None` if the Pods are not one.
    fn assembled(&mut self, name: &str, all: &[&Value]) -> Option<Value> {
        let first = all.first()?;
        self.let_go(all.iter().filter(|pod| !pod_group::is_usable(pod)));
        let kept = match pod_group::assemble(all, self.version) {
            Assembled::Complete { kept, excess } => {
                self.remove(&excess);
                kept
            }
            Assembled::Incomplete => {
                let text = format!("'{name}' group has fewer runnable pods than expected");
                self.warn(first, "ErrWorkloadCompose", &text);
                return None;
            }
            Assembled::Wrong => return None,
        };
        let sets = pod_group::new_pod_sets(&kept, self.version);
        let template = self.integration.template(first);
        let mut workload = self.construct_of(first, &template, class_of_pods(&sets))?;
        if list(&sets).count() > self.version.most_pod_sets {
            return None;
        }
        workload["spec"]["podSets"] = sets;
        let metadata = &mut workload["metadata"];
        metadata["name"] = json!(name);
        metadata["labels"] = json!({});
        metadata["ownerReferences"] = json!([]);
        if let Some((owners, _)) = pod_group::with_owners(&workload, &kept) {
            workload["metadata"]["ownerReferences"] = owners;
        }
        pod_group::mark(&mut workload);
        Some(workload)
    }

    /// Deletes Pods, and writes the reason into their status.
    fn stop(&mut self, pods: &[&Value], reason: &str, message: &str, with_workload: bool) {
        for pod in pods {
            if pod_group::stops(pod, with_workload) {
                pod::stop(self.api, pod, reason, message);
                self.record_event(pod, "Stopped", message);
            }
        }
    }

    /// Deletes excess Pods.
    fn remove(&mut self, pods: &[&Value]) {
        self.let_go(pods.iter());
        for pod in pods {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            let pods = pod::pods();
            let response = self.api.delete(&pods, text("namespace"), text("name"));
            if response.code == 200 {
                self.record_event(pod, "ExcessPodDeleted", "Excess pod deleted");
            }
        }
    }

    /// Removes Kueue's finalizer from Pods, after reading their current state.
    fn let_go<'p>(&self, pods: impl Iterator<Item = &'p &'p Value>) {
        for pod in pods.filter(|pod| pod::has_finalizer(pod)) {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            let found = self.api.get(&pod::pods(), text("namespace"), text("name"));
            if let Some(found) = found.filter(|found| found["metadata"]["uid"] == text("uid")) {
                pod::let_go(self.api, &found);
            }
        }
    }
}
