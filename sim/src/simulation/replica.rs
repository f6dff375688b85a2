//! A replica of the check: one process, which restarts after it dies.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use jiff::SignedDuration;
use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime};
use kueue_check::{Clock, DynCheck};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::external::ExternalServices;
use super::verdict_log::Process;
use super::{CheckContext, Simulation, VerdictLog};
use crate::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};
use crate::faults::{PAUSE, ReplicaFault};

/// The time until a dead process restarts, as a kubelet restarts it the first time.
const RESTART: Duration = Duration::from_secs(1);

/// The time for which the replaced process runs beside the new one.
const OVERLAP: Duration = Duration::from_secs(60);

/// The time for which another replica holds the Lease that it took by force. The first holder
/// regains it after that.
const DEPOSED_FOR: Duration = Duration::from_secs(120);

/// Returns the name of a replica, which its requests carry.
pub(crate) fn agent(number: usize) -> String {
    format!("check-{number}")
}

/// The parts from which each process is made.
#[derive(Clone)]
pub(super) struct Replica {
    pub(super) simulation: Simulation,
    pub(super) number: usize,
    pub(super) server: ApiServer,
    pub(super) clock: Clock,
    pub(super) verdicts: VerdictLog,
    pub(super) outside: ExternalServices,
    pub(super) fault: Arc<ReplicaFault>,
}

impl Replica {
    /// Runs until the end of the simulation. A crash loses the state in memory: the runtime is
    /// dropped at once.
    pub(super) fn start(self) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut life = 0;
            loop {
                self.live(&mut life).await;
                self.fault.set_handle(None);
                sleep(RESTART).await;
                life += 1;
            }
        })
    }

    /// Runs one process until it dies, or two in succession that overlap for 1 min.
    async fn live(&self, life: &mut u64) {
        let mut process = Box::pin(self.process(*life));
        loop {
            tokio::select! {
                biased;
                () = self.fault.dies.notified() => return,
                () = self.fault.rivalled.notified() => {}
                () = self.fault.deposed.notified() => {
                    self.depose(DEPOSED_FOR);
                    continue;
                }
                // The process is not polled meanwhile.
                () = self.fault.paused.notified() => {
                    sleep(PAUSE).await;
                    continue;
                }
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
                () = self.fault.dies.notified() => return,
                () = sleep(OVERLAP) => {}
                () = &mut process => {}
                () = &mut second => return,
            }
            process = second;
        }
    }

    /// Gives the Lease to a replica that does not hold it. The effect is as if that replica's clock
    /// were wrong and the Lease had expired.
    fn hand_over(&self) {
        let holder = lease_holder(&self.server).unwrap_or_default();
        let mut others = (0..self.simulation.replicas).map(agent);
        if let Some(other) = others.find(|replica| *replica != holder) {
            transfer_lease(&self.server, &self.clock, &other);
        }
    }

    /// Takes the Lease from its holder by force; the holder regains it after `away`.
    fn depose(&self, away: Duration) {
        depose(&self.server, &self.clock, self.simulation.replicas, away);
    }

    /// Returns the checks of this replica.
    pub(super) fn checks(&self, life: u64, clock: &Clock) -> Vec<DynCheck> {
        let tools = CheckContext {
            client: self.server.client_as(&agent(self.number)),
            clock: clock.clone(),
            outside: self.outside.clone(),
        };
        let log = self.verdicts.of(Process {
            agent: agent(self.number),
            life,
        });
        let tried = self.simulation.checks.iter();
        tried.map(|check| (check.make)(&tools, &log)).collect()
    }

    /// Returns the wall clock of the replica, which a fault sets while the process runs.
    fn wall_clock(&self) -> Clock {
        let skew = Arc::clone(&self.fault.skew);
        let offset = move || SignedDuration::from_secs(skew.load(Ordering::Relaxed));
        self.clock.with_offset(offset)
    }

    async fn process(&self, life: u64) {
        let name = agent(self.number);
        let seed = self.simulation.seed.wrapping_mul(1009) + self.number as u64 * 101 + life;
        let clock = self.wall_clock();
        let mut builder = Runtime::builder(self.server.client_as(&name))
            .checks(self.checks(life, &clock))
            .clock(clock)
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
                self.fault.set_handle(Some(runtime.handle()));
                // A panic ends the process, which restarts.
                let run = AssertUnwindSafe(runtime.run(std::future::pending()));
                if let Ok(Err(error)) = run.catch_unwind().await {
                    tracing::debug!(%error, "the process ended");
                }
            }
            Err(error) => super::failure::fail(error.to_string()),
        }
    }
}

/// Returns the replica that holds the Lease.
pub(super) fn lease_holder(server: &ApiServer) -> Option<String> {
    let leases = Resource::new("coordination.k8s.io", "v1", "leases");
    let lease = server.object(&leases, NAMESPACE, LEASE)?;
    let holder = lease["spec"]["holderIdentity"].as_str();
    holder
        .filter(|holder| !holder.is_empty())
        .map(str::to_owned)
}

/// Writes `holder` into the Lease, independent of its holder.
fn transfer_lease(server: &ApiServer, clock: &Clock, holder: &str) {
    let leases = Resource::new("coordination.k8s.io", "v1", "leases");
    let now = format!("{:.6}", clock.now());
    let patch = ApiRequest::new(Verb::Patch(Patch::Merge), &leases)
        .namespace(NAMESPACE)
        .name(LEASE)
        .agent("wrong-clock")
        .body(json!({"spec": {"holderIdentity": holder, "acquireTime": now, "renewTime": now}}));
    server.call(&patch);
}

/// Gives the Lease to another of the replicas by force; after `away` the first holder regains it.
pub(super) fn depose(server: &ApiServer, clock: &Clock, replicas: usize, away: Duration) {
    let Some(holder) = lease_holder(server) else {
        return;
    };
    let Some(other) = (0..replicas).map(agent).find(|other| *other != holder) else {
        return;
    };
    transfer_lease(server, clock, &other);
    let (server, clock) = (server.clone(), clock.clone());
    tokio::spawn(async move {
        sleep(away).await;
        transfer_lease(&server, &clock, &holder);
    });
}

/// The name of the replicas' Lease.
pub(crate) const LEASE: &str = "check";
const NAMESPACE: &str = "default";
