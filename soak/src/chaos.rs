//! The storms of the calendar: faults and kills of the programs, the API server and the source.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use kueue_check_testenv::Cluster;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::calendar::{Disruption, Storm};
use crate::cluster::{Failure, Writer};
use crate::program::Replica;
use crate::proxy::{Faults, Handler, Server};
use crate::witness::Witness;

/// The source, which can be stopped and restarted on its port.
pub(crate) struct Source {
    server: Option<Server>,
    address: SocketAddr,
    faults: Faults,
    handler: Handler,
}

impl Source {
    /// Starts it on a free port.
    pub(crate) async fn start(faults: Faults, handler: Handler) -> Result<Self, Failure> {
        let any = crate::program::LOOPBACK;
        let started = Server::start(any, None, faults.clone(), Arc::clone(&handler)).await?;
        let (server, address) = started;
        Ok(Self {
            server: Some(server),
            address,
            faults,
            handler,
        })
    }

    /// Returns its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn restart(&mut self, down: Duration) -> Result<(), Failure> {
        self.server = None;
        sleep(down).await;
        let (faults, handler) = (self.faults.clone(), Arc::clone(&self.handler));
        let (server, _) = Server::start(self.address, None, faults, handler).await?;
        self.server = Some(server);
        Ok(())
    }
}

/// The targets of storms.
#[derive(Clone)]
pub(crate) struct Targets {
    pub(crate) cluster: Arc<Mutex<Cluster>>,
    pub(crate) source: Arc<Mutex<Source>>,
    pub(crate) replicas: Arc<Mutex<Vec<Replica>>>,
    pub(crate) witness: Witness,
    pub(crate) writer: Writer,
    /// The number of 1,000 requests that have a fault.
    pub(crate) storm: watch::Sender<u32>,
    /// The number of hits, by kind.
    pub(crate) counts: Arc<StdMutex<BTreeMap<&'static str, u64>>>,
}

impl Targets {
    /// Runs the storms, the first of which starts at `began` plus its time.
    pub(crate) async fn inject(self, storms: Vec<Storm>, began: Instant) -> Result<(), Failure> {
        let at = |seconds: f64| began + Duration::from_secs_f64(seconds);
        for storm in storms {
            sleep_until(at(storm.from)).await;
            self.note(&format!("storm, {} of 1,000", storm.rate));
            self.storm.send_replace(storm.rate);
            let mut disruptions = JoinSet::new();
            for (time, disruption) in storm.disruptions {
                sleep_until(at(time)).await;
                self.note(&format!("{disruption:?}"));
                let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
                *counts.entry(disruption.name()).or_default() += 1;
                drop(counts);
                let targets = self.clone();
                disruptions.spawn(async move { targets.strike(disruption).await });
            }
            sleep_until(at(storm.until)).await;
            // The targets that were hit last are restored.
            while let Some(done) = disruptions.join_next().await {
                done.map_err(std::io::Error::other)??;
            }
            self.storm.send_replace(0);
            self.note("calm");
        }
        Ok(())
    }

    fn note(&self, what: &str) {
        self.witness.note(self.writer.now(), what);
    }

    async fn strike(&self, disruption: Disruption) -> Result<(), Failure> {
        match disruption {
            Disruption::Leader(check, signal) => self.signal(check, signal, |leads| leads).await,
            Disruption::Standby(check) => self.signal(check, "KILL", |leads| !leads).await,
            Disruption::Both(check) => self.signal(check, "KILL", |_| true).await,
            Disruption::Freeze(check, seconds) => {
                self.signal(check, "STOP", |leads| leads).await;
                sleep(Duration::from_secs_f64(seconds)).await;
                // Another replica may lead by now; the signal has no effect on a running one.
                self.signal(check, "CONT", |_| true).await;
            }
            Disruption::ApiServer(seconds) => {
                let mut cluster = self.cluster.lock().await;
                cluster.stop_apiserver();
                sleep(Duration::from_secs_f64(seconds)).await;
                cluster.start_apiserver().await?;
            }
            Disruption::Source(seconds) => {
                let mut source = self.source.lock().await;
                source.restart(Duration::from_secs_f64(seconds)).await?;
            }
        }
        Ok(())
    }

    /// Sends a signal to those replicas of `check` that are selected by whether they hold the
    /// Lease.
    async fn signal(&self, check: &str, signal: &str, chosen: impl Fn(bool) -> bool) {
        let holder = self.witness.seen().holder(check);
        let replicas = self.replicas.lock().await;
        for replica in replicas.iter().filter(|one| one.subject == check) {
            if chosen(replica.name == holder) {
                replica.signal(signal);
            }
        }
    }
}
