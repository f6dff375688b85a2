//! Injected misbehaviour beyond the outcomes of attempts.

use std::time::Duration;

use jiff::Timestamp;

use super::Mode;
use super::loop_state::LoopState;
use crate::autoscaler::class::Handling;
use crate::autoscaler::condition::after;
use crate::autoscaler::{ConditionType, Misbehaviour};

impl LoopState<'_> {
    pub(super) fn forced(&mut self) {
        for place in self.places() {
            if self.handling(place) == Handling::Ignored {
                continue;
            }
            self.inject_message(place);
            self.flap(place);
            self.revoke_early(place);
            self.delete_early(place);
        }
    }

    /// Returns the injected message that is due for a waiting request.
    pub(super) fn injected_message(&self, place: usize) -> Option<&str> {
        let messages = self.behaviour(place, |how| match how {
            Misbehaviour::Messages(messages) => Some(messages),
            _ => None,
        })?;
        let created = self.requests[place].created;
        let mut past = messages
            .iter()
            .filter(|(time, _)| after(created, *time) <= self.now);
        past.next_back().map(|(_, message)| message.as_str())
    }

    /// Changes the message of Provisioned=False when it is due. That is a write, so it also
    /// restarts the backoff.
    fn inject_message(&mut self, place: usize) {
        let later = self.behaviour(place, |how| match how {
            Misbehaviour::Messages(messages) => Some(messages),
            _ => None,
        });
        let created = self.requests[place].created;
        for (time, _) in later.into_iter().flatten() {
            self.examine(after(created, *time));
        }
        let Some(message) = self.injected_message(place).map(str::to_owned) else {
            return;
        };
        let last = self.requests[place].condition(ConditionType::Provisioned);
        if let Some(last) = last
            && last.status == "False"
            && last.message != message
        {
            let reason = last.reason.clone();
            self.update(place, ConditionType::Provisioned, false, &reason, &message);
        }
    }

    fn flap(&mut self, place: usize) {
        let period = self.behaviour(place, |how| match how {
            Misbehaviour::Flapping(period) => Some(*period),
            _ => None,
        });
        let last = self.requests[place]
            .condition(ConditionType::Provisioned)
            .cloned();
        let (Some(period), Some(last)) = (period, last) else {
            return;
        };
        if self.passed(last.since, period) {
            let (status, reason, message) = if last.is_true() {
                (
                    false,
                    "CapacityIsNotFound",
                    "Capacity is not found, CA will try to find it later.",
                )
            } else {
                (true, "CapacityIsFound", "Capacity is found in the cluster")
            };
            self.update(place, ConditionType::Provisioned, status, reason, message);
        }
    }

    fn revoke_early(&mut self, place: usize) {
        let time = self.behaviour(place, |how| match how {
            Misbehaviour::Revoked(time) => Some(*time),
            _ => None,
        });
        if self.is_time_after_provisioned(place, time) && self.is_provisioned(place) {
            self.revoke(place);
        }
    }

    /// Writes `CapacityRevoked`, and removes the nodes added for the request. The booking ends with
    /// it: a revocation without its end is an invalid state.
    pub(super) fn revoke(&mut self, place: usize) {
        let mut conditions = vec![self.condition(
            ConditionType::CapacityRevoked,
            true,
            "CapacityRevoked",
            "Capacity was revoked: its nodes are deleted.",
        )];
        if !self.requests[place].is(ConditionType::BookingExpired) {
            let kind = ConditionType::BookingExpired;
            let expired = self.condition(kind, true, "BookingExpired", "Capacity booking expired.");
            conditions.insert(0, expired);
        }
        self.write(place, Mode::Update, conditions, Vec::new());
        let uid = self.requests[place].uid.clone();
        self.state.nodes.remove_of(&uid);
    }

    fn delete_early(&mut self, place: usize) {
        let time = self.behaviour(place, |how| match how {
            Misbehaviour::Deleted(time) => Some(*time),
            _ => None,
        });
        if self.is_time_after_provisioned(place, time) {
            self.delete(place);
        }
    }

    fn is_time_after_provisioned(&mut self, place: usize, time: Option<Duration>) -> bool {
        match (time, self.provisioned_since(place)) {
            (Some(time), Some(since)) => self.passed(since, time),
            _ => false,
        }
    }

    /// Returns the time since which Provisioned is True.
    pub(super) fn provisioned_since(&self, place: usize) -> Option<Timestamp> {
        let provisioned = self.requests[place].condition(ConditionType::Provisioned)?;
        provisioned.is_true().then_some(provisioned.since)
    }
}
