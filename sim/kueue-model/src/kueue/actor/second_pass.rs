//! The second pass of KEP-993: checks determine when a Workload with quota preempts.

use jiff::SignedDuration;

use super::Kueue;
use super::cache::CachedWorkload;
use crate::kueue::patch::{Guard, write_admission};
use crate::kueue::reconcile::{admitted_event, sync_admitted, unset_quota};
use crate::kueue::scheduler::second_pass::{Next, PreemptionOutcome, next, preempts_now};
use crate::kueue::scheduler::{SCHEDULER, usage_of};

impl Kueue {
    /// Runs the second pass for Workloads that hold quota of a ClusterQueue and are not admitted.
    /// Returns true if it did anything.
    pub(super) fn second_pass(&mut self, name: &str) -> bool {
        let holders = self.holders(name);
        let mut waiting: Vec<&CachedWorkload> = holders
            .iter()
            .filter(|k| {
                k.workload.has_quota() && !k.workload.is_admitted() && !k.workload.is_evicted()
            })
            .collect();
        waiting.sort_by_key(|k| (std::cmp::Reverse(k.workload.spec.priority), k.arrival));
        waiting
            .into_iter()
            .any(|known| self.retry_second_pass(known, name))
    }

    fn retry_second_pass(&mut self, known: &CachedWorkload, name: &str) -> bool {
        let Some(queue) = self.cache.cluster_queues.get(name).cloned() else {
            return false;
        };
        let workload = &known.workload;
        let needed = crate::kueue::reconcile::needed_checks(
            &queue,
            workload.status.admission.as_ref(),
            self.version.lists_checks_early,
        );
        if needed.iter().any(|check| workload.check(check).is_none()) {
            return false;
        }
        let wanted = usage_of(workload);
        let mut others = self.snapshot();
        let Some(node) = others.queue(name) else {
            return false;
        };
        others.remove(node, &wanted);
        let fits = others.fits(node, &wanted);
        let targets = if fits {
            Vec::new()
        } else {
            let cells = wanted.iter().map(|(cell, _)| cell.clone()).collect();
            self.targets(known, &queue, (&wanted, &cells), &others)
        };
        let outcome = match (fits, targets.is_empty()) {
            (true, _) => PreemptionOutcome::Enough,
            (false, false) => PreemptionOutcome::Possible,
            (false, true) => PreemptionOutcome::None,
        };
        let now_or_later = preempts_now(workload, &self.cache.checks);
        let leaving = !targets.is_empty() && targets.iter().all(|t| t.workload.is_evicted());
        match next(now_or_later, workload.all_checks_ready(), outcome) {
            Next::Wait => false,
            Next::Preempt if leaving => false,
            Next::Preempt => {
                self.preempt(workload, &queue, &targets);
                true
            }
            Next::Admit => self.admit(known),
            Next::Lose => self.lose_quota(known),
        }
    }

    fn admit(&mut self, known: &CachedWorkload) -> bool {
        let now = self.api.now();
        let mut new = (*known.workload).clone();
        sync_admitted(&mut new, self.version, now);
        let notes: Vec<_> = admitted_event(&new, SignedDuration::ZERO, SCHEDULER)
            .into_iter()
            .collect();
        let response = write_admission(
            &self.api,
            &known.workload,
            &new,
            Guard::Strict,
            self.version,
        );
        self.finish_write(&known.workload, &response, &notes)
    }

    fn lose_quota(&mut self, known: &CachedWorkload) -> bool {
        let now = self.api.now();
        let mut new = (*known.workload).clone();
        let why = "The quota is no longer available";
        unset_quota(&mut new, "Pending", why, self.version, now);
        let response = write_admission(
            &self.api,
            &known.workload,
            &new,
            Guard::Strict,
            self.version,
        );
        self.finish_write(&known.workload, &response, &[])
    }
}
