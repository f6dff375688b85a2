//! The harness of the tests: a real API server with Kueue's and the autoscaler's definitions, with
//! the chart on it, and operations on it.

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, ValidationDirective};
use kube::{Api, Client};
use kueue_check_chart_tests::{Helm, chart};
pub(crate) use kueue_check_testenv::eventually;
use kueue_check_testenv::{
    Access, Cluster, JobController, Kueue, KueueOptions, KueueVersion, crds, crds_of_autoscaler,
    or_skipped,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::prometheus_operator;

static CLUSTER: OnceCell<Option<Cluster>> = OnceCell::const_new();

/// Returns Helm, or `None` with a message if it is missing and not required.
pub(crate) fn helm() -> Option<Helm> {
    or_skipped("the chart's suite", Helm::find)
}

/// Returns the path of a values file of the chart.
pub(crate) fn values(name: &str) -> String {
    chart().join(name).to_string_lossy().into_owned()
}

/// One namespace of the server, with an administrator's client.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) access: Access,
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// Creates the namespace `name`, which accepts only pods of the `restricted` standard.
pub(crate) async fn stage(name: &str) -> Option<Stage> {
    let cluster = CLUSTER.get_or_init(start).await.as_ref()?;
    let stage = Stage {
        access: cluster.access(),
        client: cluster.client().unwrap(),
        namespace: name.to_owned(),
    };
    // The webhooks of a Kueue that has ended would reject every write.
    for kind in ["Mutating", "Validating"] {
        let kind = format!("{kind}WebhookConfiguration");
        stage
            .delete(&json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "kueue"}}))
            .await;
    }
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted", "team": name});
    stage
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))
        .await;
    Some(stage)
}

async fn start() -> Option<Cluster> {
    let cluster = Cluster::start_or_skip("the chart on a real API server").await?;
    let client = cluster.client().unwrap();
    let mut definitions = crds_of_autoscaler().unwrap();
    if is_newest() {
        definitions.extend(crds(KueueVersion::V0_19_2).unwrap());
    }
    definitions.extend(prometheus_operator::definitions());
    cluster.install(&client, definitions).await.unwrap();
    Some(cluster)
}

/// Returns true if Kueue has the version of the definitions here.
pub(crate) fn is_newest() -> bool {
    Kueue::version() == "0.19.2"
}

/// Starts a real Kueue on the cluster, and builds it if necessary.
pub(crate) async fn real_kueue(options: KueueOptions<'_>) -> Option<Kueue> {
    let cluster = CLUSTER.get_or_init(start).await.as_ref()?;
    Some(Kueue::start_with(cluster, options).await.unwrap())
}

/// Starts a real Job controller on the cluster, and builds it if necessary.
pub(crate) async fn job_controller() -> JobController {
    let cluster = CLUSTER.get_or_init(start).await.as_ref().unwrap();
    JobController::start(cluster).await.unwrap()
}

impl Stage {
    /// Returns the API of the kind of `object`, in its namespace if it has one.
    pub(crate) fn api(&self, object: &Value) -> Api<DynamicObject> {
        kueue_check_testenv::api(&self.client, object)
    }

    /// Applies `object`; a field that the server does not define is an error.
    pub(crate) async fn try_apply(&self, object: &Value) -> Result<(), kube::Error> {
        let parameters = PatchParams {
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::apply("helm").force()
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        let api = self.api(object);
        api.patch(name, &parameters, &Patch::Apply(object))
            .await
            .map(drop)
    }

    pub(crate) async fn apply(&self, object: &Value) {
        self.try_apply(object)
            .await
            .unwrap_or_else(|error| panic!("{error}: {object:#}"));
    }

    /// Applies `object` as soon as Kueue's webhooks accept it.
    pub(crate) async fn apply_when_taken(&self, object: &Value) {
        eventually("Kueue's webhooks are served", async || {
            let refused = self.try_apply(object).await.err();
            let served = refused
                .as_ref()
                .is_none_or(|error| !error.to_string().contains("failed calling webhook"));
            if let Some(error) = refused.as_ref().filter(|_| served) {
                panic!("{error}: {object:#}");
            }
            (refused.is_none(), refused)
        })
        .await;
    }

    /// Applies the output of the chart, and waits for its definitions.
    pub(crate) async fn install(&self, documents: &[Value]) {
        for document in documents {
            self.apply(document).await;
            if document["kind"] == "CustomResourceDefinition" {
                let established = |found: &Value| {
                    let conditions = found["status"]["conditions"].as_array();
                    let mut conditions = conditions.into_iter().flatten();
                    conditions.any(|own| own["type"] == "Established" && own["status"] == "True")
                };
                self.wait(document, "an established definition", established)
                    .await;
            }
        }
    }

    /// Replaces all of `object`, independent of its field managers.
    pub(crate) async fn replace(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let mut object = object.clone();
        let present = self.api(&object).get(name).await.unwrap();
        object["metadata"]["resourceVersion"] = json!(present.metadata.resource_version);
        let replaced: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let api = self.api(&object);
        api.replace(name, &kube::api::PostParams::default(), &replaced)
            .await
            .unwrap_or_else(|error| panic!("{error}: {object:#}"));
    }

    /// Returns the object, or null if it does not exist.
    pub(crate) async fn get(&self, object: &Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap();
        let found = self.api(object).get_opt(name).await.unwrap();
        serde_json::to_value(found).unwrap()
    }

    /// Returns all objects of a kind of Kueue's.
    pub(crate) async fn list(&self, kind: &str, namespace: Option<&str>) -> Vec<Value> {
        let objects = self
            .api(&kueue(kind, namespace, "any", Value::Null))
            .list(&ListParams::default())
            .await
            .unwrap();
        let objects = objects.items.into_iter();
        objects
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    /// Deletes the object, if it exists.
    pub(crate) async fn delete(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let _ = self
            .api(object)
            .delete(name, &DeleteParams::background())
            .await;
    }

    /// Deletes all of its kind in its namespace.
    pub(crate) async fn delete_all(&self, object: &Value) {
        self.api(object)
            .delete_collection(&DeleteParams::background(), &ListParams::default())
            .await
            .unwrap();
    }

    /// Writes the status of `object` as Kueue does.
    pub(crate) async fn status(&self, object: &Value, status: Value) {
        let mut body = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"]});
        body["status"] = status;
        let name = object["metadata"]["name"].as_str().unwrap();
        let parameters = PatchParams::apply("kueue-admission").force();
        let api = self.api(object);
        api.patch_status(name, &parameters, &Patch::Apply(&body))
            .await
            .unwrap_or_else(|error| panic!("{error}: {body:#}"));
    }

    /// Waits until `holds` returns true for `object`, which may be absent.
    pub(crate) async fn wait(
        &self,
        object: &Value,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(what, async || {
            let seen = self.get(object).await;
            (holds(&seen), seen)
        })
        .await
    }
}

/// Returns an object of Kueue's.
pub(crate) fn kueue(kind: &str, namespace: Option<&str>, name: &str, spec: Value) -> Value {
    let version = if Kueue::version().starts_with("0.14.") {
        "v1beta1"
    } else {
        "v1beta2"
    };
    let mut object = json!({"apiVersion": format!("kueue.x-k8s.io/{version}"), "kind": kind, "metadata": {"name": name}, "spec": spec});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// Returns an AdmissionCheck.
pub(crate) fn admission_check(name: &str, controller: &str, group: &str, kind: &str) -> Value {
    let parameters = json!({"apiGroup": group, "kind": kind, "name": name});
    kueue(
        "AdmissionCheck",
        None,
        name,
        json!({"controllerName": controller, "parameters": parameters}),
    )
}

/// Returns a Workload of one pod with one CPU.
pub(crate) fn workload(namespace: &str, name: &str) -> Value {
    let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let pod_sets = json!([{"name": "main", "count": 1, "template": template}]);
    let spec = json!({"queueName": "lq", "maximumExecutionTimeSeconds": 3600, "podSets": pod_sets});
    kueue("Workload", Some(namespace), name, spec)
}

/// Returns the status of a Workload for which quota is reserved, while `check` is Pending.
pub(crate) fn reserved(check: &str) -> Value {
    let assignment = json!({"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}});
    json!({
        "conditions": [condition("QuotaReserved", "True")],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
        "admissionChecks": [{"name": check, "state": "Pending", "message": "", "lastTransitionTime": now()}],
    })
}

pub(crate) fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": now()})
}

/// Returns the current time, to the second, as Kueue writes it.
pub(crate) fn now() -> String {
    let now = kueue_check::Clock::system().now();
    let seconds = k8s_openapi::jiff::Timestamp::from_second(now.as_second()).unwrap();
    seconds.to_string()
}

/// Returns true if the first check of a Workload is in `state`.
pub(crate) fn is_in(workload: &Value, state: &str) -> bool {
    workload["status"]["admissionChecks"][0]["state"] == state
}

/// Returns true if the AdmissionCheck's condition Active has `status`.
pub(crate) fn is_active(check: &Value, status: &str) -> bool {
    let conditions = check["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Active" && condition["status"] == status)
}
