//! AdmissionChecks that are ours: their parameters, and their condition `Active`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::jobs::{self, NotActivated, Tried};
use super::session::{Session, Timer};
use super::tracked::Key;
use super::workloads::is_undecided;
use crate::api::{AdmissionCheck, Name, Uid, Workload};
use crate::check::{Message, Policy, Read, ReleaseReason, Settled};
use crate::runtime::activation::{Resolved, condition, resolve};
use crate::runtime::intake::{Failure, StoredParameters};
use crate::runtime::metrics::CheckLabels;
use crate::runtime::queue::Lane;
use crate::runtime::writer::{WriteError, field_manager};

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
    tried: Option<Tried>,
    /// Whether an activation or an announcement is at work.
    activating: bool,
    announcing: bool,
    timer: Option<Instant>,
    failures: u32,
    /// How often in a row the same condition had to be written.
    repeats: u32,
    announced: Option<(String, Message)>,
    /// The status about which an event was last sent.
    told: Option<String>,
    /// When it stopped running jobs.
    evictions: VecDeque<Timestamp>,
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

/// What a look at a Workload finds.
pub(super) enum Readiness<'a> {
    Unknown,
    Inactive(Message),
    Usable(&'a Good),
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How often the same condition may be written in a row before it is written more slowly: somebody else writes it too.
const REPEATS_AT_ONCE: u32 = 3;

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
            (None, Some(Err(problem))) => Readiness::Inactive(Message::new(format!(
                "the admission check is not active: {}",
                problem.message
            ))),
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
        self.metrics.check_active.remove(&CheckLabels {
            check: name.to_string(),
        });
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

    pub(super) fn refresh_all(&mut self) {
        let names: Vec<Name> = self.slots.keys().cloned().collect();
        for name in &names {
            self.refresh(name);
        }
    }

    /// Looks whether the AdmissionCheck can be answered as it is now.
    fn refresh(&mut self, name: &Name) {
        if !self.acting {
            return;
        }
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        let check = &self.checks[slot.controller];
        let kinds = check.parameters();
        let shelf = kinds
            .kind
            .as_ref()
            .and_then(|kind| self.shelves.iter().find(|(known, _)| known == kind))
            .map(|(_, shelf)| shelf);
        match resolve(&slot.object, &kinds, shelf) {
            Resolved::Unknown => {}
            Resolved::Bad { reason, message } => {
                slot.tried = None;
                self.judged(
                    name,
                    Err(Problem {
                        reason: reason.to_owned(),
                        message,
                    }),
                );
            }
            Resolved::Good {
                read,
                version,
                generation,
            } => {
                let tried = Tried {
                    uid: slot.object.uid().clone(),
                    generation: slot.object.generation(),
                    parameters_version: version,
                };
                if slot.tried.as_ref() == Some(&tried) {
                    return self.announce(name);
                }
                if !slot.activating {
                    slot.activating = true;
                    let limit = check.timeout().unwrap_or(self.settings.timeout);
                    let job = jobs::activate(
                        slot.object.clone(),
                        check.clone(),
                        Good { read, generation },
                        tried,
                        limit,
                    );
                    self.jobs.spawn(job);
                }
            }
        }
    }

    pub(super) fn activated(
        &mut self,
        name: &Name,
        tried: Tried,
        good: Good,
        result: Result<(), NotActivated>,
    ) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.activating = false;
        if slot.object.uid() != &tried.uid {
            return self.refresh(name);
        }
        slot.tried = Some(tried);
        let retry = match &result {
            Ok(()) => None,
            Err(NotActivated::Inactive(inactive)) => Some(inactive.recheck_in),
            Err(NotActivated::NoAnswer(_)) => {
                Some(self.backoff.delay(slot.failures.saturating_add(1), 0))
            }
        };
        slot.failures = if matches!(result, Err(NotActivated::NoAnswer(_))) {
            slot.failures.saturating_add(1)
        } else {
            0
        };
        match result {
            Ok(()) => {
                slot.policy = Policy::settle(
                    good.read.policy.as_ref(),
                    &self.checks[slot.controller].policy(),
                );
                slot.good = Some(good);
                self.judged(name, Ok(()));
                self.look_at_all(name);
            }
            Err(NotActivated::Inactive(inactive)) => {
                self.judged(
                    name,
                    Err(Problem {
                        reason: inactive.reason,
                        message: inactive.message,
                    }),
                );
            }
            // A fault of the author's code says nothing about the parameters: what was known stands.
            Err(NotActivated::NoAnswer(none)) => {
                tracing::warn!(check = &**name, error = %none, "an activation failed and is tried again");
                if slot.good.is_none() {
                    let message = Message::new(format!(
                        "activating the check failed and is tried again: {none}"
                    ));
                    self.judged(
                        name,
                        Err(Problem {
                            reason: "ActivationFailed".to_owned(),
                            message,
                        }),
                    );
                }
            }
        }
        self.set_activation_timer(name, retry);
        self.refresh(name);
    }

    /// It is known whether the AdmissionCheck can be answered.
    fn judged(&mut self, name: &Name, verdict: Result<(), Problem>) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        let changed = slot.verdict.as_ref() != Some(&verdict);
        let unusable = verdict.is_err() && slot.good.is_none();
        self.metrics
            .check_active
            .get_or_create(&CheckLabels {
                check: name.to_string(),
            })
            .set(verdict.is_ok().into());
        slot.verdict = Some(verdict);
        if changed && unusable {
            self.look_at_all(name);
        }
        self.announce(name);
    }

    /// An author's `check` says that the parameters make no sense. That stands until they, or the AdmissionCheck, are changed.
    pub(super) fn reject_parameters(&mut self, name: &Name, message: Message) {
        let known = self.slots.get(name).and_then(|slot| slot.verdict.clone());
        if known.is_some_and(|verdict| verdict.is_ok()) {
            self.judged(
                name,
                Err(Problem {
                    reason: "ParametersRejected".to_owned(),
                    message,
                }),
            );
        }
    }

    /// Every Workload of the check is looked at again.
    fn look_at_all(&mut self, name: &Name) {
        let users = self.workloads.iter().filter_map(|(uid, tracked)| {
            let (workload, key) = (tracked.workload.as_ref()?, tracked.key(name)?);
            key.reservation?;
            let lane = key.lane(is_undecided(workload, name));
            Some((
                Key {
                    uid: uid.clone(),
                    check: name.clone(),
                },
                lane,
            ))
        });
        let users: Vec<(Key, Lane)> = users.collect();
        for (key, lane) in users {
            self.enqueue(&key, lane);
        }
    }

    /// Writes the condition `Active`, if another one stands there.
    fn announce(&mut self, name: &Name) {
        let now = self.settings.clock.now();
        if !self.acting {
            return;
        }
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        let Some(verdict) = &slot.verdict else { return };
        if slot.announcing || (slot.timer.is_some() && slot.repeats > REPEATS_AT_ONCE) {
            return;
        }
        let problem = verdict
            .as_ref()
            .err()
            .map(|problem| (problem.reason.as_str(), &problem.message));
        let Some(patch) = condition(&slot.object, problem, now) else {
            return;
        };
        let said = (patch.reason.clone(), patch.message.clone());
        slot.repeats = if slot.announced.as_ref() == Some(&said) {
            slot.repeats.saturating_add(1)
        } else {
            0
        };
        slot.announced = Some(said);
        slot.announcing = true;
        let (object, manager) = (slot.object.clone(), Arc::clone(&slot.manager));
        self.jobs.spawn(jobs::announce(
            object,
            manager,
            patch,
            Arc::clone(&self.writer),
        ));
    }

    pub(super) fn announced(&mut self, name: &Name, result: Result<AdmissionCheck, WriteError>) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.announcing = false;
        let delay = match result {
            Ok(object) => {
                slot.failures = 0;
                if !object.version.is_older_than(&slot.object.version) {
                    slot.object = object;
                }
                let active = slot.object.active.clone();
                let status = active.as_ref().map(|active| active.status.clone());
                if slot.told != status
                    && let Some(active) = active
                {
                    slot.told = status;
                    self.tell_activation(name, &active);
                }
                let repeats = self.slots.get(name).map_or(0, |slot| slot.repeats);
                (repeats > REPEATS_AT_ONCE)
                    .then(|| self.backoff.delay(repeats - REPEATS_AT_ONCE, 0))
            }
            Err(WriteError::NotLeader | WriteError::Gone) => None,
            Err(error) => {
                slot.failures = slot.failures.saturating_add(1);
                slot.announced = None;
                tracing::warn!(check = &**name, %error, "the condition Active could not be written and is tried again");
                Some(self.backoff.delay(slot.failures, 0))
            }
        };
        match delay {
            Some(delay) => self.set_activation_timer(name, Some(delay)),
            None => self.announce(name),
        }
    }

    fn set_activation_timer(&mut self, name: &Name, delay: Option<Duration>) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        if let Some(at) = slot.timer.take() {
            self.timers.remove(&(at, Timer::Activate(name.clone())));
        }
        slot.timer = delay.and_then(|delay| Instant::now().checked_add(delay));
        if let Some(at) = slot.timer {
            self.timers.insert((at, Timer::Activate(name.clone())));
        }
    }

    /// An inactive AdmissionCheck, or a failed activation, is tried again.
    pub(super) fn activation_due(&mut self, name: &Name) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.timer = None;
        if !matches!(slot.verdict, Some(Ok(()))) || slot.failures > 0 {
            slot.tried = None;
        }
        self.refresh(name);
    }
}
