//! The test harness: a cluster for each version of Kueue, and a namespace of it for each test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams,
    PostParams,
};
use kube::{Api, CustomResourceExt};
use kueue_check::runtime::{RunError, Runtime, RuntimeBuilder, RuntimeHandle};
use kueue_check::{AdmissionCheckController, Clock, ReleaseReason};
use kueue_check_sim::apiserver::{ApiServer, CompiledDefinitions};
pub(crate) use kueue_check_testenv::eventually as wait;
use kueue_check_testenv::{Access, Cluster, KueueVersion, crds};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;

use super::checks::{Scripted, Setting};
use super::faults::Faults;

/// The clusters, each started by the first test that needs it.
static CLUSTERS: [OnceCell<Option<Cluster>>; 3] = [const { OnceCell::const_new() }; 3];

/// The same in memory, which `KUEUE_CHECK_TEST_SERVER=simulated` puts in the place of the real
/// ones. The results of the suite must be the same.
static BOXES: [OnceLock<ApiServer>; 3] = [const { OnceLock::new() }; 3];

/// The part of a cluster that one test has.
pub(crate) struct TestCluster {
    /// `None` on the cluster in the simulator, which has no port.
    pub(crate) access: Option<Access>,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// `v1beta2`, or `v1beta1` where it is the newest.
    pub(crate) version: &'static str,
}

/// Returns a part of a cluster with `version` of Kueue's definitions; `None`, with the reason
/// printed, where there can be none.
pub(crate) async fn test_cluster(version: KueueVersion) -> Option<TestCluster> {
    if on_simulated_server() {
        let server = BOXES[version as usize].get_or_init(|| in_memory(version));
        return Some(corner_of(server.client_as("test"), None, served(version)).await);
    }
    let cluster = CLUSTERS[version as usize]
        .get_or_init(|| start(version))
        .await
        .as_ref()?;
    Some(corner(cluster, served(version)).await)
}

/// Does the same for a test with another process, for which the simulated API server has no port.
pub(crate) async fn test_cluster_with_port(version: KueueVersion) -> Option<TestCluster> {
    if on_simulated_server() {
        eprintln!("SKIPPED: the simulated API server has no port for another process");
        return None;
    }
    test_cluster(version).await
}

fn served(version: KueueVersion) -> &'static str {
    match version {
        KueueVersion::V0_14_8 => "v1beta1",
        KueueVersion::V0_17_8 | KueueVersion::V0_19_2 => "v1beta2",
    }
}

/// Returns true if the suite runs on the simulated API server.
fn on_simulated_server() -> bool {
    let server = std::env::var("KUEUE_CHECK_TEST_SERVER").ok();
    assert!(
        matches!(server.as_deref(), None | Some("simulated")),
        "KUEUE_CHECK_TEST_SERVER is {server:?}: expected `simulated`, or nothing"
    );
    server.is_some()
}

/// Returns an API server of the simulator, in real time, without Kueue: each test acts as it.
fn in_memory(version: KueueVersion) -> ApiServer {
    let mut definitions = crds(version).unwrap();
    definitions.push(Setting::crd());
    ApiServer::with_definitions(Clock::system(), &CompiledDefinitions::new(definitions))
}

async fn start(version: KueueVersion) -> Option<Cluster> {
    let cluster = start_or_skip().await?;
    install(&cluster, version).await;
    Some(cluster)
}

/// Installs Kueue's definitions, and those of the tests' checks.
pub(crate) async fn install(cluster: &Cluster, version: KueueVersion) {
    let client = cluster.client().unwrap();
    cluster
        .install(&client, crds(version).unwrap())
        .await
        .unwrap();
    cluster
        .install(&client, vec![Setting::crd()])
        .await
        .unwrap();
}

/// Starts a cluster of its own for one test, with nothing installed.
pub(crate) async fn start_or_skip() -> Option<Cluster> {
    Cluster::start_or_skip("the suite on a real API server").await
}

/// Returns a part of `cluster`, which has Kueue's newest definitions already.
async fn corner(cluster: &Cluster, version: &'static str) -> TestCluster {
    corner_of(cluster.client().unwrap(), Some(cluster.access()), version).await
}

async fn corner_of(client: Client, access: Option<Access>, version: &'static str) -> TestCluster {
    let namespace = unique("ns");
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta {
        name: Some(namespace.clone()),
        ..ObjectMeta::default()
    };
    api.create(
        &PostParams::default(),
        &k8s_openapi::api::core::v1::Namespace {
            metadata,
            ..Default::default()
        },
    )
    .await
    .unwrap();
    TestCluster {
        access,
        client,
        namespace,
        version,
    }
}

/// Returns a name that no other test has.
pub(crate) fn unique(prefix: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A check of the tests on a cluster, with an AdmissionCheck and parameters of its own.
pub(crate) struct Fixture {
    pub(crate) cluster: TestCluster,
    pub(crate) check: Scripted,
    /// The AdmissionCheck's name, and that of its parameters.
    pub(crate) name: String,
    pub(crate) faults: Faults,
    pub(crate) running: Running,
}

/// Starts a check that is active; `None` where there is no cluster.
pub(crate) async fn fixture(version: KueueVersion) -> Option<Fixture> {
    fixture_of(version, Scripted::new(&unique("example.com/scripted"))).await
}

/// Does the same for `check`.
pub(crate) async fn fixture_of(version: KueueVersion, check: Scripted) -> Option<Fixture> {
    Some(fixture_in(test_cluster(version).await?, check).await)
}

/// Does the same on a cluster of the test's own, with Kueue's newest definitions.
pub(crate) async fn fixture_on(cluster: &Cluster) -> Fixture {
    let client = cluster.client().unwrap();
    cluster
        .install(&client, vec![Setting::crd()])
        .await
        .unwrap();
    fixture_in(
        corner(cluster, "v1beta2").await,
        Scripted::new(&unique("example.com/scripted")),
    )
    .await
}

async fn fixture_in(cluster: TestCluster, check: Scripted) -> Fixture {
    let name = unique("check");
    cluster.setting(&name, "fine").await;
    cluster.check(&name, check.controller_name().as_str()).await;
    let faults = Faults::default();
    let running = Running::of(faults.around(&cluster.client), check.clone());
    cluster.wait_active(&name, "True", "Active").await;
    Fixture {
        cluster,
        check,
        name,
        faults,
        running,
    }
}

impl Fixture {
    /// Makes a Workload with quota, for which only this check is needed.
    pub(crate) async fn reserved(&self, workload: &str) {
        self.cluster.workload(workload).await;
        self.cluster.reserve(workload, &[&self.name]).await;
    }

    pub(crate) async fn wait_state(&self, workload: &str, state: &str) -> Value {
        self.cluster.wait_state(workload, &self.name, state).await
    }

    pub(crate) async fn wait_message(&self, workload: &str, text: &str) -> Value {
        self.cluster.wait_message(workload, &self.name, text).await
    }

    pub(crate) async fn entry(&self, workload: &str) -> Value {
        self.cluster.entry(workload, &self.name).await
    }

    /// Returns the value of the metric `name` of this check with the value of a label.
    pub(crate) async fn metric(&self, name: &str, label: &str, value: &str) -> u64 {
        let line = format!(
            "kueue_check_{name}{{check=\"{}\",{label}=\"{value}\"}}",
            self.name
        );
        self.running.metric(&line).await
    }

    /// Waits for an event about `workload` that contains `text`.
    pub(crate) async fn wait_event(&self, workload: &str, text: &str) {
        let namespace = &self.cluster.namespace;
        self.cluster.wait_event(namespace, workload, text).await;
    }

    /// Waits until the check has been evaluated `times` for `workload`.
    pub(crate) async fn wait_evaluations(&self, workload: &str, times: usize) {
        wait(&format!("{times} evaluations of {workload}"), async || {
            let evaluations = self.check.evaluations_of(workload);
            (evaluations >= times, evaluations)
        })
        .await;
    }

    /// Waits until the check has been called to release the reservation of `workload`. Returns why.
    pub(crate) async fn wait_released(&self, workload: &str) -> ReleaseReason {
        let released = wait(&format!("the release of {workload}"), async || {
            let released = self.check.released_for(workload);
            (!released.is_empty(), released)
        })
        .await;
        released[0].clone()
    }
}

/// Returns `spec.parameters` for the setting `name`.
pub(crate) fn setting_reference(name: &str) -> Value {
    json!({"apiGroup": "test.kueue-check.dev", "kind": "Setting", "name": name})
}

type RunTask = JoinHandle<Result<(), RunError>>;

/// A running runtime.
pub(crate) struct Running {
    pub(crate) handle: RuntimeHandle,
    parts: Mutex<Option<(oneshot::Sender<()>, RunTask)>>,
}

impl Running {
    pub(crate) fn start(builder: RuntimeBuilder) -> Self {
        let runtime = builder.build().unwrap();
        let handle = runtime.handle();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(runtime.run(async {
            let _ = stopped.await;
        }));
        Self {
            handle,
            parts: Mutex::new(Some((stop, task))),
        }
    }

    /// Starts with `check` only.
    pub(crate) fn of(client: Client, check: impl AdmissionCheckController) -> Self {
        Self::start(Runtime::builder(client).check(check))
    }

    pub(crate) async fn wait_ready(&self) {
        wait("the runtime to be ready", async || {
            let problems = self.handle.problems();
            (problems.is_empty(), problems)
        })
        .await;
    }

    pub(crate) async fn diagnostics(&self) -> Value {
        serde_json::to_value(self.handle.diagnostics().await.unwrap()).unwrap()
    }

    /// Stops as SIGTERM does.
    pub(crate) async fn stop(&self) {
        let (stop, task) = self.parts.lock().unwrap().take().unwrap();
        drop(stop);
        task.await.unwrap().unwrap();
    }

    /// Stops as SIGKILL does.
    pub(crate) fn kill(&self) {
        self.parts.lock().unwrap().take().unwrap().1.abort();
    }

    pub(crate) async fn metric(&self, line: &str) -> u64 {
        let text = self.handle.metrics().await;
        let value = text
            .lines()
            .find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

impl TestCluster {
    /// Makes parameters of the tests' checks.
    pub(crate) async fn setting(&self, name: &str, word: &str) {
        let body = json!({"apiVersion": "test.kueue-check.dev/v1", "kind": "Setting", "metadata": {"name": name}, "spec": {"word": word}});
        self.settings()
            .patch(
                name,
                &PatchParams::apply("test").force(),
                &Patch::Apply(body),
            )
            .await
            .unwrap();
    }

    pub(crate) fn settings(&self) -> Api<Setting> {
        Api::all(self.client.clone())
    }

    /// Returns the events about `name`, as `reason: note`.
    pub(crate) async fn events(&self, namespace: &str, name: &str) -> Vec<String> {
        let api: Api<k8s_openapi::api::events::v1::Event> =
            Api::namespaced(self.client.clone(), namespace);
        let list = api.list(&ListParams::default()).await.unwrap();
        let about = list.items.into_iter().filter(|event| {
            event
                .regarding
                .as_ref()
                .is_some_and(|object| object.name.as_deref() == Some(name))
        });
        about
            .map(|event| {
                format!(
                    "{}: {}",
                    event.reason.unwrap_or_default(),
                    event.note.unwrap_or_default()
                )
            })
            .collect()
    }

    /// Waits for an event about `name` that contains `text`.
    pub(crate) async fn wait_event(&self, namespace: &str, name: &str, text: &str) {
        wait(
            &format!("an event about {name} with {text:?}"),
            async || {
                let events = self.events(namespace, name).await;
                (events.iter().any(|event| event.contains(text)), events)
            },
        )
        .await;
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let plural = match kind {
            "Workload" => "workloads",
            "AdmissionCheck" => "admissionchecks",
            "ResourceFlavor" => "resourceflavors",
            other => panic!("{other}"),
        };
        let resource = ApiResource {
            group: "kueue.x-k8s.io".into(),
            version: self.version.into(),
            api_version: format!("kueue.x-k8s.io/{}", self.version),
            kind: kind.into(),
            plural: plural.into(),
        };
        if kind == "Workload" {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    fn object(&self, kind: &str, name: &str, body: Value) -> DynamicObject {
        let mut object = json!({"apiVersion": format!("kueue.x-k8s.io/{}", self.version), "kind": kind, "metadata": {"name": name}});
        merge(&mut object, body);
        serde_json::from_value(object).unwrap()
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, body: Value) {
        self.api(kind)
            .create(&PostParams::default(), &self.object(kind, name, body))
            .await
            .unwrap();
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::to_value(self.api(kind).get(name).await.unwrap()).unwrap()
    }

    /// Makes an AdmissionCheck of `controller`.
    pub(crate) async fn admission_check(&self, name: &str, controller: &str, parameters: Value) {
        let mut spec = json!({"controllerName": controller});
        if !parameters.is_null() {
            spec["parameters"] = parameters;
        }
        self.create("AdmissionCheck", name, json!({"spec": spec}))
            .await;
    }

    /// Does the same with parameters of its own name.
    pub(crate) async fn check(&self, name: &str, controller: &str) {
        let parameters = setting_reference(name);
        self.admission_check(name, controller, parameters).await;
    }

    /// Changes an object with a merge patch.
    pub(crate) async fn merge(&self, kind: &str, name: &str, patch: Value) {
        let parameters = PatchParams::default();
        let patch = Patch::Merge(patch);
        let api = self.api(kind);
        api.patch(name, &parameters, &patch).await.unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        let parameters = DeleteParams::default();
        self.api(kind).delete(name, &parameters).await.unwrap();
    }

    /// Makes a Workload without quota, of two pod sets.
    pub(crate) async fn workload(&self, name: &str) {
        let template = json!({
            "metadata": {"labels": {"app": "train"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
        });
        let pod_set =
            |name: &str, count: u32| json!({"name": name, "count": count, "template": template});
        self.create("Workload", name, json!({"spec": {"queueName": "lq", "podSets": [pod_set("driver", 1), pod_set("workers", 4)]}})).await;
    }

    /// Reserves quota as Kueue does: one forced apply of conditions, admission and all check
    /// entries.
    pub(crate) async fn reserve(&self, name: &str, checks: &[&str]) {
        self.apply_status(name, reserved(&pending(checks))).await;
    }

    /// Applies the current reservation once more, with the checks as they were when it was made.
    pub(crate) async fn reserve_again(&self, name: &str, checks: &[&str]) {
        let stands = self.get("Workload", name).await["status"]["conditions"].clone();
        // On a slow machine 1 s may have passed, and another time would be another reservation.
        let mut status = reserved(&pending(checks));
        status["conditions"] = stands;
        self.apply_status(name, status).await;
    }

    /// Writes `status` as Kueue's manager does.
    pub(crate) async fn apply_status(&self, name: &str, status: Value) {
        let body = json!({"apiVersion": format!("kueue.x-k8s.io/{}", self.version), "kind": "Workload", "metadata": {"name": name}, "status": status});
        let parameters = PatchParams::apply("kueue-admission").force();
        self.api("Workload")
            .patch_status(name, &parameters, &Patch::Apply(body))
            .await
            .unwrap();
    }

    /// Changes the status with a merge patch, as a manual edit would.
    pub(crate) async fn merge_status(&self, name: &str, status: Value) {
        self.merge_status_of("Workload", name, status).await;
    }

    /// Does the same to an object of another kind.
    pub(crate) async fn merge_status_of(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let (api, parameters) = (self.api(kind), PatchParams::default());
        api.patch_status(name, &parameters, &patch).await.unwrap();
    }

    /// Sets a condition, as Kueue's manager or a job's controller does, and keeps the others.
    pub(crate) async fn set_condition(&self, name: &str, kind: &str, status: &str, reason: &str) {
        let object = self.get("Workload", name).await;
        let mut conditions = object["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.retain(|known| known["type"] != kind);
        conditions.push(condition(kind, status, reason));
        self.merge_status(name, json!({"conditions": conditions}))
            .await;
    }

    /// Admits as Kueue does when all checks are Ready.
    pub(crate) async fn admit(&self, name: &str) {
        self.set_condition(name, "Admitted", "True", "Admitted")
            .await;
    }

    /// Begins to evict as Kueue does: the quota is held while pods end.
    pub(crate) async fn evict(&self, name: &str) {
        self.set_condition(name, "Evicted", "True", "Preempted")
            .await;
    }

    /// Releases the quota without an eviction, as a stopped queue does.
    pub(crate) async fn take_quota(&self, name: &str) {
        let status = json!({"admission": null, "conditions": [condition("QuotaReserved", "False", "Inadmissible")]});
        self.merge_status(name, status).await;
    }

    /// Releases the quota of an evicted Workload, as when its pods are gone.
    pub(crate) async fn release_quota(&self, name: &str) {
        self.set_condition(name, "QuotaReserved", "False", "Pending")
            .await;
        self.merge_status(name, json!({"admission": null})).await;
    }

    /// Returns the entry of `check`; null if there is none.
    pub(crate) async fn entry(&self, workload: &str, check: &str) -> Value {
        let object = self.get("Workload", workload).await;
        let entries = object["status"]["admissionChecks"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        entries
            .into_iter()
            .find(|entry| entry["name"] == check)
            .unwrap_or_default()
    }

    /// Waits until `check` is in `state`. Returns its entry.
    pub(crate) async fn wait_state(&self, workload: &str, check: &str, state: &str) -> Value {
        wait(
            &format!("{check} of {workload} to be {state}"),
            async || {
                let entry = self.entry(workload, check).await;
                (entry["state"] == state, entry)
            },
        )
        .await
    }

    /// Waits until the message of `check` contains `text`. Returns its entry.
    pub(crate) async fn wait_message(&self, workload: &str, check: &str, text: &str) -> Value {
        wait(
            &format!("{check} of {workload} to say {text:?}"),
            async || {
                let entry = self.entry(workload, check).await;
                (
                    entry["message"].as_str().unwrap_or_default().contains(text),
                    entry,
                )
            },
        )
        .await
    }

    /// Waits until the condition `Active` of `check` has `status` and `reason`. Returns it.
    pub(crate) async fn wait_active(&self, check: &str, status: &str, reason: &str) -> Value {
        self.wait_active_saying(check, status, reason, "").await
    }

    /// Waits until it also has a message that contains `text`.
    pub(crate) async fn wait_active_saying(
        &self,
        check: &str,
        status: &str,
        reason: &str,
        text: &str,
    ) -> Value {
        wait(
            &format!("{check} to be Active={status} because of {reason}, with {text:?}"),
            async || {
                let object = self.get("AdmissionCheck", check).await;
                let conditions = object["status"]["conditions"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                let active = conditions
                    .into_iter()
                    .find(|condition| condition["type"] == "Active")
                    .unwrap_or_default();
                let contains = active["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(text));
                (
                    active["status"] == status && active["reason"] == reason && contains,
                    active,
                )
            },
        )
        .await
    }
}

/// Returns the entries of `checks` as Kueue adds them.
fn pending(checks: &[&str]) -> Vec<Value> {
    checks.iter().map(|check| json!({"name": check, "state": "Pending", "message": "", "lastTransitionTime": now()})).collect()
}

/// Returns the status of a Workload that holds quota for `entries`.
pub(crate) fn reserved(entries: &[Value]) -> Value {
    json!({
        "conditions": [condition("QuotaReserved", "True", "QuotaReserved")],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [
            {"name": "driver", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}},
            {"name": "workers", "count": 4, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "4"}},
        ]},
        "admissionChecks": entries,
    })
}

/// Returns it with a further condition.
pub(crate) fn reserved_and(entries: &[Value], condition: Value) -> Value {
    let mut status = reserved(entries);
    status["conditions"].as_array_mut().unwrap().push(condition);
    status
}

pub(crate) fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now()})
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test plays another process, which has its own clock"
)]
pub(crate) fn now() -> String {
    jiff::Timestamp::now()
        .round(jiff::Unit::Second)
        .unwrap()
        .to_string()
}

fn merge(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch,
    }
}

/// Returns Kueue's newest definitions, with each served version of Workload's changed.
pub(crate) fn definitions(change: impl Fn(&mut Value)) -> Vec<CustomResourceDefinition> {
    let mut definitions = crds(KueueVersion::V0_19_2).unwrap();
    for definition in &mut definitions {
        if definition.spec.names.kind == "Workload" {
            let mut value = serde_json::to_value(&*definition).unwrap();
            let versions = value["spec"]["versions"].as_array_mut().unwrap();
            versions.iter_mut().for_each(&change);
            *definition = serde_json::from_value(value).unwrap();
        }
    }
    definitions
}

/// Returns the owners of the status's fields, by manager.
pub(crate) fn managers(object: &Value) -> BTreeMap<String, String> {
    let fields = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    fields
        .into_iter()
        .map(|entry| {
            (
                entry["manager"].as_str().unwrap_or_default().to_owned(),
                entry["fieldsV1"].to_string(),
            )
        })
        .collect()
}
