//! Preemption: eviction of victims.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Kueue;
use super::cache::CachedWorkload;
use crate::kueue::objects::{ClusterQueue, Condition, True, Workload};
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::reconcile::{EventRecord, Write, evict, unset_quota};
use crate::kueue::scheduler::{
    Candidate, Cause, Cell, Contest, Fit, NodeId, SCHEDULER, Tree, Usage, second_pass, usage_of,
    victims,
};

/// A preemption target: a Workload to evict.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) workload: Arc<Workload>,
    /// Its ClusterQueue.
    pub(super) node: NodeId,
    /// Its usage.
    pub(super) usage: Usage,
    /// The cause of the preemption.
    pub(super) cause: Cause,
}

impl Kueue {
    /// Returns the preemption targets with which `wanted` fits. `cells` are those without capacity.
    pub(super) fn targets(
        &self,
        known: &CachedWorkload,
        queue: &ClusterQueue,
        (wanted, cells): (&Usage, &BTreeSet<Cell>),
        tree: &Tree,
    ) -> Vec<Target> {
        let Some(node) = tree.queue(&queue.metadata.name) else {
            return Vec::new();
        };
        let relatives = tree.relatives(&queue.metadata.name);
        let holders: Vec<(NodeId, CachedWorkload)> = relatives
            .iter()
            .filter(|name| self.is_active(name) || **name == queue.metadata.name)
            .filter_map(|name| Some((tree.queue(name)?, name)))
            .flat_map(|(node, name)| self.holders(name).into_iter().map(move |k| (node, k)))
            .collect();
        let candidates: Vec<Candidate<'_>> = holders
            .iter()
            .map(|(queue, known)| Candidate {
                workload: &known.workload,
                queue: *queue,
                usage: usage_of(&known.workload),
                arrival: known.arrival,
            })
            .collect();
        let contest = Contest {
            preemptor: &known.workload,
            by: self.version.requeuing_timestamp(),
            fair_sharing: self.version.fair_sharing,
            nominal_first: self.version.nominal_first,
            queue,
            node,
            wanted,
            cells,
            candidates: &candidates,
        };
        let chosen = victims(&contest, tree).into_iter();
        chosen
            .map(|(at, cause)| Target {
                workload: Arc::clone(&holders[at].1.workload),
                node: candidates[at].queue,
                usage: candidates[at].usage.clone(),
                cause,
            })
            .collect()
    }

    /// Simulates preemptions for an amount of one resource. Returns whether it then fits, and the
    /// height from which quota is borrowed.
    pub(super) fn simulate(
        &self,
        known: &CachedWorkload,
        queue: &ClusterQueue,
        (cell, amount): (&Cell, i64),
        tree: &Tree,
    ) -> (Fit, usize) {
        let Some(node) = tree.queue(&queue.metadata.name) else {
            return (Fit::No, 0);
        };
        let mut wanted = Usage::default();
        wanted.add(cell, amount);
        let cells = BTreeSet::from([cell.clone()]);
        let targets = self.targets(known, queue, (&wanted, &cells), tree);
        let mut tree = tree.clone();
        for target in &targets {
            tree.remove(target.node, &target.usage);
        }
        let (borrowing, _) = tree.borrowing_height(node, cell, amount);
        let fit = if targets.is_empty() {
            Fit::NoCandidates
        } else if targets.iter().any(|target| target.node == node) {
            Fit::Preempt
        } else {
            Fit::Reclaim
        };
        (fit, borrowing)
    }

    /// Evicts the targets that are not evicted already.
    pub(super) fn preempt(&mut self, by: &Workload, queue: &ClusterQueue, targets: &[Target]) {
        let tree = self.snapshot();
        let path = tree.path_text(&queue.metadata.name);
        let targets = targets.iter().filter(|t| !t.workload.is_evicted());
        let mut targets: Vec<&Target> = targets.collect();
        if self.version.reversed_evictions {
            targets.reverse();
        }
        for target in targets {
            let (cause, target) = (target.cause, &target.workload);
            let admission = target.status.admission.as_ref();
            let theirs = admission.map_or("", |admission| &admission.cluster_queue);
            let message = format!(
                "Preempted to accommodate a workload (UID: {}, JobUID: {}) due to {}; preemptor path: {path}; preemptee path: {}",
                by.metadata.uid,
                by.job_uid().unwrap_or("UNKNOWN"),
                cause.text(),
                tree.path_text(theirs),
            );
            let (mine, other) = (by.spec.priority, target.spec.priority);
            let priorities = format!(
                "preemptor effective priority: {mine} (base: {mine}, boost: 0); preemptee effective priority: {other} (base: {other}, boost: 0)"
            );
            let explains = self.version.explains_preemptions;
            let text = if explains {
                format!("{message}; {priorities}")
            } else {
                message.clone()
            };
            if !self.evict_for(target, cause, &message, &text) || !explains {
                continue;
            }
            let text = format!(
                "Preempted workload {} (UID: {}) in ClusterQueue {theirs}; {priorities}",
                target.metadata.key(),
                target.metadata.uid
            );
            self.record_event(
                &EventRecord::normal("PreemptedWorkload", text, SCHEDULER),
                &by.metadata,
            );
        }
    }

    fn evict_for(&mut self, target: &Workload, cause: Cause, message: &str, text: &str) -> bool {
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
        let preempted = Condition::new("Preempted", True(true), cause.reason(), message, now);
        new.status.conditions.set(preempted);
        if self.version.kep993 {
            second_pass::clear_checks(&mut new, now);
            if !new.is_admitted() {
                unset_quota(&mut new, "Pending", message, self.version, now);
            }
        }
        let mut notes = vec![EventRecord::normal("Preempted", text, SCHEDULER)];
        notes.extend(outcome.notes);
        let response = write_admission(&self.api, target, &new, Guard::Loose, self.version);
        self.finish_write(target, &response, &notes)
    }
}
