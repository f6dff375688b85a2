//! What an author says was started and not released: asked once by each new leader.

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::jobs;
use super::session::{Session, Timer};
use super::tracked::Key;
use crate::api::Name;
use crate::check::{ReleaseReason, Reservation};
use crate::runtime::evaluate::NoAnswer;
use crate::runtime::metrics::CheckLabels;

impl Session {
    /// Asks `controller` what it has started and not released: a leader before us may have died in between.
    pub(super) fn ask_outstanding(&mut self, controller: usize) {
        if !self.acting {
            return;
        }
        let check = self.checks[controller].clone();
        let limit = check.timeout().unwrap_or(self.settings.timeout);
        self.jobs.spawn(jobs::outstanding(controller, check, limit));
    }

    pub(super) fn outstanding(
        &mut self,
        controller: usize,
        result: Result<Vec<Reservation>, NoAnswer>,
    ) {
        if !self.acting {
            return;
        }
        let reservations = match result {
            Ok(reservations) => reservations,
            Err(none) => {
                tracing::warn!(controller = %self.checks[controller].controller_name(), error = %none, "what is outstanding could not be found out; asked again");
                let at = Instant::now() + self.backoff.delay(1, 0);
                self.timers.insert((at, Timer::Outstanding(controller)));
                return;
            }
        };
        for reservation in reservations {
            self.reclaim(controller, reservation);
        }
    }

    /// Releases `reservation` unless it is the current one.
    fn reclaim(&mut self, controller: usize, reservation: Reservation) {
        let check: Name = reservation.admission_check().into();
        let name = Key {
            uid: reservation.uid().clone(),
            check: check.clone(),
        };
        let current = self.key_mut(&name).and_then(|key| key.reservation);
        if current == Some(reservation.since()) {
            return;
        }
        self.workloads
            .entry(name.uid.clone())
            .or_default()
            .key_or_new(&check, controller);
        let why = if self.slots.contains_key(&check) {
            None
        } else {
            Some(ReleaseReason::CheckRemoved)
        };
        self.owe_for(&name, reservation, why, true, None);
    }

    /// Namespace and name of the Workload, which may be known only from what is owed.
    pub(super) fn last_known(&self, name: &Key) -> Option<(String, String)> {
        let tracked = self.workloads.get(&name.uid)?;
        let of_workload = tracked
            .workload
            .as_ref()
            .map(|workload| (workload.namespace().to_owned(), workload.name().to_owned()));
        of_workload.or_else(|| {
            let owed = tracked.keys.iter().find_map(|key| key.owed.as_ref())?;
            Some((
                owed.reservation.namespace().to_owned(),
                owed.reservation.name().to_owned(),
            ))
        })
    }

    pub(super) fn outstanding_gauge(&self, check: &str) -> Gauge {
        self.metrics
            .releases_outstanding
            .get_or_create(&CheckLabels {
                check: check.to_owned(),
            })
            .clone()
    }
}
