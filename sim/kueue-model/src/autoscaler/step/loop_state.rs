//! The state of a running loop.

use std::time::Duration;

use jiff::Timestamp;

use super::{Action, Mode, Step, Write};
use crate::autoscaler::class::Handling;
use crate::autoscaler::condition::after;
use crate::autoscaler::{
    AutoscalerState, ClusterSnapshot, Condition, ConditionType, Misbehaviour, Request, Settings,
};

/// The state of one running loop. It has its own copy of the requests: like the real autoscaler, it
/// observes its own writes at once.
pub(super) struct LoopState<'a> {
    pub(super) settings: &'a Settings,
    pub(super) snapshot: &'a ClusterSnapshot,
    pub(super) state: &'a mut AutoscalerState,
    pub(super) now: Timestamp,
    pub(super) requests: Vec<Request>,
    writes: Vec<Write>,
    again: Option<Timestamp>,
}

impl<'a> LoopState<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        snapshot: &'a ClusterSnapshot,
        state: &'a mut AutoscalerState,
        now: Timestamp,
    ) -> Self {
        Self {
            settings,
            snapshot,
            state,
            now,
            requests: snapshot.requests.clone(),
            writes: Vec::new(),
            again: None,
        }
    }

    pub(super) fn finish(mut self, picked: bool) -> Step {
        let delay = self.settings.scale_down_delay;
        if let Some(gone) = self.state.nodes.scale_down(delay, self.now) {
            self.examine(gone);
        }
        if !self.writes.is_empty() {
            // Writes may start new timers.
            self.examine(after(self.now, self.settings.scan_interval));
        }
        Step {
            writes: self.writes,
            picked,
            again: self.again,
        }
    }

    pub(super) fn handling(&self, place: usize) -> Handling {
        let request = &self.requests[place];
        if self.behaves(place, |how| matches!(how, Misbehaviour::Unresponsive)) {
            return Handling::Ignored;
        }
        Handling::of(request, self.settings)
    }

    /// Returns the first misbehaviour of a request for which `find` returns a value.
    pub(super) fn behaviour<T>(
        &self,
        place: usize,
        find: impl Fn(&'a Misbehaviour) -> Option<T>,
    ) -> Option<T> {
        let request = &self.requests[place];
        let number = self.state.numbers.get(&request.uid).copied().unwrap_or(0);
        let behaviours = self.settings.behaviours.iter();
        behaviours
            .filter(|(who, _)| who.selects(request, number))
            .find_map(|(_, how)| find(how))
    }

    pub(super) fn behaves(&self, place: usize, is: impl Fn(&Misbehaviour) -> bool) -> bool {
        self.behaviour(place, |how| is(how).then_some(())).is_some()
    }

    /// Schedules a loop at `moment`, if it is in the future.
    pub(super) fn examine(&mut self, moment: Timestamp) {
        if moment > self.now && self.again.is_none_or(|again| moment < again) {
            self.again = Some(moment);
        }
    }

    /// Returns true if more than `time` has passed since `moment`; otherwise schedules a loop for
    /// that time.
    pub(super) fn passed(&mut self, moment: Timestamp, time: Duration) -> bool {
        let end = after(moment, time);
        if end < self.now {
            return true;
        }
        self.examine(after(end, Duration::from_nanos(1)));
        false
    }

    pub(super) fn condition(
        &self,
        kind: ConditionType,
        status: bool,
        reason: &str,
        message: &str,
    ) -> Condition {
        Condition::new(kind, status, reason, message, self.now)
    }

    /// Writes one condition as an update.
    pub(super) fn update(
        &mut self,
        place: usize,
        kind: ConditionType,
        status: bool,
        reason: &str,
        message: &str,
    ) {
        let condition = self.condition(kind, status, reason, message);
        self.write(place, Mode::Update, vec![condition], Vec::new());
    }

    pub(super) fn fail(&mut self, place: usize, reason: &str, message: &str) {
        self.update(place, ConditionType::Failed, true, reason, message);
    }

    pub(super) fn write(
        &mut self,
        place: usize,
        mode: Mode,
        conditions: Vec<Condition>,
        details: Vec<(String, String)>,
    ) {
        let times = if self.behaves(place, |how| matches!(how, Misbehaviour::WritesTwice)) {
            2
        } else {
            1
        };
        for _ in 0..times {
            let only_accepts = conditions
                .iter()
                .all(|condition| condition.kind == "Accepted");
            let conflict = mode == Mode::Update && !only_accepts && self.conflict(place);
            self.writes.push(Write {
                request: self.requests[place].key.clone(),
                action: Action::Write {
                    mode,
                    conditions: conditions.clone(),
                    details: details.clone(),
                    conflict,
                },
            });
        }
        let request = &mut self.requests[place];
        request.details.extend(details);
        for condition in conditions {
            request.set(condition);
        }
    }

    fn conflict(&mut self, place: usize) -> bool {
        let allowed = self.behaviour(place, |how| match how {
            Misbehaviour::Conflicts(times) => Some(*times),
            _ => None,
        });
        let uid = self.requests[place].uid.clone();
        let so_far = self.state.conflicts.entry(uid).or_insert(0);
        let conflict = *so_far < allowed.unwrap_or(0);
        *so_far += u32::from(conflict);
        conflict
    }

    pub(super) fn delete(&mut self, place: usize) {
        self.writes.push(Write {
            request: self.requests[place].key.clone(),
            action: Action::Delete,
        });
    }

    /// Returns true if the capacity of a request was provisioned and the request has neither failed
    /// nor been revoked.
    pub(super) fn is_provisioned(&self, place: usize) -> bool {
        let request = &self.requests[place];
        request.is(ConditionType::Provisioned)
            && !request.is(ConditionType::Failed)
            && !request.is(ConditionType::CapacityRevoked)
    }

    pub(super) fn places(&self) -> std::ops::Range<usize> {
        0..self.requests.len()
    }
}
