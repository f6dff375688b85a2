//! The shipped checks with a real Kueue, which reserves, admits, evicts and requeues by itself. The
//! test acts as the users, the end of jobs and the autoscaler.
//!
//! Not part of every run, because Kueue takes 10 min to build: `cargo xtask kueue`.

mod families;
mod licences;
mod pods;
mod scenario;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kueue_check::runtime::{Runtime, RuntimeHandle};
use kueue_check::{AdmissionCheckController, ControllerName, DynCheck};
use kueue_check_budget::controller::{BudgetCheck, CONTROLLER as BUDGET};
use kueue_check_budget::source::Credentials;
use kueue_check_provisioning::{CONTROLLER_NAME as PROVISIONING, ProvisioningCheck};
use kueue_check_testenv::{Kueue, KueueOptions};
use serde_json::{Value, json};

use crate::exemptions::{refusal, workloads};
use crate::harness::{
    Stage, admission_check, condition, eventually, helm, is_active, kueue, now, real_kueue, stage,
    workload,
};
use crate::rbac::token_client;
use crate::values::arguments;

/// A namespace with a queue and a real Kueue.
struct Town {
    stage: Stage,
    kueue: Kueue,
    /// The checks that run in this process.
    checks: Option<RuntimeHandle>,
}

/// The options of a town.
#[derive(Default)]
struct Setup<'a> {
    /// The checks with their parameters, whose name the AdmissionCheck has too.
    checks: Vec<(DynCheck, Value)>,
    /// The AdmissionChecks of other programs.
    external: Vec<Value>,
    flavors: &'a [&'a str],
    /// Additional fields of the ClusterQueue's spec.
    queue: Value,
    kueue: KueueOptions<'a>,
}

impl Drop for Town {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.kueue.log();
            // Version conflicts are normal for controllers.
            let lines = log.lines().rev();
            let lines = lines.filter(|line| !line.contains("the object has been modified"));
            let last: Vec<&str> = lines.take(20).collect();
            eprintln!("Kueue's last words, newest first:\n{}", last.join("\n"));
        }
    }
}

/// Creates a town whose ClusterQueue has one check with `parameters`. Town, queue and check have
/// the same name.
async fn town<C: AdmissionCheckController>(
    name: &str,
    parameters: &Value,
    check: impl FnOnce(kube::Client) -> C,
) -> Option<Town> {
    let client = stage(name).await?.client;
    town_as(client, name, parameters, check).await
}

/// As [`town`], with the check running as the user of `client`.
async fn town_as<C: AdmissionCheckController>(
    client: kube::Client,
    name: &str,
    parameters: &Value,
    check: impl FnOnce(kube::Client) -> C,
) -> Option<Town> {
    let setup = Setup {
        checks: vec![(DynCheck::new(check(client.clone())), parameters.clone())],
        flavors: &[name],
        ..Setup::default()
    };
    open(client, name, setup).await
}

/// Creates a town from `setup`, with the checks running as the user of `client`.
async fn open(client: kube::Client, name: &str, setup: Setup<'_>) -> Option<Town> {
    let stage = stage(name).await?;
    let process = real_kueue(setup.kueue).await?;
    let (checks, parameters): (Vec<DynCheck>, Vec<Value>) = setup.checks.into_iter().unzip();
    let controllers: Vec<String> = checks
        .iter()
        .map(|check| check.controller_name().to_string())
        .collect();
    let handle = (!checks.is_empty()).then(|| {
        let runtime = Runtime::builder(client).checks(checks).build().unwrap();
        let handle = runtime.handle();
        tokio::spawn(runtime.run(std::future::pending()));
        handle
    });
    // Kueue's webhooks may be installed and not yet served.
    let mut objects = setup.external;
    for object in &objects {
        stage.apply_when_taken(object).await;
    }
    for (controller, parameters) in controllers.iter().zip(&parameters) {
        let group = parameters["apiVersion"].as_str().unwrap();
        let (group, _) = group.split_once('/').unwrap();
        let kind = parameters["kind"].as_str().unwrap();
        let name = parameters["metadata"]["name"].as_str().unwrap();
        objects.push(admission_check(name, controller, group, kind));
        stage.apply_when_taken(parameters).await;
        stage.apply_when_taken(objects.last().unwrap()).await;
    }
    let mut flavors = Vec::new();
    for flavor in setup.flavors {
        let labels = json!({"nodeLabels": {"pool": flavor}});
        let flavor_object = kueue("ResourceFlavor", None, flavor, labels);
        stage.apply_when_taken(&flavor_object).await;
        flavors
            .push(json!({"name": flavor, "resources": [{"name": "cpu", "nominalQuota": "100"}]}));
    }
    let names: Vec<Value> = objects
        .iter()
        .map(|check| json!({"name": check["metadata"]["name"]}))
        .collect();
    let mut spec = json!({
        "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None", "admissionChecksStrategy": {"admissionChecks": names},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
    });
    for (key, value) in setup.queue.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    stage.apply(&kueue("ClusterQueue", None, name, spec)).await;
    let local = json!({"clusterQueue": name, "stopPolicy": "None"});
    stage
        .apply(&kueue("LocalQueue", Some(name), "lq", local))
        .await;
    for object in &objects {
        stage
            .wait(object, "the check is active", |check| {
                is_active(check, "True")
            })
            .await;
    }
    Some(Town {
        stage,
        kueue: process,
        checks: handle,
    })
}

fn job(namespace: &str, name: &str) -> Value {
    let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}});
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {"suspend": true, "parallelism": 1, "completions": 1, "template": {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}},
    })
}

fn is_true(workload: &Value, kind: &str) -> bool {
    let mut conditions = workload["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn message_contains(workload: &Value, text: &str) -> bool {
    let mut entries = workload["status"]["admissionChecks"]
        .as_array()
        .into_iter()
        .flatten();
    entries.any(|entry| {
        let message = entry["message"].as_str();
        message.is_some_and(|message| message.contains(text))
    })
}

impl Town {
    fn name(&self) -> &str {
        &self.stage.namespace
    }

    async fn submit(&self, name: &str) {
        self.stage.apply(&job(self.name(), name)).await;
    }

    /// Returns a Workload of the job `name`, or null if there is none.
    async fn workload(&self, name: &str) -> Value {
        let all = self.stage.list("Workload", Some(self.name())).await;
        let own = |workload: &Value| workload["metadata"]["ownerReferences"][0]["name"] == name;
        all.into_iter().find(own).unwrap_or_default()
    }

    async fn wait(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{name}: {what}"), async || {
            let workload = self.workload(name).await;
            (holds(&workload), workload)
        })
        .await
    }

    /// Waits until Kueue has started the job, which it does after the admission.
    async fn started(&self, name: &str) -> Value {
        let runs = |job: &Value| job["spec"]["suspend"] == false;
        let job = job(self.name(), name);
        self.stage.wait(&job, "it runs", runs).await
    }

    async fn admitted(&self, name: &str) -> Value {
        self.wait(name, "it is admitted", |workload| {
            is_true(workload, "Admitted")
        })
        .await
    }

    /// Changes an object, or its status, by a merge patch.
    async fn merge(&self, object: &Value, status: bool, patch: Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let (api, params, patch) = (
            self.stage.api(object),
            PatchParams::default(),
            Patch::Merge(patch),
        );
        let patched = if status {
            api.patch_status(name, &params, &patch).await
        } else {
            api.patch(name, &params, &patch).await
        };
        patched.unwrap();
    }

    /// Completes the pods of the job.
    async fn complete(&self, name: &str) {
        let (job, now) = (job(self.name(), name), now());
        self.merge(&job, true, json!({"status": {"startTime": now}}))
            .await;
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now});
        let conditions = [condition("SuccessCriteriaMet"), condition("Complete")];
        let status = json!({"completionTime": now, "succeeded": 1, "conditions": conditions});
        self.merge(&job, true, json!({"status": status})).await;
        self.wait(name, "it is finished", |workload| {
            is_true(workload, "Finished")
        })
        .await;
    }

    async fn delete(&self, object: &Value) {
        let (api, params) = (self.stage.api(object), DeleteParams::default());
        let name = object["metadata"]["name"].as_str().unwrap();
        api.delete(name, &params).await.unwrap();
    }

    async fn activate(&self, name: &str, active: bool) {
        let workload = self.workload(name).await;
        self.merge(&workload, false, json!({"spec": {"active": active}}))
            .await;
    }
}

fn budget(name: &str, limit: &str) -> Value {
    json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "Budget", "metadata": {"name": name}, "spec": {
        "unit": "USD", "period": {"term": {"from": "2020-01-01T00:00:00Z", "until": "2400-01-01T00:00:00Z"}}, "source": {"fixed": {}, "settleDelay": "1s", "interval": "15s"},
        "namespaceLimits": {"default": limit}, "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "markPods": true,
        "estimate": {"safetyFactor": "1", "defaultDuration": "1h", "overrunHorizon": "1h"}}})
}

/// Applies the definitions that `check` needs.
async fn define(stage: &Stage, check: &DynCheck) {
    let definitions: Vec<Value> = check
        .definitions()
        .iter()
        .map(|definition| serde_json::to_value(definition).unwrap())
        .collect();
    stage.install(&definitions).await;
}

/// Creates a town with a budget of `limit`.
async fn budget_town(name: &str, limit: &str) -> Town {
    let check = || BudgetCheck::new(Credentials::default());
    let stage = stage(name).await.unwrap();
    define(&stage, &DynCheck::new(check())).await;
    let town = town(name, &budget(name, limit), |_| check()).await;
    town.unwrap()
}

#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn a_budget_lets_jobs_start_evicts_none_and_gives_to_the_next() {
    let name = "budget-town";
    let town = budget_town(name, "2").await;
    for job in ["a", "b"] {
        town.submit(job).await;
        town.admitted(job).await;
    }
    town.submit("c").await;
    let waits = |workload: &Value| message_contains(workload, "needs about 1.00 USD");
    town.wait("c", "it has no money", waits).await;
    let started = town.started("a").await;
    let marks = &started["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(marks[format!("budget.kueue-check.dev/{name}")], "1.00 USD");
    town.complete("a").await;
    town.admitted("c").await;
    // A user stops one job; its budget goes to the next, and it waits in order.
    town.activate("b", false).await;
    let evicted = |workload: &Value| !is_true(workload, "Admitted");
    town.wait("b", "it is evicted", evicted).await;
    town.submit("d").await;
    town.admitted("d").await;
    town.activate("b", true).await;
    town.wait("b", "it has no money", waits).await;
    // The queue is stopped and resumed; a raised limit applies to all.
    let queue = kueue("ClusterQueue", None, name, Value::Null);
    let policy = |policy: &str| json!({"spec": {"stopPolicy": policy}});
    town.merge(&queue, false, policy("HoldAndDrain")).await;
    for job in ["c", "d"] {
        town.wait(job, "it is drained", evicted).await;
    }
    town.stage.apply(&budget(name, "3")).await;
    town.merge(&queue, false, policy("None")).await;
    for job in ["b", "c", "d"] {
        town.admitted(job).await;
    }
}

/// The chart's policies apply to every write here: those of Kueue, which is the administrator in
/// these tests, and those of the check with its ServiceAccount's permissions.
#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn a_check_and_kueue_work_under_the_status_policies() {
    let name = "guarded-town";
    let stage = stage(name).await.unwrap();
    let mut arguments = arguments(&["values-budget.yaml"]);
    let guarded = ["--set", "statusPolicy.kueueAccounts[0]=admin"];
    arguments.extend(guarded.map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let documents = helm().unwrap().template(name, name, &arguments).unwrap();
    stage.install(&documents).await;
    let own = format!("{name}-budget-check");
    let client = token_client(&stage, &own).await;
    let forge = async |workload: &Value, number: u32| {
        let api: Api<DynamicObject> = workloads(&client, name);
        let kind = format!("Forged{number}");
        let forged = json!({"status": {"conditions": [condition(&kind, "True")]}});
        let workload = workload["metadata"]["name"].as_str().unwrap();
        let patch = Patch::Merge(forged);
        refusal(
            api.patch_status(workload, &PatchParams::default(), &patch)
                .await,
        )
    };
    stage.apply(&workload(name, "probe")).await;
    let probe = stage.get(&workload(name, "probe")).await;
    let tries = std::sync::atomic::AtomicU32::new(0);
    eventually("the policies act", async || {
        let number = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let rejection = forge(&probe, number).await;
        (rejection.is_some(), rejection)
    })
    .await;
    stage.delete(&probe).await;

    let check = |_| BudgetCheck::new(Credentials::default());
    let budget = budget(name, "2");
    let town = town_as(client.clone(), name, &budget, check).await.unwrap();
    for job in ["a", "b"] {
        town.submit(job).await;
        town.admitted(job).await;
    }
    town.submit("c").await;
    let waits = |workload: &Value| message_contains(workload, "needs about 1.00 USD");
    let waiting = town.wait("c", "it has no money", waits).await;
    assert!(forge(&waiting, 1_000).await.is_some(), "the policies act");
    // Kueue finishes, evicts and resets: it changes the check's states, and the conditions.
    town.complete("a").await;
    town.admitted("c").await;
    town.activate("b", false).await;
    let evicted = |workload: &Value| !is_true(workload, "Admitted");
    town.wait("b", "it is evicted", evicted).await;
    town.submit("d").await;
    town.admitted("d").await;
    let queue = kueue("ClusterQueue", None, name, Value::Null);
    let policy = |policy: &str| json!({"spec": {"stopPolicy": policy}});
    town.merge(&queue, false, policy("HoldAndDrain")).await;
    for job in ["c", "d"] {
        town.wait(job, "it is drained", evicted).await;
    }
    town.merge(&queue, false, policy("None")).await;
    for job in ["c", "d"] {
        town.admitted(job).await;
    }
    for document in &documents {
        if document["kind"].as_str().unwrap().starts_with("Validating") {
            town.stage.delete(document).await;
        }
    }
}

const CLASS: &str = "check-capacity.autoscaling.x-k8s.io";

impl Town {
    /// Waits for attempt `attempt` of a request for `job`.
    async fn request(&self, job: &str, attempt: u32) -> Value {
        eventually(&format!("attempt {attempt} for {job}"), async || {
            let workload = self.workload(job).await;
            let name = workload["metadata"]["name"].as_str().unwrap_or_default();
            let object = self.request_of(&format!("{name}-{}-{attempt}", self.name()));
            let request = self.stage.get(&object).await;
            (!request.is_null(), request)
        })
        .await
    }

    fn request_of(&self, name: &str) -> Value {
        json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": name, "namespace": self.name()}})
    }

    /// Sets the conditions `kinds`, as the autoscaler does.
    async fn set_conditions(&self, request: &Value, kinds: &[&str]) {
        let now = now();
        let condition = |kind: &&str| json!({"type": kind, "status": "True", "reason": kind, "message": kind, "lastTransitionTime": now});
        let conditions: Vec<Value> = kinds.iter().map(condition).collect();
        self.merge(request, true, json!({"status": {"conditions": conditions}}))
            .await;
    }

    async fn wait_gone(&self, request: &Value) {
        let uid = request["metadata"]["uid"].clone();
        self.stage
            .wait(request, "the request is gone", |seen| {
                seen["metadata"]["uid"] != uid
            })
            .await;
    }
}

/// Kueue's own provisioning check runs here too, as it does wherever the autoscaler's definitions
/// exist.
#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn capacity_is_requested_beside_kueues_own_check() {
    let name = "capacity-town";
    let config = kueue(
        "ProvisioningRequestConfig",
        None,
        name,
        json!({"provisioningClassName": CLASS, "managedResources": ["cpu"], "retryStrategy": {"backoffLimitCount": 1, "backoffBaseSeconds": 2, "backoffMaxSeconds": 5}}),
    );
    let check = |client| ProvisioningCheck::new(client, ControllerName::from_static(PROVISIONING));
    let town = town(name, &config, check).await.unwrap();
    assert_ne!(BUDGET, PROVISIONING);
    // Requested, provisioned, finished.
    town.submit("a").await;
    let request = town.request("a", 1).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let same = town.request("a", 1).await;
    assert_eq!(
        same["metadata"]["uid"], request["metadata"]["uid"],
        "Kueue leaves it alone"
    );
    town.set_conditions(&request, &["Accepted", "Provisioned"])
        .await;
    town.admitted("a").await;
    let started = town.started("a").await;
    let consumed = &started["spec"]["template"]["metadata"]["annotations"]["autoscaling.x-k8s.io/consume-provisioning-request"];
    assert_eq!(*consumed, request["metadata"]["name"]);
    town.complete("a").await;
    town.wait_gone(&request).await;
    // The request fails twice, once more than allowed.
    town.submit("b").await;
    for attempt in [1, 2] {
        let request = town.request("b", attempt).await;
        town.set_conditions(&request, &["Accepted", "Failed"]).await;
        town.wait_gone(&request).await;
    }
    let stopped = |workload: &Value| workload["spec"]["active"] == false;
    let given_up = town.wait("b", "it is given up", stopped).await;
    // A job that is activated again is not requeued (Kueue 0.19). A deleted Workload is recreated,
    // and starts from the first attempt.
    town.activate("b", true).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let activated = town.workload("b").await;
    assert_eq!(activated["spec"]["active"], true);
    assert!(!is_true(&activated, "QuotaReserved"), "{activated}");
    town.delete(&activated).await;
    let request = town.request("b", 1).await;
    town.set_conditions(&request, &["Accepted", "Provisioned"])
        .await;
    let anew = town.admitted("b").await;
    assert_ne!(anew["metadata"]["uid"], given_up["metadata"]["uid"]);
    // Revoked while it runs.
    town.submit("c").await;
    let request = town.request("c", 1).await;
    town.set_conditions(&request, &["Accepted", "Provisioned"])
        .await;
    town.admitted("c").await;
    town.set_conditions(&request, &["Accepted", "Provisioned", "CapacityRevoked"])
        .await;
    town.wait("c", "it is stopped", stopped).await;
    town.wait_gone(&request).await;
    // Stopped by a user while it waits, and started again.
    town.submit("d").await;
    let request = town.request("d", 1).await;
    town.activate("d", false).await;
    town.wait_gone(&request).await;
    town.activate("d", true).await;
    let request = town.request("d", 1).await;
    town.set_conditions(&request, &["Accepted", "Provisioned"])
        .await;
    town.admitted("d").await;
}
