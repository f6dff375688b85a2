//! The memory and the requests that a Workload with a pending request costs. The allocator counts
//! the memory. A binary of its own, because it counts all allocations.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use kueue_check::ControllerName;
use kueue_check::runtime::Runtime;
use kueue_check_provisioning::ProvisioningCheck;
use kueue_check_testenv::workload;
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const WORKLOADS: usize = 1_500;
/// The maximum memory of a Workload with a request, in bytes: store, index, queue, cached verdict,
/// and the request.
const BUDGET: usize = 4096;
/// The message of its entry and of its request, so that there is nothing to write.
const ETA: &str = "Waiting for resources. Currently there are not enough resources available to fulfill the request.";

/// A server with Workloads that wait for their requests. It makes each object on demand, so it
/// stores none.
#[derive(Clone)]
struct Server {
    workloads: usize,
    /// The number of requests that are not watches.
    requests: Arc<AtomicUsize>,
}

type AnyBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

fn waiting(number: usize) -> Value {
    let mut workload = workload(number, 8);
    workload["status"]["admissionChecks"][1]["message"] = json!(ETA);
    workload
}

fn owner(number: usize) -> (Value, String) {
    let owner = &workload(number, 8)["metadata"];
    let name = format!("{}-provisioning-1", owner["name"].as_str().unwrap());
    let reference = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": owner["name"], "uid": owner["uid"], "controller": true});
    (reference, name)
}

/// Returns the request of a Workload, as this check makes it and an autoscaler updates it.
fn request(number: usize) -> Value {
    let (workload, name) = owner(number);
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "name": format!("ppt-{name}-driver"), "uid": format!("t-{number}"), "controller": true});
    let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "reason": kind, "message": message, "lastTransitionTime": "2026-11-21T09:01:00Z"});
    let set = |set: &str, count: u32| json!({"count": count, "podTemplateRef": {"name": format!("ppt-{name}-{set}")}});
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {
            "namespace": "research", "name": name, "uid": format!("7d3c1d2e-93a4-4c55-8d6e-{number:012x}"), "resourceVersion": (900_000 + number).to_string(),
            "creationTimestamp": "2026-11-21T09:00:02Z", "labels": {"kueue.x-k8s.io/managed": "true"}, "ownerReferences": [template],
            "annotations": {
                "provisioning.kueue-check.dev/workload-uid": workload["uid"], "provisioning.kueue-check.dev/workload": workload["name"],
                "provisioning.kueue-check.dev/controller-name": "kueue-check.dev/provisioning-request",
                "provisioning.kueue-check.dev/admission-check": "provisioning", "provisioning.kueue-check.dev/attempt": "1",
                "provisioning.kueue-check.dev/reserved": "1795251600",
            },
        },
        "spec": {"provisioningClassName": "queued-provisioning.example.com", "parameters": {"maxRunDurationSeconds": "604800"}, "podSets": [set("driver", 1), set("workers", 8)]},
        "status": {"conditions": [condition("Accepted", "True", "Provisioning Request was successfully queued."), condition("Provisioned", "False", ETA)]},
    })
}

/// Returns one of its templates, which the Workload owns.
fn template(number: usize) -> Value {
    let name = request(number)["spec"]["podSets"][0]["podTemplateRef"]["name"].clone();
    json!({
        "metadata": {"namespace": "research", "name": name, "uid": format!("t-{number}"), "resourceVersion": "5", "labels": {"kueue.x-k8s.io/managed": "true"},
            "ownerReferences": [owner(number).0]},
        "template": workload(number, 8)["spec"]["podSets"][0]["template"],
    })
}

/// Returns the template of this name.
fn named_template(name: &str) -> Value {
    let number = number_of(name.trim_start_matches("ppt-"));
    let set = usize::from(name.ends_with("-workers"));
    let mut template = template(number);
    template["metadata"]["name"] = name.into();
    template["template"] = workload(number, 8)["spec"]["podSets"][set]["template"].clone();
    template
}

impl Server {
    fn response(&self, request: &Request<Body>) -> Response<AnyBody> {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=true") {
            let silence = futures::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
            return Response::new(StreamBody::new(silence).boxed_unsync());
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        assert_eq!(request.method(), "GET", "there is nothing to write: {path}");
        let last = path.rsplit('/').next().unwrap();
        let body = match last {
            "kueue.x-k8s.io" => json!({"versions": [{"version": "v1beta2"}]}),
            "v1" => json!({"resources": [{"name": "provisioningrequests"}]}),
            "v1beta2" => {
                json!({"components": {"schemas": {"x.Workload": {"properties": {"status": {"properties": {"admissionChecks": {"items": {}}}}}}}}})
            }
            "admissionchecks" => list(vec![admission_check()], None),
            "provisioningrequestconfigs" => list(vec![config()], None),
            "workloads" => self.page(query, waiting),
            "provisioningrequests" => self.page(query, self::request),
            "podtemplates" => self.page(query, template),
            name if path.contains("/workloads/") => waiting(number_of(name)),
            // Read once for each request that this process has not made.
            name if path.contains("/podtemplates/") => named_template(name),
            _ => list(Vec::new(), None),
        };
        Response::new(Full::new(Bytes::from(body.to_string())).boxed_unsync())
    }

    fn page(&self, query: &str, make: impl Fn(usize) -> Value) -> Value {
        let parameter = |name: &str| {
            let mut pairs = query.split('&');
            pairs.find_map(|pair| {
                pair.strip_prefix(name)?
                    .strip_prefix('=')?
                    .parse::<usize>()
                    .ok()
            })
        };
        let from = parameter("continue").unwrap_or(0);
        let to = self.workloads.min(from + parameter("limit").unwrap());
        let more = (to < self.workloads).then_some(to);
        list((from..to).map(make).collect(), more)
    }
}

fn list(items: Vec<Value>, more: Option<usize>) -> Value {
    json!({"metadata": {"resourceVersion": "9999999", "continue": more.map(|at| at.to_string())}, "items": items})
}

fn number_of(name: &str) -> usize {
    name.split('-').nth(2).unwrap().parse().unwrap()
}

fn admission_check() -> Value {
    json!({"metadata": {"name": "provisioning", "uid": "c", "resourceVersion": "1", "generation": 1},
        "spec": {"controllerName": kueue_check_provisioning::CONTROLLER_NAME,
            "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "gpus"}},
        "status": {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "The admission check is active", "observedGeneration": 1}]}})
}

/// Returns a config that requires reading the Workloads: whether they need capacity depends on
/// their templates.
fn config() -> Value {
    json!({"metadata": {"name": "gpus", "uid": "g", "resourceVersion": "1", "generation": 1},
        "spec": {"provisioningClassName": "queued-provisioning.example.com", "parameters": {"maxRunDurationSeconds": "604800"}, "managedResources": ["nvidia.com/gpu"]}})
}

/// Returns the heap in use, and its peak, after the check has evaluated `workloads` Workloads.
async fn heap_with(workloads: usize) -> (usize, usize) {
    ALLOCATOR.reset_peak_usage();
    let server = Server {
        workloads,
        requests: Arc::default(),
    };
    let requests = Arc::clone(&server.requests);
    let service = tower::service_fn(move |request| {
        let response = server.response(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let client = Client::new(service, "default");
    let name = ControllerName::from_static(kueue_check_provisioning::CONTROLLER_NAME);
    let runtime = Runtime::builder(client.clone())
        .check(ProvisioningCheck::new(client, name))
        .build()
        .unwrap();
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(600)).await;
    let metrics = handle.metrics().await;
    let held = format!("kueue_check_tracked_workloads {workloads}");
    assert!(metrics.contains(&held), "{metrics}");
    if workloads > 0 {
        let evaluated = format!("outcome=\"Pending\"}} {workloads}");
        assert!(metrics.contains(&evaluated), "each once: {metrics}");
    }
    drop(metrics);
    let before = requests.load(Ordering::Relaxed);
    sleep(Duration::from_secs(3600)).await;
    let later = requests.load(Ordering::Relaxed) - before;
    // The resync: two for the served API every 10 min, and the lists every 30 min, those of
    // Workloads and requests in pages of 50.
    let lists = 6 + 2 * workloads.div_ceil(50);
    // ClusterQueues and ResourceFlavors every 5 min.
    let topologies = 2 * 12;
    assert!(
        later <= 2 * 7 + 3 * lists + topologies,
        "{later} requests in an hour in which nothing changes"
    );
    let (now, peak) = (ALLOCATOR.current_usage(), ALLOCATOR.peak_usage());
    running.abort();
    let _ = running.await;
    (now, peak)
}

#[tokio::test(start_paused = true)]
async fn a_workload_whose_request_is_pending_costs_at_most_four_kibibytes_and_no_requests_but_the_resync()
 {
    let (empty, _) = heap_with(0).await;
    let (full, peak) = heap_with(WORKLOADS).await;
    let each = (full - empty) / WORKLOADS;
    let above = peak.saturating_sub(full) / 1024;
    let size = request(1234).to_string().len();
    println!(
        "{each} B of heap for each of {WORKLOADS} Workloads with a request of {size} B JSON; at the peak of the first lists {above} KiB more"
    );
    assert!(each <= BUDGET, "{each} B each, at most {BUDGET} are meant");
}
