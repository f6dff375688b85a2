//! Selection of the requests that a loop accepts.

use std::time::Duration;

use jiff::Timestamp;

use super::Mode;
use super::loop_state::LoopState;
use crate::autoscaler::class::Handling;
use crate::autoscaler::{ConditionType, Misbehaviour, Order};

impl LoopState<'_> {
    /// Accepts the next request, or in batches the next ones; returns true if there was one.
    pub(super) fn pick(&mut self) -> bool {
        let mut left = 1;
        let mut picked = false;
        for place in self.in_order() {
            let handling = self.handling(place);
            let ours = matches!(
                handling,
                Handling::CheckCapacity | Handling::BestEffortAtomic
            );
            if !ours || !self.is_eligible(place) {
                continue;
            }
            // The first request determines the limit: only check-capacity supports batches.
            let batch = self
                .settings
                .batch
                .filter(|_| handling == Handling::CheckCapacity);
            if !picked {
                left = batch.unwrap_or(1).max(1);
            } else if batch.is_none() {
                continue;
            }
            if left == 0 {
                self.examine(self.now + Duration::from_nanos(1));
                break;
            }
            if self.accept(place, batch.is_some()) {
                picked = true;
                left -= 1;
            }
        }
        picked
    }

    fn in_order(&self) -> Vec<usize> {
        let mut places: Vec<_> = self.places().collect();
        match self.settings.order {
            Order::Listed => {}
            Order::Fifo => places.sort_by_key(|place| self.requests[*place].created),
            Order::Random => {
                places.sort_by_key(|place| self.settings.random(&self.requests[*place]));
            }
        }
        places
    }

    fn is_eligible(&mut self, place: usize) -> bool {
        let request = &self.requests[place];
        if request.is(ConditionType::Failed) || request.is(ConditionType::Provisioned) {
            self.state.backoff.remove(&request.uid);
            return false;
        }
        if self.is_stuck(place) || self.state.due.contains_key(&self.requests[place].uid) {
            return false;
        }
        let request = &self.requests[place];
        match request.condition(ConditionType::Provisioned) {
            None => self.is_old_enough(request.created),
            Some(last) if last.status == "False" => {
                let since = last.since;
                self.backoff_is_over(place, since)
            }
            // Unknown is never retried.
            Some(_) => false,
        }
    }

    fn is_stuck(&self, place: usize) -> bool {
        let stuck = self.behaves(place, |how| matches!(how, Misbehaviour::StuckAccepted));
        stuck && self.requests[place].is(ConditionType::Accepted)
    }

    fn is_old_enough(&mut self, created: Timestamp) -> bool {
        let delay = self.settings.accept_delay;
        delay.is_zero() || self.passed(created, delay)
    }

    fn backoff_is_over(&mut self, place: usize, since: Timestamp) -> bool {
        let uid = self.requests[place].uid.clone();
        let backoff = self.state.backoff.get(&uid).copied();
        let backoff = backoff.unwrap_or(self.settings.initial_backoff);
        self.passed(since, backoff)
    }

    /// Writes Accepted, or Failed for a request whose pods cannot be created or that is to fail. A
    /// failed request does not count as picked.
    fn accept(&mut self, place: usize, in_batch: bool) -> bool {
        if let Err(missing) = self.snapshot.pods_of(&self.requests[place]) {
            self.fail(place, "FailedToCreatePods", &missing);
            return false;
        }
        let fails = self.behaviour(place, |how| match how {
            Misbehaviour::Fails { reason, message } => Some((reason, message)),
            _ => None,
        });
        if let Some((reason, message)) = fails {
            self.fail(place, reason, message);
            return false;
        }
        self.double_backoff(place);
        let accepted = self.condition(
            ConditionType::Accepted,
            true,
            "Accepted",
            "ProvisioningRequest is accepted by ClusterAutoscaler",
        );
        if in_batch {
            // Written together with the outcome.
            self.requests[place].set(accepted);
        } else {
            self.write(place, Mode::Update, vec![accepted], Vec::new());
        }
        if !self.is_stuck(place) {
            let due = crate::autoscaler::condition::after(self.now, self.takes(place));
            self.state.due.insert(self.requests[place].uid.clone(), due);
        }
        true
    }

    /// Doubles the wait until the next attempt, from the second attempt on.
    fn double_backoff(&mut self, place: usize) {
        let request = &self.requests[place];
        if request.condition(ConditionType::Provisioned).is_some() {
            let initial = self.settings.initial_backoff;
            let backoff = self
                .state
                .backoff
                .entry(request.uid.clone())
                .or_insert(initial);
            *backoff = (*backoff * 2).min(self.settings.max_backoff);
        }
    }

    /// Returns how long an attempt takes.
    pub(super) fn takes(&self, place: usize) -> Duration {
        let takes = self.behaviour(place, |how| match how {
            Misbehaviour::Takes(time) => Some(*time),
            _ => None,
        });
        takes.unwrap_or_else(|| {
            let delay = self.settings.provision_delay;
            self.settings.delay(delay, &self.requests[place])
        })
    }
}
