//! The harness: a real API server with the definitions of Kueue and this check, and a namespace for
//! each test.

use std::sync::atomic::{AtomicU32, Ordering};

use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, CustomResourceExt};
use kueue_check_budget::resource::{Budget, NamespaceBudget};
use kueue_check_testenv::KueueVersion::V0_19_2;
pub(crate) use kueue_check_testenv::eventually;
use kueue_check_testenv::{Access, Cluster, crds};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

static CLUSTER: OnceCell<Option<Cluster>> = OnceCell::const_new();

/// One test's part of an API server: a namespace of its own.
pub(crate) struct Stage {
    pub(crate) access: Access,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Its own server, if it has one.
    _own_server: Option<Cluster>,
}

/// Returns a name that no other test has.
pub(crate) fn unique(prefix: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Returns a stage; `None`, with a printed reason, where there can be no API server.
pub(crate) async fn stage() -> Option<Stage> {
    let cluster = CLUSTER.get_or_init(start).await.as_ref()?;
    Some(Stage::on(cluster).await)
}

/// Returns a stage on a server for one test alone, which runs the program. Each program has a lease
/// of its own, so on one server a second would be a second leader.
pub(crate) async fn stage_alone() -> Option<Stage> {
    let cluster = start().await?;
    let stage = Stage::on(&cluster).await;
    Some(Stage {
        _own_server: Some(cluster),
        ..stage
    })
}

async fn start() -> Option<Cluster> {
    let cluster = Cluster::start_or_skip("the suite on a real API server").await?;
    let client = cluster.client().unwrap();
    cluster
        .install(&client, crds(V0_19_2).unwrap())
        .await
        .unwrap();
    cluster
        .install(&client, vec![Budget::crd(), NamespaceBudget::crd()])
        .await
        .unwrap();
    Some(cluster)
}

impl Stage {
    async fn on(cluster: &Cluster) -> Self {
        let stage = Self {
            access: cluster.access(),
            client: cluster.client().unwrap(),
            namespace: unique("team"),
            _own_server: None,
        };
        stage.namespace(&stage.namespace).await;
        stage
    }

    pub(crate) async fn namespace(&self, name: &str) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await;
    }

    fn api(&self, document: &Value) -> Api<DynamicObject> {
        kueue_check_testenv::api(&self.client, document)
    }

    /// Applies a document as `kubectl apply` would.
    pub(crate) async fn try_apply(&self, document: &Value) -> Result<(), kube::Error> {
        kueue_check_testenv::apply(&self.client, document)
            .await
            .map(drop)
    }

    pub(crate) async fn apply(&self, document: &Value) {
        self.try_apply(document)
            .await
            .unwrap_or_else(|error| panic!("{document}: {error}"));
    }

    pub(crate) async fn get(&self, document: &Value) -> Value {
        let name = document["metadata"]["name"].as_str().unwrap();
        serde_json::to_value(self.api(document).get(name).await.unwrap()).unwrap()
    }

    /// Applies a Budget with `spec`, and an AdmissionCheck of the same name that refers to it.
    pub(crate) async fn budget(&self, name: &str, spec: &Value) {
        self.apply(&budget(name, spec)).await;
        self.apply(&json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": name},
            "spec": {"controllerName": "kueue-check.dev/budget", "parameters": {"apiGroup": "budget.kueue-check.dev", "kind": "Budget", "name": name}},
        }))
        .await;
    }

    /// Creates the Workload `name` with a quota reservation, as Kueue does: `cpus` CPUs of the
    /// flavor `default`, for at most an hour.
    pub(crate) async fn job(&self, name: &str, check: &str, cpus: u32) {
        let template = json!({"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpus.to_string()}}}]}});
        let spec = json!({"queueName": "lq", "maximumExecutionTimeSeconds": 3600, "podSets": [{"name": "main", "count": 1, "template": template}]});
        let workload = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name, "namespace": self.namespace}, "spec": spec});
        self.apply(&workload).await;
        self.status(name, json!({
            "conditions": [condition("QuotaReserved", "True")],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [
                {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpus.to_string()}}]},
            "admissionChecks": [{"name": check, "state": "Pending", "message": "", "lastTransitionTime": now()}],
        }))
        .await;
    }

    fn workload(&self, name: &str) -> Value {
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name, "namespace": self.namespace}})
    }

    /// Writes the status as Kueue does.
    pub(crate) async fn status(&self, name: &str, status: Value) {
        let mut body = self.workload(name);
        body["status"] = status;
        let parameters = PatchParams::apply("kueue-admission").force();
        self.api(&body)
            .patch_status(name, &parameters, &Patch::Apply(body))
            .await
            .unwrap();
    }

    /// Sets a condition and keeps the others.
    pub(crate) async fn set_condition(&self, name: &str, kind: &str) {
        let object = self.get(&self.workload(name)).await;
        let mut conditions = object["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.retain(|known| known["type"] != kind);
        conditions.push(condition(kind, "True"));
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        self.api(&self.workload(name))
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Returns the name of each Workload in the namespace, and the state and message of its one
    /// check.
    pub(crate) async fn entries(&self) -> Vec<(String, String, String)> {
        let api = self.api(&self.workload("any"));
        let list = api.list(&ListParams::default()).await.unwrap();
        let entry = |object: &DynamicObject| {
            let entry = &object.data["status"]["admissionChecks"][0];
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (
                object.metadata.name.clone().unwrap_or_default(),
                text("state"),
                text("message"),
            )
        };
        list.items.iter().map(entry).collect()
    }

    /// Waits until the check of `name` is in `state` with `text` in the message; returns the
    /// message.
    pub(crate) async fn wait(&self, name: &str, state: &str, text: &str) -> String {
        let (.., message) = eventually(
            &format!("{name} to be {state}, saying {text:?}"),
            async || {
                let object = self.get(&self.workload(name)).await;
                let entry = object["status"]["admissionChecks"][0].clone();
                let message = entry["message"].as_str().unwrap_or_default().to_owned();
                (
                    entry["state"] == state && message.contains(text),
                    (entry["state"].clone(), message),
                )
            },
        )
        .await;
        message
    }

    /// Waits until a condition of the Budget has that status and reason; returns its message.
    pub(crate) async fn wait_condition(
        &self,
        name: &str,
        kind: &str,
        status: &str,
        reason: &str,
    ) -> String {
        let budget = budget(name, &Value::Null);
        self.wait_of(&budget, kind, status, reason).await
    }

    /// Waits until the AdmissionCheck's condition Active has that status and reason; returns its
    /// message.
    pub(crate) async fn wait_active(&self, name: &str, status: &str, reason: &str) -> String {
        let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": name}});
        self.wait_of(&check, "Active", status, reason).await
    }

    async fn wait_of(&self, object: &Value, kind: &str, status: &str, reason: &str) -> String {
        let name = &object["metadata"]["name"];
        let what = format!("{name} to be {kind}={status} because of {reason}");
        let seen = eventually(&what, async || {
            let object = self.get(object).await;
            let mut all = conditions(&object).into_iter();
            let found = all.find(|condition| condition["type"] == kind);
            let found = found.unwrap_or_default();
            (
                found["status"] == status && found["reason"] == reason,
                found,
            )
        })
        .await;
        seen["message"].as_str().unwrap_or_default().to_owned()
    }
}

fn conditions(object: &Value) -> Vec<Value> {
    object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

pub(crate) fn budget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "Budget", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": now()})
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test plays another process, which has its own clock"
)]
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

pub(crate) fn now() -> String {
    timestamp().round(jiff::Unit::Second).unwrap().to_string()
}
