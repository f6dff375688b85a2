//! On a real API server, with Kueue's and the autoscaler's own definitions, and with no more rights than the manifests give.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use kueue_check::runtime::Runtime;
use kueue_check::{Check, ControllerName};
use kueue_check_provisioning::ProvisioningCheck;
use kueue_check_testenv::{Cluster, KueueVersion, StartError, crds, crds_of_autoscaler};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage;

const ACCOUNT: &str = "provisioning-check";

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

fn api(client: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = resource(api_version, kind);
    if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

async fn create(client: &Client, namespace: &str, object: Value) {
    let (version, kind) = (
        object["apiVersion"].as_str().unwrap(),
        object["kind"].as_str().unwrap(),
    );
    let api = api(client, version, kind, namespace);
    let object = serde_json::from_value(object.clone()).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Waits until `holds` of an object, which may be absent.
async fn wait(
    api: &Api<DynamicObject>,
    name: &str,
    what: &str,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = api.get_opt(name).await.unwrap();
        let found = serde_json::to_value(found).unwrap();
        if holds(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}; last seen: {found}");
        sleep(Duration::from_millis(100)).await;
    }
}

async fn set_status(api: &Api<DynamicObject>, name: &str, status: Value) {
    let patch = json!({"status": status});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": kind, "message": message, "lastTransitionTime": "2026-11-21T09:00:00Z"})
}

/// The rights that the manifests give, and a client with them and no others.
async fn least_privilege(client: &Client) -> Client {
    let check = ProvisioningCheck::new(
        client.clone(),
        ControllerName::from_static(kueue_check_provisioning::CONTROLLER_NAME),
    );
    let rule = |group: &str, resources: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resources], "verbs": verbs});
    let kueue = "kueue.x-k8s.io";
    let mut rules = vec![
        rule(kueue, "workloads", &["get", "list", "watch"]),
        rule(kueue, "workloads/status", &["patch"]),
        rule(kueue, "admissionchecks", &["list", "watch"]),
        rule(kueue, "admissionchecks/status", &["patch"]),
        rule(kueue, "resourceflavors", &["list", "watch"]),
        rule("events.k8s.io", "events", &["create", "patch"]),
    ];
    rules.extend(
        Check::new(check)
            .permissions()
            .iter()
            .map(|rule| serde_json::to_value(rule).unwrap()),
    );
    let rbac = "rbac.authorization.k8s.io/v1";
    create(client, "", json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": rules})).await;
    let subject = json!({"kind": "User", "name": ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"});
    let role =
        json!({"kind": "ClusterRole", "name": ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"});
    create(client, "", json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT}, "subjects": [subject], "roleRef": role})).await;
    let inner = client.clone();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        // The server takes the request for the account's.
        request
            .headers_mut()
            .insert("impersonate-user", http::HeaderValue::from_static(ACCOUNT));
        async move { inner.send(request).await }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn the_check_works_with_the_rights_of_its_manifests_on_a_real_api_server() {
    let cluster = match Cluster::start().await {
        Ok(cluster) => cluster,
        Err(StartError::Unavailable(why)) => {
            assert!(
                std::env::var_os("KUEUE_CHECK_REQUIRE_TESTENV").is_none(),
                "{why}"
            );
            eprintln!("SKIPPED: the suite on a real API server: {why}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let client = cluster.client().unwrap();
    cluster
        .install(&client, crds(KueueVersion::V0_19_2).unwrap())
        .await
        .unwrap();
    cluster
        .install(&client, crds_of_autoscaler().unwrap())
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(
            &PostParams::default(),
            &serde_json::from_value(json!({"metadata": {"name": "t"}})).unwrap(),
        )
        .await
        .unwrap();
    let least = least_privilege(&client).await;
    let name = ControllerName::from_static(kueue_check_provisioning::CONTROLLER_NAME);
    let runtime = Runtime::builder(least.clone())
        .check(ProvisioningCheck::new(least, name))
        .build()
        .unwrap();
    let running = tokio::spawn(runtime.run(std::future::pending()));

    let kueue = "kueue.x-k8s.io/v1beta2";
    let rules =
        json!({"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "Pool"}]});
    create(
        &client,
        "",
        stage::config(
            &json!({"parameters": {"p1": "v1"}, "podSetUpdates": rules}),
            &json!({}),
        ),
    )
    .await;
    create(&client, "", json!({"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": "spot"}, "spec": {"nodeLabels": {"kind": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}})).await;
    create(&client, "", json!({"apiVersion": kueue, "kind": "AdmissionCheck", "metadata": {"name": "check"}, "spec": {
        "controllerName": kueue_check_provisioning::CONTROLLER_NAME, "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}}})).await;
    let checks = api(&client, kueue, "AdmissionCheck", "");
    wait(&checks, "check", "it is active", |check| {
        check["status"]["conditions"][0]["status"] == "True"
    })
    .await;

    let workloads = api(&client, kueue, "Workload", "t");
    create(&client, "t", json!({"apiVersion": kueue, "kind": "Workload", "metadata": {"name": "wl"}, "spec": {"queueName": "q", "podSets": [
        {"name": "main", "count": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}}]}})).await;
    let pending = json!([{"name": "check", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"}]);
    set_status(&workloads, "wl", json!({
        "conditions": [condition("QuotaReserved", "True", "")], "admissionChecks": pending,
        "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "spot"}, "count": 2, "resourceUsage": {"cpu": "2"}}]},
    })).await;

    let requests = api(
        &client,
        "autoscaling.x-k8s.io/v1",
        "ProvisioningRequest",
        "t",
    );
    let request = wait(&requests, "wl-check-1", "there is a request", |request| {
        !request.is_null()
    })
    .await;
    assert_eq!(
        request["spec"]["podSets"],
        json!([{"count": 2, "podTemplateRef": {"name": "ppt-wl-check-1-main"}}])
    );
    assert_eq!(request["metadata"]["ownerReferences"][0]["name"], "wl");
    let templates = api(&client, "v1", "PodTemplate", "t");
    let owned = |template: &Value| {
        template["metadata"]["ownerReferences"][0]["uid"] == request["metadata"]["uid"]
    };
    let template = wait(
        &templates,
        "ppt-wl-check-1-main",
        "the template is the request's",
        owned,
    )
    .await;
    assert_eq!(
        template["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        template["template"]["spec"]["nodeSelector"],
        json!({"kind": "spot"})
    );
    assert_eq!(
        template["template"]["spec"]["tolerations"][0]["key"],
        "spot"
    );

    set_status(&requests, "wl-check-1", json!({"conditions": [condition("Accepted", "True", ""), condition("Provisioned", "False", "ETA")]})).await;
    wait(&workloads, "wl", "the ETA is said", |workload| {
        workload["status"]["admissionChecks"][0]["message"] == "ETA"
    })
    .await;
    set_status(&requests, "wl-check-1", json!({"conditions": [condition("Provisioned", "True", "there")], "provisioningClassDetails": {"Pool": "p-1"}})).await;
    let ready = wait(&workloads, "wl", "it is Ready", |workload| {
        workload["status"]["admissionChecks"][0]["state"] == "Ready"
    })
    .await;
    let update = &ready["status"]["admissionChecks"][0]["podSetUpdates"][0];
    assert_eq!(update["nodeSelector"], json!({"pool": "p-1"}));
    assert_eq!(
        update["annotations"]["autoscaling.x-k8s.io/consume-provisioning-request"],
        "wl-check-1"
    );

    // Kueue finishes the Workload.
    let finished = json!([
        condition("QuotaReserved", "True", ""),
        condition("Finished", "True", "")
    ]);
    set_status(&workloads, "wl", json!({"conditions": finished})).await;
    wait(
        &requests,
        "wl-check-1",
        "the request is gone",
        Value::is_null,
    )
    .await;
    running.abort();
}
