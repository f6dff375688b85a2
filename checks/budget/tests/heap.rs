//! The memory that a committed Workload takes in the ledger, and a response in the process, counted
//! by the allocator. It is a binary of its own, because it counts everything.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use kueue_check::api::Workload;
use kueue_check::{Family, WorkloadEvent};
use kueue_check_budget::config::BudgetConfig;
use kueue_check_budget::ledger::Ledgers;
use kueue_check_budget::period::Period;
use kueue_check_budget::source::{Credentials, Http, SourceError, SpendQuery, source};
use kueue_check_testenv::Folder;
use peak_alloc::PeakAlloc;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const WORKLOADS: usize = 10_000;
/// The maximum, in bytes, that the ledger may keep of a Workload besides the runtime's cached copy,
/// which it shares. Three parts take a pointer each: the priority class with its kind, by which
/// exemptions are decided; the job, if it may have several Workloads; the pods that a growth
/// commits.
const BAR: usize = 224;

/// Returns a running job, in one of 50 namespaces. Uids are random, as a cluster's are.
fn workload(number: usize) -> Workload {
    let random = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let uid = format!("{:08x}-0000-4000-8000-{number:012x}", random >> 32);
    Workload::from_json(json!({
        "metadata": {"namespace": format!("team-{}", number % 50), "name": format!("job-{number}"), "uid": uid},
        "spec": {"maximumExecutionTimeSeconds": 3600, "podSets": [{"name": "main", "count": 1, "template": {}}]},
        "status": {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"},
                {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-11-21T09:00:01Z"}],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]},
            "admissionChecks": [{"name": "check", "state": "Ready"}]},
    }))
    .unwrap()
}

/// One test at a time: the allocator counts all of them.
static ALONE: Mutex<()> = Mutex::new(());

/// The sizes of a response that is too large, and of one that is read, in bytes.
const SIZES: [usize; 2] = [8 << 20, (4 << 20) - 8192];
/// The maximum memory that either may take at any moment, in bytes.
const MOST: usize = 16 << 20;

/// Datadog's response to the first of its two queries.
const PROBE: &str = "{\"status\":\"ok\",\"series\":[{\"pointlist\":[[1795251000000,1]]}]}";

/// Starts a server that responds to each request with `head`, `item` repeated up to `size` bytes,
/// and `tail`. `states_length` sets whether it states the length.
async fn server([head, item, tail]: [&'static str; 3], size: usize, states_length: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap_or_default();
            if head.contains("columns") && request[..read].starts_with(b"GET") {
                let length = PROBE.len();
                let probe = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{PROBE}");
                let _ = stream.write_all(probe.as_bytes()).await;
                continue;
            }
            let times = size / item.len();
            let length = head.len() + times * item.len() + tail.len();
            let length = if states_length {
                format!("content-length: {length}")
            } else {
                "connection: close".to_owned()
            };
            let start = format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\n{head}");
            let _ = stream.write_all(start.as_bytes()).await;
            let together = 65_536_usize.div_ceil(item.len());
            let chunk = item.repeat(together);
            for _ in 0..times / together {
                if stream.write_all(chunk.as_bytes()).await.is_err() {
                    break;
                }
            }
            let rest = item.repeat(times % together) + tail;
            let _ = stream.write_all(rest.as_bytes()).await;
        }
    });
    url
}

/// Returns the peak memory for the response of the server at `url`, and the error.
fn cost(runtime: &Runtime, case: &str, url: &str, folder: &Path) -> (usize, Option<SourceError>) {
    let spec = if case.ends_with("Datadog") {
        json!({"datadog": {"site": "datadoghq.eu", "url": url, "query": "x by {kube_namespace}", "freshness": "x",
            "apiKeyFile": "key", "appKeyFile": "key"}})
    } else {
        json!({"prometheus": {"url": url, "query": "rule", "sampleInterval": "1m", "freshness": "raw"}})
    };
    let credentials = Credentials {
        folder: folder.to_owned(),
        servers: vec![format!("{url}=.").parse().unwrap()],
    };
    let source = source(
        &serde_json::from_value(spec).unwrap(),
        &Http::new(credentials),
    );
    let second = |second| jiff::Timestamp::from_second(second).unwrap();
    let spend_query = SpendQuery {
        period: Period {
            start: second(1_795_000_000),
            end: second(1_796_000_000),
        },
        at: second(1_795_251_600),
        namespaces: Vec::new(),
    };
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let report = runtime.block_on(source.query_spend(spend_query));
    let cost = ALLOCATOR.peak_usage().saturating_sub(before);
    (cost, report.err())
}

#[test]
fn a_response_of_any_size_costs_at_most_16_mib() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let vector = "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[";
    let columns = "{\"data\":{\"attributes\":{\"columns\":[{\"type\":\"group\",\"name\":\"kube_namespace\",\"values\":[";
    let series = "{\"status\":\"ok\",\"series\":[{\"tag_set\":[],\"scope\":\"\",\"pointlist\":[";
    let labels = "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{\"metric\":{\"namespace\":\"n\"";
    let full = format!("{{\"pointlist\":[{}[1,1]]}},", "[1,1],".repeat(1999));
    let folder = Folder::new("budget-check-heap").unwrap();
    folder.write("key", "k").unwrap();
    for (case, head, item, tail) in [
        (
            "short series",
            vector,
            "{\"metric\":{\"namespace\":\"a\"},\"value\":[1,\"1\"]},",
            "{\"metric\":{},\"value\":[1,\"1\"]}]}}",
        ),
        (
            "many labels",
            labels,
            ",\"a\":\"b\"",
            "},\"value\":[1,\"1\"]}]}}",
        ),
        ("no JSON of a query", "[", "1,", "1]"),
        ("names of Datadog", columns, "[\"a\"],", "[\"a\"]]}]}}}"),
        ("points of Datadog", series, "[1,1],", "[1,1]]}]}"),
        (
            "series of Datadog",
            "{\"status\":\"ok\",\"series\":[",
            full.leak(),
            "{\"pointlist\":[]}]}",
        ),
    ] {
        for (size, states_length) in SIZES
            .into_iter()
            .flat_map(|size| [(size, true), (size, false)])
        {
            let url = runtime.block_on(server([head, item, tail], size, states_length));
            let (cost, error) = cost(&runtime, case, &url, folder.path());
            println!(
                "{case}, {} KiB: {} KiB at most, {error:?}",
                size >> 10,
                cost >> 10
            );
            assert!(cost <= MOST, "{case}: {} MiB", cost >> 20);
            let is_read = !error.is_some_and(|error| error.to_string().contains("larger than"));
            assert_eq!(is_read, size == SIZES[1], "{case}");
        }
    }
}

#[test]
fn a_committed_workload_costs_little() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let spec = json!({"unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "10"},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}]});
    let terms = BudgetConfig::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap();
    let now = "2026-11-21T09:00:02Z".parse().unwrap();
    let mut ledgers = Ledgers::default();
    ledgers.adopt(Arc::new(terms), now);
    ledgers.refer("check", Some("b"), now);
    let workloads: Vec<Workload> = (0..WORKLOADS).map(workload).collect();
    let before = ALLOCATOR.current_usage();
    for workload in &workloads {
        ledgers.observe_workload(
            WorkloadEvent::Applied(workload, &Family::of(workload, [])),
            now,
        );
    }
    let each = (ALLOCATOR.current_usage() - before) / WORKLOADS;
    let period = ledgers.ledger("b").unwrap().period(now).unwrap();
    let account = kueue_check_budget::config::Account::Namespace("team-7".into());
    let balance = ledgers.ledger("b").unwrap().balance(&account, period, now);
    assert_eq!(balance.committed.jobs, 200, "all are committed");
    println!("{each} bytes for each of {WORKLOADS} committed Workloads");
    assert!(each <= BAR, "{each} bytes");
}
