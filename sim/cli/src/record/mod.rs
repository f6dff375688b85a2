//! What happens on a cluster, recorded as a trace that [`replay`](crate::replay) plays.
//!
//! The recorder reads and writes nothing else: it lists and watches Kueue's configuration,
//! Workloads, Jobs and their events. A trace has what Kueue and its checks decide by: quota, pod
//! sets with their requests, priorities, states of checks, conditions, times. Names of objects,
//! labels and controllers, images, and the messages of checks and Jobs are replaced.
//!
//! A watch does not show requests. The recorder tells from the changes of objects what users, checks
//! and job controllers did, and what Kueue did ([`managedFields`] say who wrote a field); the replay
//! sends the former and compares the latter. A Workload that is not for a batch/v1 `Job` is recorded
//! as one without a job, and what its integration does with it as requests. All namespaces become
//! one, of which every ClusterQueue takes Workloads.
//!
//! [`managedFields`]: https://kubernetes.io/docs/reference/using-api/server-side-apply/

mod calls;
mod cleaned;
mod kinds;
mod pseudonyms;
mod recording;
mod watch;

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::Clock;
use kueue_check::kube::runtime::watcher;
use kueue_check::kube::{self, Client};
use kueue_check_sim::kueue::KueueVersion;
use serde_json::{Value, json};
use tokio::sync::mpsc::channel;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::kinds::Kind;
use self::recording::trace;
use self::watch::{Message, Watch};

/// What is recorded, and for how long. These are the flags of `record`.
#[derive(Clone, Debug, clap::Args)]
pub struct Recorder {
    /// For how many seconds changes are recorded.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub seconds: u64,
    /// After how many changes it ends, if it has not by then.
    #[arg(long, value_name = "CHANGES", default_value_t = 100_000)]
    pub limit: usize,
    /// Which release of Kueue runs there, such as `0.18.3`: the replay is by its model.
    #[arg(long, value_name = "VERSION", value_parser = release)]
    pub kueue: Option<String>,
    /// How many requests are sent to the API server in a second, at most.
    #[arg(long, value_name = "REQUESTS", default_value = "5")]
    pub requests: NonZeroU32,
}

/// A release of Kueue that the model knows.
fn release(number: &str) -> Result<String, String> {
    KueueVersion::of_release(number)
        .map(|_| format!("v{}", number.trim_start_matches('v')))
        .ok_or_else(|| "not a release from 0.14.0 on".to_owned())
}

/// Why nothing could be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// There is no way to the API server.
    #[error("cannot find the API server: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// A client could not be made.
    #[error("cannot connect to the API server: {0}")]
    Client(#[from] kube::Error),
    /// A kind can't be read.
    #[error("cannot read {resource}: {source}")]
    Read {
        /// Its resource and version.
        resource: String,
        /// Why.
        source: Box<watcher::Error>,
    },
}

impl Recorder {
    /// A client of the cluster that `KUBECONFIG` or the service account says, which sends no more
    /// than the allowed number of requests.
    ///
    /// # Errors
    /// If there is none.
    pub async fn client(&self) -> Result<Client, RecordError> {
        let config = kube::Config::infer().await?;
        let rate = u64::from(self.requests.get());
        let limit = tower::limit::RateLimitLayer::new(rate, Duration::from_secs(1));
        let client = kube::client::ClientBuilder::try_from(config)?;
        Ok(client.with_layer(&limit).build())
    }

    /// Records what happens until the time is over, so many changes were seen or `end` is ready, and
    /// returns the trace.
    ///
    /// # Errors
    /// If a kind can't be listed: it may not be read, or is not served. `kueue.x-k8s.io/v1beta2` is
    /// served since Kueue 0.15.
    pub async fn record(
        &self,
        client: Client,
        clock: &Clock,
        end: impl Future<Output = ()>,
    ) -> Result<Value, RecordError> {
        let (sender, mut messages) = channel(1000);
        let watch = Watch {
            client,
            clock: clock.clone(),
            sender,
        };
        // They end with this.
        let mut watches = JoinSet::new();
        for kind in Kind::ALL {
            watches.spawn(watch.clone().objects(kind));
        }
        for kind in ["Workload", "Job"] {
            watches.spawn(watch.clone().events(kind));
        }
        drop(watch);
        let mut waits = watches.len();
        let (mut there, mut seen) = (Vec::new(), Vec::new());
        let mut began: Option<(Timestamp, Instant)> = None;
        let mut end = std::pin::pin!(end);
        while seen.len() < self.limit {
            let until = began.map(|(_, at)| at + Duration::from_secs(self.seconds));
            let message = tokio::select! {
                message = messages.recv() => message,
                () = &mut end => None,
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => None,
            };
            match message {
                None => break,
                Some(Message::Failed(error)) => return Err(error),
                Some(Message::There(kind, object)) => there.push((kind, object)),
                Some(Message::Complete) => {
                    waits -= 1;
                    if waits == 0 {
                        began = Some((clock.now(), Instant::now()));
                        tracing::info!(objects = there.len(), "recording");
                    }
                }
                Some(Message::Seen(change)) => seen.push(change),
            }
        }
        let began = began.map_or_else(|| clock.now(), |(began, _)| began);
        let mut trace = trace(began, &there, seen);
        if let Some(release) = &self.kueue {
            trace["kueue"] = json!(release);
        }
        Ok(trace)
    }
}
