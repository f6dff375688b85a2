//! One process of the check: it starts, and starts again after it has died.

use std::sync::Arc;
use std::time::Duration;

use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime};
use kueue_check::{Check, Clock};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::outside::Outside;
use super::{Answers, Simulation, Tools};
use crate::apiserver::ApiServer;

/// How long until a process that died is back, as a kubelet does it the first time.
const RESTART: Duration = Duration::from_secs(1);

/// The name of a replica, by which its requests are known.
pub(crate) fn agent(number: usize) -> String {
    format!("check-{number}")
}

/// What each process is made of.
#[derive(Clone)]
pub(super) struct Replica {
    pub(super) simulation: Simulation,
    pub(super) number: usize,
    pub(super) server: ApiServer,
    pub(super) clock: Clock,
    pub(super) answers: Answers,
    pub(super) outside: Outside,
    pub(super) dies: Arc<Notify>,
}

impl Replica {
    /// Runs until the end of the trial. Dying is the loss of all that is in memory: the runtime is dropped where it stands.
    pub(super) fn start(self) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut life = 0;
            loop {
                let process = self.process(life);
                tokio::select! {
                    biased;
                    () = self.dies.notified() => {}
                    () = process => {}
                }
                sleep(RESTART).await;
                life += 1;
            }
        })
    }

    /// The checks, as this replica would make them.
    pub(super) fn checks(&self) -> Vec<Check> {
        let tools = Tools {
            client: self.server.client_as(&agent(self.number)),
            clock: self.clock.clone(),
            outside: self.outside.clone(),
        };
        let tried = self.simulation.checks.iter();
        tried.map(|check| (check.make)(&tools, &self.answers)).collect()
    }

    async fn process(&self, life: u64) {
        let name = agent(self.number);
        let seed = self.simulation.seed.wrapping_mul(1009) + self.number as u64 * 101 + life;
        let mut builder = Runtime::builder(self.server.client_as(&name))
            .checks(self.checks())
            .clock(self.clock.clone())
            .instance(&name)
            .seed(seed);
        if self.simulation.replicas > 1 {
            builder = builder.lease(LeaseConfig {
                namespace: "default".to_owned(),
                name: LEASE.to_owned(),
                identity: name,
                times: LeaseTimes::default(),
            });
        }
        match builder.build() {
            Ok(runtime) => {
                if let Err(error) = runtime.run(std::future::pending()).await {
                    tracing::debug!(%error, "the process ended");
                }
            }
            Err(error) => super::failure::fail(error.to_string()),
        }
    }
}

/// The Lease of the replicas.
pub(crate) const LEASE: &str = "check";
