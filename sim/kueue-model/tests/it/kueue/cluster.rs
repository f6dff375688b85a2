//! A cluster for scenarios: the server, Kueue and the job integrations. Short methods act on it
//! and return the results.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kueue_check::Clock;
use kueue_check_apiserver::{ApiRequest, ApiResponse, ApiServer, Patch, Resource, Verb};
use kueue_check_kueue_model::jobs::{Jobs, Nodes};
use kueue_check_kueue_model::kueue::{Kueue, KueueVersion, Webhook, run};
use kueue_check_kueue_model::{definitions, jobs};
use serde_json::{Value, json};

pub(crate) const KUEUE: &str = "kueue.x-k8s.io/v1beta2";

pub(crate) fn kueue(plural: &str) -> Resource {
    Resource::new("kueue.x-k8s.io", "v1beta2", plural)
}

pub(crate) fn in_virtual_time<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    // Boxed, so that the runtime's loop is compiled once, not once for each test.
    let scenario: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(scenario);
    runtime.block_on(scenario)
}

/// Runs a scenario of Kueue 0.19 on a cluster with the queue `cq`, in virtual time.
pub(crate) fn on_queue(cpus: &str, checks: &[&str], scenario: impl AsyncFnOnce(&Cluster)) {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue(cpus, checks, &json!({}));
        scenario(&cluster).await;
    });
}

/// A running cluster with a Namespace `t`, a flavor `default`, and a LocalQueue `lq` of a
/// ClusterQueue `cq`, which the test creates.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) clock: Clock,
}

impl Cluster {
    pub(crate) fn new(version: KueueVersion) -> Self {
        let clock = Clock::following_tokio("2026-11-21T09:00:00.5Z".parse().unwrap());
        let server = ApiServer::with_definitions(clock.clone(), definitions::of_version(version));
        server.set_admission(Arc::new(Webhook::of_version(version)));
        server.collect_garbage(true);
        let cluster = Self { server, clock };
        cluster
            .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}}));
        cluster.flavor("default", &json!({}));
        cluster.create(&json!({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "lq", "namespace": "t"}, "spec": {"clusterQueue": "cq"}}));
        let (server, clock) = (&cluster.server, &cluster.clock);
        tokio::spawn(run(
            Kueue::new(server, clock, version),
            server.clone(),
            clock.clone(),
        ));
        let integrations = Jobs::of_version(server, clock, version);
        tokio::spawn(run(integrations, server.clone(), clock.clone()));
        cluster
    }

    /// Adds nodes that run the started Jobs.
    pub(crate) fn with_nodes(self) -> Self {
        let nodes = Nodes::new(&self.server, &self.clock);
        tokio::spawn(run(nodes, self.server.clone(), self.clock.clone()));
        self
    }

    /// Creates the ClusterQueue `cq` with `cpus` CPUs of flavor `default`, with active checks and
    /// the fields of `more` in its spec.
    pub(crate) fn queue(&self, cpus: &str, checks: &[&str], more: &Value) {
        for check in checks {
            self.check(check);
        }
        let rules: Vec<Value> = checks.iter().map(|name| json!({"name": name})).collect();
        let mut spec =
            json!({"namespaceSelector": {}, "resourceGroups": groups(&[("default", cpus)])});
        if !rules.is_empty() {
            spec["admissionChecksStrategy"] = json!({"admissionChecks": rules});
        }
        let spec = with(spec, more);
        self.create(&json!({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": spec}));
    }

    /// Creates a ClusterQueue with these CPUs of each flavor and the fields of `more` in its spec,
    /// and a LocalQueue of its name.
    pub(crate) fn member(&self, name: &str, cpus: &[(&str, &str)], more: &Value) {
        let spec = json!({"namespaceSelector": {}, "resourceGroups": groups(cpus)});
        let spec = with(spec, more);
        self.create(&json!({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}));
        self.create(&json!({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": name, "namespace": "t"}, "spec": {"clusterQueue": name}}));
    }

    /// Creates a ResourceFlavor.
    pub(crate) fn flavor(&self, name: &str, spec: &Value) {
        self.create(&json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}));
    }

    /// Creates a `WorkloadPriorityClass`.
    pub(crate) fn class(&self, name: &str, value: i64) {
        self.create(&json!({"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}));
    }

    /// Creates an active AdmissionCheck.
    pub(crate) fn check(&self, name: &str) {
        self.create(&json!({"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": {"controllerName": "example.com/test"}}));
        let active = json!({"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": self.now()});
        let patch = json!({"status": {"conditions": [active]}});
        self.merge("admissionchecks", "", name, "status", &patch);
    }

    pub(crate) fn now(&self) -> String {
        format!("{:.0}", self.clock.now())
    }

    pub(crate) fn create(&self, object: &Value) {
        let response = self.try_create(object);
        assert_eq!(response.code, 201, "{object}: {}", response.body["message"]);
    }

    pub(crate) fn try_create(&self, object: &Value) -> ApiResponse {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let call = ApiRequest::new(Verb::Create, &resource_of(object)).namespace(namespace);
        self.server.call(&call.body(object.clone()).agent("user"))
    }

    pub(crate) fn merge(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
        sub: &str,
        patch: &Value,
    ) -> ApiResponse {
        let resource = match plural {
            "jobs" => Resource::new("batch", "v1", "jobs"),
            "pods" | "namespaces" => Resource::new("", "v1", plural),
            _ => kueue(plural),
        };
        let mut call = ApiRequest::new(Verb::Patch(Patch::Merge), &resource);
        call = call.namespace(namespace).name(name).body(patch.clone());
        if !sub.is_empty() {
            call = call.subresource(sub);
        }
        self.server.call(&call.agent("user"))
    }

    /// Creates a bare Workload.
    pub(crate) fn workload(&self, name: &str, cpus: &str, priority: i64) {
        let sets = [pod_set("main", 1, cpus)];
        self.submit(
            name,
            &json!({"queueName": "lq", "priority": priority, "podSets": sets}),
        );
    }

    /// Creates a bare Workload with this pod set.
    pub(crate) fn workload_of(&self, name: &str, set: &Value) {
        self.submit(name, &json!({"queueName": "lq", "podSets": [set]}));
    }

    /// Creates a bare Workload with this spec.
    pub(crate) fn submit(&self, name: &str, spec: &Value) {
        self.create(&json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": name, "namespace": "t"}, "spec": spec}));
    }

    /// Creates a Job of one Pod.
    pub(crate) fn job(&self, name: &str, cpus: &str, class: Option<&str>) {
        let mut labels = json!({"kueue.x-k8s.io/queue-name": "lq"});
        if let Some(class) = class {
            labels["kueue.x-k8s.io/priority-class"] = json!(class);
        }
        let template = &pod_set("main", 1, cpus)["template"];
        self.job_of(
            name,
            &json!({"labels": labels}),
            &json!({"template": template}),
        );
    }

    /// Creates a suspended Job of the LocalQueue `lq`, with one Pod of one CPU and these fields of
    /// the metadata and the spec.
    pub(crate) fn job_of(&self, name: &str, metadata: &Value, spec: &Value) {
        let usual =
            json!({"name": name, "namespace": "t", "labels": {"kueue.x-k8s.io/queue-name": "lq"}});
        let metadata = with(usual, metadata);
        let usual = json!({"suspend": true, "template": pod_set("main", 1, "1")["template"]});
        let spec = with(usual, spec);
        self.create(
            &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}),
        );
    }

    /// Applies a check's verdict on a Workload, as a controller does.
    pub(crate) fn verdict(
        &self,
        workload: &str,
        check: &str,
        state: &str,
        after: i64,
    ) -> ApiResponse {
        let mut fields =
            json!({"state": state, "message": state.to_lowercase(), "podSetUpdates": []});
        if state == "Retry" {
            fields["requeueAfterSeconds"] = json!(after);
        }
        self.entry(workload, check, &fields)
    }

    /// Applies a check's entry with these fields, as a controller does.
    pub(crate) fn entry(&self, workload: &str, check: &str, fields: &Value) -> ApiResponse {
        let entry = json!({"name": check, "message": "", "lastTransitionTime": self.now()});
        let status = json!({"admissionChecks": [with(entry, fields)]});
        self.apply(workload, &format!("check-{check}"), &status)
    }

    /// Applies the status of a Workload.
    fn apply(&self, workload: &str, manager: &str, status: &Value) -> ApiResponse {
        let name = self.name_of(workload);
        let body = json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": name, "namespace": "t"}, "status": status});
        let call = ApiRequest::new(Verb::Patch(Patch::Apply), &kueue("workloads"));
        let call = call.namespace("t").name(&name).subresource("status");
        let call = call.query("fieldManager", manager).query("force", "true");
        self.server.call(&call.body(body).agent("check"))
    }

    /// Ends a Job, or a bare Workload as its owner would.
    pub(crate) fn finish(&self, name: &str) {
        if jobs::finish(&self.server, "t", name).code == 200 {
            return;
        }
        let condition = json!({"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": self.now()});
        self.apply(name, "owner", &json!({"conditions": [condition]}));
    }

    pub(crate) fn delete(&self, plural: &str, name: &str) -> ApiResponse {
        let resource = match plural {
            "jobs" => Resource::new("batch", "v1", "jobs"),
            "pods" => Resource::new("", "v1", "pods"),
            _ => kueue(plural),
        };
        let of_cluster = ["clusterqueues", "admissionchecks", "resourceflavors"];
        let namespaced = !of_cluster.contains(&plural);
        let call = ApiRequest::new(Verb::Delete, &resource).name(name);
        let call = call.namespace(if namespaced { "t" } else { "" });
        self.server
            .call(&call.query("propagationPolicy", "Background").agent("user"))
    }

    pub(crate) async fn pass(&self, seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// Returns the generated name of a job's Workload, or the name itself.
    pub(crate) fn name_of(&self, short: &str) -> String {
        let workloads = self.server.objects(&kueue("workloads"), "t");
        let owned = workloads
            .iter()
            .find(|w| w["metadata"]["ownerReferences"][0]["name"] == short);
        owned.map_or_else(
            || short.to_owned(),
            |w| w["metadata"]["name"].as_str().unwrap().to_owned(),
        )
    }

    pub(crate) fn get(&self, short: &str) -> Value {
        let name = self.name_of(short);
        let found = self.server.get(&kueue("workloads"), "t", &name);
        found.unwrap_or(Value::Null)
    }

    pub(crate) fn condition(&self, short: &str, kind: &str) -> Value {
        let workload = self.get(short);
        let conditions = workload["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let mut of_kind = conditions.filter(|c| c["type"] == kind);
        of_kind.next().cloned().unwrap_or(Value::Null)
    }

    /// Returns all Workloads in one line: `a:RA(c=Ready)`. R has quota, A is admitted, E is being
    /// evicted, W is not requeued, F is finished, I is inactive, D is being deleted. `retryCount`
    /// follows the state.
    pub(crate) fn line(&self) -> String {
        let workloads = self.server.objects(&kueue("workloads"), "t");
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for workload in workloads {
            let metadata = &workload["metadata"];
            let owner = metadata["ownerReferences"][0]["name"].as_str();
            let name = owner.or(metadata["name"].as_str()).unwrap();
            all.insert(name.to_owned(), line_of(&workload));
        }
        let all: Vec<String> = all
            .into_iter()
            .map(|(name, line)| format!("{name}:{line}"))
            .collect();
        all.join(" ")
    }

    /// Returns the notes of the events with one reason, in order.
    pub(crate) fn notes(&self, reason: &str) -> Vec<String> {
        let events = Resource::new("events.k8s.io", "v1", "events");
        let changes = self.server.history().into_iter();
        let events = changes.filter(|c| c.resource == events && c.previous.is_none());
        let of_reason = events.filter(|c| c.object["reason"] == reason);
        of_reason
            .map(|c| c.object["note"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn line_of(workload: &Value) -> String {
    let status = &workload["status"];
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    let is =
        |kind: &str, value: &str| conditions().any(|c| c["type"] == kind && c["status"] == value);
    let letters = [
        ("R", is("QuotaReserved", "True")),
        ("A", is("Admitted", "True")),
        ("E", is("Evicted", "True")),
        ("W", is("Requeued", "False")),
        ("F", is("Finished", "True")),
        ("I", workload["spec"]["active"] == false),
        ("D", !workload["metadata"]["deletionTimestamp"].is_null()),
    ];
    let mut line: String = letters
        .iter()
        .filter(|(_, on)| *on)
        .map(|(letter, _)| *letter)
        .collect();
    let checks = status["admissionChecks"].as_array().into_iter().flatten();
    let checks: Vec<String> = checks
        .map(|check| {
            let retries = check["retryCount"]
                .as_i64()
                .map(|n| n.to_string())
                .unwrap_or_default();
            format!(
                "{}={}{retries}",
                check["name"].as_str().unwrap(),
                check["state"].as_str().unwrap()
            )
        })
        .collect();
    if !checks.is_empty() {
        line = format!("{line}({})", checks.join(","));
    }
    line
}

/// Returns the object with these fields.
pub(crate) fn with(mut object: Value, fields: &Value) -> Value {
    for (field, value) in fields.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

/// Returns the resource groups of a ClusterQueue with these CPUs of each flavor.
pub(crate) fn groups(cpus: &[(&str, &str)]) -> Value {
    let flavors = cpus.iter().map(|(flavor, cpus)| json!({"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpus}]}));
    json!([{"coveredResources": ["cpu"], "flavors": flavors.collect::<Vec<Value>>()}])
}

pub(crate) fn pod_set(name: &str, count: i64, cpus: &str) -> Value {
    json!({"name": name, "count": count, "template": {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpus}}}
    ]}}})
}

fn resource_of(object: &Value) -> Resource {
    let (version, kind) = (
        object["apiVersion"].as_str().unwrap(),
        object["kind"].as_str().unwrap(),
    );
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let plural = match kind {
        "PriorityClass" | "WorkloadPriorityClass" => format!("{}es", kind.to_lowercase()),
        _ => format!("{}s", kind.to_lowercase()),
    };
    Resource::new(group, version, plural)
}
