//! The simulated cluster for the check; the test acts as the autoscaler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, Verdict,
};
use kueue_check_provisioning::{CONTROLLER_NAME, ProvisioningCheck};
use kueue_check_sim::apiserver::{ApiRequest, Patch, Resource, Verb};
use kueue_check_sim::kueue::KueueVersion;
use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::{Value, json};

/// The requested class.
pub(crate) const CLASS: &str = "check-capacity.autoscaling.x-k8s.io";

/// Returns a ProvisioningRequestConfig `config` with the class and this spec.
pub(crate) fn config(spec: &Value, options: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig", "metadata": {"name": "config", "annotations": {}},
        "spec": {"provisioningClassName": CLASS},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    for (key, value) in options.as_object().unwrap() {
        object["metadata"]["annotations"][format!("provisioning.kueue-check.dev/{key}")] =
            value.clone();
    }
    object
}

/// Returns the same config under another name.
pub(crate) fn named(name: &str, mut config: Value) -> Value {
    config["metadata"]["name"] = json!(name);
    config
}

/// A simulation of the check. It panics on failure, so it returns nothing.
pub(crate) struct ProvisioningSimulation(Simulation);

impl ProvisioningSimulation {
    pub(crate) fn object(self, object: &Value) -> Self {
        Self(self.0.object(object))
    }

    pub(crate) fn quota(self, cpus: u32) -> Self {
        Self(self.0.quota(cpus))
    }

    pub(crate) fn kueue(self, version: KueueVersion) -> Self {
        Self(self.0.kueue(version))
    }

    /// Adds a second check, which returns Ready once the scenario has [signed](sign).
    pub(crate) fn signed_off(self) -> Self {
        let signed = |tools: &kueue_check_sim::simulation::CheckContext| {
            SignOff(tools.external(Signature::default))
        };
        Self(self.0.and("sign-off", signed))
    }

    pub(crate) fn run(self, scenario: impl AsyncFn(&Cluster)) {
        self.0.run(scenario);
    }

    pub(crate) fn every_single_fault(self, scenario: impl AsyncFn(&Cluster) + Sync) {
        println!("{}", self.0.run_with_each_fault(scenario));
    }
}

/// Returns a simulation of the check with that config.
pub(crate) fn simulation(config: &Value) -> ProvisioningSimulation {
    trial_as(CONTROLLER_NAME, config)
}

/// Returns a simulation of the check under the controller name `name`.
pub(crate) fn trial_as(name: &'static str, config: &Value) -> ProvisioningSimulation {
    let name = ControllerName::from_static(name);
    let simulation = Simulation::with_context(move |tools| {
        ProvisioningCheck::new(tools.client.clone(), name.clone())
    });
    ProvisioningSimulation(simulation.parameters(config))
}

/// Whether a person has signed.
type Signature = Arc<AtomicBool>;

/// A check that waits for a signature, so that a job with capacity is not admitted yet.
struct SignOff(Signature);

impl AdmissionCheckController for SignOff {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/sign-off") }
    }

    async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        if self.0.load(Ordering::Relaxed) {
            return Ok(Verdict::ready("signed"));
        }
        Ok(Verdict::pending("not signed").recheck_in(Duration::from_secs(5)))
    }
}

/// Signs for all jobs.
pub(crate) fn sign(cluster: &Cluster) {
    signs(cluster, true);
}

/// Sets whether the second check signs from now on.
pub(crate) fn signs(cluster: &Cluster, signs: bool) {
    cluster
        .external::<Signature>()
        .store(signs, Ordering::Relaxed);
}

/// Returns a config with a backoff of 2 s and at most `limit` retries.
pub(crate) fn retries(limit: u32) -> Value {
    let strategy =
        json!({"backoffLimitCount": limit, "backoffBaseSeconds": 2, "backoffMaxSeconds": 10});
    config(&json!({"retryStrategy": strategy}), &json!({}))
}

fn requests_resource() -> Resource {
    Resource::new("autoscaling.x-k8s.io", "v1", "provisioningrequests")
}

/// Returns all ProvisioningRequests, by name.
pub(crate) fn requests(cluster: &Cluster) -> Vec<Arc<Value>> {
    cluster.server().objects(&requests_resource(), "default")
}

/// Returns the names of all ProvisioningRequests.
pub(crate) fn names(cluster: &Cluster) -> Vec<String> {
    let all = requests(cluster);
    all.iter()
        .map(|request| request["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn templates(cluster: &Cluster) -> Vec<Arc<Value>> {
    cluster
        .server()
        .objects(&Resource::new("", "v1", "podtemplates"), "default")
}

/// Returns the name of attempt `attempt` for a job.
pub(crate) fn request_of(cluster: &Cluster, job: &str, attempt: u32) -> String {
    let workload = cluster.workload(job).unwrap();
    format!(
        "{}-check-{attempt}",
        workload["metadata"]["name"].as_str().unwrap()
    )
}

/// Waits until attempt `attempt` for a job exists.
pub(crate) async fn requested(cluster: &Cluster, job: &str, attempt: u32) -> String {
    let what = format!("attempt {attempt} for `{job}` is there");
    let there = |cluster: &Cluster| {
        cluster.workload(job).is_some()
            && names(cluster).contains(&request_of(cluster, job, attempt))
    };
    cluster.expect(&what, there).await;
    request_of(cluster, job, attempt)
}

/// Submits the job `train`. Returns the name of its first request.
pub(crate) async fn submitted(cluster: &Cluster) -> String {
    cluster.submit(Job::new("train"));
    requested(cluster, "train", 1).await
}

/// Provisions `request`, and waits until the job `train` is admitted.
pub(crate) async fn admitted(cluster: &Cluster, request: &str) {
    set_condition(cluster, request, "Provisioned", "True", "Provisioned");
    cluster.expect_admitted("train").await;
}

/// Returns the number of pods of the first pod set of `request`.
pub(crate) fn pods_of(cluster: &Cluster, request: &str) -> Value {
    let all = requests(cluster);
    let mut all = all.iter();
    let found = all.find(|object| object["metadata"]["name"] == request);
    found.unwrap()["spec"]["podSets"][0]["count"].clone()
}

/// Waits until no requests exist.
pub(crate) async fn no_requests(cluster: &Cluster) {
    cluster
        .expect("all requests are gone", |cluster| {
            requests(cluster).is_empty()
        })
        .await;
}

/// Sets a condition of a request, as the autoscaler does.
pub(crate) fn set_condition(
    cluster: &Cluster,
    request: &str,
    kind: &str,
    status: &str,
    message: &str,
) {
    let resource = requests_resource();
    let object = cluster
        .server()
        .object(&resource, "default", request)
        .unwrap();
    let mut conditions: Vec<Value> = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(json!({"type": kind, "status": status, "reason": kind, "message": message, "lastTransitionTime": seconds(cluster)}));
    status_is(cluster, request, &json!({"conditions": conditions}));
}

pub(crate) fn status_is(cluster: &Cluster, request: &str, status: &Value) {
    let call = ApiRequest::new(Verb::Patch(Patch::Merge), &requests_resource())
        .namespace("default")
        .name(request)
        .subresource("status")
        .agent("autoscaler")
        .body(json!({"status": status}));
    let response = cluster.server().call(&call);
    assert_eq!(response.code, 200, "{}", response.body);
}

fn seconds(cluster: &Cluster) -> String {
    let now = jiff::Timestamp::from_second(cluster.now().as_second()).unwrap();
    now.to_string()
}

/// Returns the check's entry for a job.
pub(crate) fn entry(cluster: &Cluster, job: &str) -> Value {
    let workload = cluster.workload(job).unwrap();
    let entries = workload["status"]["admissionChecks"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    entries
        .into_iter()
        .find(|entry| entry["name"] == "check")
        .unwrap_or_default()
}

/// Returns the notes of the events about Workloads with this reason.
pub(crate) fn events(cluster: &Cluster, reason: &str) -> Vec<String> {
    let all = cluster
        .server()
        .objects(&Resource::new("events.k8s.io", "v1", "events"), "default");
    let of_reason = all.iter().filter(|event| event["reason"] == reason);
    of_reason
        .map(|event| event["note"].as_str().unwrap().to_owned())
        .collect()
}

/// Sets the status of an AdmissionCheck.
pub(crate) fn check_status(cluster: &Cluster, name: &str, status: &Value) {
    let resource = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
    let call = ApiRequest::new(Verb::Patch(Patch::Merge), &resource)
        .name(name)
        .subresource("status")
        .agent("nobody")
        .body(json!({"status": status}));
    let response = cluster.server().call(&call);
    assert_eq!(response.code, 200, "{}", response.body);
}

/// Returns the names of all ProvisioningRequests or PodTemplates that were ever created.
pub(crate) fn created(cluster: &Cluster, plural: &str) -> Vec<String> {
    let history = cluster.server().history().into_iter();
    let added = history.filter(|change| {
        change.resource.plural == plural
            && change.verb == kueue_check_sim::apiserver::ChangeVerb::Added
    });
    added
        .map(|change| {
            change.object["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}
