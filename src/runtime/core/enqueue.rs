//! Work queues and timers of keys, and triggers of evaluations.

use std::time::Duration;

use tokio::time::Instant;

use super::cache::{Key, TimerPurpose};
use super::{Core, Role, Timer};
use crate::api::Uid;
use crate::check::{Reservation, Trigger};
use crate::runtime::decide::Delay;
use crate::runtime::queue::Lane;

/// Minimum time from an evaluation to the next one that is triggered. A source that triggers
/// everything ten times a second must not evaluate everything that often.
const TRIGGER_PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// Starts tasks, up to the limit on tasks in flight.
    pub(super) fn dispatch(&mut self) {
        if !self.leads() || self.is_paused() || self.work.stopping {
            return;
        }
        self.confirm_waiting();
        while !self.is_paused()
            && let Some((controller, key, lane)) = self.pop()
        {
            self.process(&key);
            let in_flight = self
                .workloads
                .key(&key)
                .is_some_and(|state| state.in_flight);
            if lane == Lane::Restore && in_flight {
                self.work.restoring.in_flight.insert(key, controller);
            }
        }
        self.start_waiting_checks();
    }

    /// Returns the next key of a controller that may have one more task. While keys are processed,
    /// a key may move from the queue of one controller to that of another.
    fn pop(&mut self) -> Option<(usize, Key, Lane)> {
        (0..self.controllers.len()).find_map(|controller| {
            if self.is_full(controller) {
                return None;
            }
            let last = self.last_lane(controller);
            let (key, lane) = self.work.queues[controller].pop(last)?;
            Some((controller, key, lane))
        })
    }

    /// Returns true if `controller` has as many tasks in flight as it may have.
    pub(super) fn is_full(&self, controller: usize) -> bool {
        self.work.used_concurrency[controller] >= self.work.limits.concurrency
    }

    pub(super) fn is_paused(&self) -> bool {
        self.work
            .paused_until
            .is_some_and(|until| self.now.instant < until)
    }

    /// Starts no tasks for `pause`, as the API server requested.
    pub(super) fn pause(&mut self, pause: Duration) {
        self.work.paused_until = Some(self.now.instant + Delay::pause(pause).get());
    }

    /// Enqueues the keys that `trigger` names.
    pub(super) fn handle_trigger(&mut self, controller: usize, trigger: &Trigger) {
        // A new leader evaluates everything.
        if self.role == Role::Standby {
            return;
        }
        match trigger {
            Trigger::AdmissionCheck(check) => self.update_messages(controller, Some(check)),
            Trigger::AllWorkloads => self.update_messages(controller, None),
            _ => {}
        }
        let named = match trigger {
            Trigger::Workload { namespace, name } => self.workloads.named(namespace, name),
            _ => Vec::new(),
        };
        let of_controller = |key: &Key| {
            self.workloads.key(key).is_some_and(|state| {
                state.controller() == controller && state.reservation.is_some()
            })
        };
        let keys_of = |uid: &Uid| {
            let tracked = self.workloads.get(uid);
            let keys = tracked.iter().flat_map(|tracked| &tracked.keys);
            let keys = keys.map(|state| Key::new(uid, &state.check));
            keys.filter(of_controller).collect::<Vec<_>>()
        };
        let triggered: Vec<Key> = match trigger {
            Trigger::UnreleasedReservations if self.leads() => {
                return self.list_unreleased(controller);
            }
            // A new leader lists unreleased reservations anyway.
            Trigger::Ignore | Trigger::UnreleasedReservations => return,
            Trigger::Uid(uid) => keys_of(uid),
            Trigger::Family(key) => {
                let mut of_job = self.families.members(key);
                if of_job.is_empty() {
                    let present = self.workloads.present().map(|(workload, _)| workload);
                    let only = present.filter(|workload| workload.family_key() == key);
                    of_job.extend(only.map(|workload| workload.uid().clone()));
                }
                of_job.iter().flat_map(keys_of).collect()
            }
            Trigger::Workload { .. } => named.iter().flat_map(keys_of).collect(),
            Trigger::AdmissionCheck(check) => {
                let keys = self.workloads.keys().map(|(key, _)| key);
                keys.filter(|key| *key.check == **check && of_controller(key))
                    .collect()
            }
            Trigger::AllWorkloads => {
                let keys = self.workloads.keys().map(|(key, _)| key);
                keys.filter(of_controller).collect()
            }
        };
        for key in triggered {
            self.enqueue_recheck(&key);
        }
    }

    /// Enqueues `key` for another evaluation, at least [`TRIGGER_PAUSE`] after the last one.
    pub(super) fn enqueue_recheck(&mut self, key: &Key) {
        let tenths = self.tenths();
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        if state.in_flight {
            state.pending_lane = Some(state.pending_lane.unwrap_or(Lane::Recheck));
            return;
        }
        let since_last = state
            .evaluated_at
            .zip(tenths)
            .map(|(at, now)| Duration::from_millis(100) * now.get().saturating_sub(at.get()))
            .filter(|passed| *passed < TRIGGER_PAUSE);
        match since_last {
            Some(passed) => self.set_timer_at_most(key, TRIGGER_PAUSE.saturating_sub(passed)),
            None => self.enqueue(key, Lane::Recheck),
        }
    }

    pub(super) fn timer_fired(&mut self, key: &Key) {
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        state.timer = None;
        let lane = if self.cleanups.blocks(key) {
            Lane::Release
        } else {
            Lane::Recheck
        };
        self.enqueue(key, lane);
    }

    /// Enqueues `key` for the controller against which its next task counts. While this replica
    /// does not lead, marks it for a later evaluation.
    pub(super) fn enqueue(&mut self, key: &Key, lane: Lane) {
        if !self.leads() {
            // With a timer it would be evaluated only when that fires, maybe much later.
            self.set_timer(key, None);
            if let Some(state) = self.workloads.key_mut(key) {
                state.expected = None;
            }
            return;
        }
        let cleans = self.cleanups.controller(key);
        let Some(tracked) = self.workloads.get_mut(&key.uid) else {
            return;
        };
        let cluster_queue = tracked
            .workload()
            .and_then(|workload| workload.shared_cluster_queue().cloned())
            .unwrap_or_default();
        let Some(state) = tracked.key_mut(&key.check) else {
            return;
        };
        if state.in_flight {
            state.pending_lane = Some(state.pending_lane.map_or(lane, |again| again.min(lane)));
            return;
        }
        let controller = cleans.unwrap_or(state.controller());
        let before = state.timer.take();
        self.replace_timer(before, None, Timer::Key(key.clone()));
        for (number, queue) in self.work.queues.iter_mut().enumerate() {
            if number == controller {
                queue.push(key.clone(), lane, &cluster_queue, self.now.instant);
            } else {
                queue.remove(key);
            }
        }
    }

    /// Removes `key` from its queue.
    pub(super) fn dequeue(&mut self, key: &Key) {
        for queue in &mut self.work.queues {
            queue.remove(key);
        }
    }

    /// Sets the timer of `key` to `delay` from now, in place of any earlier one; `None` removes it.
    pub(super) fn set_timer(&mut self, key: &Key, delay: Option<Duration>) {
        let now = self.now.instant;
        let Some(state) = self.workloads.key_mut(key) else {
            return;
        };
        // A delay beyond the clock's range sets no timer.
        let after = delay.and_then(|delay| now.checked_add(delay));
        let before = std::mem::replace(&mut state.timer, after);
        state.purpose = TimerPurpose::Work;
        self.replace_timer(before, after, Timer::Key(key.clone()));
    }

    pub(super) fn replace_timer(
        &mut self,
        before: Option<Instant>,
        after: Option<Instant>,
        timer: Timer,
    ) {
        if let Some(before) = before {
            self.work.timers.remove(&(before, timer.clone()));
        }
        if let Some(after) = after {
            self.work.timers.insert((after, timer));
        }
    }

    pub(super) fn set_timer_at_most(&mut self, key: &Key, delay: Duration) {
        let limit = self.now.instant + delay;
        let known = self.workloads.key(key).and_then(|state| state.timer);
        if known.is_none_or(|at| at > limit) {
            self.set_timer(key, Some(delay));
        }
    }

    /// Handles the end of a task of `key`: enqueues the work that came up meanwhile.
    pub(super) fn finish_without_write(&mut self, key: &Key) {
        self.work.restoring.in_flight.remove(key);
        let again = match self.workloads.key_mut(key) {
            Some(state) if !state.in_flight => state.pending_lane.take(),
            _ => return self.remove_idle(key),
        };
        match again {
            None => {}
            Some(Lane::Recheck) => self.enqueue_recheck(key),
            Some(lane) => self.enqueue(key, lane),
        }
        let waits = self
            .workloads
            .key(key)
            .is_some_and(|state| state.timer.is_none());
        if waits && self.cleanups.blocks(key) {
            self.enqueue(key, Lane::Release);
        }
        if let Some(workload) = self.workloads.workload(&key.uid).cloned() {
            self.reconcile_check(&workload, None, &key.check);
        }
        self.remove_idle(key);
    }

    pub(super) fn remove_idle(&mut self, key: &Key) {
        self.remove_idle_workload(&key.uid);
    }

    pub(super) fn remove_idle_workload(&mut self, uid: &Uid) {
        let cleanups = &self.cleanups;
        let read = self.is_confirmed(uid);
        self.workloads
            .remove_idle(uid, |key| cleanups.blocks(key), read);
    }

    /// Returns the reservation for which `key` is decided.
    pub(super) fn reservation(&self, key: &Key) -> Option<Reservation> {
        Reservation::of(self.workloads.workload(&key.uid)?, &key.check)
    }
}
