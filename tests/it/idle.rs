//! An hour in which nothing happens, in virtual time.
//!
//! The server here supports only what watches and writes need. The suite on a real API server tests
//! the rest.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime};
use kueue_check::{
    AdmissionCheckController, BackgroundContext, Check, CheckError, CheckRequest, Clock,
    ControllerName, NoParameters, Verdict, WorkloadEvent,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

/// A server with one AdmissionCheck, some Workloads and a Lease.
#[derive(Clone)]
struct Server(Arc<Mutex<State>>, broadcast::Sender<Value>);

struct State {
    version: u64,
    check: Value,
    workloads: Vec<Value>,
    lease: Option<Value>,
    seen: Vec<(&'static str, String)>,
}

type AnyBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

impl Server {
    fn new(workloads: usize) -> Self {
        let check = json!({
            "metadata": {"name": "quiet", "uid": "check", "resourceVersion": "1", "generation": 1}, "spec": {"controllerName": "example.com/quiet"},
        });
        let workloads = (0..workloads).map(workload).collect();
        Self(
            Arc::new(Mutex::new(State {
                version: 1,
                check,
                workloads,
                lease: None,
                seen: Vec::new(),
            })),
            broadcast::channel(4096).0,
        )
    }

    fn client(&self) -> Client {
        let server = self.clone();
        Client::new(
            tower::service_fn(move |request| server.clone().respond(request)),
            "default",
        )
    }

    async fn respond(self, request: Request<Body>) -> Result<Response<AnyBody>, Infallible> {
        let (head, body) = request.into_parts();
        let sent: Value =
            serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap_or_default();
        let (path, query) = (
            head.uri.path().to_owned(),
            head.uri.query().unwrap_or_default().to_owned(),
        );
        let watches = query.contains("watch=true");
        let verb = match head.method.as_str() {
            "GET" if watches => "watch",
            "GET" => "get",
            "PATCH" => "patch",
            "PUT" => "update",
            _ => "create",
        };
        self.0.lock().unwrap().seen.push((verb, path.clone()));
        Ok(match verb {
            "watch" => self.watch(&path, &query),
            _ => self.plain(verb, &path, &sent),
        })
    }

    /// Sends events of that kind until the requested time is over.
    fn watch(&self, path: &str, query: &str) -> Response<AnyBody> {
        let seconds: u64 = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("timeoutSeconds=")?.parse().ok())
            .unwrap();
        let plural = path.rsplit('/').next().unwrap().to_owned();
        let events = futures::stream::unfold(self.1.subscribe(), async |mut events| {
            Some((events.recv().await.ok()?, events))
        });
        let own = events.filter_map(move |event| {
            let line = (event["plural"] == plural.as_str())
                .then(|| Bytes::from(format!("{}\n", event["event"])));
            async move { line.map(|line| Ok(http_body::Frame::data(line))) }
        });
        Response::new(
            StreamBody::new(own.take_until(sleep(Duration::from_secs(seconds)))).boxed_unsync(),
        )
    }

    fn plain(&self, verb: &str, path: &str, sent: &Value) -> Response<AnyBody> {
        let mut state = self.0.lock().unwrap();
        let list = |items: Vec<Value>, version: u64| json!({"metadata": {"resourceVersion": version.to_string()}, "items": items});
        let version = state.version;
        let response = match (verb, path) {
            ("get", "/apis/kueue.x-k8s.io") => json!({"versions": [{"version": "v1beta2"}]}),
            ("get", path) if path.starts_with("/openapi") => schema(),
            ("get", path) if path.ends_with("/workloads") => list(state.workloads.clone(), version),
            ("get", path) if path.contains("/workloads/") => return not_found(),
            ("get", path) if path.ends_with("/admissionchecks") => {
                list(vec![state.check.clone()], version)
            }
            ("get", path) if path.ends_with("/resourceflavors") => list(Vec::new(), version),
            ("get", path) if path.contains("/leases/") => match &state.lease {
                Some(lease) => lease.clone(),
                None => return not_found(),
            },
            ("create" | "update", path) if path.contains("/leases") => {
                state.version += 1;
                let mut lease = sent.clone();
                lease["metadata"]["resourceVersion"] = state.version.to_string().into();
                state.lease = Some(lease.clone());
                lease
            }
            ("patch", path) if path.contains("/workloads/") => self.apply(&mut state, path, sent),
            ("patch", _) => {
                state.version += 1;
                let condition = sent["status"]["conditions"].clone();
                state.check["status"] = json!({"conditions": condition});
                state.check["metadata"]["resourceVersion"] = state.version.to_string().into();
                state.check.clone()
            }
            ("create", _) => sent.clone(),
            other => panic!("{other:?}"),
        };
        ok(&response)
    }

    fn apply(&self, state: &mut State, path: &str, sent: &Value) -> Value {
        state.version += 1;
        let name = path
            .trim_end_matches("/status")
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        let version = state.version.to_string();
        let workload = state
            .workloads
            .iter_mut()
            .find(|workload| workload["metadata"]["name"] == name.as_str())
            .unwrap();
        workload["status"]["admissionChecks"] = sent["status"]["admissionChecks"].clone();
        workload["metadata"]["resourceVersion"] = version.into();
        let _ = self.1.send(
            json!({"plural": "workloads", "event": {"type": "MODIFIED", "object": workload}}),
        );
        workload.clone()
    }

    fn count(&self, matches: impl Fn(&str, &str) -> bool) -> usize {
        self.0
            .lock()
            .unwrap()
            .seen
            .iter()
            .filter(|(verb, path)| matches(verb, path))
            .count()
    }

    fn clear_requests(&self) {
        self.0.lock().unwrap().seen.clear();
    }
}

fn ok(body: &Value) -> Response<AnyBody> {
    Response::new(http_body_util::Full::new(Bytes::from(body.to_string())).boxed_unsync())
}

fn not_found() -> Response<AnyBody> {
    let mut response = ok(
        &json!({"kind": "Status", "status": "Failure", "code": 404, "message": "not found", "reason": "NotFound"}),
    );
    *response.status_mut() = http::StatusCode::NOT_FOUND;
    response
}

fn schema() -> Value {
    let entry = json!({"state": {"enum": ["Pending", "Ready", "Retry", "Rejected"]}, "requeueAfterSeconds": {}});
    json!({"components": {"schemas": {"x.Workload": {
        "properties": {"status": {"properties": {"admissionChecks": {"items": {"properties": entry}}}}},
        "x-kubernetes-selectable-fields": [{"fieldPath": "status.admission.clusterQueue"}],
    }}}})
}

fn workload(number: usize) -> Value {
    json!({
        "metadata": {"namespace": "n", "name": format!("w{number}"), "uid": format!("u{number}"), "resourceVersion": "1"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {}}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
            "admission": {"clusterQueue": "cq"},
            "admissionChecks": [{"name": "quiet", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
        },
    })
}

/// A check that rechecks each minute and returns the same verdict.
struct Quiet;

impl AdmissionCheckController for Quiet {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/quiet") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let verdict = if request.workload().name() == "w0" {
            Verdict::pending("full")
        } else {
            Verdict::ready("ok")
        };
        Ok(verdict.recheck_in(Duration::from_secs(60)))
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_hour_sends_only_requests_of_watches_and_the_lease() {
    let server = Server::new(100);
    let clock = Clock::following_tokio("2026-11-21T09:00:05Z".parse().unwrap());
    let lease = LeaseConfig {
        namespace: "default".into(),
        name: "quiet".into(),
        identity: "me".into(),
        times: LeaseTimes::default(),
    };
    let runtime = Runtime::builder(server.client())
        .check(Quiet)
        .clock(clock)
        .lease(lease)
        .build()
        .unwrap();
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        server.count(|verb, path| verb == "patch" && path.contains("/workloads/")),
        100
    );
    assert!(handle.problems().is_empty(), "{:?}", handle.problems());

    server.clear_requests();
    let began = Instant::now();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(began.elapsed().as_secs(), 3600);
    // The resync: the served API of Kueue and the version of the storage each 10 min, its lists
    // each 30 min.
    let probes = server.count(|verb, path| {
        verb == "get" && (path == "/apis/kueue.x-k8s.io" || path.starts_with("/openapi"))
    });
    let lists =
        server.count(|verb, path| verb == "get" && path.starts_with("/apis/kueue.x-k8s.io/"));
    assert!(
        probes <= 2 * 7 && lists <= 6 + 3 * 3,
        "{probes} probes, {lists} lists"
    );
    let others = server.count(|verb, path| verb != "watch" && !path.contains("/leases"));
    let others = others - probes - lists;
    assert_eq!(others, 0);
    let (watches, leases) = (
        server.count(|verb, _| verb == "watch"),
        server.count(|_, path| path.contains("/leases")),
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
    let server = Server::new(0);
    let failing = server.clone();
    let client = Client::new(
        tower::service_fn(move |request: Request<Body>| {
            let server = failing.clone();
            async move {
                let path = request.uri().path().to_owned();
                let lists = path.ends_with("/workloads") || path.ends_with("/admissionchecks");
                if !lists {
                    return server.respond(request).await;
                }
                server.0.lock().unwrap().seen.push(("list", path));
                let status = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "etcd is down"});
                let body = http_body_util::Full::new(Bytes::from(status.to_string()));
                Ok(Response::builder()
                    .status(500)
                    .body(body.boxed_unsync())
                    .unwrap())
            }
        }),
        "default",
    );
    let runtime = Runtime::builder(client).check(Quiet).build().unwrap();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(600)).await;
    for kind in ["/workloads", "/admissionchecks"] {
        let lists = server.count(|verb, path| verb == "list" && path.ends_with(kind));
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
    let server = Server::new(1);
    let (diary, clock) = (
        Diary::default(),
        Clock::following_tokio("2026-11-21T09:00:05Z".parse().unwrap()),
    );
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
    let mut gone = workload(0);
    gone["metadata"]["resourceVersion"] = "90".into();
    let _ = server
        .1
        .send(json!({"plural": "workloads", "event": {"type": "DELETED", "object": gone}}));
    sleep(Duration::from_secs(1)).await;
    assert!(diary.0.lock().unwrap()[0].starts_with("Removed("));
    assert!(!running.is_finished());
}
