//! Simulations: a check on a cluster with Kueue, in virtual time.
//!
//! ```
//! use kueue_check::prelude::*;
//! use kueue_check_sim::{Job, Simulation};
//!
//! /// Jobs of more than ten pods wait until noon.
//! #[admission_check(controller = "example.com/noon")]
//! async fn noon(workload: Workload, Now(now): Now) -> Verdict {
//!     let pods: u32 = workload.pod_sets().iter().map(PodSet::count).sum();
//!     let noon = "2026-11-21T12:00:00Z".parse().expect("a time");
//!     if pods <= 10 || now >= noon {
//!         return Verdict::ready("may start");
//!     }
//!     Verdict::pending("large jobs start at noon").recheck_in(now.duration_until(noon).unsigned_abs())
//! }
//!
//! let simulation = Simulation::new(|| noon).starting_at("2026-11-21T09:00:00Z");
//! simulation.run(async |cluster| {
//!     cluster.submit(Job::new("small"));
//!     cluster.submit(Job::new("large").pods(64));
//!     cluster.expect_admitted("small").await;
//!     cluster.expect_message("large", "start at noon").await;
//!     cluster.advance_to("2026-11-21T12:00:00Z").await;
//!     cluster.expect_admitted("large").await;
//! });
//! ```
//!
//! The same scenario with each fault: [`Simulation::run_with_each_fault`].
//!
//! Time passes only while all tasks wait, so hours take milliseconds. An expectation waits for at
//! most 10 virtual minutes; a failure prints the timeline up to it.

mod cluster;
mod expect;
mod external;
pub(crate) mod failure;
mod job;
mod objects;
mod replica;
mod reports;
mod verdict_log;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kueue_check::{AdmissionCheckController, Clock, DynCheck};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::apiserver::{ApiRequest, ApiServer};
use crate::definitions::KueueApi;
use crate::faults::{Fault, FaultPlan};
use crate::kueue::{Actor, KueueVersion};

pub use cluster::Cluster;
pub(crate) use cluster::{current, owner, workloads};
pub use expect::EXPECT_TIMEOUT;
pub use failure::Failure;
pub use job::Job;
pub(crate) use objects::{CHECK, QUEUE};
pub(crate) use replica::LEASE;
pub(crate) use verdict_log::CheckKey;
pub use verdict_log::{AuthorCall, CallKind, RecordedVerdict, VerdictLog};

/// The resources from which a check may be made.
///
/// ```
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
/// # use kueue_check::Verdict;
/// use kueue_check_sim::{Job, Simulation, scenarios::Scripted};
///
/// type Bookings = Arc<AtomicU32>; // in place of a database
///
/// let simulation = Simulation::with_context(|tools| {
///     let bookings: Bookings = tools.external(Bookings::default);
///     Scripted::new(move |_| Ok(Verdict::ready(format!("booking {}", bookings.fetch_add(1, Relaxed)))))
/// });
/// simulation.run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_message("train", "booking 0").await;
///     cluster.crash(0); // the process that takes its place goes on counting
///     cluster.expect("it is booked again", |cluster| cluster.external::<Bookings>().load(Relaxed) == 2).await;
/// });
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct CheckContext {
    /// The replica's own client. Faults of the runtime's requests apply to its requests too.
    pub client: Client,
    /// The clock.
    pub clock: Clock,
    outside: external::ExternalServices,
}

impl CheckContext {
    /// Returns a service outside the cluster, such as a licence server. It is created once for each
    /// run and outlives the check's processes. Its clones must share their state.
    /// [`Cluster::external`] returns it to the scenario.
    pub fn external<T: Clone + Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> T {
        self.outside.get_or(make)
    }
}

impl fmt::Debug for CheckContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckContext")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// The number of points of one kind of request or event at which faults are injected. Later points
/// repeat the earlier ones.
const MAX_POINTS_PER_KIND: usize = 12;

type MakeCheck = Arc<dyn Fn(&CheckContext, &VerdictLog) -> DynCheck + Send + Sync>;
type StartActor = Arc<dyn Fn(&ApiServer, &Clock) -> JoinHandle<()> + Send + Sync>;

/// A check under test.
#[derive(Clone)]
pub(crate) struct CheckUnderTest {
    /// The name of the AdmissionCheck.
    pub(crate) name: String,
    pub(crate) make: MakeCheck,
    pub(crate) parameters: Option<Value>,
}

/// A simulation of a check on a cluster.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use kueue_check_sim::{Job, Simulation};
///
/// let run = Simulation::new(|| open).starting_at("2026-11-21T09:00:00Z").run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// });
/// println!("{}", run.timeline().chart(100));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Simulation {
    pub(crate) checks: Vec<CheckUnderTest>,
    pub(crate) actors: Vec<StartActor>,
    /// How long a running Pod of an elastic Job takes to end; `None` if no node runs Pods.
    pub(crate) grace: Option<Duration>,
    pub(crate) start: Timestamp,
    pub(crate) seed: u64,
    pub(crate) replicas: usize,
    pub(crate) version: KueueVersion,
    pub(crate) api: Option<KueueApi>,
    pub(crate) quota: u32,
    pub(crate) objects: Vec<Value>,
    pub(crate) excluded: Vec<Fault>,
    pub(crate) of_a_kind: usize,
    pub(crate) sample: Option<usize>,
    pub(crate) invariants: Vec<Invariant>,
    pub(crate) alter: Option<fn(&mut ApiRequest)>,
    pub(crate) expect_timeout: Duration,
}

type Holds = Arc<dyn Fn(&Cluster) -> Result<(), String> + Send + Sync>;

/// An invariant for the end of each run, besides those for all checks.
#[derive(Clone)]
pub(crate) struct Invariant {
    pub(crate) name: String,
    pub(crate) holds: Holds,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.checks.iter().map(|check| &check.name).collect();
        f.debug_struct("Simulation")
            .field("checks", &names)
            .field("start", &self.start)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// Returns a simulation of the check that `make` returns. `make` is called again after each
    /// crash, because a crash loses the state in memory.
    ///
    /// The cluster has one ClusterQueue of 100 CPUs, with the AdmissionCheck `check`, and a
    /// LocalQueue for it in each Namespace that has jobs. Both queues are named `queue`. The Pods
    /// of started jobs run at once: see [`Nodes`](crate::jobs::Nodes).
    pub fn new<C: AdmissionCheckController>(make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        Self::with_context(move |_| make())
    }

    /// Returns a simulation as [`new`](Self::new) does, for a check that requires a client or the
    /// time.
    pub fn with_context<C: AdmissionCheckController>(
        make: impl Fn(&CheckContext) -> C + Send + Sync + 'static,
    ) -> Self {
        let simulation = Self {
            checks: Vec::new(),
            actors: Vec::new(),
            grace: Some(Duration::ZERO),
            start: Timestamp::UNIX_EPOCH,
            seed: 0,
            replicas: 1,
            version: KueueVersion::default(),
            api: None,
            quota: 100,
            objects: Vec::new(),
            excluded: Vec::new(),
            of_a_kind: MAX_POINTS_PER_KIND,
            sample: None,
            invariants: Vec::new(),
            alter: None,
            expect_timeout: EXPECT_TIMEOUT,
        };
        simulation
            .and(CHECK, make)
            .starting_at("2026-11-21T09:00:00Z")
    }

    /// Adds a check in the same process, with an AdmissionCheck of this name in the ClusterQueue.
    pub fn and<C: AdmissionCheckController>(
        mut self,
        name: &str,
        make: impl Fn(&CheckContext) -> C + Send + Sync + 'static,
    ) -> Self {
        self.checks.push(CheckUnderTest {
            name: name.to_owned(),
            make: Arc::new(move |tools, log| log.wrap(make(tools))),
            parameters: None,
        });
        self
    }

    /// Sets the start time. Default: `2026-11-21T09:00:00Z`.
    ///
    /// # Panics
    /// If `start` is no RFC 3339 time.
    pub fn starting_at(mut self, start: &str) -> Self {
        self.start = failure::or_panic(|| failure::time(start));
        self
    }

    /// Sets the parameters of the last added check's AdmissionCheck.
    ///
    /// # Panics
    /// If `object` can't be written as JSON.
    pub fn parameters(mut self, object: &impl Serialize) -> Self {
        if let Some(check) = self.checks.last_mut() {
            check.parameters = Some(failure::or_panic(|| failure::json(object)));
        }
        self
    }

    /// Adds an initial object. It replaces a default object of the same kind and name.
    ///
    /// # Panics
    /// If `object` can't be written as JSON.
    pub fn object(mut self, object: &impl Serialize) -> Self {
        self.objects
            .push(failure::or_panic(|| failure::json(object)));
        self
    }

    /// Adds an actor on the cluster, such as a controller that the check waits for. (The autoscaler
    /// has a loop of its own: see [`Autoscaler`](crate::autoscaler::Autoscaler).)
    pub fn actor<A: Actor + Send + Sync + 'static>(
        mut self,
        make: impl Fn(&ApiServer, &Clock) -> A + Send + Sync + 'static,
    ) -> Self {
        self.actors.push(Arc::new(move |server, clock| {
            let actor = make(server, clock);
            tokio::spawn(crate::kueue::run(actor, server.clone(), clock.clone()))
        }));
        self
    }

    /// Sets how long a running Pod of an [elastic](Job::elastic) job takes to end. Default: it ends
    /// at once.
    pub fn termination_grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Removes the nodes: the Pods of started jobs never run. Kueue evicts such a job 30 min after
    /// its admission: see [`WaitForPodsReady`](crate::kueue::WaitForPodsReady).
    pub fn without_nodes(mut self) -> Self {
        self.grace = None;
        self
    }

    /// Sets the CPUs of the ClusterQueue. Default: 100.
    pub fn quota(mut self, cpus: u32) -> Self {
        self.quota = cpus;
        self
    }

    /// Sets the number of replicas of the check. Default: 1. With more, one leads.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas.max(1);
        self
    }

    /// Sets the version of Kueue. Default: 0.19.2.
    pub fn kueue(mut self, version: KueueVersion) -> Self {
        self.version = version;
        self
    }

    /// Sets the versions of Kueue's API that are served at first; [`Cluster::serve`] changes them.
    /// Default: `v1beta2`.
    pub fn kueue_api(mut self, api: KueueApi) -> Self {
        self.api = Some(api);
        self
    }

    /// Sets the seed of random numbers. The same seed gives the same history.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds an invariant for the end of every run. `holds` returns an error that describes the
    /// violation. It is for state that the cluster does not show, such as
    /// [external](CheckContext::external) effects of the check.
    pub fn invariant(
        mut self,
        name: &str,
        holds: impl Fn(&Cluster) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.invariants.push(Invariant {
            name: name.to_owned(),
            holds: Arc::new(holds),
        });
        self
    }

    /// Excludes a fault that the scenario does not survive. State the reason beside the call.
    pub fn exclude_fault(mut self, fault: Fault) -> Self {
        self.excluded.push(fault);
        self
    }

    /// Changes each request of the replicas before it arrives. The request arrives as if the
    /// runtime had sent it so. A test can show that such a bug would be found.
    pub fn altering(mut self, alter: fn(&mut ApiRequest)) -> Self {
        self.alter = Some(alter);
        self
    }

    /// Sets the virtual time for which each expectation waits. Default: [`EXPECT_TIMEOUT`].
    pub fn expect_timeout(mut self, expect_timeout: Duration) -> Self {
        self.expect_timeout = expect_timeout;
        self
    }

    /// Sets the number of points of one kind at which faults are injected. A kind is, for example,
    /// the writes of verdicts. Default: 12. Fewer are enough for a long scenario with many
    /// replicas.
    pub fn points_of_a_kind(mut self, points: usize) -> Self {
        self.of_a_kind = points;
        self
    }

    /// Sets the maximum number of single faults, chosen by the [seed](Self::seed). Default: all.
    /// For [`run_with_each_fault`](Self::run_with_each_fault), `KUEUE_CHECK_SAMPLE=N` in the
    /// environment of a test replaces it.
    ///
    /// ```
    /// # use kueue_check::{Verdict, admission_check};
    /// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
    /// # use kueue_check_sim::{Job, Simulation};
    /// let explored = Simulation::new(|| open).sample(5).explore(async |cluster| {
    ///     cluster.submit(Job::new("train"));
    ///     cluster.expect_admitted("train").await;
    /// });
    /// assert_eq!(explored.runs, 6); // and the one without faults
    /// assert!(explored.not_in_sample > 0, "{explored}");
    /// ```
    pub fn sample(mut self, faults: usize) -> Self {
        self.sample = Some(faults);
        self
    }

    /// Runs `scenario` once in the caller's tokio runtime, whose time must be paused. Returns the
    /// cluster, which runs on. `started` receives the cluster before the scenario begins. An error
    /// is the expectation that failed.
    ///
    /// # Panics
    /// If an initial object is rejected; if two checks have the same controller name.
    ///
    /// ```
    /// # use kueue_check::{Verdict, admission_check};
    /// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use kueue_check_sim::{Job, Simulation};
    ///
    /// let simulation = Simulation::new(|| open);
    /// let (cluster, result) = simulation
    ///     .run_in_place(|_| {}, async |cluster| cluster.submit(Job::new("train")))
    ///     .await;
    /// assert_eq!(result, Ok(()));
    /// cluster.expect_admitted("train").await;
    /// # }
    /// ```
    pub async fn run_in_place(
        &self,
        started: impl FnOnce(&Cluster),
        scenario: impl AsyncFn(&Cluster),
    ) -> (Cluster, Result<(), Failure>) {
        let cluster = failure::or_panic(|| Cluster::start(self, &FaultPlan::none()));
        started(&cluster);
        let failed = failure::caught(async {
            cluster.begin().await;
            scenario(&cluster).await;
        })
        .await;
        (cluster, failed.map_or(Ok(()), Err))
    }
}
