//! A sample of every metric, for documents, dashboards and alerts.

use super::{
    CheckLabels, LaneLabels, Metrics, OutcomeLabels, RequestLabels, ResultLabels, StateLabels,
    WatchLabels,
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
            evaluations,
            evaluation_seconds,
            verdicts,
            first_verdict_seconds,
            pending_seconds,
            evictions,
            suppressed_evictions: held_back,
            policy_applied,
            writes,
            overwritten,
            releases,
            releases_outstanding,
            check_active,
            pending_workloads,
            workloads: _,
            malformed_objects: _,
            queue_depth,
            queue_oldest_seconds,
            requests,
            watch_synced,
            watch_idle_seconds: watch_silent_seconds,
            watch_errors,
            leader: _,
            events,
        } = self;
        let check = CheckLabels {
            check: "check".to_owned(),
        };
        for family in [evaluations, held_back, policy_applied, writes, releases] {
            drop(family.get_or_create(&OutcomeLabels {
                check: check.check.clone(),
                outcome: "outcome",
            }));
        }
        let state = StateLabels {
            check: check.check.clone(),
            state: "state".to_owned(),
        };
        for family in [verdicts, evictions] {
            drop(family.get_or_create(&state));
        }
        drop(pending_seconds.get_or_create(&state));
        for family in [evaluation_seconds, first_verdict_seconds] {
            drop(family.get_or_create(&check));
        }
        drop(overwritten.get_or_create(&check));
        for family in [releases_outstanding, check_active, pending_workloads] {
            drop(family.get_or_create(&check));
        }
        let lane = LaneLabels { lane: "lane" };
        drop(queue_depth.get_or_create(&lane));
        drop(queue_oldest_seconds.get_or_create(&lane));
        drop(requests.get_or_create(&RequestLabels {
            verb: "verb",
            code: 200,
        }));
        let watch = WatchLabels {
            watch: "watch".to_owned(),
        };
        drop(watch_synced.get_or_create(&watch));
        drop(watch_silent_seconds.get_or_create(&watch));
        drop(watch_errors.get_or_create(&watch));
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
