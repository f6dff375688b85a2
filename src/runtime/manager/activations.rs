//! Whether AdmissionChecks can be answered, and saying so in their condition `Active`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::checks::{Good, Problem};
use super::jobs::{self, NotActivated, Tried};
use super::session::{Session, Timer};
use super::tracked::Key;
use super::workloads::is_undecided;
use crate::api::{AdmissionCheck, Name};
use crate::check::{Message, Policy};
use crate::runtime::activation::{Resolved, condition, resolve};
use crate::runtime::metrics::CheckLabels;
use crate::runtime::queue::Lane;
use crate::runtime::writer::WriteError;

/// How often the same condition may be written in a row before it is written more slowly: somebody else writes it too.
const REPEATS_AT_ONCE: u32 = 3;

impl Session {
    pub(super) fn refresh_all(&mut self) {
        let names: Vec<Name> = self.slots.keys().cloned().collect();
        for name in &names {
            self.refresh(name);
        }
    }

    /// Looks whether the AdmissionCheck can be answered as it is now.
    pub(super) fn refresh(&mut self, name: &Name) {
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
                revision,
                generation,
            } => {
                let tried = Tried {
                    uid: slot.object.uid().clone(),
                    generation: slot.object.generation(),
                    parameters: revision,
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
        let check = &self.checks[slot.controller];
        if let Err(problem) = &verdict
            && check.without_parameters(&problem.public()).is_some()
        {
            slot.good = None;
        }
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
