//! A real Prometheus on loopback, fed by a small exporter and by back-fill.
//!

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use kueue_check_budget::period::Period;
use kueue_check_budget::resource::SourceSpec;
use kueue_check_budget::source::{Credentials, Http, SourceError, SpendQuery, SpendReport, source};
use kueue_check_testenv::{
    Folder, Killed, Prometheus as Programs, free_address, or_skipped, prometheus,
};
use serde_json::json;

use super::harness::{eventually, stage_alone, timestamp, unique};

/// Returns the programs; `None`, with a printed reason, where they cannot be had.
fn programs() -> Option<Programs> {
    or_skipped("the suite on a real Prometheus", prometheus)
}

/// The exporter's figures: units per hour, by namespace; `None` while it is dead.
type Rates = Arc<Mutex<Option<BTreeMap<String, f64>>>>;

struct Prometheus {
    child: Killed,
    url: String,
    rates: Rates,
    folder: Folder,
}

/// The shipped rules, evaluated each second.
const RULES: &str = "groups:\n- name: cost\n  interval: 1s\n  rules:\n  - record: namespace:cost_per_hour:sum\n    expr: sum by (namespace) (pod_cost_per_hour)\n";

async fn exporter(rates: Rates) -> String {
    let handler = async move || match &*rates.lock().unwrap() {
        None => (axum::http::StatusCode::SERVICE_UNAVAILABLE, String::new()),
        Some(rates) => {
            let lines = rates.iter().map(|(name, rate)| {
                format!("pod_cost_per_hour{{namespace=\"{name}\",pod=\"p\"}} {rate}\n")
            });
            (
                axum::http::StatusCode::OK,
                format!(
                    "# TYPE pod_cost_per_hour gauge\n{}",
                    lines.collect::<String>()
                ),
            )
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        axum::serve(listener, Router::new().route("/metrics", get(handler))).await
    });
    address
}

impl Prometheus {
    async fn start(rates: &[(&str, f64)], history: &str) -> Option<Self> {
        let Programs {
            prometheus,
            promtool,
        } = programs()?;
        let rates: Rates = Arc::new(Mutex::new(Some(
            rates
                .iter()
                .map(|(name, rate)| ((*name).to_owned(), *rate))
                .collect(),
        )));
        let target = exporter(Arc::clone(&rates)).await;
        let folder = Folder::new("budget-check").unwrap();
        folder.write("rules.yml", RULES).unwrap();
        folder.write("prometheus.yml", &format!("global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\nscrape_configs:\n- job_name: exporter\n  honor_labels: true\n  static_configs: [{{targets: [\"{target}\"]}}]\n")).unwrap();
        if !history.is_empty() {
            folder.write("history.om", history).unwrap();
            let status = Command::new(promtool)
                .args([
                    "tsdb",
                    "create-blocks-from",
                    "openmetrics",
                    "history.om",
                    "data",
                ])
                .current_dir(folder.path())
                .stdout(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success(), "back-fill");
        }
        let address = free_address().unwrap();
        let child = Command::new(prometheus)
            .args([
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--storage.tsdb.retention.time=60d",
                &format!("--web.listen-address={address}"),
                "--log.level=error",
            ])
            .current_dir(folder.path())
            .spawn()
            .unwrap();
        Some(Self {
            child: Killed(child),
            url: format!("http://{address}"),
            rates,
            folder,
        })
    }

    /// Replaces the recording rules.
    fn rules(&self, rules: &str) {
        self.folder.write("rules.yml", rules).unwrap();
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-HUP", &pid]).status().unwrap();
        assert!(status.success(), "to read the rules again");
    }

    fn exporter_dies(&self) -> Option<BTreeMap<String, f64>> {
        self.rates.lock().unwrap().take()
    }

    fn exporter_reports(&self, rates: BTreeMap<String, f64>) {
        *self.rates.lock().unwrap() = Some(rates);
    }

    async fn query_spend(
        &self,
        patch: serde_json::Value,
        back: i64,
        length: i64,
    ) -> Result<SpendReport, SourceError> {
        let mut spec = json!({"url": self.url, "query": "namespace:cost_per_hour:sum", "sampleInterval": "1s", "freshness": "pod_cost_per_hour"});
        for (key, value) in patch.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let spec: SourceSpec = serde_json::from_value(json!({"prometheus": spec})).unwrap();
        let at = timestamp().as_second() - back;
        let second = |second: i64| jiff::Timestamp::from_second(second).unwrap();
        let period = Period {
            start: second(at - length),
            end: second(at + 86_400),
        };
        source(&spec, &Http::new(Credentials::default()))
            .query_spend(SpendQuery {
                period,
                at: second(at),
                namespaces: Vec::new(),
            })
            .await
    }
}

fn spent(report: &SpendReport, namespace: &str) -> f64 {
    report
        .observation
        .spent
        .get(namespace)
        .map_or(0.0, |spent| spent.as_f64())
}

#[tokio::test]
async fn what_is_measured_live_is_what_was_spent() {
    let Some(prometheus) = Prometheus::start(&[("vision", 3600.0), ("nlp", 7200.0)], "").await
    else {
        return;
    };
    let first = eventually("figures", async || {
        let report = prometheus.query_spend(json!({}), 1, 3600).await;
        (
            report
                .as_ref()
                .is_ok_and(|report| spent(report, "vision") >= 3.0),
            report,
        )
    })
    .await
    .unwrap();
    // One unit a second; one sample of error.
    assert!(
        (spent(&first, "nlp") - 2.0 * spent(&first, "vision")).abs() <= 2.0,
        "{first:?}"
    );
    // On a machine that stands still for a while some samples are missing.
    let second = eventually("one unit a second", async || {
        let first = prometheus.query_spend(json!({}), 1, 3600).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let second = prometheus.query_spend(json!({}), 1, 3600).await.unwrap();
        let passed = second.observation.as_of.as_second() - first.observation.as_of.as_second();
        let more = spent(&second, "vision") - spent(&first, "vision");
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let expected = passed as f64;
        ((more - expected).abs() <= 2.0, second)
    })
    .await;
    assert_eq!(second.notes, []);
    assert!(
        !second.observation.covered,
        "this server is younger than the period"
    );
    let current = |report: &SpendReport, namespace: &str| {
        let current = report.observation.current.as_ref();
        current.is_some_and(|current| current.contains(namespace))
    };
    assert!(current(&second, "vision"), "{second:?}");

    // The recording rule is no longer evaluated. Its past samples still have a sum, and the raw
    // metric is as fresh as before.
    prometheus.rules("groups: []\n");
    let dead = eventually("no current sample of the rule", async || {
        let report = prometheus.query_spend(json!({}), 1, 3600).await;
        (
            report
                .as_ref()
                .is_ok_and(|report| !current(report, "vision")),
            report,
        )
    })
    .await
    .unwrap();
    assert!(spent(&dead, "vision") >= spent(&second, "vision"));
    assert!(dead.observation.as_of > second.observation.as_of);
    prometheus.rules(RULES);
    eventually("a current sample of the rule", async || {
        let report = prometheus.query_spend(json!({}), 1, 3600).await;
        let back = report
            .as_ref()
            .is_ok_and(|report| current(report, "vision"));
        (back, report)
    })
    .await
    .unwrap();

    // The exporter dies: its series end at once, and nothing counts as zero.
    let rates = prometheus.exporter_dies().unwrap();
    let error = eventually("nothing to be measured", async || {
        let report = prometheus.query_spend(json!({}), 1, 3600).await;
        (report.is_err(), report)
    })
    .await
    .unwrap_err();
    assert_eq!(error.reason(), "NotMeasured");
    // It starts again, with nonsense for one namespace.
    prometheus.exporter_reports(
        rates
            .into_iter()
            .chain([("odd".to_owned(), f64::NAN)])
            .collect(),
    );
    let back = eventually("figures again", async || {
        let report = prometheus.query_spend(json!({}), 1, 3600).await;
        (
            report
                .as_ref()
                .is_ok_and(|report| !report.observation.unknown.is_empty()),
            report,
        )
    })
    .await
    .unwrap();
    assert!(
        back.observation.unknown.contains("odd")
            && spent(&back, "vision") > spent(&second, "vision"),
        "{back:?}"
    );

    // The errors that Prometheus itself reports, for an invalid query and for one that fails.
    let bad = prometheus
        .query_spend(
            json!({"shape": "PeriodToDate", "query": "sum by (namespace) (x[{{elapsed}}s]"}),
            1,
            3600,
        )
        .await
        .unwrap_err();
    assert_eq!(bad.reason(), "BadQuery");
    assert!(bad.to_string().contains("parse error"), "{bad}");
    let many = "pod_cost_per_hour * on (namespace) group_left () {__name__=~\"pod_cost_per_hour|namespace:cost_per_hour:sum\"} * 0 + {{elapsed}}";
    let failed = prometheus
        .query_spend(json!({"shape": "PeriodToDate", "query": many}), 1, 3600)
        .await
        .unwrap_err();
    assert!(matches!(failed.reason(), "QueryFailed"), "{failed}");
    let scalar = prometheus
        .query_spend(
            json!({"shape": "PeriodToDate", "query": "scalar(vector({{elapsed}}))"}),
            1,
            3600,
        )
        .await
        .unwrap_err();
    assert_eq!(scalar.reason(), "WrongShape");
    let zero = prometheus.query_spend(json!({"shape": "PeriodToDate", "query": "sum by (namespace) (missing) * {{elapsed}} or vector(0)"}), 1, 3600).await.unwrap_err();
    assert_eq!(zero.reason(), "WrongShape");
}

#[tokio::test]
async fn a_week_of_history_is_summed_to_one_sample() {
    let end = timestamp().as_second() - 4 * 3600;
    let start = end - 8 * 86_400;
    let mut history = String::from("# TYPE namespace_cost gauge\n");
    for (name, rate) in [("vision", "2.4"), ("nlp", "12")] {
        for at in (start..=end).step_by(60) {
            let _ = writeln!(
                history,
                "namespace_cost{{namespace=\"{name}\"}} {rate} {at}"
            );
        }
    }
    history += "# EOF\n";
    let Some(prometheus) = Prometheus::start(&[], &history).await else {
        return;
    };
    let week =
        json!({"query": "namespace_cost", "freshness": "namespace_cost", "sampleInterval": "1m"});
    let back = timestamp().as_second() - end;
    let report = eventually("the history", async || {
        let report = prometheus.query_spend(week.clone(), back, 7 * 86_400).await;
        (report.is_ok(), report)
    })
    .await
    .unwrap();
    // 168 hours; a range of 7 days has one sample more on Prometheus 2.
    assert!(
        (spent(&report, "vision") - 168.0 * 2.4).abs() <= 2.4 / 60.0 + 1e-6,
        "{report:?}"
    );
    assert!(
        (spent(&report, "nlp") - 168.0 * 12.0).abs() <= 12.0 / 60.0 + 1e-6,
        "{report:?}"
    );
    assert_eq!(report.notes, []);
    assert!(report.observation.covered, "the beginning of the week");
    // For a query after the last sample, the watermark stays behind.
    let later = prometheus
        .query_spend(week, back - 240, 7 * 86_400)
        .await
        .unwrap();
    assert!(
        (later.observation.as_of.as_second() - end).abs() <= 60,
        "{later:?}"
    );
}

/// Returns the samples of `metric` in each minute from `start` to `end`, of each exporter for the
/// times at which it lives.
fn exported(
    metric: &str,
    (start, end): (i64, i64),
    exporters: &[(&str, &dyn Fn(i64) -> bool)],
) -> String {
    let mut history = format!("# TYPE {metric} gauge\n");
    for (exporter, lives) in exporters {
        for at in (start..=end).step_by(60).filter(|at| lives(*at)) {
            let _ = writeln!(
                history,
                "{metric}{{namespace=\"vision\",exporter=\"{exporter}\"}} 2 {at}"
            );
        }
    }
    history
}

#[tokio::test]
async fn a_gap_of_the_history_or_an_exporter_that_has_ended_has_its_meaning() {
    let end = timestamp().as_second() - 4 * 3600;
    let start = end - 86_400;
    let all = (start - 2 * 86_400, end);
    let gap = |at: i64| !(start - 60..start + 600).contains(&at);
    let young = |at: i64| at >= start + 900;
    let (b_ended, c_ended) = (end - 1500, end - 7 * 3600);
    let history = [
        exported("gap_cost", all, &[("a", &gap)]),
        exported("young_cost", all, &[("a", &young)]),
        exported(
            "ended_cost",
            all,
            &[
                ("a", &|_| true),
                ("b", &|at| at <= b_ended),
                ("c", &|at| at <= c_ended),
            ],
        ),
    ];
    let history = history.concat() + "# EOF\n";
    let Some(prometheus) = Prometheus::start(&[], &history).await else {
        return;
    };
    let back = timestamp().as_second() - end;
    let report = async |metric: &str, by: Option<&str>| {
        let spec = json!({"query": metric, "freshness": metric, "freshnessBy": by, "sampleInterval": "1m"});
        eventually("the history", async || {
            let report = prometheus.query_spend(spec.clone(), back, 86_400).await;
            (report.is_ok(), report)
        })
        .await
        .unwrap()
        .observation
    };
    assert!(report("gap_cost", None).await.covered);
    assert!(!report("young_cost", None).await.covered);

    let as_of = report("ended_cost", None).await.as_of.as_second();
    assert!(as_of > end - 60, "the exporter that lives");
    // Of the one that has just ended, a sample of each quarter of an hour is read. The other ended
    // so long ago that it is gone for good.
    let as_of = report("ended_cost", Some("exporter")).await;
    let as_of = as_of.as_of.as_second();
    assert!(
        (b_ended - 1000..=b_ended).contains(&as_of),
        "{as_of}, not {b_ended}"
    );
}

#[tokio::test]
async fn a_real_prometheus_decides_workloads_end_to_end() {
    let Some(stage) = stage_alone().await else {
        return;
    };
    let Some(prometheus) = Prometheus::start(&[(&stage.namespace, 0.0)], "").await else {
        return;
    };
    let name = unique("budget");
    let kubeconfig = super::program::install(&stage, &name).await;
    let spec = |limit: u32| {
        json!({
            "unit": "USD", "period": {"every": "1h", "anchor": (timestamp() - jiff::SignedDuration::from_secs(30)).to_string()},
            "source": {
                "prometheus": {"url": prometheus.url, "query": "namespace:cost_per_hour:sum", "sampleInterval": "1s", "freshness": "pod_cost_per_hour"},
                "interval": "15s", "settleDelay": "2s", "stalenessBound": "40s",
            },
            "namespaceLimits": {"default": limit.to_string()},
            "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "estimate": {"safetyFactor": "1"},
        })
    };
    let first = spec(30);
    stage.budget(&name, &first).await;
    let program = super::program::Program::start(&name, &kubeconfig, None);
    stage.wait_active(&name, "True", "Active").await;
    stage.job("a", &name, 1).await;
    stage
        .wait("a", "Ready", "estimate 1.00 USD committed")
        .await;
    stage.set_condition("a", "Admitted").await;
    // The namespace spends one unit per second: after 30 s the limit.
    prometheus.exporter_reports([(stage.namespace.clone(), 3600.0)].into());
    stage
        .wait_condition(&name, "Overspent", "True", "OverLimit")
        .await;
    stage.job("b", &name, 1).await;
    let message = stage.wait("b", "Pending", "has spent").await;
    assert!(
        message.contains("of 30.00 USD this period") && message.contains("for a top-up"),
        "{message}"
    );
    // With more money it starts, without another trigger.
    let mut more = first.clone();
    more["namespaceLimits"]["default"] = json!("3000");
    stage.budget(&name, &more).await;
    stage.wait("b", "Ready", "committed").await;
    // The exporter dies. Spend data becomes stale, and then jobs wait.
    let rates = prometheus.exporter_dies().unwrap();
    stage
        .wait_condition(&name, "Fresh", "False", "NotMeasured")
        .await;
    tokio::time::sleep(Duration::from_secs(45)).await;
    stage.job("c", &name, 1).await;
    stage.wait("c", "Pending", "is unknown since").await;
    prometheus.exporter_reports(rates);
    stage.wait("c", "Ready", "committed").await;
    let states: Vec<String> = stage
        .entries()
        .await
        .into_iter()
        .map(|(_, state, _)| state)
        .collect();
    assert_eq!(states, ["Ready", "Ready", "Ready"], "nothing was evicted");
    assert!(program.metric("kueue_check_evictions_total").await < 1.0);
    println!(
        "{}",
        program
            .get("/metrics")
            .await
            .lines()
            .filter(|line| line.starts_with("budget_"))
            .collect::<Vec<_>>()
            .join("\n")
    );
}

#[tokio::test]
async fn the_rules_are_valid() {
    let Some(Programs { promtool, .. }) = programs() else {
        return;
    };
    let rules = format!("{}/deploy/rules.yaml", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(promtool)
        .args(["check", "rules", &rules])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
