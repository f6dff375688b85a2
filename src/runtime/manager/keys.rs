//! What waits to be looked at: lines and timers.

use tokio::time::Instant;

use super::session::{Session, Timer};
use super::tracked::{Key, KeyState, Tracked};
use crate::api::Uid;
use crate::check::{Reservation, Wake};
use crate::runtime::queue::Lane;

/// How soon a wake-up may follow the last look: a source that wakes everything ten times a second must not ask everything ten times a second.
const WAKE_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.uid, self.check)
    }
}

impl Session {
    /// Looks again at what `wake` names.
    pub(super) fn wake(&mut self, controller: usize, wake: &Wake) {
        if !self.acting {
            return;
        }
        if *wake == Wake::Outstanding {
            return self.ask_outstanding(controller);
        }
        let named = |uid: &Uid, tracked: &Tracked, key: &KeyState| match wake {
            Wake::Everything => true,
            Wake::AdmissionCheck(check) => *key.check == **check,
            Wake::Uid(wanted) => uid == wanted,
            Wake::Workload { namespace, name } => {
                tracked.workload.as_ref().is_some_and(|workload| {
                    workload.name() == name && workload.namespace() == namespace
                })
            }
            Wake::Outstanding | Wake::Nothing => false,
        };
        let candidates: Box<dyn Iterator<Item = (&Uid, &Tracked)>> = match wake {
            Wake::Uid(uid) => Box::new(self.workloads.get_key_value(uid).into_iter()),
            _ => Box::new(self.workloads.iter()),
        };
        let woken: Vec<Key> = candidates
            .flat_map(|(uid, tracked)| tracked.keys.iter().map(move |key| (uid, tracked, key)))
            .filter(|(uid, tracked, key)| {
                key.controller == controller
                    && key.reservation.is_some()
                    && named(uid, tracked, key)
            })
            .map(|(uid, _, key)| Key {
                uid: uid.clone(),
                check: key.check.clone(),
            })
            .collect();
        for name in woken {
            self.enqueue_again(&name);
        }
    }

    /// Puts `name` in line for another look, but not sooner than a pause after the last.
    pub(super) fn enqueue_again(&mut self, name: &Key) {
        let Some(key) = self.key_mut(name) else {
            return;
        };
        if key.busy {
            key.again = Some(key.again.unwrap_or(Lane::Recheck));
            return;
        }
        let since_last = key
            .asked_at
            .map(|at| at.elapsed())
            .filter(|passed| *passed < WAKE_PAUSE);
        match since_last {
            Some(passed) => self.set_timer_at_most(name, WAKE_PAUSE.saturating_sub(passed)),
            None => self.enqueue(name, Lane::Recheck),
        }
    }

    pub(super) fn timer_fired(&mut self, name: &Key) {
        let Some(key) = self.key_mut(name) else {
            return;
        };
        key.timer = None;
        let lane = if key.owed.is_some() {
            Lane::Release
        } else {
            Lane::Recheck
        };
        self.enqueue(name, lane);
    }

    /// Puts `name` in line for a look.
    pub(super) fn enqueue(&mut self, name: &Key, lane: Lane) {
        if !self.acting {
            return;
        }
        let Some(tracked) = self.workloads.get_mut(&name.uid) else {
            return;
        };
        let cluster_queue = tracked
            .workload
            .as_ref()
            .and_then(|workload| workload.shared_cluster_queue().cloned())
            .unwrap_or_default();
        let Some(key) = tracked.key_mut(&name.check) else {
            return;
        };
        if key.busy {
            key.again = Some(key.again.map_or(lane, |again| again.min(lane)));
            return;
        }
        if let Some(at) = key.timer.take() {
            self.timers.remove(&(at, Timer::Look(name.clone())));
        }
        self.queue
            .push(name.clone(), lane, &cluster_queue, Instant::now());
    }

    /// Looks at `name` after `delay`, instead of whenever it was to be; `None`: not at all.
    pub(super) fn set_timer(&mut self, name: &Key, delay: Option<std::time::Duration>) {
        let Some(key) = self
            .workloads
            .get_mut(&name.uid)
            .and_then(|tracked| tracked.key_mut(&name.check))
        else {
            return;
        };
        if let Some(at) = key.timer.take() {
            self.timers.remove(&(at, Timer::Look(name.clone())));
        }
        // An instant beyond the clock's range is never.
        key.timer = delay.and_then(|delay| Instant::now().checked_add(delay));
        if let Some(at) = key.timer {
            self.timers.insert((at, Timer::Look(name.clone())));
        }
    }

    fn set_timer_at_most(&mut self, name: &Key, delay: std::time::Duration) {
        let sooner = self
            .key_mut(name)
            .and_then(|key| key.timer)
            .is_none_or(|at| at > Instant::now() + delay);
        if sooner {
            self.set_timer(name, Some(delay));
        }
    }

    pub(super) fn key_mut(&mut self, name: &Key) -> Option<&mut KeyState> {
        self.workloads.get_mut(&name.uid)?.key_mut(&name.check)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = (Key, &KeyState)> {
        self.workloads.iter().flat_map(|(uid, tracked)| {
            tracked.keys.iter().map(|key| {
                (
                    Key {
                        uid: uid.clone(),
                        check: key.check.clone(),
                    },
                    key,
                )
            })
        })
    }

    /// Forgets what nothing depends on any more.
    pub(super) fn tidy(&mut self, uid: &Uid) {
        let Some(tracked) = self.workloads.get_mut(uid) else {
            return;
        };
        tracked.keys.retain(|key| !key.is_idle());
        tracked.keys.shrink_to_fit();
        if tracked.workload.is_none() && tracked.keys.is_empty() {
            self.workloads.remove(uid);
        }
    }

    /// The reservation that `name` is deciding about.
    pub(super) fn reservation(&self, name: &Key) -> Option<Reservation> {
        let workload = self.workloads.get(&name.uid)?.workload.as_ref()?;
        Reservation::of(workload, &name.check)
    }
}
