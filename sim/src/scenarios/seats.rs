//! A check with one seat for each job, however many Workloads the job has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, FamilyRole, NoParameters,
    ReleaseOutcome, ReleaseReason, Reservation, Verdict,
};
use tokio::time::Instant;

use super::vendor::holds;
use crate::apiserver::{Change, ChangeVerb};
use crate::simulation::{Cluster, owner, workloads};

/// A check with a fixed number of seats outside the cluster, one for each job. It rejects jobs with
/// more pods than allowed. The seats survive every crash of the check.
///
/// ```
/// use kueue_check_sim::{Job, Simulation, scenarios::Seats};
///
/// let simulation = Simulation::with_context(|tools| tools.external(|| Seats::new(1)));
/// simulation.invariant("a seat is one job's", Seats::are_held).run(async |cluster| {
///     cluster.submit(Job::new("train").pods(2).elastic());
///     cluster.expect("two pods run", |cluster| cluster.running_pods("train") == 2).await;
///     cluster.scale("train", 4); // by another Workload, on the same seat
///     cluster.expect("four pods run", |cluster| cluster.running_pods("train") == 4).await;
///     assert_eq!(cluster.external::<Seats>().taken(), 1);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Seats {
    total: usize,
    most_pods: u32,
    grace: Duration,
    state: Arc<Mutex<SeatState>>,
}

/// The time since which a job has had a seat, and the time until which it had it.
type SeatTime = (Instant, Option<Instant>);

#[derive(Debug, Default)]
struct SeatState {
    /// The reservations for which each job holds a seat, by the key of the family.
    held: BTreeMap<String, BTreeSet<Reservation>>,
    /// The time since which the pods of a stopped job are ending.
    ending: BTreeMap<Reservation, Instant>,
    /// The times in which each job had a seat.
    times: BTreeMap<String, Vec<SeatTime>>,
    /// The maximum number of seats that were taken at once.
    most: usize,
}

impl SeatState {
    fn hold(&mut self, reservation: &Reservation) {
        let key = reservation.family_key().to_string();
        let held = self.held.entry(key.clone()).or_default();
        if held.is_empty() {
            let times = self.times.entry(key).or_default();
            times.push((Instant::now(), None));
        }
        held.insert(reservation.clone());
        self.most = self.most.max(self.held.len());
    }

    fn let_go(&mut self, reservation: &Reservation) {
        let key = reservation.family_key().to_string();
        let Some(held) = self.held.get_mut(&key) else {
            return;
        };
        held.remove(reservation);
        if held.is_empty() {
            self.held.remove(&key);
            let last = self.times.get_mut(&key).and_then(|times| times.last_mut());
            if let Some((_, until)) = last {
                *until = Some(Instant::now());
            }
        }
    }
}

impl Seats {
    /// Returns a check with this number of seats.
    pub fn new(seats: usize) -> Self {
        Self {
            total: seats,
            most_pods: u32::MAX,
            grace: Duration::ZERO,
            state: Arc::default(),
        }
    }

    /// Sets the limit of pods: a job that requests more is rejected.
    #[must_use]
    pub fn at_most(mut self, pods: u32) -> Self {
        self.most_pods = pods;
        self
    }

    /// Sets the maximum time that the pods of a stopped job take to end. They keep its seat until
    /// then. Kueue releases their quota before that.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Returns the number of taken seats.
    pub fn taken(&self) -> usize {
        self.state().held.len()
    }

    /// An invariant: each job had a seat whenever its pods ran. No more seats were taken than
    /// exist. None is taken for a job without a Workload that holds quota and without a running
    /// pod.
    pub fn are_held(cluster: &Cluster) -> Result<(), String> {
        let seats: Self = cluster.external();
        let state = seats.state();
        if state.most > seats.total {
            return Err(format!(
                "{} of {} seats were taken",
                state.most, seats.total
            ));
        }
        let (now, here) = (cluster.now(), Instant::now());
        let moment = |at: Timestamp| {
            let ago = Duration::try_from(now.duration_since(at)).unwrap_or_default();
            here.checked_sub(ago).unwrap_or(here)
        };
        let runs = runs(&cluster.server().history());
        for run in &runs {
            let (from, until) = (moment(run.from), run.until.map(&moment));
            let times = state.times.get(&run.job).map_or(&[][..], Vec::as_slice);
            let covers = |(since, to): &SeatTime| {
                *since <= from + MILLISECOND
                    && to.is_none_or(|to| until.is_some_and(|until| until <= to + MILLISECOND))
            };
            if !times.iter().any(covers) {
                let Run {
                    pod, from, until, ..
                } = run;
                return Err(format!("{pod} ran from {from} to {until:?} without a seat"));
            }
        }
        let all = cluster.server().objects(&workloads(), "");
        let holding: BTreeSet<&str> = all
            .iter()
            .filter_map(holds)
            .map(|((uid, _), _)| uid)
            .collect();
        for (job, reservations) in &state.held {
            let runs = runs
                .iter()
                .any(|run| run.job == *job && run.until.is_none());
            let waits = reservations
                .iter()
                .any(|r| holding.contains(r.uid().to_string().as_str()));
            if !runs && !waits {
                return Err(format!("{job} has a seat, and is over"));
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, SeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// A time in which a pod of a job ran.
struct Run {
    pod: String,
    /// The UID of the job.
    job: String,
    from: Timestamp,
    until: Option<Timestamp>,
}

fn runs(history: &[Arc<Change>]) -> Vec<Run> {
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    for change in history
        .iter()
        .filter(|change| change.resource.plural == "pods")
    {
        let metadata = &change.object["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default();
        let running = change.object["status"]["phase"] == "Running";
        if change.verb == ChangeVerb::Deleted || !running {
            if let Some(run) = runs.get_mut(uid) {
                run.until.get_or_insert(change.at);
            }
        } else if let Some(job) = owner(&change.object)["uid"].as_str() {
            runs.entry(uid.to_owned()).or_insert_with(|| Run {
                pod: metadata["name"].as_str().unwrap_or_default().to_owned(),
                job: job.to_owned(),
                from: change.at,
                until: None,
            });
        }
    }
    runs.into_values().collect()
}

impl AdmissionCheckController for Seats {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/seats") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let pods: u32 = request
            .workload()
            .pod_sets()
            .iter()
            .map(kueue_check::api::PodSet::count)
            .sum();
        if pods > self.most_pods {
            let most = self.most_pods;
            return Ok(Verdict::rejected(format!(
                "{pods} pods are more than {most}"
            )));
        }
        let family = request.family();
        let mut state = self.state();
        let key = family.key().to_string();
        let has_one = state.held.contains_key(&key) || *family.role() == FamilyRole::Growth;
        if has_one || state.held.len() < self.total {
            state.hold(request.reservation());
            return Ok(Verdict::ready("has a seat"));
        }
        let verdict = Verdict::pending("all seats are taken");
        Ok(verdict.recheck_in(Duration::from_secs(30)))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        let mut state = self.state();
        match why {
            // The job continues under another Workload.
            ReleaseReason::Replaced { by, .. } | ReleaseReason::VariantAdmitted { by } => {
                state.hold(&by);
            }
            ReleaseReason::Finished => {}
            _ => {
                let now = Instant::now();
                let since = *state.ending.entry(reservation.clone()).or_insert(now);
                let left = self.grace.saturating_sub(now - since);
                if !left.is_zero() {
                    return Ok(ReleaseOutcome::RetryAfter(left));
                }
            }
        }
        state.ending.remove(reservation);
        state.let_go(reservation);
        Ok(ReleaseOutcome::Done)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        Ok(self.state().held.values().flatten().cloned().collect())
    }
}
