//! A sample of every metric, for documents, dashboards and alerts.

use super::{
    CheckLabels, CleanupMetrics, EvaluationMetrics, EvictionMetrics, LaneLabels, Metrics,
    OutcomeLabels, QueueMetrics, RequestLabels, ResultLabels, StateLabels, WatchLabels,
    WatchMetrics,
};

/// Returns every metric of the runtime in the OpenMetrics text format, with one made-up sample
/// each.
pub(crate) fn sample_metrics() -> String {
    let metrics = Metrics::default();
    metrics.touch_all();
    metrics.text("")
}

impl Metrics {
    /// Adds a sample to each family. If a metric is missing here, this does not compile.
    fn touch_all(&self) {
        let Self {
            registry: _,
            evaluations:
                EvaluationMetrics {
                    total: evaluations,
                    seconds,
                    verdicts,
                    first_verdict_seconds,
                    pending_seconds,
                    policy_applied,
                },
            evictions:
                EvictionMetrics {
                    total: evictions,
                    suppressed,
                },
            writes,
            overwritten,
            cleanups:
                CleanupMetrics {
                    releases,
                    pending: pending_cleanups,
                },
            check_active,
            pending_workloads,
            workloads: _,
            malformed_objects: _,
            queue:
                QueueMetrics {
                    depth,
                    oldest_seconds,
                },
            requests,
            watches:
                WatchMetrics {
                    synced,
                    idle_seconds,
                    errors,
                },
            leader: _,
            events,
        } = self;
        let check = CheckLabels::new("check");
        for family in [evaluations, suppressed, policy_applied, writes, releases] {
            drop(family.get_or_create(&OutcomeLabels::new("check", "outcome")));
        }
        let state = StateLabels::new("check", "state");
        for family in [verdicts, evictions] {
            drop(family.get_or_create(&state));
        }
        drop(pending_seconds.get_or_create(&state));
        for family in [seconds, first_verdict_seconds] {
            drop(family.get_or_create(&check));
        }
        drop(overwritten.get_or_create(&check));
        for family in [pending_cleanups, check_active, pending_workloads] {
            drop(family.get_or_create(&check));
        }
        let lane = LaneLabels { lane: "lane" };
        drop(depth.get_or_create(&lane));
        drop(oldest_seconds.get_or_create(&lane));
        drop(requests.get_or_create(&RequestLabels {
            verb: "verb",
            code: 200,
        }));
        let watch = WatchLabels {
            watch: "watch".to_owned(),
        };
        drop(synced.get_or_create(&watch));
        drop(idle_seconds.get_or_create(&watch));
        drop(errors.get_or_create(&watch));
        drop(events.get_or_create(&ResultLabels { result: "result" }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_sample() {
        let text = sample_metrics();
        let lines = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count();
        assert_eq!((lines("# HELP "), lines("# TYPE ")), (25, 25), "{text}");
        assert!(
            text.contains("kueue_check_api_requests_total{verb=\"verb\",code=\"200\"} 0"),
            "{text}"
        );
    }
}
