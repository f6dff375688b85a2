//! Preemption: who has to leave is evicted.

use std::sync::Arc;

use super::Kueue;
use super::cache::Known;
use crate::kueue::objects::{ClusterQueue, Condition, True, Workload};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::queue::Requeue;
use crate::kueue::reconcile::{Note, Write, evict, unset_quota};
use crate::kueue::scheduler::{Assignment, Candidate, SCHEDULER, Usage, second_pass, victims};

impl Kueue {
    pub(super) fn make_room(
        &mut self,
        known: &Known,
        queue: &ClusterQueue,
        assignment: Assignment,
    ) {
        let targets = self.targets(known, queue, &assignment.usage);
        if targets.is_empty() {
            let why = &assignment.message;
            let requeue = Requeue::NoCandidates;
            self.put_back(&known.workload, queue, why, "WaitingForQuota", requeue);
            return;
        }
        if self.version.kep993 && !queue.checks().is_empty() {
            // Quota is reserved first; when the others have to leave, the checks say.
            self.reserve_for(known, queue, assignment);
            return;
        }
        let count = targets.len();
        self.preempt(&known.workload, queue, &targets);
        let why = format!(
            "{}. Pending the preemption of {count} workload(s)",
            assignment.message
        );
        let reason = "WaitingForPreemptedWorkloads";
        let requeue = Requeue::PendingPreemption;
        self.put_back(&known.workload, queue, &why, reason, requeue);
    }

    pub(super) fn targets(
        &self,
        known: &Known,
        queue: &ClusterQueue,
        wanted: &Usage,
    ) -> Vec<Arc<Workload>> {
        let mut taken = self
            .cache
            .usage
            .get(&queue.metadata.name)
            .cloned()
            .unwrap_or_default();
        if known.workload.has_quota() {
            taken.remove_all(wanted);
        }
        let holders = self.holders(&queue.metadata.name);
        let candidates: Vec<Candidate<'_>> = holders
            .iter()
            .map(|k| Candidate {
                workload: &k.workload,
                arrival: k.arrival,
            })
            .collect();
        let chosen = victims(&known.workload, wanted, queue, &taken, &candidates);
        chosen.into_iter().map(|w| Arc::new(w.clone())).collect()
    }

    /// Evicts the others, whoever is not leaving already.
    pub(super) fn preempt(
        &mut self,
        by: &Workload,
        queue: &ClusterQueue,
        targets: &[Arc<Workload>],
    ) {
        let name = &queue.metadata.name;
        let message = format!(
            "Preempted to accommodate a workload (UID: {}, JobUID: {}) due to prioritization in the ClusterQueue; preemptor path: /{name}; preemptee path: /{name}",
            by.metadata.uid,
            by.job_uid().unwrap_or("UNKNOWN"),
        );
        for target in targets.iter().filter(|t| !t.is_evicted()) {
            let (mine, theirs) = (by.spec.priority, target.spec.priority);
            let priorities = format!(
                "preemptor effective priority: {mine} (base: {mine}, boost: 0); preemptee effective priority: {theirs} (base: {theirs}, boost: 0)"
            );
            if !self.evict_for(target, &message, &priorities) {
                continue;
            }
            let text = format!(
                "Preempted workload {} (UID: {}) in ClusterQueue {name}; {priorities}",
                target.metadata.key(),
                target.metadata.uid
            );
            self.tell(
                &Note::normal("PreemptedWorkload", text, SCHEDULER),
                &by.metadata,
            );
        }
    }

    fn evict_for(&mut self, target: &Workload, message: &str, priorities: &str) -> bool {
        let now = self.api.now();
        let mut copy = target.clone();
        if self.version.stale_preemption {
            copy.status.admission_checks.clear();
        }
        let target = &copy;
        let outcome = evict(target, "Preempted", message, None, now, SCHEDULER);
        let Some(Write::Admission(mut new)) = outcome.write else {
            return false;
        };
        let reason = "InClusterQueue";
        let preempted = Condition::new("Preempted", True(true), reason, message, now);
        new.status.conditions.set(preempted);
        if self.version.kep993 {
            second_pass::clear_checks(&mut new, now);
            if !new.is_admitted() {
                unset_quota(&mut new, "Pending", message, self.version, now);
            }
        }
        let mut notes = vec![Note::normal(
            "Preempted",
            format!("{message}; {priorities}"),
            SCHEDULER,
        )];
        notes.extend(outcome.notes);
        let answer = write_admission(&self.api, target, &new, Guard::Loose, self.version);
        self.settle(target, &answer, &notes)
    }
}
