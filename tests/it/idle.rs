//! An hour in which nothing happens, in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime};
use kueue_check::{
    AdmissionCheckController, BackgroundContext, Check, CheckError, CheckRequest, Clock,
    ControllerName, NoParameters, Verdict, WorkloadEvent, api::Workload,
};
use kueue_check_sim::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};
use kueue_check_testenv::workload;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::real::faults::{Fault, Faults, RecordedRequest};

fn kueue(plural: &str) -> Resource {
    Resource::new("kueue.x-k8s.io", "v1beta2", plural)
}

fn send(server: &ApiServer, call: &ApiRequest) {
    let response = server.call(call);
    assert!(response.code < 300, "{}", response.body);
}

/// Returns a server with one AdmissionCheck and some Workloads, `w0` and so on, that hold quota.
fn server(workloads: usize) -> (Clock, ApiServer) {
    let clock = Clock::following_tokio("2026-11-21T09:00:05Z".parse().unwrap());
    let server = ApiServer::with_definitions(clock.clone(), kueue_check_sim::definitions::kueue());
    let check = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "quiet"},
        "spec": {"controllerName": "example.com/quiet"},
    });
    let create = ApiRequest::new(Verb::Create, &kueue("admissionchecks"));
    send(&server, &create.body(check));
    for number in 0..workloads {
        let mut new = workload(number, 1);
        let mut status = new["status"].take();
        let name = format!("w{number}");
        new["metadata"] = json!({"name": name, "namespace": "default"});
        status["admissionChecks"] = json!([{"name": "quiet", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"}]);
        send(&server, &about_workloads(Verb::Create).body(new));
        let patch = about_workloads(Verb::Patch(Patch::Merge)).name(&name);
        let body = json!({"status": status});
        send(&server, &patch.subresource("status").body(body));
    }
    (clock, server)
}

fn about_workloads(verb: Verb) -> ApiRequest {
    ApiRequest::new(verb, &kueue("workloads")).namespace("default")
}

/// Returns a check that rechecks each minute and returns the same verdict.
fn quiet() -> Check {
    let controller = ControllerName::from_static("example.com/quiet");
    Check::from_fn(controller, async |workload: Workload| {
        let verdict = if workload.name() == "w0" {
            Verdict::pending("full")
        } else {
            Verdict::ready("ok")
        };
        verdict.recheck_in(Duration::from_secs(60))
    })
}

#[tokio::test(start_paused = true)]
async fn an_idle_hour_sends_only_requests_of_watches_and_the_lease() {
    let (clock, server) = server(100);
    let faults = Faults::default();
    let lease = LeaseConfig {
        namespace: "default".into(),
        name: "quiet".into(),
        identity: "me".into(),
        times: LeaseTimes::default(),
    };
    let runtime = Runtime::builder(faults.around(&server.client()))
        .check(quiet())
        .clock(clock)
        .lease(lease)
        .build()
        .unwrap();
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(faults.count(RecordedRequest::writes_entry), 100);
    assert!(handle.problems().is_empty(), "{:?}", handle.problems());

    faults.clear_requests();
    let began = Instant::now();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(began.elapsed().as_secs(), 3600);
    // The resync: the served API of Kueue and the version of the storage each 10 min, its lists
    // each 30 min.
    let gets = |path: &str| faults.count(|seen| seen.verb == "get" && seen.path.starts_with(path));
    let lists = gets("/apis/kueue.x-k8s.io/");
    let probes = gets("/apis/kueue.x-k8s.io") - lists + gets("/openapi");
    assert!(
        probes <= 2 * 7 && lists <= 6 + 3 * 3,
        "{probes} probes, {lists} lists"
    );
    let others = faults.count(|seen| seen.verb != "watch" && !seen.path.contains("/leases"));
    let others = others - probes - lists;
    assert_eq!(others, 0);
    let (watches, leases) = (
        faults.count(|seen| seen.verb == "watch"),
        faults.count(|seen| seen.path.contains("/leases")),
    );
    println!(
        "in an hour: {watches} watches begun again, {leases} renewals of the lease, {probes} probes of the served API, {lists} lists to compare, {others} other requests"
    );
    assert!(
        watches <= 60 + 2 * 13 + 2 * 2 && leases <= 1800 + 1,
        "{watches} watches, {leases} renewals"
    );
    let metrics = handle.metrics().await;
    let evaluations = metrics
        .lines()
        .find(|line| {
            line.starts_with("kueue_check_evaluations_total{check=\"quiet\",outcome=\"Ready\"}")
        })
        .unwrap();
    assert!(
        evaluations
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<u32>()
            .unwrap()
            > 99 * 59,
        "it was evaluated: {evaluations}"
    );
    assert!(!running.is_finished());
}

/// A list that is retried begins with an event of the client's, which is no success.
#[tokio::test(start_paused = true)]
async fn lists_that_fail_are_tried_again_ever_more_slowly() {
    let (_, server) = server(0);
    let faults = Faults::default();
    faults.inject(usize::MAX, Fault::Status(500, None), |seen| {
        seen.path.ends_with("/workloads") || seen.path.ends_with("/admissionchecks")
    });
    let client = faults.around(&server.client());
    let runtime = Runtime::builder(client).check(quiet()).build().unwrap();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(600)).await;
    for kind in ["/workloads", "/admissionchecks"] {
        let lists = faults.count(|seen| seen.verb == "get" && seen.path.ends_with(kind));
        println!("{lists} lists of {kind} in ten minutes");
        assert!((10..=30).contains(&lists), "{lists} of {kind}");
    }
    assert!(!running.is_finished());
}

/// A check that records what it observes and evaluates.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }
}

impl AdmissionCheckController for Diary {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/quiet") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        self.note(format!("evaluated {}", request.workload().name()));
        Ok(Verdict::ready("ok"))
    }

    fn configure(self: &Arc<Self>, check: Check) -> Check {
        let (observer, worker) = (Self::clone(self), Self::clone(self));
        check
            .observe(move |event| observer.observe(event))
            .background(move |context| worker.clone().work(context))
            .metrics(|metrics| {
                metrics.gauge("pages", "Pages").count(&[], 1);
            })
    }
}

impl Diary {
    fn observe(&self, seen: WorkloadEvent<'_>) {
        self.note(match seen {
            WorkloadEvent::Applied(workload, _) => {
                let state = workload.check("quiet").unwrap().state().clone();
                format!("saw {} {state}", workload.name())
            }
            other => format!("{other:?}"),
        });
        assert!(
            !matches!(seen, WorkloadEvent::Removed(_)),
            "a panic here is not the runtime's"
        );
    }

    async fn work(self, mut context: BackgroundContext) {
        self.note(format!("begun, leading {}", context.is_leader()));
        while !context.is_leader() {
            context.leadership_changed().await;
        }
        self.note("leading");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_receives_events_before_it_is_evaluated_and_runs_in_the_background() {
    let (clock, server) = server(1);
    let diary = Diary::default();
    let runtime = Runtime::builder(server.client())
        .check(diary.clone())
        .clock(clock)
        .build()
        .unwrap();
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(5)).await;
    let lines = std::mem::take(&mut *diary.0.lock().unwrap());
    let place = |wanted: &str| {
        let found = lines.iter().position(|line| line == wanted);
        found.unwrap_or_else(|| panic!("no {wanted:?} in {lines:#?}"))
    };
    let order = [
        place("ListStarted"),
        place("saw w0 Pending"),
        place("ListCompleted { continuous: false }"),
        place("evaluated w0"),
        place("saw w0 Ready"),
    ];
    assert!(order.is_sorted(), "{lines:#?}");
    assert!(place("begun, leading false") < place("leading"));
    assert!(handle.metrics().await.ends_with("\npages 1\n# EOF\n"));
    send(&server, &about_workloads(Verb::Delete).name("w0"));
    sleep(Duration::from_secs(1)).await;
    assert!(diary.0.lock().unwrap()[0].starts_with("Removed("));
    assert!(!running.is_finished());
}
