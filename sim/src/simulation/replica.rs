//! One process of the check: it starts, and starts again after it has died.

use std::sync::Arc;
use std::time::Duration;

use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime};
use kueue_check::{Check, Clock};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::outside::Outside;
use super::{Answers, Simulation, Tools};
use crate::apiserver::{ApiServer, Call, Patch, Resource, Verb};

/// How long until a process that died is back, as a kubelet does it the first time.
const RESTART: Duration = Duration::from_secs(1);

/// How long the process that is replaced still runs beside the new one.
const OVERLAP: Duration = Duration::from_secs(60);

/// The name of a replica, by which its requests are known.
pub(crate) fn agent(number: usize) -> String {
    format!("check-{number}")
}

/// How a replica is told what becomes of it.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// Its process dies.
    pub(crate) dies: Notify,
    /// Another acts beside it.
    pub(crate) rivalled: Notify,
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
    pub(super) fate: Arc<Fate>,
}

impl Replica {
    /// Runs until the end of the trial. Dying is the loss of all that is in memory: the runtime is dropped where it stands.
    pub(super) fn start(self) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut life = 0;
            loop {
                self.live(&mut life).await;
                sleep(RESTART).await;
                life += 1;
            }
        })
    }

    /// One process, until it dies; or one after the other, with a minute in which there are two.
    async fn live(&self, life: &mut u64) {
        let mut process = Box::pin(self.process(*life));
        loop {
            tokio::select! {
                biased;
                () = self.fate.dies.notified() => return,
                () = self.fate.rivalled.notified() => {}
                () = &mut process => return,
            }
            if self.simulation.replicas > 1 {
                self.hand_over();
                continue;
            }
            *life += 1;
            let mut second = Box::pin(self.process(*life));
            tokio::select! {
                biased;
                () = self.fate.dies.notified() => return,
                () = sleep(OVERLAP) => {}
                () = &mut process => {}
                () = &mut second => return,
            }
            process = second;
        }
    }

    /// Makes a replica the holder of the Lease that is not, as if it had found the Lease expired by a wrong clock.
    fn hand_over(&self) {
        let leases = Resource::new("coordination.k8s.io", "v1", "leases");
        let Some(lease) = self.server.object(&leases, NAMESPACE, LEASE) else {
            return;
        };
        let holder = &lease["spec"]["holderIdentity"];
        let other = (0..self.simulation.replicas)
            .map(agent)
            .find(|replica| holder != replica);
        let now = format!("{:.6}", self.clock.now());
        let patch = Call::new(Verb::Patch(Patch::Merge), &leases)
            .namespace(NAMESPACE)
            .name(LEASE)
            .agent("wrong-clock")
            .body(json!({"spec": {"holderIdentity": other, "acquireTime": now, "renewTime": now}}));
        self.server.call(&patch);
    }

    /// The checks, as this replica would make them.
    pub(super) fn checks(&self) -> Vec<Check> {
        let tools = Tools {
            client: self.server.client_as(&agent(self.number)),
            clock: self.clock.clone(),
            outside: self.outside.clone(),
        };
        let tried = self.simulation.checks.iter();
        tried
            .map(|check| (check.make)(&tools, &self.answers))
            .collect()
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
                namespace: NAMESPACE.to_owned(),
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
const NAMESPACE: &str = "default";
