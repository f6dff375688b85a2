//! Status writes of parent Workloads and their variants.

use serde_json::json;

use super::cache::CachedWorkload;
use super::{Kueue, Task};
use crate::kueue::api::kueue;
use crate::kueue::objects::{Condition, Metadata, True, Workload, read};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::reconcile::{EventRecord, finish, reserve, unset_quota};
use crate::kueue::variants::{GATE, Next, next, variant_of};

const CONTROLLER: &str = "concurrent-admission-controller";

impl Kueue {
    /// Returns true if Workloads of this one's ClusterQueue have variants and it is no variant
    /// itself.
    pub(super) fn has_variants(&self, workload: &Workload) -> bool {
        let queue = self.cache.cluster_queue(workload);
        let enabled = queue.is_some_and(|q| q.spec.concurrent_admission_policy.is_some());
        self.version.concurrent_admission && enabled && workload.parent_uid().is_none()
    }

    /// Marks the family of a changed parent or variant for reconciliation.
    pub(super) fn family_changed(&mut self, workload: &Workload) {
        if !self.version.concurrent_admission {
            return;
        }
        let namespace = &workload.metadata.namespace;
        if let Some(parent) = workload.parent_name() {
            self.families.insert(format!("{namespace}/{parent}"));
        } else if workload.is_parent() {
            self.families.insert(workload.metadata.key());
        }
    }

    pub(super) fn reconcile_family(&mut self, key: &str) {
        /// The maximum number of passes, more than Kueue has writes in one of its passes.
        const MOST: usize = 8;
        let passes = if self.version.hasty_variants { MOST } else { 1 };
        for _ in 0..passes {
            if !self.next_of_family(key) {
                return;
            }
            self.observe();
        }
    }

    /// Carries out the next step of a family. Returns true if there was one.
    fn next_of_family(&mut self, key: &str) -> bool {
        let Some(parent) = self.cache.workloads.get(key).cloned() else {
            return false;
        };
        let queue = self.cache.cluster_queue(&parent.workload).cloned();
        let Some(queue) = queue.filter(|_| parent.workload.is_parent()) else {
            return false;
        };
        let uid = parent.workload.metadata.uid.as_str();
        let all = self.cache.workloads.values();
        let variants = all.filter(|known| known.workload.parent_uid() == Some(uid));
        let variants: Vec<Workload> = variants.map(|known| (*known.workload).clone()).collect();
        let finished = parent.workload.status.conditions.get("Finished");
        let finished = finished.filter(|condition| condition.is_true());
        let now = self.api.now();
        let next = next(&parent.workload, &variants, finished, &queue, now);
        let mut changed = (*parent.workload).clone();
        match next {
            Next::Nothing => return false,
            Next::Wait(until) => {
                self.later(until, Task::Family(key.to_owned()));
                return false;
            }
            Next::OpenGate(variant) => {
                let mut open = variant.clone();
                open.open_gate(GATE, now);
                self.write_status(variant, &open);
                let key = variant.metadata.key();
                let text = format!("Opened preemption gate for variant workload {key:?}");
                let note = EventRecord::normal("PreemptionUngatedVariant", text, CONTROLLER);
                self.record_event(&note, &variant.metadata);
            }
            Next::Create(flavors) => {
                for flavor in flavors {
                    self.create_variant(&parent, flavor);
                }
            }
            Next::Delete(variant) => {
                let metadata = &variant.metadata;
                self.api
                    .delete(&kueue("workloads"), &metadata.namespace, &metadata.name);
                let (key, flavor) = (metadata.key(), variant.variant_flavor());
                let text = format!(
                    "Variant Workload {key:?} deleted; flavor {flavor:?} no longer in ClusterQueue"
                );
                let note = EventRecord::normal("DeletedVariant", text, CONTROLLER);
                self.record_event(&note, &parent.workload.metadata);
            }
            Next::EvictParent(reason, message) => {
                let evicted = Condition::new("Evicted", True(true), reason, message, now);
                changed.set_condition(evicted);
                self.write_status(&parent.workload, &changed);
            }
            Next::Clear(variant) => self.clear(variant),
            Next::Deactivate(variant, why) => {
                self.set_active(variant, false, ("DeactivatedVariant", "deactivated", &why));
            }
            Next::Activate(variant, why) => {
                self.set_active(variant, true, ("ActivatedVariant", "activated", &why));
            }
            Next::Finish(variant, finished) => {
                let mut done = variant.clone();
                let why = (finished.reason.as_str(), finished.message.as_str());
                finish(&mut done, why, self.version, now);
                self.write_status(variant, &done);
            }
            Next::Admit(variant) => {
                let admission = variant.status.admission.clone().unwrap_or_default();
                reserve(&mut changed, admission, now);
                let message = format!("The variant {} is admitted", variant.metadata.name);
                let admitted = Condition::new("Admitted", True(true), "Admitted", message, now);
                changed.set_condition(admitted);
                self.write_status(&parent.workload, &changed);
            }
        }
        true
    }

    fn create_variant(&mut self, parent: &CachedWorkload, flavor: &str) {
        let variant = variant_of(&parent.raw, flavor);
        let metadata: Metadata = read(&variant["metadata"]);
        if self.api.create(&kueue("workloads"), variant).code == 201 {
            let text = format!("Variant Workload {:?} created", metadata.key());
            let note = EventRecord::normal("CreatedVariant", text, CONTROLLER);
            self.record_event(&note, &parent.workload.metadata);
        }
    }

    fn write_status(&self, old: &Workload, new: &Workload) {
        write_admission(&self.api, old, new, Guard::Strict, self.version);
    }

    /// Releases the quota of an evicted variant. The controller does it because no job stops for a
    /// variant.
    fn clear(&mut self, variant: &Workload) {
        let Some(evicted) = variant.eviction() else {
            return;
        };
        let (now, mut new) = (self.api.now(), variant.clone());
        let (reason, message) = (evicted.reason.clone(), evicted.message.clone());
        let requeue = matches!(reason.as_str(), "Preempted" | "NodeFailures");
        let requeued = Condition::new("Requeued", True(requeue), reason, message.as_str(), now);
        new.set_condition(requeued);
        let why = self.version.reason_while_pending();
        unset_quota(&mut new, why, &message, self.version, now);
        self.write_status(variant, &new);
    }

    fn set_active(&mut self, variant: &Workload, active: bool, event: (&str, &str, &str)) {
        let Some(known) = self.cache.workloads.get(&variant.metadata.key()) else {
            return;
        };
        let mut object = (*known.raw).clone();
        object["spec"]["active"] = json!(active);
        let response = self.api.update(&kueue("workloads"), object, "");
        let (reason, what, why) = event;
        let text = format!("Variant Workload {what} due to {why}");
        self.finish_write(
            variant,
            &response,
            &[EventRecord::normal(reason, text, CONTROLLER)],
        );
    }
}
