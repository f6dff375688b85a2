//! A check with machines outside the cluster, which take time to start and to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters,
    ReleaseOutcome, ReleaseReason, Reservation, Verdict,
};
use tokio::time::{Instant, sleep};

use super::vendor::holds;
use crate::simulation::{Cluster, workloads};

/// A check that starts a machine outside the cluster for each reservation. An evaluation waits
/// until the machine has started. A release stops the machine and returns
/// [`ReleaseOutcome::RetryAfter`] until it has stopped.
///
/// ```
/// use std::time::Duration;
/// use kueue_check_sim::{Job, Simulation, scenarios::Depot};
///
/// let simulation = Simulation::with_context(|tools| tools.external(Depot::default)).invariant("all stopped", Depot::stops_all);
/// simulation.run(async |cluster| {
///     let depot: Depot = cluster.external();
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     cluster.complete("train");
///     cluster.expect("the machine stops", |_| depot.stopping() == 1).await;
///     assert_eq!(depot.running(), 1); // not yet
///     cluster.expect("it has stopped", |_| depot.running() == 0).await;
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Depot {
    starts: Duration,
    stops: Duration,
    lists: bool,
    machines: Arc<Mutex<Machines>>,
}

#[derive(Debug, Default)]
struct Machines {
    /// The running machines, by reservation.
    running: BTreeMap<String, Reservation>,
    /// The stopping machines, and the time when each will have stopped.
    stopping: BTreeMap<String, Instant>,
    /// The stopped machines.
    stopped: BTreeSet<String>,
    /// Reservations for which a machine was started after one had been stopped.
    revived: BTreeSet<String>,
}

impl Default for Depot {
    /// Returns a depot whose machines start in 5 s and stop in 20 s.
    fn default() -> Self {
        Self {
            starts: Duration::from_secs(5),
            stops: Duration::from_secs(20),
            lists: true,
            machines: Arc::default(),
        }
    }
}

impl Depot {
    /// Sets the time that a machine takes to stop.
    #[must_use]
    pub fn stops_in(mut self, stops: Duration) -> Self {
        self.stops = stops;
        self
    }

    /// Returns no unreleased reservations from now on: a machine without a release never stops.
    #[must_use]
    pub fn without_list(mut self) -> Self {
        self.lists = false;
        self
    }

    /// Returns the number of running machines, including those that are stopping.
    pub fn running(&self) -> usize {
        self.machines().running.len()
    }

    /// Returns the number of stopping machines.
    pub fn stopping(&self) -> usize {
        self.machines().stopping.len()
    }

    /// An invariant: no machine runs for an ended reservation. None was started for a reservation
    /// whose machine had been stopped.
    pub fn stops_all(cluster: &Cluster) -> Result<(), String> {
        let depot: Self = cluster.external();
        let machines = depot.machines();
        if let Some(revived) = machines.revived.first() {
            return Err(format!(
                "a machine was started for {revived}, which had been released"
            ));
        }
        let all = cluster.server().objects(&workloads(), "");
        let holding: BTreeSet<(&str, &str)> = all
            .iter()
            .filter_map(holds)
            .map(|(place, _)| place)
            .collect();
        for (key, reservation) in &machines.running {
            let (uid, since) = (
                reservation.uid().to_string(),
                reservation.since().to_string(),
            );
            if !holding.contains(&(uid.as_str(), since.as_str())) {
                return Err(format!("{key} is over and has a machine"));
            }
        }
        Ok(())
    }

    fn machines(&self) -> MutexGuard<'_, Machines> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a machine, and returns when it has started.
    pub(super) async fn start(&self, reservation: &Reservation) {
        {
            let mut machines = self.machines();
            let key = reservation.to_string();
            if machines.stopped.contains(&key) {
                machines.revived.insert(key.clone());
            }
            machines.running.insert(key, reservation.clone());
        }
        sleep(self.starts).await;
    }

    fn stop(&self, reservation: &Reservation) -> ReleaseOutcome {
        let mut machines = self.machines();
        let key = reservation.to_string();
        if !machines.running.contains_key(&key) {
            return ReleaseOutcome::Done;
        }
        let stops = Instant::now() + self.stops;
        let stops = *machines.stopping.entry(key.clone()).or_insert(stops);
        let rest = stops.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            return ReleaseOutcome::RetryAfter(rest);
        }
        machines.stopping.remove(&key);
        machines.running.remove(&key);
        machines.stopped.insert(key);
        ReleaseOutcome::Done
    }
}

impl AdmissionCheckController for Depot {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/depot") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        self.start(request.reservation()).await;
        Ok(Verdict::ready("has a machine"))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        _: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        Ok(self.stop(reservation))
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        if !self.lists {
            return Ok(Vec::new());
        }
        Ok(self.machines().running.values().cloned().collect())
    }
}
