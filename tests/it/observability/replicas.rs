//! Two replicas, of which one leads and is replaced: the chart's alerts and dashboard, evaluated by
//! Prometheus on their metrics.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kueue_check_testenv::{Folder, Killed, exposition, free_address, or_skipped, prometheus};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::program::{Program, Stage, wait};
use crate::repository;

/// The labels that a `ServiceMonitor` gives each series of the release, besides the pod's.
const SERIES: &str = "namespace=\"checks\",job=\"seats\"";

/// Returns the body of a GET of a server on this host.
async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await.ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    if !head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        return Some(body.to_owned());
    }
    let (mut whole, mut rest) = (String::new(), body);
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).ok()?;
        whole += after.get(..length)?;
        rest = after.get(length + 2..).unwrap_or_default();
    }
    Some(whole)
}

/// Prometheus, which scrapes `pods` four times a second and evaluates the chart's alerts.
struct Prometheus {
    _child: Killed,
    address: SocketAddr,
    /// Removed when this is dropped.
    _folder: Folder,
}

impl Prometheus {
    fn start(program: &Path, pods: &[(&str, SocketAddr)]) -> Self {
        let address = free_address().unwrap();
        let folder = Folder::new("seats-prometheus").unwrap();
        let targets: Vec<Value> = pods
            .iter()
            .map(|(pod, address)| {
                let labels = json!({"namespace": "checks", "pod": pod});
                json!({"targets": [address.to_string()], "labels": labels})
            })
            .collect();
        let config = json!({
            "global": {"scrape_interval": "250ms", "evaluation_interval": "250ms"},
            "scrape_configs": [{"job_name": "seats", "static_configs": targets}],
        });
        folder.write("prometheus.yml", &config.to_string()).unwrap();
        let child = Command::new(program)
            .arg(format!(
                "--config.file={}",
                folder.path().join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .args(["--query.lookback-delta=5s", "--log.level=error"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            _child: Killed(child),
            address,
            _folder: folder,
        }
    }

    /// Returns the series of an expression, with their values.
    async fn query(&self, expression: &str) -> Result<Vec<(Value, f64)>, String> {
        let encoded: String = form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        let path = format!("/api/v1/query?query={encoded}");
        let response = get(self.address, &path).await.ok_or("no response")?;
        let response: Value = serde_json::from_str(&response).map_err(|error| error.to_string())?;
        let result = response["data"]["result"]
            .as_array()
            .ok_or(response.to_string())?;
        let series = result.iter().map(|one| {
            let value = one["value"][1].as_str().unwrap_or_default();
            (one["metric"].clone(), value.parse().unwrap_or(f64::NAN))
        });
        Ok(series.collect())
    }

    /// Waits until the one value of `expression` is as expected.
    async fn wait(&self, expression: &str, wanted: impl Fn(f64) -> bool) {
        let until = Instant::now() + Duration::from_secs(40);
        loop {
            let seen = self.query(expression).await;
            if let Ok([(_, value)]) = seen.as_deref()
                && wanted(*value)
            {
                return;
            }
            assert!(Instant::now() < until, "{expression}: {seen:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn chart(path: &str) -> Value {
    let chart = repository().join("charts/kueue-check");
    let text = std::fs::read_to_string(chart.join(path)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// Returns the expression of each alert that every check has.
fn alerts() -> Vec<(String, String)> {
    let alerts = chart("files/alerts.yaml");
    let alerts = alerts["alerts"].as_array().unwrap().iter();
    let alerts = alerts.map(|alert| {
        let expression = alert["expr"].as_str().unwrap().replace("$SERIES", SERIES);
        (alert["alert"].as_str().unwrap().to_owned(), expression)
    });
    alerts.collect()
}

/// Returns the first expression of a panel.
fn panel(title: &str) -> String {
    let board = chart("dashboards/kueue-check.json");
    let panels = board["panels"].as_array().unwrap();
    let panel = panels.iter().find(|panel| panel["title"] == title);
    let panel = panel.unwrap_or_else(|| {
        let titles: Vec<&Value> = panels.iter().map(|panel| &panel["title"]).collect();
        panic!("no panel {title} in {titles:?}")
    });
    let expression = panel["targets"][0]["expr"].as_str().unwrap();
    expression
        .replace("$namespace", "checks")
        .replace("$job", "seats")
        .replace("$check", ".*")
        .replace("$__rate_interval", "1m")
}

/// Returns the metrics of a pod, once it serves.
async fn metrics(pod: SocketAddr) -> String {
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        if let Some(text) = get(pod, "/metrics").await {
            return text;
        }
        assert!(Instant::now() < until, "{pod} does not serve");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the sum of a metric's series over all `pods`.
async fn sum(pods: &[SocketAddr], name: &str, labels: &[(&str, &str)]) -> f64 {
    let mut sum = 0.0;
    for pod in pods {
        let text = metrics(*pod).await;
        let samples = exposition::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let of = samples.iter().filter(|sample| {
            let labelled = labels
                .iter()
                .all(|(label, value)| sample.labels.get(*label).is_some_and(|v| v == value));
            sample.name == name && labelled
        });
        sum += of.map(|sample| sample.value).sum::<f64>();
    }
    sum
}

async fn leader(pods: &[SocketAddr]) -> usize {
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        for (number, pod) in pods.iter().enumerate() {
            let text = get(*pod, "/metrics").await.unwrap_or_default();
            if text.contains("\nkueue_check_leader 1\n") {
                return number;
            }
        }
        assert!(Instant::now() < until, "no leader");
        sleep(Duration::from_millis(50)).await;
    }
}

/// A replica that restarts has no record of earlier verdicts. It must not count its verdict as a
/// first one: after hours of Pending that would raise an alert.
#[tokio::test]
async fn two_replicas_and_a_restart_change_no_figure() {
    let programs = or_skipped("Prometheus over two replicas", prometheus);
    let stage = Stage::new().await;
    let mut replicas = Vec::from([0, 1].map(|number| Some(Program::replica(&stage, number, None))));
    let pods: Vec<SocketAddr> = replicas.iter().flatten().map(|r| r.admin).collect();
    let leads = leader(&pods).await;
    let prometheus = programs.map(|programs| {
        Prometheus::start(
            &programs.prometheus,
            &[("seats-0", pods[0]), ("seats-1", pods[1])],
        )
    });
    for name in ["ready-0", "ready-1", "waits-0"] {
        stage.reserve(name);
    }
    for name in ["ready-0", "ready-1"] {
        stage.wait_ready(name).await;
    }
    stage.wait_message("waits-0", "seats are taken").await;
    let first = "kueue_check_first_verdict_seconds_count";
    assert!((sum(&pods, first, &[]).await - 3.0).abs() < 0.5);
    let check = async |place: &str| {
        let Some(prometheus) = &prometheus else {
            return;
        };
        prometheus
            .wait(&panel("Leading replicas"), |value| {
                (value - 1.0).abs() < 0.01
            })
            .await;
        prometheus
            .wait(&panel("Pending now"), |value| (value - 1.0).abs() < 0.01)
            .await;
        prometheus
            .wait(&panel("Inactive AdmissionChecks"), |value| value == 0.0)
            .await;
        prometheus
            .wait(&panel("Workloads in memory"), |value| value >= 3.0)
            .await;
        for (alert, expression) in alerts() {
            let until = Instant::now() + Duration::from_secs(20);
            loop {
                let seen = prometheus.query(&expression).await;
                if seen.as_ref().is_ok_and(Vec::is_empty) {
                    break;
                }
                assert!(
                    Instant::now() < until,
                    "{place}: {alert}: {expression}: {seen:?}"
                );
                sleep(Duration::from_millis(100)).await;
            }
        }
    };
    check("one leads and one stands by").await;

    replicas[leads].take().unwrap().stop().await;
    let other = 1 - leads;
    assert_eq!(leader(&pods[other..=other]).await, 0);
    let restarted = Program::replica(&stage, leads, Some(pods[leads]));
    metrics(pods[leads]).await;
    // The new leader has evaluated what waits, and counts no first verdict.
    wait("an evaluation by the new leader", || {
        let evaluated = replicas[other].as_ref().unwrap().lines();
        let seen = evaluated
            .iter()
            .any(|line| line.contains("evaluated waits-0"));
        seen.then_some(()).ok_or(evaluated.join("\n"))
    })
    .await;
    check("the other one leads and the first one has begun anew").await;
    assert!(
        sum(&pods, first, &[]).await < 0.5,
        "{}",
        sum(&pods, first, &[]).await
    );
    // The first count of a process is visible: its series was there before, at 0.
    stage.reserve("ready-2");
    stage.wait_ready("ready-2").await;
    assert!((sum(&pods, first, &[]).await - 1.0).abs() < 0.5);
    let ready = [("state", "Ready")];
    assert!((sum(&pods, "kueue_check_verdicts_total", &ready).await - 1.0).abs() < 0.5);
    if let Some(prometheus) = &prometheus {
        let counted =
            format!("sum(increase(kueue_check_verdicts_total{{{SERIES},state=\"Ready\"}}[30s]))");
        prometheus.wait(&counted, |value| value > 0.5).await;
    }
    drop(restarted);
}
