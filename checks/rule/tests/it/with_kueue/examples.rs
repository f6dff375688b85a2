//! Each example with a real Kueue: a Job waits for it, and starts when its data changes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use kube::api::{Patch, PatchParams, PostParams};
use kueue_check_testenv::{Folder, KueueOptions, alertmanager, api};

use super::*;
use crate::approval::approvers;
use crate::prometheus::Process;
use crate::sdk::raw_to;

const WATCHED: &str = "configmaps,persistentvolumeclaims,nodes,kueue-check.dev/v1alpha1/approvals";

/// The values of a Prometheus and of an electricity exchange.
struct Figures {
    alerts: Vec<&'static str>,
    licences: u32,
    price: f64,
}

impl Figures {
    fn response(&self, received: &Received) -> Reply {
        if received.head.contains("/now.json") {
            return Reply::json(200, &json!({"eurPerMWh": self.price}).to_string());
        }
        let result: Vec<Value> = if received.body.contains("ALERTS") {
            let alerts = self.alerts.iter();
            let alerts = alerts.map(
                |alert| json!({"metric": {"alertname": alert}, "value": [1_795_251_600, "1"]}),
            );
            alerts.collect()
        } else {
            let free = self.licences.to_string();
            vec![json!({"metric": {}, "value": [1_795_251_600, free]})]
        };
        let data = json!({"resultType": "vector", "result": result});
        Reply::json(200, &json!({"status": "success", "data": data}).to_string())
    }
}

/// The cluster, and the examples that were tested on it.
struct TestedExamples {
    client: Client,
    tried: BTreeSet<String>,
}

/// The Job of an example, in a queue with the check of that example only.
struct Job {
    labels: Value,
    gpus: u32,
}

impl TestedExamples {
    /// Applies the example `name`, in which the first of each two texts is replaced by the second,
    /// with a queue of its own. Creates a Job, which has to wait with `message`.
    async fn holds(&mut self, name: &str, edits: &[(&str, &str)], job: Job, message: &str) {
        self.edit(name, edits).await;
        let check = Self::check(name);
        let resources = json!([{"name": "cpu", "nominalQuota": 10}, {"name": "nvidia.com/gpu", "nominalQuota": 10}]);
        let queues = [
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name},
                "spec": {"namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
                    "admissionChecksStrategy": {"admissionChecks": [{"name": check["metadata"]["name"]}]},
                    "resourceGroups": [{"coveredResources": ["cpu", "nvidia.com/gpu"],
                        "flavors": [{"name": "default", "resources": resources}]}]},
            }),
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": name},
            }),
        ];
        for queue in &queues {
            self.apply(queue).await;
        }
        eventually(&self.client, &check, "an active check", |object| {
            condition(object, "Active").is_some_and(|active| active["status"] == "True")
        })
        .await;
        let mut labels = job.labels;
        labels["kueue.x-k8s.io/queue-name"] = json!(name);
        let amounts = json!({"cpu": "1", "nvidia.com/gpu": job.gpus.to_string()});
        let container = json!({"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}});
        let pod = json!({"restartPolicy": "Never", "containers": [container]});
        self.apply(&json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"namespace": "default", "name": name, "labels": labels},
            "spec": {"suspend": true, "template": {"spec": pod}},
        }))
        .await;
        self.waits(name, message).await;
        self.tried.insert(name.to_owned());
    }

    /// Returns the example's documents, edited.
    fn documents(name: &str, edits: &[(&str, &str)]) -> Vec<Value> {
        let file = format!("examples/{name}.yaml");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
        let mut text = std::fs::read_to_string(path).unwrap();
        for (from, to) in edits {
            assert!(text.contains(from), "{file} has no `{from}`");
            text = text.replace(from, to);
        }
        documents(&text).collect()
    }

    async fn edit(&self, name: &str, edits: &[(&str, &str)]) {
        for document in Self::documents(name, edits) {
            self.apply(&document).await;
        }
    }

    /// Returns the AdmissionCheck of an example.
    fn check(name: &str) -> Value {
        let mut all = Self::documents(name, &[]).into_iter();
        all.find(|document| document["kind"] == "AdmissionCheck")
            .unwrap()
    }

    async fn apply(&self, document: &Value) {
        let applied = apply(&self.client, document).await;
        applied.unwrap_or_else(|error| panic!("{document}: {error}"));
    }

    /// Writes the status of an object, as its controller does.
    async fn status(&self, kind: &str, namespace: Option<&str>, name: &str, status: &Value) {
        let object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace}});
        let api = api(&self.client, &object);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until `done` returns true for the Workload and whether the Job is suspended.
    async fn seen(&self, name: &str, what: &str, done: impl Fn(&Value, bool) -> bool) {
        let of = |api_version: &str, kind: &str| {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "default"}});
            api(&self.client, &object)
        };
        let workloads = of("kueue.x-k8s.io/v1beta2", "Workload");
        let jobs = of("batch/v1", "Job");
        let began = Instant::now();
        loop {
            let all = workloads.list(&kube::api::ListParams::default()).await;
            let own = all.unwrap().items.into_iter().find(|workload| {
                let owners = workload.metadata.owner_references.as_deref();
                owners.is_some_and(|owners| owners.iter().any(|owner| owner.name == name))
            });
            let workload = json!(own);
            let is_suspended = jobs.get(name).await.unwrap().data["spec"]["suspend"] == true;
            if done(&workload, is_suspended) {
                return;
            }
            assert!(
                began.elapsed() < TIMEOUT,
                "{name}: waited {TIMEOUT:?} for {what}; last seen: {:#}, Job suspended: {is_suspended}",
                workload["status"]
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the Job holds quota and its rule returns `message`.
    async fn waits(&self, name: &str, message: &str) {
        self.seen(name, message, |workload, is_suspended| {
            let entry = &workload["status"]["admissionChecks"][0];
            let has_quota =
                condition(workload, "QuotaReserved").is_some_and(|quota| quota["status"] == "True");
            let has_message = entry["message"]
                .as_str()
                .is_some_and(|text| text.contains(message));
            is_suspended && has_quota && entry["state"] == "Pending" && has_message
        })
        .await;
    }

    /// Waits until Kueue has admitted and started the Job.
    async fn starts(&self, name: &str) {
        self.seen(name, "an admission", |workload, is_suspended| {
            let entry = &workload["status"]["admissionChecks"][0];
            let admitted = condition(workload, "Admitted")
                .is_some_and(|admitted| admitted["status"] == "True");
            !is_suspended && admitted && entry["state"] == "Ready"
        })
        .await;
    }
}

fn labels(key: &str, value: &str) -> Job {
    Job {
        labels: json!({key: value}),
        gpus: 0,
    }
}

fn job() -> Job {
    Job {
        labels: json!({}),
        gpus: 0,
    }
}

fn now() -> Timestamp {
    kueue_check::Clock::system().now()
}

/// Returns the time zone in which it is now `hour` o'clock.
fn zone(hour: i8) -> String {
    let now = now().to_zoned(TimeZone::UTC);
    let offset = (hour - now.hour()).rem_euclid(24);
    let offset = if offset > 14 { offset - 24 } else { offset };
    format!("{offset:+03}:00")
}

/// Returns a maintenance that begins in `minutes` minutes and takes an hour.
fn calendar(minutes: i64) -> Value {
    let begin = now() + SignedDuration::from_mins(minutes);
    let end = begin + SignedDuration::from_hours(1);
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kueue-system", "name": "maintenance"},
        "data": {"network": format!("{begin}/{end}")}})
}

/// Returns a `PersistentVolumeClaim`, which no controller binds here.
fn claim() -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": "texts"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"example.com/flavor": "default"}}})
}

/// Returns the conditions of a node.
fn conditions(gpu_is_unhealthy: bool) -> Value {
    let unhealthy = if gpu_is_unhealthy { "True" } else { "False" };
    json!({"conditions": [{"type": "Ready", "status": "True"}, {"type": "GPUUnhealthy", "status": unhealthy}]})
}

/// Approves the Job as `user`, who is in `group`.
async fn approve(cluster: &Cluster, job: &str, user: &str, group: &str) {
    // Times have whole seconds, and an approval counts from two seconds after its policy.
    sleep(Duration::from_secs(3)).await;
    let access = cluster.access();
    let client = access
        .client_as(user, &[group, "system:authenticated"])
        .unwrap();
    let approval = json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "Approval",
        "metadata": {"namespace": "default", "name": format!("{job}-{group}")},
        "spec": {"job": {"kind": "Job", "name": job}, "approvedBy": user, "groups": [group], "reason": "a deadline"},
    });
    let api = api(&client, &approval);
    let approval = serde_json::from_value(approval).unwrap();
    let made = api.create(&PostParams::default(), &approval).await;
    made.unwrap();
}

/// Starts an Alertmanager with one alert of the storage.
async fn with_an_alert() -> Process {
    let folder = Folder::new("rule").unwrap();
    folder
        .write(
            "alertmanager.yml",
            "{route: {receiver: nobody}, receivers: [{name: nobody}]}",
        )
        .unwrap();
    let arguments = [
        "--config.file=alertmanager.yml",
        "--storage.path=data",
        "--cluster.listen-address=",
        "--web.listen-address=ADDRESS",
    ];
    let server = Process::start(&alertmanager().unwrap(), folder, &arguments);
    server.listens().await;
    send_alert(&server, now() + SignedDuration::from_hours(1)).await;
    server
}

/// Sends the alert, which ends at this time.
async fn send_alert(server: &Process, end: Timestamp) {
    let labels = json!({"alertname": "DiskSlow", "component": "storage"});
    let alerts = json!([{"labels": labels, "endsAt": end.to_string()}]).to_string();
    let json = "content-type: application/json\r\n";
    let (status, text) = raw_to(server.port, "POST /api/v2/alerts", json, &alerts).await;
    assert_eq!(status, 200, "{text}");
}

/// Replaces the policy by one that requires no team.
async fn without_teams(server: &Process) {
    let policy = include_str!("../../../../../sdk/rego/review.rego");
    let needs = "[\"the label `team` is missing\"]";
    assert!(policy.contains(needs));
    let policy = policy.replace(needs, "[]");
    let plain = "content-type: text/plain\r\n";
    let (status, text) = raw_to(server.port, "PUT /v1/policies/review.rego", plain, &policy).await;
    assert_eq!(status, 200, "{text}");
}

/// Prometheus and the exchange are stand-ins on loopback; Alertmanager and Open Policy Agent are
/// real. The servers and the query intervals of the examples are changed. The time cannot be
/// changed here, so the rule on nights gets another time zone.
#[tokio::test]
#[ignore = "needs a real Kueue: cargo xtask kueue"]
async fn each_example_holds_a_job_and_lets_it_start() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client().unwrap();
    let definitions = crds(V0_19_2).unwrap();
    cluster.install(&client, definitions).await.unwrap();
    let kubeconfig = install(&cluster, &client, WATCHED).await;
    let options = KueueOptions {
        label_keys: &["example.com/dataset", "example.com/licences"],
        ..KueueOptions::default()
    };
    let _kueue = Kueue::start_with(&cluster, options).await.unwrap();
    let figures = Arc::new(Mutex::new(Figures {
        alerts: vec!["DiskSlow"],
        licences: 2,
        price: 90.5,
    }));
    let shared = Arc::clone(&figures);
    let change = |change: fn(&mut Figures)| {
        change(&mut figures.lock().unwrap_or_else(PoisonError::into_inner));
    };
    let server = Server::start(move |received| {
        let figures = shared.lock().unwrap_or_else(PoisonError::into_inner);
        figures.response(received)
    })
    .await;
    let (alerts, policy) = (with_an_alert().await, crate::opa::start().await.unwrap());
    let servers = [server.url.clone(), alerts.url(), policy.url()].join(",");
    let _program = start(&kubeconfig, WATCHED, &servers);
    let mut examples = TestedExamples {
        client: client.clone(),
        tried: BTreeSet::new(),
    };
    let flavor = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}});
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}});
    for object in [&flavor, &namespace].into_iter().chain(&approvers()) {
        examples.apply(object).await;
    }

    let (noon, night) = (zone(12), zone(23));
    let by_day = [("Europe/Berlin", &*noon)];
    examples
        .holds("nights", &by_day, job(), "starts at 20:00 in Berlin")
        .await;
    examples.edit("nights", &[("Europe/Berlin", &*night)]).await;
    examples.starts("nights").await;

    examples.apply(&calendar(30)).await;
    let an_hour = labels("kueue.x-k8s.io/max-exec-time-seconds", "3600");
    let message = "may take until after the beginning of network";
    examples.holds("maintenance", &[], an_hour, message).await;
    examples.apply(&calendar(90)).await;
    examples.starts("maintenance").await;

    let texts = labels("example.com/dataset", "texts");
    let message = "there is no PersistentVolumeClaim texts";
    examples.holds("dataset", &[], texts, message).await;
    examples.apply(&claim()).await;
    examples.waits("dataset", "texts is not bound").await;
    let bound = json!({"phase": "Bound"});
    let kind = "PersistentVolumeClaim";
    examples
        .status(kind, Some("default"), "texts", &bound)
        .await;
    examples.starts("dataset").await;

    for (name, is_unwell) in [("a", false), ("b", true)] {
        examples.apply(&node(name)).await;
        let conditions = conditions(is_unwell);
        examples.status("Node", None, name, &conditions).await;
    }
    examples
        .holds("nodes", &[], job(), "waits for the nodes b")
        .await;
    examples.status("Node", None, "b", &conditions(false)).await;
    examples.starts("nodes").await;

    let own = &*server.url;
    let edits = [
        ("https://prices.example", own),
        ("interval: 5m", "interval: 5s"),
    ];
    let message = "waits for power below 60 EUR/MWh";
    examples.holds("price", &edits, job(), message).await;
    change(|figures| figures.price = 35.0);
    examples.starts("price").await;

    let prometheus = ("https://prometheus.monitoring:9090", own);
    let edits = [prometheus, ("interval: 30s", "interval: 5s")];
    let message = "waits until DiskSlow is quiet for 10 minutes";
    examples.holds("alerts", &edits, job(), message).await;
    change(|figures| figures.alerts.clear());
    examples.starts("alerts").await;

    let edits = [prometheus, ("interval: 15s", "interval: 5s")];
    let three = labels("example.com/licences", "3");
    let message = "needs 3 licences; 2 are free";
    examples.holds("licences", &edits, three, message).await;
    change(|figures| figures.licences = 3);
    examples.starts("licences").await;

    let url = alerts.url();
    let edits = [
        ("https://alertmanager.monitoring:9093", &*url),
        ("interval: 15s", "interval: 5s"),
    ];
    let message = "waits for the alerts DiskSlow";
    examples.holds("silence", &edits, job(), message).await;
    send_alert(&alerts, now()).await;
    examples.starts("silence").await;

    let gpus = Job { gpus: 8, ..job() };
    let message = "1344 GPU-hours are more than 100: waits for an Approval of the group business";
    examples.holds("gpu-hours", &[], gpus, message).await;
    approve(&cluster, "gpu-hours", "olga", "business").await;
    examples.starts("gpu-hours").await;

    examples
        .holds("approval", &[], job(), "waits for 2 approvals")
        .await;
    approve(&cluster, "approval", "ann", "ml-leads").await;
    examples.waits("approval", "waits for 1 approval").await;
    approve(&cluster, "approval", "olga@example.com", "others").await;
    examples.starts("approval").await;

    let url = policy.url();
    let edits = [
        ("https://opa.policy:8181", &*url),
        ("recheckAfter: 1m", "recheckAfter: 10s"),
    ];
    let message = "the label `team` is missing";
    examples.holds("opa", &edits, job(), message).await;
    without_teams(&policy).await;
    examples.starts("opa").await;

    assert_eq!(examples.tried, crate::tools::examples());
}
