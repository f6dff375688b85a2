//! The example `silence` on a real Alertmanager, whose alerts come from a real Prometheus.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kueue_check_testenv::{Folder, alertmanager, or_skipped, prometheus};
use serde_json::{Value, json};

use crate::prometheus::{Process, example, expect};
use crate::sdk::raw_to;
use crate::server::{Reply, Server};

const SERVER: &str = "https://alertmanager.monitoring:9093";

/// Alerts of the storage are inhibited while the rack is moved.
const CONFIG: &str = "\
route: {receiver: nobody}
receivers: [{name: nobody}]
inhibit_rules:
- source_matchers: [alertname = RackMoves]
  target_matchers: [component = storage]
";

const RULES: &str = "\
groups:
- name: figures
  interval: 1s
  rules:
  - {alert: DiskSlow, expr: disk_errors > 0, labels: {component: storage}}
  - {alert: LinkDown, expr: link_errors > 0, labels: {component: network}}
  - {alert: RackMoves, expr: rack_moves > 0}
";

/// Sends `body` to the Alertmanager, which must take it. Returns its response.
async fn send(server: &Process, line: &str, body: &Value) -> String {
    let headers = "content-type: application/json\r\n";
    let (status, text) = raw_to(server.port, line, headers, &body.to_string()).await;
    assert_eq!(status, 200, "{line}: {text}");
    text
}

/// Silences the alerts of the storage for an hour. Returns the silence's id.
async fn silence(server: &Process) -> String {
    let now = kueue_check::Clock::system().now();
    let matcher = json!({"name": "component", "value": "storage", "isRegex": false});
    let silence = json!({
        "matchers": [matcher], "createdBy": "olga", "comment": "a new disk",
        "startsAt": now.to_string(),
        "endsAt": (now + jiff::SignedDuration::from_hours(1)).to_string(),
    });
    let response = send(server, "POST /api/v2/silences", &silence).await;
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    body["silenceID"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_rule_reads_a_real_alertmanager() {
    let programs = or_skipped("a rule on a real Alertmanager", || {
        Ok::<_, kueue_check_testenv::Unavailable>((alertmanager()?, prometheus()?))
    });
    let Some((alertmanager, prometheus)) = programs else {
        return;
    };
    let figures: [Arc<AtomicUsize>; 3] = Default::default();
    let [disk, link, rack] = figures.clone();
    let exporter = Server::start(move |_| {
        let [disk, link, rack] = figures
            .each_ref()
            .map(|figure| figure.load(Ordering::Relaxed));
        let text = format!("disk_errors {disk}\nlink_errors {link}\nrack_moves {rack}\n");
        Reply::with_headers(200, "content-type: text/plain; version=0.0.4\r\n", &text)
    })
    .await;
    let folder = Folder::new("rule").unwrap();
    folder.write("alertmanager.yml", CONFIG).unwrap();
    let arguments = [
        "--config.file=alertmanager.yml",
        "--storage.path=data",
        "--cluster.listen-address=",
        "--web.listen-address=ADDRESS",
        "--log.level=error",
    ];
    let server = Process::start(&alertmanager, folder, &arguments);
    let url = server.url();
    let folder = Folder::new("rule").unwrap();
    folder.write("rules.yml", RULES).unwrap();
    let config = json!({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "exporter",
            "static_configs": [{"targets": [exporter.url.trim_start_matches("http://")]}]}],
        "alerting": {"alertmanagers": [
            {"static_configs": [{"targets": [format!("127.0.0.1:{}", server.port)]}]}]},
    });
    folder.write("prometheus.yml", &config.to_string()).unwrap();
    let arguments = [
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        // An alert that fires or ends is sent at once; this is the interval of repeats.
        "--rules.alert.resend-delay=1s",
        "--web.listen-address=ADDRESS",
        "--log.level=error",
    ];
    let _prometheus = Process::start(&prometheus.prometheus, folder, &arguments);

    let rule = example(include_str!("../../examples/silence.yaml"), SERVER, &url);
    let none = json!({});
    let ready = || expect(&rule, &url, &none, true, "the rule is met");
    let waits = || expect(&rule, &url, &none, false, "waits for the alerts DiskSlow");
    ready().await;
    // The alert fires, beside one of another component, and a silence covers it.
    link.store(1, Ordering::Relaxed);
    disk.store(1, Ordering::Relaxed);
    waits().await;
    let name = silence(&server).await;
    ready().await;
    send(
        &server,
        &format!("DELETE /api/v2/silence/{name}"),
        &json!({}),
    )
    .await;
    waits().await;
    // Another alert inhibits it.
    rack.store(1, Ordering::Relaxed);
    ready().await;
    rack.store(0, Ordering::Relaxed);
    waits().await;
    // The alert is resolved, and the other component's is not.
    disk.store(0, Ordering::Relaxed);
    ready().await;
    let all = send(&server, "GET /api/v2/alerts", &json!({})).await;
    assert!(
        all.contains("LinkDown") && !all.contains("DiskSlow"),
        "{all}"
    );
    drop(server);
    expect(&rule, &url, &none, false, "`alerts` has not responded yet").await;
}
