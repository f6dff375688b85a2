//! Unreleased reservations, listed by each new leader and on triggers.

use super::cache::Key;
use super::tasks::{InFlight, Leftover, Subject};
use super::{Core, Report, Task, Timer};
use crate::api::Name;
use crate::check::{ReleaseReason, Reservation};
use crate::runtime::evaluate::CallError;

/// The state of one controller's list.
#[derive(Clone, Debug, Default)]
pub(super) struct Unreleased {
    pub(super) in_flight: bool,
    /// List again when the list in flight ends.
    again: bool,
    /// A retry is due.
    retrying: bool,
    failures: u32,
}

impl Core {
    /// Lists the reservations that `controller` has not released: an earlier leader may have died
    /// before it did. One list at a time, whatever triggers it.
    pub(super) fn list_unreleased(&mut self, controller: usize) {
        if !self.leads() {
            return;
        }
        let unreleased = &mut self.work.unreleased[controller];
        if unreleased.in_flight {
            unreleased.again = true;
            return;
        }
        self.work.unreleased[controller].in_flight = true;
        self.start(
            InFlight::Unreleased { controller },
            Task::ListUnreleased { controller },
        );
    }

    pub(super) fn unreleased_due(&mut self, controller: usize) {
        self.work.unreleased[controller].retrying = false;
        self.list_unreleased(controller);
    }

    pub(super) fn unreleased_listed(
        &mut self,
        controller: usize,
        result: Result<Vec<Reservation>, CallError>,
    ) {
        let unreleased = &mut self.work.unreleased[controller];
        unreleased.in_flight = false;
        let again = std::mem::take(&mut unreleased.again);
        match result {
            Ok(reservations) => {
                unreleased.failures = 0;
                for reservation in reservations {
                    self.enqueue_unreleased(controller, reservation);
                }
                if again {
                    self.list_unreleased(controller);
                }
            }
            Err(error) => {
                unreleased.failures = unreleased.failures.saturating_add(1);
                let failures = unreleased.failures;
                let scheduled = std::mem::replace(&mut unreleased.retrying, true);
                self.report(Report::UnreleasedFailed {
                    controller,
                    error: error.to_string(),
                });
                if !scheduled {
                    let at = self.now.instant + self.delay(failures, 0);
                    self.work.timers.insert((at, Timer::Unreleased(controller)));
                }
            }
        }
    }

    /// Releases `reservation`, unless it is current and the same controller decides for it.
    fn enqueue_unreleased(&mut self, controller: usize, reservation: Reservation) {
        let check: Name = reservation.admission_check().into();
        let key = Key::new(reservation.uid(), &check);
        let known = self.checks.get(&check);
        let serves = known.is_some_and(|known| known.controller == controller);
        let is_other = known.is_some_and(|known| known.controller != controller);
        if self.is_elsewhere(&reservation) {
            return;
        }
        let current = self.workloads.key(&key).and_then(|state| state.reservation);
        if serves && current == Some(reservation.since()) {
            return;
        }
        self.workloads
            .entry(&key.uid)
            .key_or_new(&check, controller);
        let subject = Subject {
            reservation,
            controller,
        };
        // An AdmissionCheck that is not cached may be newer than the list.
        let why = is_other.then_some(ReleaseReason::CheckRemoved);
        self.enqueue_cleanup(&key, subject, why, true, Leftover::Nothing);
    }
}
