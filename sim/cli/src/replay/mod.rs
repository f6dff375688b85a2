//! Replay of recorded traces of a real Kueue on the model, with a comparison.
//!
//! A trace is a list of requests with times, and what a real Kueue did after each. [`Replay`] sends
//! the requests to a server with the model of Kueue and of its job integrations, in virtual time,
//! and reports every [`Difference`].
//!
//! The model comprises Kueue's scheduler, its core reconcilers, its webhooks and its job
//! integrations. The requests of the recording (users, check controllers, the end of Jobs, Cluster
//! Autoscaler) are sent as they were. Kueue's built-in provisioning check is neither: its writes
//! are not among the recorded requests, and this crate has no model of it. Its writes are taken
//! from the observed changes and [played back](Replay::with), at the recorded time: each
//! `ProvisioningRequest` and `PodTemplate`, the condition Active of its AdmissionChecks, its
//! entries in Workloads, its events. The same holds for the Pods of Jobs in the recordings of
//! families (`replay/stand_in.rs`): a stand-in for Job controller and nodes created them. A `pr-*`
//! trace therefore tests Kueue's own behavior around that check, not the check.

mod compare;
mod events;
mod family;
mod figures;
mod initial;
mod looks;
mod names;
mod object;
mod play;
mod playback;
mod player;
mod precondition;
mod project;
mod races;
mod reasons;
mod request;
mod scope;
mod search;
mod stand_in;
mod trace;
mod versions;

use kueue_check::Clock;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use compare::{Comparison, Recording};
pub use figures::figures;
pub(crate) use object::{is_reset, list, only};
pub(crate) use project::is_compared;
pub use project::{full_projection, projection};
use races::Races;
pub(crate) use scope::MULTI_KUEUE;
pub use trace::{Trace, to_text};
pub use versions::VersionEvidence;

use kueue_check_sim::apiserver::{ApiServer, CompiledDefinitions};
use kueue_check_sim::kueue::KueueVersion;

/// A difference between the recording and the model.
///
/// ```
/// use kueue_check_sim_cli::replay::{Replay, Trace};
/// use serde_json::json;
///
/// // The recording cluster had a flavor that the trace does not contain.
/// let trace: Trace = serde_json::from_value(json!({"scenario": "clean-up", "steps": [{"step": "delete the flavor", "t": 0.0, "calls": [
///     {"method": "DELETE", "path": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/spot", "code": 200},
/// ]}]}))?;
/// let differences = Replay::new(trace).run()?;
/// assert_eq!(differences[0].to_string(), "response to \"delete the flavor\"\n  recorded:  200\n  simulated: 404");
/// # Ok::<(), kueue_check_sim_cli::replay::ReplayError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The object or the step.
    pub at: String,
    /// The recorded value.
    pub recorded: String,
    /// The value in the model.
    pub simulated: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.at)?;
        writeln!(f, "  recorded:  {}", self.recorded)?;
        write!(f, "  simulated: {}", self.simulated)
    }
}

/// An error of a replay.
///
/// ```
/// use kueue_check_sim_cli::replay::{Replay, Trace};
/// use serde_json::json;
///
/// let error = Trace::read("Cargo.toml".as_ref()).unwrap_err();
/// assert_eq!(error.to_string(), "the file is not a trace: expected value at line 1 column 2");
///
/// let trace: Trace = serde_json::from_value(json!({"scenario": "logs", "steps": [{"step": "read the log", "t": 0.0, "calls": [
///     {"method": "GET", "path": "/logs/kubelet.log", "code": 200},
/// ]}]}))?;
/// let error = Replay::new(trace).run().unwrap_err();
/// assert_eq!(error.to_string(), "the trace has a request that the model does not support: GET /logs/kubelet.log");
/// # Ok::<(), kueue_check_sim_cli::replay::ReplayError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("the trace could not be read: {0}")]
    Io(#[from] std::io::Error),
    /// The file is not a trace.
    #[error("the file is not a trace: {0}")]
    Json(#[from] serde_json::Error),
    /// A part of the trace is impossible, or the trace is empty.
    #[error("the trace is damaged: {0}")]
    Damaged(String),
    /// The model does not support a request of the trace.
    #[error("the trace has a request that the model does not support: {0}")]
    Request(String),
    /// The model does not have a feature that the trace uses.
    #[error("the model has no {0}")]
    NotModelled(String),
}

/// The namespace of all recordings.
pub(crate) const NAMESPACE: &str = "t";

/// The most changes of objects after which other outcomes of races are tried. With more, the
/// controllers undo each other's work without end.
const MOST: usize = 3_000;

/// A function that starts a controller beside the model.
type Start = Box<dyn FnOnce(&ApiServer, &Clock)>;

/// A rule that removes from a state what is not compared.
pub(super) type IgnoreRule = Box<dyn Fn(&str, &mut serde_json::Value)>;

/// A replay of a trace.
///
/// ```no_run
/// use kueue_check_sim_cli::replay::{Replay, Trace};
///
/// let trace = Trace::read("check-ready.json".as_ref())?;
/// let differences = Replay::new(trace).run()?;
/// assert!(differences.is_empty(), "{differences:?}");
/// # Ok::<(), kueue_check_sim_cli::replay::ReplayError>(())
/// ```
#[must_use]
pub struct Replay {
    trace: Arc<Trace>,
    kinds: Option<CompiledDefinitions>,
    version: KueueVersion,
    beside: Vec<Start>,
    overlook: Option<IgnoreRule>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("scenario", &self.trace.scenario)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Replay {
    /// Creates a replay on the model of the recorded Kueue (0.19 if the trace has no version).
    ///
    /// The server has [the kinds of that version](kueue_check_sim::definitions::of_version).
    pub fn new(trace: Trace) -> Self {
        Self {
            version: trace.version(),
            trace: Arc::new(trace),
            kinds: None,
            beside: Vec::new(),
            overlook: None,
        }
    }

    /// Uses a server with other kinds.
    pub fn kinds(mut self, kinds: CompiledDefinitions) -> Self {
        self.kinds = Some(kinds);
        self
    }

    /// Uses another version of Kueue. Its different behavior is then reported as differences.
    pub fn version(mut self, version: KueueVersion) -> Self {
        self.version = version;
        self
    }

    /// Adds a controller of the caller. It replaces Kueue's built-in provisioning check, whose
    /// writes are then not played back. `start` is called once, before the first request, within
    /// the replay's tokio runtime, whose time is virtual. It may spawn tasks, which end with the
    /// replay.
    pub fn with(mut self, start: impl FnOnce(&ApiServer, &Clock) + 'static) -> Self {
        self.beside.push(Box::new(start));
        self
    }

    /// Assigns an AdmissionCheck to another controller, started by [`with`](Self::with). The
    /// requests of the recorded check are removed. Use it to run a check on the jobs of a recorded
    /// cluster; its verdicts and their consequences are differences.
    ///
    /// ```no_run
    /// # use kueue_check::{Verdict, admission_check};
    /// # #[admission_check(controller = "example.com/licences")] async fn licences() -> Verdict { Verdict::ready("ok") }
    /// use kueue_check::runtime::Runtime;
    /// use kueue_check_sim_cli::replay::{Replay, Trace};
    ///
    /// let recorded = Trace::read("monday.json".as_ref())?;
    /// let replay = Replay::new(recorded).decided_by("example.com/licences", "check-1");
    /// let replay = replay.with(|server, clock| {
    ///     let runtime = Runtime::builder(server.client()).check(licences).clock(clock.clone());
    ///     let runtime = runtime.build().expect("a check that fits");
    ///     tokio::spawn(runtime.run(std::future::pending()));
    /// });
    /// for difference in replay.run()? {
    ///     println!("{difference}");
    /// }
    /// # Ok::<(), kueue_check_sim_cli::replay::ReplayError>(())
    /// ```
    pub fn decided_by(mut self, controller: &str, check: &str) -> Self {
        Arc::make_mut(&mut self.trace).decide_by(controller, check);
        self
    }

    /// Ignores intended differences. `overlook` receives the kind and each state, recorded and
    /// simulated, and removes what is not compared. An event has the kind `Event` and is one line;
    /// if the rule sets it to null, it is not compared at all.
    pub fn ignore(mut self, overlook: impl Fn(&str, &mut serde_json::Value) + 'static) -> Self {
        self.overlook = Some(Box::new(overlook));
        self
    }

    /// Plays the trace in virtual time. An empty result means that all compared values are equal.
    ///
    /// Kueue has races whose outcome varies from run to run of the same requests
    /// ([`KueueVersion::misses_stop`], [`KueueVersion::nameless_queue`],
    /// [`KueueVersion::slow_scheduler`], [`KueueVersion::quick_scheduler`],
    /// [`KueueVersion::late_scheduler`], [`KueueVersion::late_replacement`],
    /// [`KueueVersion::slow_retries`], [`KueueVersion::requeues_inactive`],
    /// [`KueueVersion::hasty_variants`], [`KueueVersion::reversed_ties`],
    /// [`KueueVersion::reversed_evictions`]). A request that follows another within 200 ms also has
    /// several outcomes, because Kueue's progress by then varies. So has a request that is sent
    /// within 300 ms of the end of a delay. If a trace differs, it is played again with one other
    /// outcome, each of which is valid: in the step with the first difference, in all steps or in
    /// an earlier one. If none is equal, the one with the most equal states is kept and another is
    /// changed, as long as that adds equal states. If none is equal then, the differences of the
    /// first run are reported.
    ///
    /// # Errors
    /// If the trace has a request that the model does not support, or uses a feature that the model
    /// does not have; if a time or a state is impossible.
    pub fn run(mut self) -> Result<Vec<Difference>, ReplayError> {
        let trace = self.checked()?;
        let recording = Recording::of(&trace, self.overlook.take());
        let beside = std::mem::take(&mut self.beside);
        let is_alone = beside.is_empty();
        let (first, changes) = self.play(&Races::default(), beside, &recording)?;
        if first.differences.is_empty() || !is_alone || changes > MOST {
            return Ok(first.differences);
        }
        Ok(if self.agrees_with_other_races(&first, &recording)? {
            Vec::new()
        } else {
            first.differences
        })
    }

    /// Returns the trace, if it is possible and the model has what it uses.
    fn checked(&self) -> Result<Arc<Trace>, ReplayError> {
        self.trace.check()?;
        scope::check(&self.trace)?;
        Ok(Arc::clone(&self.trace))
    }

    /// Returns true if the trace agrees with the usual outcomes of all races.
    fn reproduces_at_first(mut self) -> Result<bool, ReplayError> {
        let trace = self.checked()?;
        let recording = Recording::of(&trace, self.overlook.take());
        let (compared, _) = self.play(&Races::default(), Vec::new(), &recording)?;
        Ok(compared.differences.is_empty())
    }

    /// Plays the trace once. Returns the comparison, and how many changes of objects the model
    /// made.
    fn play(
        &self,
        races: &Races,
        beside: Vec<Start>,
        recording: &Recording,
    ) -> Result<(Comparison, usize), ReplayError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let played = runtime.block_on(play::play(self, races, beside))?;
        Ok((recording.compare(&played), played.history.len()))
    }
}

/// Returns the differences between two recordings of the same steps.
///
/// Empty if Kueue did the same in both.
///
/// ```
/// use kueue_check_sim_cli::replay::{Trace, between};
///
/// let trace = |active: bool| -> Trace {
///     serde_json::from_value(serde_json::json!({"scenario": "s", "steps": [{"step": "submit", "t": 1.0, "observed": [
///         {"t": 1.0, "kind": "Workload", "name": "w", "type": "ADDED", "state": {"active": active}},
///     ]}]})).unwrap()
/// };
/// assert_eq!(between(&trace(true), &trace(true)), []);
/// assert_eq!(between(&trace(true), &trace(false)).len(), 1);
/// let nothing: Trace =
///     serde_json::from_value(serde_json::json!({"scenario": "s", "steps": [{"step": "submit", "t": 1.0}]})).unwrap();
/// assert_eq!(between(&trace(true), &nothing).len(), 1);
/// assert_eq!(between(&nothing, &trace(true)).len(), 1);
/// ```
#[must_use]
pub fn between(one: &Trace, other: &Trace) -> Vec<Difference> {
    compare::between(one, other)
}

/// Plays a trace file.
///
/// # Errors
/// If it can't be read, or has a request that the model does not support.
///
/// ```
/// use kueue_check_sim_cli::replay;
///
/// # let file = std::env::temp_dir().join(format!("kueue-check-trace-{}.json", std::process::id()));
/// std::fs::write(&file, r#"{"scenario": "a-flavor", "steps": [{"step": "make a flavor", "t": 0, "calls": [{
///     "method": "POST", "path": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", "code": 201,
///     "body": {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "spot"}}
/// }]}]}"#)?;
/// assert_eq!(replay::run(&file, None)?, []); // the model does what was recorded
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), replay::ReplayError>(())
/// ```
pub fn run(
    path: &Path,
    kinds: Option<&CompiledDefinitions>,
) -> Result<Vec<Difference>, ReplayError> {
    let mut replay = Replay::new(Trace::read(path)?);
    replay.kinds = kinds.cloned();
    replay.run()
}
