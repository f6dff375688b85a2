//! The check on a real API server, with exactly the permissions of its manifests. No Kueue runs
//! there: the test takes its part.
//!
//! `KUEUE_CHECK_TEST_KUBECONFIG` is a kubeconfig of a test cluster without Kueue; see the README.

use std::time::Duration;

use kueue_check::kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kueue_check::kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kueue_check::kube::{self, Api, Client};
use kueue_check::runtime::Runtime;
use kueue_check::serde_json::{self, Value, json};
use kueue_check::{Clock, tokio};
use kueue_check_sim::definitions;
use {{ crate_name }}::check;
{%- if source != "none" %}
use {{ crate_name }}::{http, source::Source};
{%- endif %}

use crate::deploy::{documents, example, printed};
{%- if source != "none" %}
use crate::service::Service;
{%- endif %}

const NAMESPACE: &str = "{{ project-name | kebab_case }}-test";
const CHECK: &str = "{{ project-name | kebab_case }}";
const KUBECONFIG: &str = "KUEUE_CHECK_TEST_KUBECONFIG";

#[tokio::test]
async fn it_works_with_the_permissions_of_its_manifests() {
    let Some(file) = std::env::var_os(KUBECONFIG) else {
        eprintln!("SKIPPED: on a real API server: {KUBECONFIG} names no kubeconfig");
        return;
    };
    let kubeconfig = Kubeconfig::read_from(file).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let admin = Client::try_from(config.clone()).unwrap();

    // Kueue's definitions, and what the administrator applies.
    for definition in definitions::all() {
        apply(&admin, &serde_json::to_value(definition).unwrap()).await;
    }
    apply(&admin, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})).await;
    let manifests = printed(&["manifests", "--image", "example.com/check:1", "--namespace", NAMESPACE, "--name", CHECK]);
    for document in documents(&manifests) {
        // Its Pods have no image: the server only validates them.
        let dry_run = matches!(document["kind"].as_str(), Some("Deployment" | "PodDisruptionBudget"));
        apply_as(&admin, &document, dry_run).await;
    }
{%- if source != "none" %}
    let service = Service::with_free_pods(8);
    let url = service.listen().await;
{%- endif %}
    for {% if source != "none" and parameters %}mut {% endif %}document in example() {
{%- if source != "none" and parameters %}
        if document["spec"]["url"].is_string() {
            document["spec"]["url"] = url.clone().into();
        }
{%- endif %}
        apply(&admin, &document).await;
    }

    // The check, as its own ServiceAccount.
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{NAMESPACE}:{CHECK}"));
{%- if cleanup %}
    config.default_namespace = NAMESPACE.to_owned();
{%- endif %}
    let account = Client::try_from(config).unwrap();
{%- if source != "none" %}
    let source = Source::new(http::client(http::REQUEST_TIMEOUT).unwrap(){% unless parameters %}, url{% endunless %});
{%- endif %}
    let check = check::new({% if cleanup %}account.clone(){% if source != "none" %}, {% endif %}{% endif %}{% if source != "none" %}source{% endif %});
    let running = Runtime::builder(account).check(check).clock(clock()).build().unwrap();
    let running = tokio::spawn(running.run(std::future::pending()));

    let checks = api(&admin, "kueue.x-k8s.io/v1beta2", "AdmissionCheck", None);
    wait(&checks, CHECK, "it is active", |check| condition(check, "Active") == "True").await;
    reserve(&admin, "small", 4).await;
    let workloads = api(&admin, "kueue.x-k8s.io/v1beta2", "Workload", Some("default"));
    wait(&workloads, "small", "small jobs start", |workload| entry(workload)["state"] == "Ready").await;
{%- if cleanup %}
    let bookings = api(&admin, "v1", "ConfigMap", Some(NAMESPACE));
    let booked = async || {
        let all = bookings.list(&kube::api::ListParams::default()).await.unwrap();
        all.iter().filter(|booking| booking.data["data"].to_string().contains("small: ")).count()
    };
    assert_eq!(booked().await, 1);
{%- endif %}
    reserve(&admin, "large", 16).await;
    let why = "{% if source == "none" %}more from 22:00 UTC{% else %}16 pods requested, 8 free{% endif %}";
    let has_reason = |workload: &Value| entry(workload)["message"].as_str().is_some_and(|message| message.contains(why));
    let large = wait(&workloads, "large", "large jobs wait", has_reason).await;
    assert_eq!(entry(&large)["state"], "Pending");

    for job in ["small", "large"] {
        workloads.delete(job, &kube::api::DeleteParams::default()).await.unwrap();
    }
{%- if cleanup %}
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    while booked().await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "what was booked is cancelled");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
{%- endif %}
    running.abort();
}

const TIMEOUT: Duration = Duration::from_secs(30);

/// It is always noon, wherever and whenever this runs.
fn clock() -> Clock {
    Clock::following_tokio("2026-11-21T12:00:00Z".parse().unwrap())
}

fn api(client: &Client, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let singular = kind.to_lowercase();
    let plural = match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{singular}s"),
    };
    let resource = ApiResource { group: group.into(), version: version.into(), api_version: api_version.into(), kind: kind.into(), plural };
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn apply(client: &Client, document: &Value) {
    apply_as(client, document, false).await;
}

/// As `kubectl apply --server-side`. What has just been defined takes a moment to be served.
async fn apply_as(client: &Client, document: &Value, dry_run: bool) {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let (version, kind, name) = (text("/apiVersion").unwrap(), text("/kind").unwrap(), text("/metadata/name").unwrap());
    let api = api(client, version, kind, text("/metadata/namespace"));
    let mut parameters = PatchParams::apply("test").force();
    parameters.dry_run = dry_run;
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    while let Err(error) = api.patch(name, &parameters, &Patch::Apply(document)).await {
        let served_later = matches!(&error, kube::Error::Api(status) if status.code == 404);
        assert!(served_later && tokio::time::Instant::now() < deadline, "{kind} {name}: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Creates a Workload that holds quota, as Kueue does before the checks are evaluated.
async fn reserve(client: &Client, name: &str, pods: u32) {
    let now = clock().now();
    let workloads = api(client, "kueue.x-k8s.io/v1beta2", "Workload", Some("default"));
    let container = json!({"name": "main", "image": "job", "resources": {"requests": {"cpu": "1"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    apply(client, &json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": CHECK, "podSets": [{"name": "main", "count": pods, "template": template}]},
    }))
    .await;
    let status = json!({"status": {
        "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "", "lastTransitionTime": format!("{now:.0}")}],
        "admission": {"clusterQueue": CHECK, "podSetAssignments": [
            {"name": "main", "count": pods, "flavors": {"cpu": CHECK}, "resourceUsage": {"cpu": pods.to_string()}},
        ]},
        "admissionChecks": [{"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": format!("{now:.0}")}],
    }});
    workloads.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Waits until `holds` of an object; the object.
async fn wait(api: &Api<DynamicObject>, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    loop {
        let found = serde_json::to_value(api.get_opt(name).await.unwrap()).unwrap();
        if holds(&found) {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what}; last seen: {found}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

/// The check's entry of a Workload.
fn entry(workload: &Value) -> &Value {
    &workload["status"]["admissionChecks"][0]
}
