//! The harness of the tests: one cluster for all, and one namespace for each.

use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use kueue_check::runtime::Runtime;
use kueue_check::{Clock, ControllerName};
use kueue_check_provisioning::ProvisioningCheck;
use kueue_check_sim::apiserver::{ApiServer, CompiledDefinitions};
use kueue_check_testenv::{Cluster, KueueVersion, crds, crds_of_autoscaler, eventually};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

pub(super) const KUEUE: &str = "kueue.x-k8s.io/v1beta2";

static PLACE: OnceCell<Option<Place>> = OnceCell::const_new();

/// The API server of the tests.
enum Place {
    Real(Cluster),
    /// The simulated server, which `KUEUE_CHECK_TEST_SERVER=simulated` selects. The tests must give
    /// the same results.
    Box(ApiServer),
}

impl Place {
    fn client(&self) -> Client {
        match self {
            Self::Real(cluster) => cluster.client().unwrap(),
            Self::Box(server) => server.client_as("test"),
        }
    }
}

/// Returns true if the tests run on the simulated API server.
pub(super) fn on_simulated_server() -> bool {
    let server = std::env::var("KUEUE_CHECK_TEST_SERVER").ok();
    assert!(
        matches!(server.as_deref(), None | Some("simulated")),
        "KUEUE_CHECK_TEST_SERVER is {server:?}: expected `simulated`, or nothing"
    );
    server.is_some()
}

/// One test's namespace, AdmissionCheck, config and controller, all of one name.
pub(super) struct Fixture {
    pub(super) client: Client,
    pub(super) name: String,
    running: Option<JoinHandle<()>>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

async fn start() -> Option<Place> {
    let mut definitions = crds(KueueVersion::V0_19_2).unwrap();
    definitions.extend(crds_of_autoscaler().unwrap());
    let place = if on_simulated_server() {
        let kinds = CompiledDefinitions::new(definitions);
        Place::Box(ApiServer::with_definitions(Clock::system(), &kinds))
    } else {
        let cluster = Cluster::start_or_skip("the suite on a real API server").await?;
        let client = cluster.client().unwrap();
        cluster.install(&client, definitions).await.unwrap();
        Place::Real(cluster)
    };
    let flavor =
        json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "spot"}});
    let flavor = serde_json::from_value(flavor).unwrap();
    let kind = resource(KUEUE, "ResourceFlavor");
    let flavors: Api<DynamicObject> = Api::all_with(place.client(), &kind);
    flavors
        .create(&PostParams::default(), &flavor)
        .await
        .unwrap();
    Some(place)
}

/// Returns a namespace on the cluster, or `None` with a message if there is no cluster.
pub(super) async fn fixture(name: &str) -> Option<Fixture> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let client = PLACE.get_or_init(start).await.as_ref()?.client();
    let name = format!("{name}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    Some(Fixture {
        client,
        name,
        running: None,
    })
}

/// Returns a namespace with a running check, whose config has this spec.
pub(super) async fn checked(name: &str, spec: &Value) -> Option<Fixture> {
    let mut fixture = fixture(name).await?;
    let client = fixture.client.clone();
    fixture.start(client);
    fixture.config(spec).await;
    fixture.admission_check().await;
    fixture.active("True", "").await;
    Some(fixture)
}

/// Returns a namespace with a Workload `wl` whose first request exists, and the request's name.
pub(super) async fn with_request(name: &str, spec: &Value) -> Option<(Fixture, String)> {
    let fixture = checked(name, spec).await?;
    fixture
        .reserved("wl", &json!([pod_set("main", 1)]), &one())
        .await;
    let request = format!("wl-{}-1", fixture.name);
    fixture.requested(&request).await;
    Some((fixture, request))
}

pub(super) fn one() -> Value {
    json!([assignment("main", 1)])
}

/// Sets a condition, as the autoscaler does.
pub(super) async fn sets(fixture: &Fixture, request: &str, kind: &str, message: &str) {
    let status = json!({"conditions": [condition(kind, "True", message)]});
    set_status(&fixture.requests(), request, status).await;
}

/// Returns true if there are no objects.
pub(super) async fn is_empty(api: &Api<DynamicObject>) -> bool {
    let all = api.list(&ListParams::default()).await;
    all.unwrap().items.is_empty()
}

impl Fixture {
    pub(super) fn controller(&self) -> ControllerName {
        format!("example.com/{}", self.name).parse().unwrap()
    }

    /// Starts the check with the permissions of `client`.
    pub(super) fn start(&mut self, client: Client) {
        let runtime = Runtime::builder(client.clone())
            .check(ProvisioningCheck::new(client, self.controller()))
            .build()
            .unwrap();
        self.running = Some(tokio::spawn(async move {
            runtime.run(std::future::pending()).await.unwrap();
        }));
    }

    pub(super) async fn config(&self, spec: &Value) {
        let mut config = crate::harness::config(spec, &json!({}));
        config["metadata"]["name"] = json!(self.name);
        self.create(config).await;
    }

    pub(super) async fn admission_check(&self) {
        self.create(json!({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": self.name}, "spec": {
            "controllerName": self.controller().as_str(),
            "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": self.name}}})).await;
    }

    /// Waits until the condition Active has this status, and its message contains `text`.
    pub(super) async fn active(&self, status: &str, text: &str) {
        let checks = self.all(KUEUE, "AdmissionCheck");
        let what = format!("it is active: {status}, {text:?}");
        wait(&checks, &self.name, &what, |check| {
            let condition = &check["status"]["conditions"][0];
            condition["status"] == status && has(&condition["message"], text)
        })
        .await;
    }

    /// Returns the API of cluster-scoped objects.
    pub(super) fn all(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(api_version, kind))
    }

    /// Returns the API of objects in this namespace.
    pub(super) fn own(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = resource(api_version, kind);
        Api::namespaced_with(self.client.clone(), &self.name, &resource)
    }

    pub(super) fn requests(&self) -> Api<DynamicObject> {
        self.own("autoscaling.x-k8s.io/v1", "ProvisioningRequest")
    }

    pub(super) fn templates(&self) -> Api<DynamicObject> {
        self.own("v1", "PodTemplate")
    }

    pub(super) fn workloads(&self) -> Api<DynamicObject> {
        self.own(KUEUE, "Workload")
    }

    /// Creates `object`, in this namespace if its kind is namespaced.
    pub(super) async fn create(&self, object: Value) {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let api = match kind.as_str() {
            "Workload" | "PodTemplate" => self.own(&version, &kind),
            _ => self.all(&version, &kind),
        };
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Creates a Workload with these pod sets, for which Kueue has reserved quota with
    /// `assignments`.
    pub(super) async fn reserved(&self, name: &str, pod_sets: &Value, assignments: &Value) {
        self.create(json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": name}, "spec": {"queueName": "q", "podSets": pod_sets}})).await;
        self.reserve(name, assignments).await;
    }

    /// Reserves quota, as Kueue does.
    pub(super) async fn reserve(&self, name: &str, assignments: &Value) {
        let pending = json!([{"name": self.name, "state": "Pending", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"}]);
        let status = json!({
            "conditions": [condition("QuotaReserved", "True", "")], "admissionChecks": pending,
            "admission": {"clusterQueue": "q", "podSetAssignments": assignments},
        });
        set_status(&self.workloads(), name, status).await;
    }

    /// Waits until the request `name` exists.
    pub(super) async fn requested(&self, name: &str) -> Value {
        let there = |request: &Value| !request.is_null();
        wait(&self.requests(), name, "there is a request", there).await
    }

    /// Waits until the check has this state for a Workload, with `text` in its message. Returns the
    /// entry.
    pub(super) async fn expect_entry(&self, workload: &str, state: &str, text: &str) -> Value {
        let what = format!("the check is {state} with {text:?} in its message");
        let found = wait(&self.workloads(), workload, &what, |workload| {
            let entry = &workload["status"]["admissionChecks"][0];
            entry["state"] == state && has(&entry["message"], text)
        })
        .await;
        found["status"]["admissionChecks"][0].clone()
    }

    /// Waits until an event of this reason exists whose note contains `text`.
    pub(super) async fn event(&self, reason: &str, text: &str) {
        let events = self.own("events.k8s.io/v1", "Event");
        eventually(&format!("{reason} with {text:?}"), async || {
            let all = events.list(&ListParams::default()).await.unwrap();
            let notes = all.items.iter().map(|event| event.data["note"].clone());
            let mut seen = all.items.iter().map(|event| &event.data);
            (
                seen.any(|event| event["reason"] == reason && has(&event["note"], text)),
                notes.collect::<Vec<_>>(),
            )
        })
        .await;
    }
}

fn has(text: &Value, part: &str) -> bool {
    text.as_str().unwrap_or_default().contains(part)
}

/// Returns a pod set whose pods use some CPU.
pub(super) fn pod_set(name: &str, count: u32) -> Value {
    json!({"name": name, "count": count, "template": {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}})
}

/// Returns Kueue's assignment for it.
pub(super) fn assignment(name: &str, count: u32) -> Value {
    json!({"name": name, "flavors": {"cpu": "spot"}, "count": count, "resourceUsage": {"cpu": count.to_string()}})
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    kueue_check_testenv::resource(&json!({"apiVersion": api_version, "kind": kind}))
}

/// Waits until `holds` returns true for an object, which may be absent.
pub(super) async fn wait(
    api: &Api<DynamicObject>,
    name: &str,
    what: &str,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    eventually(what, async || {
        let found = json!(api.get_opt(name).await.unwrap());
        (holds(&found), found)
    })
    .await
}

pub(super) async fn set_status(api: &Api<DynamicObject>, name: &str, status: Value) {
    let patch = json!({"status": status});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

pub(super) async fn merge(api: &Api<DynamicObject>, name: &str, patch: &Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

pub(super) fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": kind, "message": message, "lastTransitionTime": "2026-11-21T09:00:00Z"})
}
