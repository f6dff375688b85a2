//! A check on trial: a cluster with Kueue and the check, in virtual time.
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
//! let trial = Simulation::new(|| noon).starting_at("2026-11-21T09:00:00Z");
//! trial.every_single_fault(async |cluster| {
//!     cluster.submit(Job::new("small"));
//!     cluster.submit(Job::new("large").pods(64));
//!     cluster.expect_admitted("small").await;
//!     cluster.expect_message("large", "start at noon").await;
//!     cluster.advance_to("2026-11-21T12:00:00Z").await;
//!     cluster.expect_admitted("large").await;
//! });
//! ```
//!
//! Time passes only while everybody waits, so hours take milliseconds. An expectation waits for at most ten virtual minutes; a failure shows the timeline up
//! to it.

mod cluster;
mod expect;
mod failure;
mod job;
mod objects;
mod observed;
mod replica;

use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::{AdmissionCheckController, Check, Clock, Parameters as _};
use serde::Serialize;
use serde_json::Value;

use crate::apiserver::ApiServer;
use crate::explore::{Explored, Plan, Run, explore};
use crate::kueue::{Kueue, KueueVersion, Webhook};

pub use cluster::Cluster;
pub use failure::Failure;
pub use job::Job;
pub(crate) use objects::{CHECK, QUEUE};
pub use observed::{Answer, Answers};

/// How a check is tried.
#[must_use]
pub struct Simulation {
    pub(crate) make: Arc<dyn Fn(&Answers) -> Check + Send + Sync>,
    pub(crate) controller: String,
    pub(crate) start: Timestamp,
    pub(crate) seed: u64,
    pub(crate) replicas: usize,
    pub(crate) version: KueueVersion,
    pub(crate) quota: u32,
    pub(crate) objects: Vec<Value>,
    pub(crate) parameters: Option<Value>,
}

impl Simulation {
    /// A trial of what `make` makes: it is called again after each crash, because a crash loses what was in memory.
    ///
    /// The cluster has one ClusterQueue of 100 CPUs, which asks the check for each Workload, and a LocalQueue for it in the Namespace `default`.
    pub fn new<C: AdmissionCheckController>(make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        let controller = make().controller_name().to_string();
        Self {
            make: Arc::new(move |answers| Check::new(answers.around(make()))),
            controller,
            start: Timestamp::UNIX_EPOCH,
            seed: 0,
            replicas: 1,
            version: KueueVersion::default(),
            quota: 100,
            objects: C::Parameters::custom_resource_definition()
                .and_then(|definition| serde_json::to_value(definition).ok())
                .into_iter()
                .collect(),
            parameters: None,
        }
        .starting_at("2026-11-21T09:00:00Z")
    }

    /// When it begins. Default: `2026-11-21T09:00:00Z`.
    ///
    /// # Panics
    /// If `start` is no RFC 3339 time.
    pub fn starting_at(mut self, start: &str) -> Self {
        self.start = failure::time(start);
        self
    }

    /// The parameters that the AdmissionCheck refers to.
    ///
    /// # Panics
    /// If `object` can't be written as JSON.
    pub fn parameters(mut self, object: &impl Serialize) -> Self {
        self.parameters = Some(failure::json(object));
        self
    }

    /// Something else that is there from the beginning, such as another ClusterQueue.
    ///
    /// # Panics
    /// If `object` can't be written as JSON.
    pub fn object(mut self, object: &impl Serialize) -> Self {
        self.objects.push(failure::json(object));
        self
    }

    /// The CPUs of the ClusterQueue. Default: 100.
    pub fn quota(mut self, cpus: u32) -> Self {
        self.quota = cpus;
        self
    }

    /// How many replicas of the check there are. Default: 1. With more, one acts.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Which Kueue. Default: 0.19.2.
    pub fn kueue(mut self, version: KueueVersion) -> Self {
        self.version = version;
        self
    }

    /// Where random numbers begin. The same seed gives the same history.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs `scenario` once.
    ///
    /// # Panics
    /// If an expectation fails or an invariant is broken, with the timeline.
    pub fn run(&self, scenario: impl AsyncFn(&Cluster)) -> Run {
        let run = self.run_with(&scenario, &Plan::none());
        run.or_panic();
        run
    }

    /// Runs `scenario` without a fault, and then once with each single fault at each point.
    ///
    /// # Panics
    /// If an expectation fails or an invariant is broken, with the fault and the timeline.
    pub fn every_single_fault(&self, scenario: impl AsyncFn(&Cluster)) -> Explored {
        let explored = explore(self, &scenario);
        explored.or_panic();
        explored
    }

    /// Runs `scenario` once with the faults of `plan`.
    pub fn run_with(&self, scenario: &impl AsyncFn(&Cluster), plan: &Plan) -> Run {
        let runtime = failure::runtime();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                let cluster = self.start(plan);
                let failed = failure::caught(scenario(&cluster)).await;
                cluster.finish(failed).await
            })
        }));
        caught.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn start(&self, plan: &Plan) -> Cluster {
        let clock = Clock::following_tokio(self.start);
        let server = ApiServer::prepared(clock.clone(), crate::definitions::kueue());
        server.collect_garbage(true);
        for object in self.all_objects() {
            objects::create(&server, &object);
        }
        server.set_admission(Arc::new(Webhook));
        let kueue = Kueue::new(&server, &clock, self.version);
        tokio::spawn(crate::kueue::run(kueue, server.clone(), clock.clone()));
        let jobs = crate::jobs::Jobs::new(&server, &clock);
        tokio::spawn(crate::kueue::run(jobs, server.clone(), clock.clone()));
        Cluster::new(self, server, clock, plan)
    }

    fn all_objects(&self) -> Vec<Value> {
        let mut all = self.objects.clone();
        all.extend(self.parameters.clone());
        all.extend(objects::defaults(&self.controller, self.parameters.as_ref(), self.quota));
        all
    }
}
