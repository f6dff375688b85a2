//! GKE's queued provisioning. Conditions and their times match GKE's; messages that are not
//! documented are this simulator's own.

use std::time::Duration;

use super::Mode;
use super::attempt::Found;
use super::loop_state::LoopState;
use crate::autoscaler::class::Handling;
use crate::autoscaler::condition::after;
use crate::autoscaler::{ConditionType, Misbehaviour, Request};

/// The maximum number of requests of each kind that a loop handles.
const MOST_WRITES: usize = 10;
const MOST_DELETIONS: usize = 20;
const TEMPLATES_MISSING: Duration = Duration::from_secs(120);

/// The stage of a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    /// Observed, not accepted yet.
    Pending,
    Accepted,
    Provisioned,
    BookingExpired,
    /// Failed or revoked.
    Over,
    /// Contradictory or unsupported conditions: the request is no longer processed.
    Invalid,
}

impl LoopState<'_> {
    pub(super) fn queued(&mut self) {
        let ours = self
            .places()
            .filter(|place| self.handling(*place) == Handling::Queued);
        let mut ours: Vec<_> = ours.collect();
        ours.sort_by_key(|place| self.requests[*place].created);
        self.first_pass(&ours);
        self.serve_queue(&ours);
        self.end(&ours);
    }

    fn at_stage(&self, ours: &[usize], stage: Stage) -> Vec<usize> {
        let at = ours.iter().copied();
        at.filter(|place| Stage::of(&self.requests[*place]) == stage)
            .collect()
    }

    fn first_pass(&mut self, ours: &[usize]) {
        let pending = self.at_stage(ours, Stage::Pending);
        let new = self.at_stage(ours, Stage::New);
        if !new.is_empty() {
            self.examine(self.now + self.settings.scan_interval);
        }
        for place in new.into_iter().take(MOST_WRITES) {
            self.update(
                place,
                ConditionType::Accepted,
                false,
                "NotAccepted",
                "Provisioning Request wasn't accepted.",
            );
        }
        for place in pending {
            self.accept_queued(place);
        }
    }

    fn accept_queued(&mut self, place: usize) {
        let request = &self.requests[place];
        let created = request.created;
        if let Err(missing) = self.snapshot.pods_of(request) {
            return self.miss_templates(place, &missing);
        }
        if let Err(text) = request.seconds("maxRunDurationSeconds") {
            let message = format!("maxRunDurationSeconds must be whole seconds, not \"{text}\".");
            return self.fail(place, "InvalidArgumentMaxRunDurationParseError", &message);
        }
        let fails = self.behaviour(place, |how| match how {
            Misbehaviour::Fails { reason, message } => Some((reason, message)),
            _ => None,
        });
        if let Some((reason, message)) = fails {
            return self.fail(place, reason, message);
        }
        let delay = self.settings.accept_delay;
        if !delay.is_zero() && !self.passed(created, delay) {
            return;
        }
        self.update(
            place,
            ConditionType::Accepted,
            true,
            "SuccessfullyQueued",
            "Provisioning Request was successfully queued.",
        );
    }

    fn miss_templates(&mut self, place: usize, missing: &str) {
        const REASON: &str = "MissingPodTemplates";
        let created = self.requests[place].created;
        if self.passed(created, TEMPLATES_MISSING) {
            return self.fail(place, REASON, missing);
        }
        let accepted = self.requests[place].condition(ConditionType::Accepted);
        if accepted.is_none_or(|accepted| accepted.reason != REASON) {
            self.update(place, ConditionType::Accepted, false, REASON, missing);
        }
    }

    /// Attempts the accepted requests, the oldest first, whenever something changes.
    fn serve_queue(&mut self, ours: &[usize]) {
        let mut writes = 0;
        for place in self.at_stage(ours, Stage::Accepted) {
            if writes == MOST_WRITES {
                self.examine(self.now + self.settings.scan_interval);
                break;
            }
            let stuck = self.behaves(place, |how| matches!(how, Misbehaviour::StuckAccepted));
            if !stuck && self.attempt_is_over(place) {
                writes += usize::from(self.try_queued(place));
            }
        }
    }

    fn attempt_is_over(&mut self, place: usize) -> bool {
        let accepted = self.requests[place].condition(ConditionType::Accepted);
        let Some(since) = accepted.map(|accepted| accepted.since) else {
            return false;
        };
        let due = after(since, self.takes(place));
        self.examine(due);
        due <= self.now
    }

    /// Makes an attempt; returns true if it wrote.
    fn try_queued(&mut self, place: usize) -> bool {
        match self.find(place, Handling::Queued) {
            Found::Fits | Found::NewNodes => {
                let provisioned = self.condition(
                    ConditionType::Provisioned,
                    true,
                    "Provisioned",
                    "Provisioning Request was successfully provisioned.",
                );
                let details = self.details(place);
                self.write(place, Mode::Update, vec![provisioned], details);
            }
            Found::Failed { reason, message } => self.fail(place, &reason, &message),
            Found::Nothing | Found::CannotCheck => return self.keep_waiting(place),
        }
        true
    }

    fn details(&self, place: usize) -> Vec<(String, String)> {
        let name = &self.requests[place].key.name;
        let details = self.settings.details.iter();
        details
            .map(|(key, value)| (key.clone(), value.replace("{name}", name)))
            .collect()
    }

    fn keep_waiting(&mut self, place: usize) -> bool {
        let request = &self.requests[place];
        let created = request.created;
        if let Ok(Some(valid)) = request.seconds("ValidUntilSeconds")
            && self.passed(created, valid)
        {
            let message = "Provisioning Request waited longer than its ValidUntilSeconds.";
            self.fail(place, "WaitTimeExceeded", message);
            return true;
        }
        let message = self
            .injected_message(place)
            .unwrap_or("There are no resources in the pool, waiting for them.");
        let message = message.to_owned();
        let last = self.requests[place].condition(ConditionType::Provisioned);
        let changed = last.is_none_or(|last| last.message != message);
        if changed {
            self.update(
                place,
                ConditionType::Provisioned,
                false,
                "ResourcePoolExhausted",
                &message,
            );
        }
        changed
    }

    /// Ends bookings and capacity by timers only: nothing is read from nodes.
    fn end(&mut self, ours: &[usize]) {
        for place in self.at_stage(ours, Stage::Provisioned) {
            let kept = self.behaviour(place, |how| match how {
                Misbehaviour::BookingExpires(after) => Some(*after),
                _ => None,
            });
            let kept = kept.unwrap_or(self.settings.booking_ttl);
            if self.provisioned_longer_than(place, kept) {
                let kind = ConditionType::BookingExpired;
                self.update(
                    place,
                    kind,
                    true,
                    "BookingExpired",
                    "Capacity booking expired.",
                );
            }
        }
        for place in self.at_stage(ours, Stage::BookingExpired) {
            let run = self.requests[place].seconds("maxRunDurationSeconds");
            let run = run.ok().flatten().unwrap_or(self.settings.max_run_duration);
            if self.provisioned_longer_than(place, run) {
                self.revoke(place);
            }
        }
        self.delete_over(ours);
    }

    fn provisioned_longer_than(&mut self, place: usize, time: Duration) -> bool {
        self.provisioned_since(place)
            .is_some_and(|since| self.passed(since, time))
    }

    fn delete_over(&mut self, ours: &[usize]) {
        let Some(ttl) = self.settings.terminal_ttl else {
            return;
        };
        let over = self
            .at_stage(ours, Stage::Over)
            .into_iter()
            .filter(|place| {
                let request = &self.requests[*place];
                let ends = [ConditionType::Failed, ConditionType::CapacityRevoked];
                let since = ends.into_iter().filter_map(|kind| request.condition(kind));
                let since: Vec<_> = since.map(|condition| condition.since).collect();
                since.into_iter().any(|since| self.passed(since, ttl))
            });
        let over: Vec<_> = over.take(MOST_DELETIONS).collect();
        if over.len() == MOST_DELETIONS {
            self.examine(self.now + self.settings.scan_interval);
        }
        for place in over {
            self.delete(place);
        }
    }
}

impl Stage {
    fn of(request: &Request) -> Self {
        use ConditionType::{Accepted, BookingExpired, CapacityRevoked, Failed, Provisioned};
        let is = |kind| request.is(kind);
        let known = [
            Accepted,
            BookingExpired,
            CapacityRevoked,
            Failed,
            Provisioned,
        ]
        .map(ConditionType::as_str);
        let unknown = request
            .conditions
            .iter()
            .any(|condition| !known.contains(&condition.kind.as_str()));
        let all = |kinds: &[ConditionType]| kinds.iter().all(|kind| is(*kind));
        let broken = (is(CapacityRevoked)
            && (is(Failed) || !all(&[Accepted, Provisioned, BookingExpired])))
            || (is(BookingExpired) && !all(&[Accepted, Provisioned]))
            || (is(Failed) && is(Provisioned));
        if unknown || broken {
            Self::Invalid
        } else if is(Failed) || is(CapacityRevoked) {
            Self::Over
        } else if is(BookingExpired) {
            Self::BookingExpired
        } else if is(Provisioned) {
            Self::Provisioned
        } else if is(Accepted) {
            Self::Accepted
        } else if request.condition(Accepted).is_some() {
            Self::Pending
        } else {
            Self::New
        }
    }
}
