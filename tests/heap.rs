//! The memory of a Workload that holds quota, and that none of it remains, counted by the
//! allocator. A binary of its own, because it counts everything.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use kueue_check::runtime::Runtime;
use kueue_check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, Clock, ControllerName, NoParameters,
    ReleaseOutcome, ReleaseReason, Reservation, Verdict,
};
use kueue_check_sim::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};
use kueue_check_sim::definitions;
use kueue_check_testenv::workload;
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const WORKLOADS: usize = 10_000;
/// The most bytes of a Workload, all included: the view, the index, the record of the verdict.
const BUDGET: usize = 1024;

/// Responds to a request. It makes each page on request, so that it stores nothing.
fn respond(
    request: &Request<Body>,
    workloads: usize,
    all_different: bool,
) -> Response<http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>> {
    let (path, query) = (
        request.uri().path().to_owned(),
        request.uri().query().unwrap_or_default().to_owned(),
    );
    let parameter = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
            .map(str::to_owned)
    };
    if query.contains("watch=true") {
        let silence = futures::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
        return Response::new(StreamBody::new(silence).boxed_unsync());
    }
    let list = |items: Vec<Value>, more: Option<usize>| json!({"metadata": {"resourceVersion": "9999999", "continue": more.map(|at| at.to_string())}, "items": items});
    let body = match path.rsplit('/').next().unwrap() {
        "kueue.x-k8s.io" => json!({"versions": [{"version": "v1beta2"}]}),
        "v1beta2" => {
            json!({"components": {"schemas": {"x.Workload": {"properties": {"status": {"properties": {"admissionChecks": {"items": {}}}}}}}}})
        }
        "admissionchecks" => list(
            vec![
                json!({"metadata": {"name": "budget", "uid": "c", "resourceVersion": "1", "generation": 1},
            "spec": {"controllerName": "example.com/budget"},
            "status": {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "The admission check is active", "observedGeneration": 1}]}}),
            ],
            None,
        ),
        "workloads" => {
            let from: usize = parameter("continue").map_or(0, |at| at.parse().unwrap());
            let to = workloads.min(from + parameter("limit").unwrap().parse::<usize>().unwrap());
            list(
                (from..to)
                    .map(|number| workload(number, if all_different { 1 + number } else { 8 }))
                    .collect(),
                (to < workloads).then_some(to),
            )
        }
        _ => list(Vec::new(), None),
    };
    Response::new(Full::new(Bytes::from(body.to_string())).boxed_unsync())
}

/// The allocator counts the memory of all tests of this binary, so they run one after the other.
static TURN: Mutex<()> = Mutex::const_new(());

/// Returns the heap in use, and its peak, when a runtime has evaluated `workloads` of them.
async fn heap_with(workloads: usize, all_different: bool) -> (usize, usize) {
    ALLOCATOR.reset_peak_usage();
    let client = Client::new(
        tower::service_fn(move |request| async move {
            Ok::<_, Infallible>(respond(&request, workloads, all_different))
        }),
        "default",
    );
    let budget = Check::from_fn(
        ControllerName::from_static("example.com/budget"),
        async || {
            Verdict::pending("team research has spent its budget")
                .recheck_in(Duration::from_secs(3600))
        },
    );
    let runtime = Runtime::builder(client).check(budget).build().unwrap();
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(600)).await;
    let metrics = handle.metrics().await;
    assert!(
        metrics.contains(&format!("kueue_check_tracked_workloads {workloads}")),
        "{metrics}"
    );
    if workloads > 0 {
        assert!(
            metrics.contains(&format!("outcome=\"Pending\"}} {workloads}")),
            "each was evaluated: {metrics}"
        );
    }
    drop(metrics);
    let (now, peak) = (ALLOCATOR.current_usage(), ALLOCATOR.peak_usage());
    running.abort();
    let _ = running.await;
    (now, peak)
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_holds_quota_costs_at_most_a_kibibyte() {
    let _turn = TURN.lock().await;
    let size = workload(1234, 8).to_string().len();
    assert!(
        (5800..6600).contains(&size),
        "the Workloads are to have about 6 KB, not {size} B"
    );
    let (empty, _) = heap_with(0, false).await;
    let (full, peak) = heap_with(WORKLOADS, false).await;
    let each = (full - empty) / WORKLOADS;
    let above = (peak - full) / 1024;
    println!(
        "{each} B of heap for each of {WORKLOADS} Workloads of {size} B JSON; at the peak of the first list {above} KiB more"
    );
    let (different, _) = heap_with(WORKLOADS, true).await;
    let each_different = (different - empty) / WORKLOADS;
    println!("{each_different} B if no two have the same pod sets");
    assert!(each <= BUDGET, "{each} B each, at most {BUDGET} are meant");
    assert!(
        each_different <= BUDGET,
        "{each_different} B each, at most {BUDGET} are meant"
    );
}

/// A check that holds something for each Workload until it is released.
struct Seats;

impl AdmissionCheckController for Seats {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/budget") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let name = request.workload().name();
        Ok(Verdict::ready(format!("a seat for {name}")))
    }

    async fn release(
        &self,
        _: &Reservation,
        _: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        Ok(ReleaseOutcome::Done)
    }
}

fn kueue(plural: &str) -> Resource {
    Resource::new("kueue.x-k8s.io", "v1beta2", plural)
}

fn send(server: &ApiServer, call: &ApiRequest) {
    let response = server.call(call);
    assert!(response.code < 300, "{}", response.body);
}

/// Reserves quota for many Workloads, awaits their verdicts, and deletes them.
async fn come_and_go(server: &ApiServer, round: usize) {
    let workloads = kueue("workloads");
    let request = |verb| ApiRequest::new(verb, &workloads).namespace("default");
    let names = |number| format!("job-{round}-{number}");
    for name in (0..300).map(names) {
        let mut new = workload(1, 8);
        let mut status = new["status"].take();
        new["metadata"] = json!({"name": name, "namespace": "default"});
        status["admissionChecks"] = json!([status["admissionChecks"][0]]);
        send(server, &request(Verb::Create).body(new));
        let patch = request(Verb::Patch(Patch::Merge)).name(&name);
        let body = json!({"status": status});
        send(server, &patch.subresource("status").body(body));
    }
    sleep(Duration::from_secs(30)).await;
    for name in (0..300).map(names) {
        let stored = server.get(&workloads, "default", &name).unwrap();
        let entry = &stored["status"]["admissionChecks"][0];
        assert_eq!(entry["message"], format!("a seat for {name}"), "{stored}");
        send(server, &request(Verb::Delete).name(&name));
    }
    sleep(Duration::from_mins(3)).await;
    // A real API server deletes them after 1 h.
    let events = Resource::new("events.k8s.io", "v1", "events");
    let forget = ApiRequest::new(Verb::DeleteCollection, &events).namespace("default");
    assert_eq!(server.call(&forget).code, 200);
}

#[tokio::test(start_paused = true)]
async fn nothing_stays_of_workloads_that_came_and_went() {
    let _turn = TURN.lock().await;
    let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
    let server = ApiServer::with_definitions(clock.clone(), definitions::kueue());
    server.keep_changes(10);
    let check = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "budget"},
        "spec": {"controllerName": "example.com/budget"},
    });
    let create = ApiRequest::new(Verb::Create, &kueue("admissionchecks"));
    send(&server, &create.body(check));
    let runtime = Runtime::builder(server.client())
        .clock(clock)
        .check(Seats)
        .build()
        .unwrap();
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    let mut heap = Vec::new();
    for round in 0..7 {
        come_and_go(&server, round).await;
        heap.push(ALLOCATOR.current_usage());
    }
    let metrics = handle.metrics().await;
    for part in ["outcome=\"Ready\"} 2100", "kueue_check_tracked_workloads 0"] {
        assert!(metrics.contains(part), "{part}: {metrics}");
    }
    println!("heap after each 300 Workloads: {heap:?}");
    // Records of earlier ones, such as of events, are full after a thousand.
    let grown = heap[6].saturating_sub(heap[4]);
    assert!(
        grown < 16 * 1024,
        "{grown} B stay of 600 Workloads: {heap:?}"
    );
    running.abort();
}
