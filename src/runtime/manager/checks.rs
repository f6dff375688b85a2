//! AdmissionChecks that are ours: their parameters, and their condition `Active`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::jobs::Tried;
use super::session::Session;
use crate::api::{AdmissionCheck, Name, Uid, Workload};
use crate::check::{Message, ParametersProblem, Policy, Read, ReleaseReason, Settled};
use crate::runtime::intake::{Failure, StoredParameters};
use crate::runtime::metrics::CheckLabels;
use crate::runtime::writer::field_manager;

/// One AdmissionCheck that is ours.
pub(super) struct Slot {
    pub(super) object: AdmissionCheck,
    /// Which of our checks answers it.
    pub(super) controller: usize,
    /// The field manager of what is written for it.
    pub(super) manager: Arc<str>,
    pub(super) policy: Settled,
    /// The last parameters with which it could be answered.
    pub(super) good: Option<Good>,
    /// Whether it can be answered now; `None` until that is known.
    pub(super) verdict: Option<Result<(), Problem>>,
    /// What was last activated, or tried.
    pub(super) tried: Option<Tried>,
    /// Whether an activation or an announcement is at work.
    pub(super) activating: bool,
    pub(super) announcing: bool,
    pub(super) timer: Option<Instant>,
    pub(super) failures: u32,
    /// How often in a row the same condition had to be written.
    pub(super) repeats: u32,
    pub(super) announced: Option<(String, Message)>,
    /// The status about which an event was last sent.
    pub(super) told: Option<String>,
    /// When it stopped running jobs.
    pub(super) evictions: VecDeque<Timestamp>,
}

/// Parameters with which an AdmissionCheck can be answered.
pub(super) struct Good {
    pub(super) read: Read,
    pub(super) generation: i64,
}

/// Why an AdmissionCheck can't be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: String,
    pub(super) message: Message,
}

impl Problem {
    /// As an author sees it.
    pub(super) fn public(&self) -> ParametersProblem<'_> {
        ParametersProblem::new(&self.reason, self.message.as_str())
    }
}

/// What a look at a Workload finds.
pub(super) enum Readiness<'a> {
    Unknown,
    Inactive(&'a Problem),
    Usable(&'a Good),
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

impl Slot {
    fn new(object: AdmissionCheck, controller: usize, name: &str, author: &Policy) -> Self {
        Self {
            manager: field_manager(name, object.name()).into(),
            object,
            controller,
            policy: Policy::settle(None, author),
            good: None,
            verdict: None,
            tried: None,
            activating: false,
            announcing: false,
            timer: None,
            failures: 0,
            repeats: 0,
            announced: None,
            told: None,
            evictions: VecDeque::new(),
        }
    }

    /// With what Workloads are judged: the last good parameters, also while newer ones are wrong (rule 12).
    pub(super) fn readiness(&self) -> Readiness<'_> {
        match (&self.good, &self.verdict) {
            (Some(good), _) => Readiness::Usable(good),
            (None, Some(Err(problem))) => Readiness::Inactive(problem),
            (None, _) => Readiness::Unknown,
        }
    }

    pub(super) fn evictions_last_hour(&self, now: Timestamp) -> u32 {
        let recent = self
            .evictions
            .iter()
            .filter(|at| now.duration_since(**at) < HOUR);
        u32::try_from(recent.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn evicted(&mut self, now: Timestamp) {
        self.evictions.retain(|at| now.duration_since(*at) < HOUR);
        self.evictions.push_back(now);
    }

    /// What was learnt in this term. Good parameters stay good.
    pub(super) fn forget(&mut self) {
        self.tried = None;
        self.timer = None;
    }
}

impl Session {
    pub(super) fn take_check(&mut self, event: Event<AdmissionCheck>) {
        match event {
            Event::Init => self.listed_checks = Some(BTreeSet::new()),
            Event::InitApply(check) => {
                if let Some(listed) = &mut self.listed_checks {
                    listed.insert(check.name.clone());
                }
                self.apply_check(check);
            }
            Event::InitDone => {
                let listed = self.listed_checks.take().unwrap_or_default();
                let vanished: Vec<Name> = self
                    .slots
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                for name in &vanished {
                    self.remove_check(name);
                }
                self.synced.checks = true;
                self.act_if_ready();
            }
            Event::Apply(check) => self.apply_check(check),
            Event::Delete(check) => self.remove_check(&check.name),
        }
    }

    fn apply_check(&mut self, check: AdmissionCheck) {
        let name = check.name.clone();
        let Some(controller) = self
            .checks
            .iter()
            .position(|ours| ours.controller_name().as_str() == check.controller_name())
        else {
            return self.remove_check(&name);
        };
        match self.slots.get_mut(&name) {
            // One that was deleted and made again under the same name starts afresh.
            Some(slot) if slot.object.uid() == check.uid() && slot.controller == controller => {
                if check.version.is_older_than(&slot.object.version) {
                    return;
                }
                slot.object = check;
            }
            known => {
                let replaced = known.is_some();
                let controller_name = self.checks[controller].controller_name();
                let slot = Slot::new(
                    check,
                    controller,
                    controller_name.as_str(),
                    &self.checks[controller].policy(),
                );
                self.slots.insert(name.clone(), slot);
                tracing::info!(check = &*name, controller = %controller_name, replaced, "an AdmissionCheck is ours");
                self.observe_users(&name);
            }
        }
        self.refresh(&name);
    }

    fn remove_check(&mut self, name: &Name) {
        if self.slots.remove(name).is_none() {
            return;
        }
        tracing::info!(check = &**name, "an AdmissionCheck is no longer ours");
        let labels = CheckLabels {
            check: name.to_string(),
        };
        self.metrics.check_active.remove(&labels);
        self.metrics.pending_workloads.remove(&labels);
        let users: Vec<Uid> = self
            .keys()
            .filter(|(key, _)| key.check == *name)
            .map(|(key, _)| key.uid)
            .collect();
        for uid in users {
            self.end_reservation(&uid, name, Some(ReleaseReason::CheckRemoved), false);
            self.tidy(&uid);
        }
    }

    /// Workloads may have been seen before the AdmissionCheck that makes them ours.
    fn observe_users(&mut self, name: &Name) {
        let users: Vec<Workload> = self
            .workloads
            .values()
            .filter_map(|tracked| tracked.workload.clone())
            .filter(|workload| workload.check(name).is_some())
            .collect();
        for workload in users {
            self.observe_again(&workload, name);
        }
    }

    pub(super) fn take_parameters(&mut self, kind: usize, event: Event<StoredParameters>) {
        let settled = !matches!(event, Event::Init | Event::InitApply(_));
        self.shelves[kind].1.take(event);
        if settled {
            self.refresh_all();
        }
    }

    pub(super) fn parameters_failed(&mut self, kind: usize, failure: Failure) {
        self.shelves[kind].1.failed(failure);
        self.refresh_all();
    }
}
