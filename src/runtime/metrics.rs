//! Metrics of the runtime, labeled by AdmissionCheck and never by Workload.

#[cfg(feature = "admin")]
mod sample;

#[cfg(feature = "admin")]
pub(crate) use sample::sample_metrics;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::api::ApiVersion;

/// Labels: an AdmissionCheck.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CheckLabels {
    pub(crate) check: String,
}

impl CheckLabels {
    pub(crate) fn new(check: impl Into<String>) -> Self {
        let check = check.into();
        Self { check }
    }
}

/// Labels: an AdmissionCheck and an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    pub(crate) check: String,
    pub(crate) outcome: &'static str,
}

impl OutcomeLabels {
    pub(crate) fn new(check: impl Into<String>, outcome: &'static str) -> Self {
        let check = check.into();
        Self { check, outcome }
    }
}

/// Labels: an AdmissionCheck and a state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StateLabels {
    pub(crate) check: String,
    pub(crate) state: String,
}

impl StateLabels {
    pub(crate) fn new(check: impl Into<String>, state: impl ToString) -> Self {
        let (check, state) = (check.into(), state.to_string());
        Self { check, state }
    }
}

/// Labels: a request to the API server; code 0 without a reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: &'static str,
    pub(crate) code: u16,
}

/// Labels: a watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct WatchLabels {
    pub(crate) watch: String,
}

/// Labels: a lane of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct LaneLabels {
    pub(crate) lane: &'static str,
}

/// Labels: the program and its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct BuildLabels {
    /// The program's name.
    pub(crate) name: String,
    /// The program's version.
    pub(crate) version: String,
    /// The version of this SDK.
    pub(crate) sdk_version: &'static str,
    /// The features of this SDK, in alphabetical order.
    pub(crate) features: String,
    /// The versions of Kueue's API that it can read and write.
    pub(crate) kueue_api: String,
}

impl BuildLabels {
    pub(crate) fn new(name: &str, version: &str) -> Self {
        let features = [
            ("admin", cfg!(feature = "admin")),
            ("cel", cfg!(feature = "cel")),
            ("cli", cfg!(feature = "cli")),
            ("macros", cfg!(feature = "macros")),
            ("otel", cfg!(feature = "otel")),
        ];
        let features = features.iter().filter(|(_, on)| *on).map(|(name, _)| *name);
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            sdk_version: env!("CARGO_PKG_VERSION"),
            features: features.collect::<Vec<_>>().join(","),
            kueue_api: [ApiVersion::V1beta1, ApiVersion::V1beta2]
                .map(ApiVersion::as_str)
                .join(","),
        }
    }
}

/// Labels: a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResultLabels {
    pub(crate) result: &'static str,
}

/// The end of a text in the OpenMetrics format.
const END: &str = "# EOF\n";

type Durations = Family<CheckLabels, Histogram>;
type StateDurations = Family<StateLabels, Histogram>;

type Seconds<L> = Family<L, Gauge<f64, std::sync::atomic::AtomicU64>>;

/// All metrics of one process.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) evaluations: EvaluationMetrics,
    pub(crate) evictions: EvictionMetrics,
    pub(crate) writes: Family<OutcomeLabels, Counter>,
    pub(crate) overwritten: Family<CheckLabels, Counter>,
    pub(crate) cleanups: CleanupMetrics,
    pub(crate) check_active: Family<CheckLabels, Gauge>,
    pub(crate) pending_workloads: Family<CheckLabels, Gauge>,
    pub(crate) workloads: Gauge,
    pub(crate) malformed_objects: Counter,
    pub(crate) queue: QueueMetrics,
    pub(crate) requests: Family<RequestLabels, Counter>,
    pub(crate) watches: WatchMetrics,
    pub(crate) leader: Gauge,
    pub(crate) events: Family<ResultLabels, Counter>,
}

/// Metrics of evaluations and of their verdicts.
#[derive(Debug)]
pub(crate) struct EvaluationMetrics {
    pub(crate) total: Family<OutcomeLabels, Counter>,
    pub(crate) seconds: Durations,
    pub(crate) verdicts: Family<StateLabels, Counter>,
    pub(crate) first_verdict_seconds: Durations,
    pub(crate) pending_seconds: StateDurations,
    pub(crate) policy_applied: Family<OutcomeLabels, Counter>,
}

/// Metrics of failing verdicts about running jobs.
#[derive(Debug, Default)]
pub(crate) struct EvictionMetrics {
    pub(crate) total: Family<StateLabels, Counter>,
    pub(crate) suppressed: Family<OutcomeLabels, Counter>,
}

/// Metrics of ended reservations.
#[derive(Debug, Default)]
pub(crate) struct CleanupMetrics {
    pub(crate) releases: Family<OutcomeLabels, Counter>,
    pub(crate) pending: Family<CheckLabels, Gauge>,
}

/// Metrics of the work queue.
#[derive(Debug, Default)]
pub(crate) struct QueueMetrics {
    pub(crate) depth: Family<LaneLabels, Gauge>,
    pub(crate) oldest_seconds: Seconds<LaneLabels>,
}

/// Metrics of watches.
#[derive(Debug, Default)]
pub(crate) struct WatchMetrics {
    pub(crate) synced: Family<WatchLabels, Gauge>,
    pub(crate) idle_seconds: Seconds<WatchLabels>,
    pub(crate) errors: Family<WatchLabels, Counter>,
}

/// The values of `outcome` that an alert or a panel may use.
const EVALUATIONS: &[&str] = &[
    "Ready",
    "Pending",
    "Retry",
    "Rejected",
    "transient",
    "throttled",
    "permanent",
    "parameters",
    "timeout",
    "panic",
];
const SUPPRESSIONS: &[&str] = &[
    "ignored",
    "not_monitored",
    "below_threshold",
    "rate_limited",
    "growth",
];
const POLICIES: &[&str] = &["on_error_admit", "on_error_retry", "pending_timeout"];
const WRITES: &[&str] = &["ok", "conflict", "rejected", "unavailable"];
const RELEASES: &[&str] = &["done", "later"];

/// The verbs of requests.
const VERBS: &[&str] = &["get", "watch", "create", "update", "patch", "delete"];

/// Returns a histogram from 1 ms to 70 min.
fn short() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 12))
}

/// Returns a histogram from 0.1 s to 19 days.
fn long() -> Histogram {
    Histogram::new(exponential_buckets(0.1, 4.0, 13))
}

/// Registers each metric with its name and its help, a line for each.
macro_rules! register {
    ($registry:ident: $($name:literal $help:literal $metric:expr;)*) => {
        $($registry.register($name, $help, $metric);)*
    };
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(BuildLabels::default())
    }
}

impl Metrics {
    /// Returns the metrics of a program.
    pub(crate) fn new(build: BuildLabels) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("kueue_check"),
            evaluations: EvaluationMetrics {
                total: Family::default(),
                seconds: Family::new_with_constructor(short),
                verdicts: Family::default(),
                first_verdict_seconds: Family::new_with_constructor(short),
                pending_seconds: Family::new_with_constructor(long),
                policy_applied: Family::default(),
            },
            evictions: EvictionMetrics::default(),
            writes: Family::default(),
            overwritten: Family::default(),
            cleanups: CleanupMetrics::default(),
            check_active: Family::default(),
            pending_workloads: Family::default(),
            workloads: Gauge::default(),
            malformed_objects: Counter::default(),
            queue: QueueMetrics::default(),
            requests: Family::default(),
            watches: WatchMetrics::default(),
            leader: Gauge::default(),
            events: Family::default(),
        };
        metrics.register(build);
        // As in `add_check`: the first forbidden request is an increase.
        for verb in VERBS {
            let forbidden = RequestLabels { verb, code: 403 };
            drop(metrics.requests.get_or_create(&forbidden));
        }
        metrics
    }

    fn register(&mut self, build: BuildLabels) {
        let mut registry = std::mem::take(&mut self.registry);
        let r = &mut registry;
        register! { r:
            "build" "The program, its version, that of the SDK with its features, and the versions of Kueue's API that it can use; always 1" Info::new(build);
            "evaluations" "Evaluations of a check, by result" self.evaluations.total.clone();
            "evaluation_duration_seconds" "Duration of an evaluation" self.evaluations.seconds.clone();
            "verdicts" "States written to Workloads" self.evaluations.verdicts.clone();
            "first_verdict_seconds" "Time from a quota reservation to the check's first verdict" self.evaluations.first_verdict_seconds.clone();
            "pending_seconds" "Time for which a Workload held quota until the check left Pending, by its next state" self.evaluations.pending_seconds.clone();
            "evictions" "Running jobs that a check has evicted, by state" self.evictions.total.clone();
            "suppressed_evictions" "Failing verdicts about running jobs, or about their growth, that were suppressed, by limit" self.evictions.suppressed.clone();
            "policy_applied" "States written by the policy in place of a verdict, by field" self.evaluations.policy_applied.clone();
            "writes" "Writes of check states, by result" self.writes.clone();
            "state_overwrites" "Check states that another client overwrote" self.overwritten.clone();
            "releases" "Attempts of a check to release a reservation, by result" self.cleanups.releases.clone();
            "pending_cleanups" "Ended reservations that are not released yet" self.cleanups.pending.clone();
            "admission_check_active" "Whether the AdmissionCheck is active" self.check_active.clone();
            "pending_workloads" "Workloads that hold quota while the check state is Pending" self.pending_workloads.clone();
            "tracked_workloads" "Workloads in the cache: those that hold quota" self.workloads.clone();
            "malformed_objects" "Objects with fields of a shape that Kueue does not document" self.malformed_objects.clone();
            "queue_depth" "Keys in the work queue, by lane" self.queue.depth.clone();
            "queue_oldest_seconds" "Age of the oldest key in the work queue, by lane" self.queue.oldest_seconds.clone();
            "api_requests" "Requests to the API server, by verb and status (0: no response)" self.requests.clone();
            "watch_synced" "Whether a watch has read the whole list, and has not failed for two minutes" self.watches.synced.clone();
            "watch_idle_seconds" "Seconds since a watch last received anything" self.watches.idle_seconds.clone();
            "watch_errors" "Failures of a watch" self.watches.errors.clone();
            "leader" "Whether this replica holds the Lease" self.leader.clone();
            "events" "Kubernetes events, by result" self.events.clone();
        }
        self.registry = registry;
    }

    /// Initializes the counters of an AdmissionCheck with 0. For Prometheus, a series that starts
    /// at 1 is no increase, so it would miss the first eviction, for example, after each restart.
    pub(crate) fn add_check(&self, check: &str) {
        let families = self;
        let outcomes = [
            (&families.evaluations.total, EVALUATIONS),
            (&families.evictions.suppressed, SUPPRESSIONS),
            (&families.evaluations.policy_applied, POLICIES),
            (&families.writes, WRITES),
            (&families.cleanups.releases, RELEASES),
        ];
        for (family, words) in outcomes {
            for outcome in words {
                drop(family.get_or_create(&OutcomeLabels::new(check, outcome)));
            }
        }
        for (family, states) in [
            (
                &families.evaluations.verdicts,
                &["Pending", "Ready", "Retry", "Rejected"][..],
            ),
            (&families.evictions.total, &["Retry", "Rejected"]),
        ] {
            for state in states {
                drop(family.get_or_create(&StateLabels::new(check, state)));
            }
        }
        let labels = CheckLabels::new(check);
        drop(families.overwritten.get_or_create(&labels));
        drop(families.evaluations.seconds.get_or_create(&labels));
        drop(
            families
                .evaluations
                .first_verdict_seconds
                .get_or_create(&labels),
        );
    }

    /// Removes the gauges of a watch that ended.
    pub(crate) fn remove_watch(&self, labels: &WatchLabels) {
        self.watches.synced.remove(labels);
        self.watches.idle_seconds.remove(labels);
    }

    /// Returns all metrics in the OpenMetrics text format, with the checks' `own` before the end.
    pub(crate) fn text(&self, own: &str) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        followed_by(text, own)
    }
}

/// Returns the metrics of `text`, and then `own`, in the same format.
pub(crate) fn followed_by(mut text: String, own: &str) -> String {
    if !own.is_empty() {
        text.truncate(text.trim_end_matches(END).len());
        text += own.trim_end();
        text += "\n";
        text += END;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_info_contains_what_runs() {
        let text = Metrics::new(BuildLabels::new("seat-check", "2.1.0")).text("");
        let samples = kueue_check_testenv::exposition::parse(&text).unwrap();
        let build: Vec<_> = samples
            .iter()
            .filter(|sample| sample.name == "kueue_check_build_info")
            .collect();
        let [build] = &build[..] else {
            panic!("{text}");
        };
        assert!((build.value - 1.0).abs() < f64::EPSILON);
        for (label, value) in [
            ("name", "seat-check"),
            ("version", "2.1.0"),
            ("sdk_version", env!("CARGO_PKG_VERSION")),
            ("kueue_api", "v1beta1,v1beta2"),
        ] {
            assert_eq!(build.labels[label], value);
        }
        let features: Vec<&str> = build.labels["features"].split(',').collect();
        assert_eq!(features.contains(&"cli"), cfg!(feature = "cli"));
        assert_eq!(features.contains(&"otel"), cfg!(feature = "otel"));
        assert!(features.is_sorted(), "{features:?}");
    }

    #[test]
    fn what_may_be_counted_later_is_there_at_zero() {
        let metrics = Metrics::default();
        metrics.add_check("budget");
        let text = metrics.text("");
        for series in [
            "evictions_total{check=\"budget\",state=\"Retry\"}",
            "policy_applied_total{check=\"budget\",outcome=\"pending_timeout\"}",
            "suppressed_evictions_total{check=\"budget\",outcome=\"growth\"}",
            "state_overwrites_total{check=\"budget\"}",
            "first_verdict_seconds_count{check=\"budget\"}",
            "api_requests_total{verb=\"patch\",code=\"403\"}",
        ] {
            let line = format!("\nkueue_check_{series} 0\n");
            assert!(text.contains(&line), "no {series} in {text}");
        }
    }

    #[test]
    fn metrics_are_labelled_by_check() {
        let metrics = Metrics::default();
        metrics
            .evaluations
            .verdicts
            .get_or_create(&StateLabels::new("budget", "Ready"))
            .inc();
        let text = metrics.text("");
        assert!(
            text.contains("kueue_check_verdicts_total{check=\"budget\",state=\"Ready\"} 1"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"));
        let text = metrics.text("# TYPE budget gauge\nbudget 1\n");
        assert!(text.ends_with("\nbudget 1\n# EOF\n"), "{text}");
        assert_eq!(text.matches("# EOF").count(), 1, "{text}");
    }
}
