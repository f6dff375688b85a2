//! Recording of a cluster as a trace for [`replay`](crate::replay).
//!
//! The recorder only lists and watches: Kueue's configuration, Workloads, Jobs and their events. A
//! trace contains the inputs of Kueue and its checks, and what Kueue did:
//!
//! - **kept**: amounts and counts (quota, requests, limits, usage, Pods), priorities and values of
//!   classes, admission check states with their delays, the state and type of conditions, policies
//!   and strategies, times, UIDs, booleans; the end of generated names of Workloads; the texts of
//!   Kueue's conditions and events around names. Also what Kubernetes or Kueue defines: names of
//!   resources (`cpu`, `memory`), keys of labels, annotations, taints and gates
//!   (`record/public.rs`), numbers in Kueue's own labels and annotations, types and reasons of
//!   conditions, `main` as the name of a pod set.
//! - **replaced** by pseudonyms, the same in all places: names of objects and namespaces, of pod
//!   sets, controllers, resources, topologies and gates; keys and values of labels, annotations,
//!   taints and node selectors; messages of checks and Jobs, and their other reasons; paths of
//!   termination messages. In Kueue's texts each word that is one of them, of any namespace, and
//!   each `NAMESPACE/NAME`. Pseudonyms have the order of what they replace, on which Kueue depends.
//! - **left out**: all other fields, such as images, commands, environments and affinities, and
//!   conditions of other types.
//!
//! A watch does not contain requests. The recorder infers them from the changes of objects and from
//! [`managedFields`]: the replay sends the requests of users, checks and job controllers, and
//! compares the writes of Kueue. A Workload of another owner than a batch/v1 `Job` is recorded
//! without an owner, and the writes of its integration as requests. All namespaces become one, and
//! every ClusterQueue selects it.
//!
//! [`managedFields`]: https://kubernetes.io/docs/reference/using-api/server-side-apply/

mod infer;
mod kinds;
mod pseudonyms;
mod public;
mod recording;
mod redact;
mod resources;
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

/// The limits of a recording. These are the flags of `record`.
///
/// ```
/// use clap::Parser;
/// use kueue_check::Clock;
/// use kueue_check_sim::{apiserver::ApiServer, definitions};
/// use kueue_check_sim_cli::record::Recorder;
///
/// #[derive(Parser)]
/// struct Arguments { #[command(flatten)] recorder: Recorder }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let Arguments { recorder } = Arguments::parse_from(["example", "--seconds", "60"]);
/// let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse()?);
/// let server = ApiServer::with_definitions(clock.clone(), definitions::kueue());
/// let trace = recorder.record(server.client(), &clock, std::future::pending()).await?;
/// assert_eq!(trace["scenario"], "recorded 2026-11-21T09:00:00Z");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, clap::Args)]
pub struct Recorder {
    /// How long changes are recorded, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub seconds: u64,
    /// The maximum number of changes.
    #[arg(long, value_name = "CHANGES", default_value_t = 100_000)]
    pub limit: usize,
    /// The release of Kueue on the cluster, such as `0.18.3`; the replay uses its model.
    #[arg(long, value_name = "VERSION", value_parser = release)]
    pub kueue: Option<String>,
    /// The maximum number of requests to the API server per second.
    #[arg(long, value_name = "REQUESTS", default_value = "5")]
    pub requests: NonZeroU32,
}

/// Parses a release of Kueue that the model supports.
fn release(number: &str) -> Result<String, String> {
    KueueVersion::of_release(number)
        .map(|_| format!("v{}", number.trim_start_matches('v')))
        .ok_or_else(|| "not a release from 0.14.0 on".to_owned())
}

/// An error of a recording.
///
/// ```
/// # use kueue_check::Clock;
/// use kueue_check_sim::apiserver::ApiServer;
/// use kueue_check_sim_cli::record::{RecordError, Recorder};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse()?);
/// let without_kueue = ApiServer::new(clock.clone());
/// let recorder = Recorder { seconds: 60, limit: 1000, kueue: None, requests: std::num::NonZeroU32::MIN };
/// let recorded = recorder.record(without_kueue.client(), &clock, std::future::pending()).await;
/// let error = recorded.unwrap_err();
/// assert!(error.to_string().contains("(kueue.x-k8s.io/v1beta2): failed to perform initial object list"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No kubeconfig and no service account.
    #[error("cannot find a kubeconfig: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// The client.
    #[error("cannot connect to the API server: {0}")]
    Client(#[from] kube::Error),
    /// A kind that cannot be listed.
    #[error("cannot read {resource}: {source}")]
    Read {
        /// The resource and its version.
        resource: String,
        /// The cause.
        source: Box<watcher::Error>,
    },
    /// The recording ended before all initial lists were complete.
    #[error("the initial lists are not complete{}", after(.last.as_deref()))]
    Incomplete {
        /// The last error of a list, with the resource.
        last: Option<String>,
    },
}

fn after(last: Option<&str>) -> String {
    last.map_or_else(String::new, |error| format!("; the last error: {error}"))
}

/// The time without an object of the initial lists after which they fail. Other errors than those of
/// [`RecordError::Read`] are retried until then.
const STALLED: Duration = Duration::from_secs(60);

impl Recorder {
    /// Returns a client with the rate limit, for the cluster of the kubeconfig or of the service
    /// account.
    ///
    /// # Errors
    /// If there is no such configuration, or it is invalid.
    pub async fn client(&self) -> Result<Client, RecordError> {
        let config = kube::Config::infer().await?;
        let rate = u64::from(self.requests.get());
        let limit = tower::limit::RateLimitLayer::new(rate, Duration::from_secs(1));
        let client = kube::client::ClientBuilder::try_from(config)?;
        Ok(client.with_layer(&limit).build())
    }

    /// Records until a limit is reached or `end` is ready, and returns the trace.
    ///
    /// # Errors
    /// If a kind cannot be listed: forbidden, or not served. Kueue serves `kueue.x-k8s.io/v1beta2`
    /// since 0.15. If the initial lists make no progress for 1 min, or `end` is ready or the limit
    /// of changes is reached before they are complete.
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
        // Dropping the set aborts its tasks.
        let mut watches = JoinSet::new();
        for kind in Kind::ALL {
            watches.spawn(watch.clone().objects(kind));
        }
        for kind in ["Workload", "Job"] {
            watches.spawn(watch.clone().events(kind));
        }
        drop(watch);
        let mut waits = watches.len();
        let (mut initial, mut seen) = (Vec::new(), Vec::new());
        let mut began: Option<(Timestamp, Instant)> = None;
        let (mut progress, mut last) = (Instant::now(), None);
        let mut end = std::pin::pin!(end);
        while seen.len() < self.limit {
            let until = match began {
                Some((_, at)) => at + Duration::from_secs(self.seconds),
                None => progress + STALLED,
            };
            let message = tokio::select! {
                message = messages.recv() => message,
                () = &mut end => None,
                () = sleep_until(until) => None,
            };
            match message {
                None => break,
                Some(Message::Failed(error)) => return Err(error),
                Some(Message::Retried(error)) => last = Some(error),
                Some(Message::Progress) => progress = Instant::now(),
                Some(Message::Initial(kind, object)) => initial.push((kind, object)),
                Some(Message::Complete) => {
                    progress = Instant::now();
                    waits -= 1;
                    if waits == 0 {
                        began = Some((clock.now(), Instant::now()));
                        tracing::info!(objects = initial.len(), "recording");
                    }
                }
                Some(Message::Change(change)) => seen.push(change),
            }
        }
        let (began, _) = began.ok_or(RecordError::Incomplete { last })?;
        let mut trace = trace(began, &initial, seen);
        if let Some(release) = &self.kueue {
            trace["kueue"] = json!(release);
        }
        Ok(trace)
    }
}
