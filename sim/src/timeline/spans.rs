//! The values of a timeline: tracks and spans.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::api::CheckState;

use super::Phase;

/// A time interval with one value.
///
/// ```
/// use kueue_check::api::CheckState;
/// use kueue_check_sim::{FaultPlan, scenarios::Scenario};
///
/// let run = Scenario::named("wait").expect("it is there").run(0, &FaultPlan::none());
/// let spans = &run.timeline().tracks[0].checks["check"];
/// assert_eq!((&spans[0].what, spans[0].message.as_str()), (&CheckState::Pending, "opens at 2026-11-21T09:10:00Z"));
/// // Until ten past nine, from the first evaluation by the check.
/// assert_eq!(spans[0].duration().as_secs().div_ceil(60), 10);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Span<T> {
    /// Its first moment.
    pub from: Timestamp,
    /// Its end; the same as `from` for a span without duration.
    pub until: Timestamp,
    /// The value.
    pub what: T,
    /// The last message about it: the condition's, or the check's. May be empty.
    pub message: String,
}

impl<T> Span<T> {
    /// Returns its duration.
    pub fn duration(&self) -> Duration {
        between(self.from, self.until)
    }
}

/// One Workload over time.
///
/// ```
/// use kueue_check_sim::timeline::Phase;
/// use kueue_check_sim::{FaultPlan, scenarios::Scenario};
///
/// let run = Scenario::named("retry").expect("it is there").run(0, &FaultPlan::none());
/// let stubborn = &run.timeline().tracks[0];
/// assert_eq!(stubborn.times_in(Phase::Evicted), 2);
/// // Kueue holds the quota for two minutes, the delay of the verdict.
/// assert_eq!(stubborn.time_in(Phase::QuotaReserved).as_secs(), 2 * 120);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`: two successive Workloads with the same name are two tracks.
    pub uid: String,
    /// The LocalQueue; empty for none.
    pub queue: String,
    /// Its phases in order. Phases without duration are left out, except evictions, deactivations
    /// and ends.
    pub phases: Vec<Span<Phase>>,
    /// The states of each admission check, by the check's name. There are gaps: a Pending check of
    /// a Workload without quota is not evaluated, and a finished Workload has no states. States
    /// without duration are left out, except states other than Pending and Ready.
    pub checks: BTreeMap<String, Vec<Span<CheckState>>>,
    /// The time when it was deleted, if it was.
    pub deleted: Option<Timestamp>,
}

impl Track {
    /// Returns namespace and name.
    pub fn title(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    /// Returns the total time in `phase`.
    pub fn time_in(&self, phase: Phase) -> Duration {
        self.spans_of(phase).map(Span::duration).sum()
    }

    /// Returns how often it entered `phase`.
    pub fn times_in(&self, phase: Phase) -> usize {
        self.spans_of(phase).count()
    }

    /// Returns the phase at the end of the timeline, or the last one before the Workload was
    /// deleted.
    pub fn last_phase(&self) -> Option<Phase> {
        self.phases.last().map(|span| span.what)
    }

    fn spans_of(&self, phase: Phase) -> impl Iterator<Item = &Span<Phase>> {
        self.phases.iter().filter(move |span| span.what == phase)
    }
}

/// Workloads over time.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Job, Simulation};
///
/// let run = Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// });
/// let timeline = run.timeline();
/// assert!(timeline.tracks[0].title().starts_with("default/job-train-")); // the Workload's name, not the job's
/// assert!(timeline.table(120).contains("check Ready"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The first moment of the timeline.
    pub from: Timestamp,
    /// The last moment.
    pub until: Timestamp,
    /// The Workloads in the order of their first snapshot, then by name.
    pub tracks: Vec<Track>,
}

impl Timeline {
    /// Returns the duration of the timeline.
    pub fn length(&self) -> Duration {
        between(self.from, self.until)
    }
}

/// Returns the time from `from` to `until`; zero if `until` is earlier.
pub(super) fn between(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}
