//! The invariants: in each state, at rest and in the end.

use std::collections::BTreeSet;

use super::server::{name_of, number, uid_of};
use super::{Action, Answer, Model, Provided, TIMERS};
use crate::api::CheckState;
use crate::runtime::core::Role;

impl Model {
    pub(super) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Checks that no two entries contradict each other, which would end the job as FailedToStart.
    pub(super) fn check_updates(&mut self) {
        let contradicts = self.objects.iter().flatten().any(|object| {
            let ready = object
                .entries
                .iter()
                .filter(|entry| entry.state == CheckState::Ready);
            let updates: BTreeSet<String> = ready
                .filter(|entry| !entry.updates.is_empty())
                .map(|entry| format!("{:?}", entry.updates))
                .collect();
            updates.len() > 1
        });
        if contradicts {
            self.violate("two checks have written contradicting updates".to_owned());
        }
    }

    /// Checks the invariants at rest, when nothing happens any more.
    pub(super) fn check_at_rest(&mut self) {
        if self.is_idle()
            && self.next_timer().is_none()
            && let Some(problem) = self.problem()
        {
            self.violate(problem);
        }
    }

    /// Checks how it ends if neither Kueue nor users change anything and nothing fails. Each
    /// Workload with quota must be decided, everything that was allocated released, and nothing
    /// left to do.
    pub(in super::super) fn settles(mut self) -> Result<(), String> {
        for _ in 0..TIMERS {
            while let Some(action) = self.next_of_its_own() {
                self.act(action);
            }
            if self.violation.is_some() || self.next_timer().is_none() {
                break;
            }
            self.act(Action::Tick);
        }
        let problem = self.violation.take();
        let leads = self.holder.filter(|_| !self.lapsed);
        let leads = leads.is_some_and(|leader| self.replicas[leader].core.role == Role::Leading);
        let problem = problem.or_else(|| (!leads).then(|| "nobody leads".to_owned()));
        let problem = problem.or_else(|| self.problem());
        problem.map_or(Ok(()), |problem| Err(format!("in the end {problem}")))
    }

    /// Returns what happens next without interference.
    pub(super) fn next_of_its_own(&self) -> Option<Action> {
        let own = |action: &Action| {
            matches!(
                action,
                Action::Deliver(..)
                    | Action::Apply(..)
                    | Action::ApplyLate(_)
                    | Action::Reply(..)
                    | Action::Regain(_)
                    | Action::Acquire(_)
            )
        };
        self.actions().into_iter().find(own)
    }

    fn problem(&self) -> Option<String> {
        let leader = self.holder.filter(|_| !self.lapsed)?;
        let core = &self.replicas[leader].core;
        if core.role != Role::Leading {
            return None;
        }
        let mut problems = Vec::new();
        // While parameters are invalid or missing, the last valid ones count. A process that was
        // started since does not have them.
        let configured = matches!(self.settings.provided, Provided::Never | Provided::Valid);
        // With contradicting updates one check stays Pending, and reports why.
        let contested = self.bounds.updates && (self.bounds.checks > 1 || self.settings.labelled);
        for (uid, object) in self.objects.iter().enumerate() {
            let Some(object) = object else { continue };
            let decides = object.quota && !object.evicted;
            for (check, entry) in object.entries.iter().enumerate() {
                if check == 0 && self.settings.deleted {
                    continue;
                }
                let answered = self.replicas[leader].answered.get(&(uid, check));
                let waits = answered == Some(&(object.since, Answer::Pending));
                if decides
                    && configured
                    && !contested
                    && !waits
                    && entry.state == CheckState::Pending
                {
                    problems.push(format!("check-{check} leaves w{uid} undecided"));
                }
                if decides
                    && configured
                    && !object.admitted
                    && self.settings.provided == Provided::Valid
                    && entry.state == CheckState::Ready
                    && entry.decided_with != self.settings.revision
                {
                    problems.push(format!(
                        "check-{check} leaves w{uid} decided by revision {}",
                        entry.decided_with
                    ));
                }
                let evaluated = self.replicas[leader].evaluated.get(&(uid, check));
                if let Some(basis) = evaluated
                    && decides
                    && configured
                    && !object.admitted
                    && basis.priority != object.priority
                {
                    problems.push(format!(
                        "check-{check} leaves w{uid} decided for the priority {}",
                        basis.priority
                    ));
                }
                if decides
                    && !object.admitted
                    && self.settings.labelled
                    && entry.state == CheckState::Ready
                    && !entry.updates.is_empty()
                {
                    problems.push(format!(
                        "the Ready of check-{check} on w{uid} contradicts its flavor"
                    ));
                }
                if !object.quota && entry.state == CheckState::Ready {
                    problems.push(format!(
                        "the Ready of check-{check} on w{uid} is not withdrawn"
                    ));
                }
            }
        }
        for reservation in &self.allocated {
            let uid = uid_of(reservation.uid());
            let lives = self.objects[uid]
                .as_ref()
                .is_some_and(|object| object.quota && object.since == number(reservation));
            let removed = self.settings.deleted && reservation.admission_check() == name_of(0);
            if !lives || removed {
                problems.push(format!(
                    "what was allocated for {reservation} is not released"
                ));
            }
        }
        let present = self
            .objects
            .iter()
            .flatten()
            .filter(|object| object.quota)
            .count();
        if core.workloads.len() != present {
            problems.push(format!(
                "{} Workloads are tracked, {present} hold quota",
                core.workloads.len()
            ));
        }
        if core.cleanups.iter().next().is_some() {
            problems.push("a cleanup is pending for ever".to_owned());
        }
        problems.into_iter().next()
    }
}
