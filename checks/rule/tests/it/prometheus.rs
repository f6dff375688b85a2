//! CELChecks over a real Prometheus on loopback.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kueue_check::api::Workload;
use kueue_check::{AdmissionCheckController, Parameters, RequestBuilder, Verdict};
use kueue_check_rule::celcheck::{CELCheck, resource};
use kueue_check_testenv::{Folder, Killed, free_address, or_skipped, prometheus};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::server::{Reply, Server, open};

/// The maximum time from a changed figure to its verdict.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The server that the examples name.
const SERVER: &str = "https://prometheus.monitoring:9090";

/// A program that listens on loopback, and ends when this is dropped.
pub(crate) struct Process {
    _child: Killed,
    pub(crate) port: u16,
    _folder: Option<Folder>,
}

impl Process {
    /// Starts `program` in `folder`. In the arguments, `ADDRESS` stands for its listen address.
    pub(crate) fn start(program: &Path, folder: Folder, arguments: &[&str]) -> Self {
        let address = free_address().unwrap();
        let arguments = arguments.iter();
        let arguments = arguments.map(|text| text.replace("ADDRESS", &address.to_string()));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder.path());
        Self::spawn(command.stderr(Stdio::null()), address.port(), Some(folder))
    }

    /// Starts a program that listens on `port`.
    pub(crate) fn spawn(command: &mut Command, port: u16, folder: Option<Folder>) -> Self {
        Self {
            _child: Killed(command.stdout(Stdio::null()).spawn().unwrap()),
            port,
            _folder: folder,
        }
    }

    /// Waits until it listens.
    pub(crate) async fn listens(&self) {
        let begun = Instant::now();
        while let Err(error) = TcpStream::connect(("127.0.0.1", self.port)).await {
            assert!(begun.elapsed() < TIMEOUT, "port {}: {error}", self.port);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Returns the `CELCheck` of an example, which reads `url` instead of `server`.
pub(crate) fn example(text: &str, server: &str, url: &str) -> Value {
    let rule = text.split("---\n").next().unwrap();
    assert!(rule.contains(server), "{server} is not in {rule}");
    serde_saphyr::from_str(&rule.replace(server, url)).unwrap()
}

/// Returns the verdict of `rule` now, with figures queried now.
pub(crate) async fn verdict(rule: &Value, url: &str, labels: &Value) -> Result<Verdict, String> {
    let check = CELCheck::new(open(&[url]));
    let workload = Workload::from_json(json!({
        "metadata": {"namespace": "default", "name": "train", "uid": "u", "labels": labels},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
            "admission": {"clusterQueue": "c", "podSetAssignments": []},
            "admissionChecks": [{"name": "rule", "state": "Pending"}]},
    }));
    let parameters = resource::CELCheck::decode(rule.clone()).unwrap();
    let now = kueue_check::Clock::system().now();
    let request = RequestBuilder::new(workload.unwrap(), "rule").now(now);
    let preview = check.preview(request.build(parameters)).await;
    let preview = preview.map_err(|error| error.to_string())?;
    Ok(preview.verdict().unwrap().clone())
}

/// Evaluates until the verdict is Ready or not, as expected, and its message or error contains
/// `part`.
pub(crate) async fn expect(rule: &Value, url: &str, labels: &Value, is_ready: bool, part: &str) {
    let begun = Instant::now();
    loop {
        let found = verdict(rule, url, labels).await;
        let (ready, text) = match &found {
            Ok(verdict) => (verdict.is_ready(), verdict.message().to_owned()),
            Err(error) => (false, error.clone()),
        };
        if ready == is_ready && text.contains(part) {
            return;
        }
        assert!(
            begun.elapsed() < TIMEOUT,
            "expected `{part}`, last: {found:?}"
        );
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn rules_read_a_real_prometheus() {
    let Some(programs) = or_skipped("rules on a real Prometheus", prometheus) else {
        return;
    };
    let (errors, used) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(1)));
    let figures = (Arc::clone(&errors), Arc::clone(&used));
    let exporter = Server::start(move |_| {
        let (errors, used) = (figures.0.load(Ordering::Relaxed), figures.1.load(Ordering::Relaxed));
        let text = format!(
            "disk_errors {errors}\nflexlm_feature_issued{{name=\"solver\"}} 4\nflexlm_feature_used{{name=\"solver\"}} {used}\n"
        );
        Reply::with_headers(200, "content-type: text/plain; version=0.0.4\r\n", &text)
    })
    .await;
    let folder = Folder::new("rule").unwrap();
    folder.write("rules.yml", "groups:\n- name: storage\n  interval: 1s\n  rules:\n  - alert: DiskSlow\n    expr: disk_errors > 0\n    labels: {component: storage}\n").unwrap();
    let target = exporter.url.trim_start_matches("http://");
    folder.write("prometheus.yml", &format!("global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\nscrape_configs:\n- job_name: exporter\n  static_configs: [{{targets: [\"{target}\"]}}]\n")).unwrap();
    let arguments = [
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        "--web.listen-address=ADDRESS",
        "--log.level=error",
    ];
    let server = Process::start(&programs.prometheus, folder, &arguments);
    let url = server.url();

    let alerts = example(include_str!("../../examples/alerts.yaml"), SERVER, &url);
    let mut licences = example(include_str!("../../examples/licences.yaml"), SERVER, &url);
    // Only a running check stores the jobs that are starting.
    let variables = licences["spec"]["variables"].as_array_mut().unwrap();
    variables.last_mut().unwrap()["expression"] = json!("0");
    let (none, three) = (json!({}), json!({"example.com/licences": "3"}));

    expect(&licences, &url, &three, true, "the rule is met").await;
    expect(&alerts, &url, &none, true, "the rule is met").await;
    used.store(2, Ordering::Relaxed);
    errors.store(1, Ordering::Relaxed);
    expect(
        &licences,
        &url,
        &three,
        false,
        "needs 3 licences; 2 are free",
    )
    .await;
    expect(
        &alerts,
        &url,
        &none,
        false,
        "waits until DiskSlow is quiet for 10 minutes",
    )
    .await;
    // There were no errors for less than 10 min.
    errors.store(0, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    expect(&alerts, &url, &none, false, "waits until DiskSlow").await;
    let mut wrong = alerts.clone();
    wrong["spec"]["data"][0]["prometheus"]["query"] = json!("max by (");
    expect(&wrong, &url, &none, false, "parse error").await;
    drop(server);
    expect(
        &alerts,
        &url,
        &none,
        false,
        "`alerts` has not responded yet",
    )
    .await;
}
