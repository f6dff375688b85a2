//! Tests on a real API server, with Kueue's and the autoscaler's own definitions.

mod bad_input;
mod harness;
mod scenarios;

use kube::Client;
use kueue_check::DynCheck;
use kueue_check_provisioning::ProvisioningCheck;
use serde_json::{Value, json};

use self::harness::*;

const ACCOUNT: &str = "provisioning-check";

/// Returns a client with exactly the permissions in the output of `manifests`.
async fn least_privilege(fixture: &Fixture) -> Client {
    let check = ProvisioningCheck::new(fixture.client.clone(), fixture.controller());
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
        DynCheck::new(check)
            .permissions()
            .iter()
            .map(|rule| serde_json::to_value(rule).unwrap()),
    );
    let rbac = "rbac.authorization.k8s.io/v1";
    fixture.create(json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": rules})).await;
    let subject = json!({"kind": "User", "name": ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"});
    let role =
        json!({"kind": "ClusterRole", "name": ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"});
    fixture.create(json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT}, "subjects": [subject], "roleRef": role})).await;
    let inner = fixture.client.clone();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        // The server handles the request as the service account's.
        request
            .headers_mut()
            .insert("impersonate-user", http::HeaderValue::from_static(ACCOUNT));
        async move { inner.send(request).await }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn the_check_works_with_the_permissions_of_its_manifests_on_a_real_api_server() {
    let Some(mut fixture) = fixture("least").await else {
        return;
    };
    let least = least_privilege(&fixture).await;
    fixture.start(least);
    let rules =
        json!({"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "Pool"}]});
    fixture
        .config(&json!({"parameters": {"p1": "v1"}, "podSetUpdates": rules}))
        .await;
    fixture.create(json!({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "labelled"}, "spec": {"nodeLabels": {"kind": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}})).await;
    fixture.admission_check().await;
    fixture.active("True", "").await;
    let assigned = json!([{"name": "main", "flavors": {"cpu": "labelled"}, "count": 2, "resourceUsage": {"cpu": "2"}}]);
    fixture
        .reserved("wl", &json!([pod_set("main", 2)]), &assigned)
        .await;

    let name = format!("wl-{}-1", fixture.name);
    let template_name = format!("ppt-{name}-main");
    let request = fixture.requested(&name).await;
    assert_eq!(
        request["spec"]["podSets"],
        json!([{"count": 2, "podTemplateRef": {"name": template_name}}])
    );
    let template = fixture.templates().get(&template_name).await.unwrap();
    let template = serde_json::to_value(template).unwrap();
    // The Workload owns the template, and the template owns the request: see
    // `kueues_own_check_leaves_the_requests_alone`.
    let owners = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned();
    let (of_template, of_request) = (owners(&template).unwrap(), owners(&request).unwrap());
    assert_eq!((of_template.len(), of_request.len()), (1, 1));
    assert_eq!(of_template[0]["name"], "wl");
    assert_eq!(of_request[0]["uid"], template["metadata"]["uid"]);
    let pod = &template["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"kind": "spot"}));
    assert_eq!(pod["tolerations"][0]["key"], "spot");

    let requests = fixture.requests();
    set_status(&requests, &name, json!({"conditions": [condition("Accepted", "True", ""), condition("Provisioned", "False", "ETA")]})).await;
    fixture.expect_entry("wl", "Pending", "ETA").await;
    set_status(&requests, &name, json!({"conditions": [condition("Provisioned", "True", "there")], "provisioningClassDetails": {"Pool": "p-1"}})).await;
    let ready = fixture.expect_entry("wl", "Ready", "there").await;
    let update = &ready["podSetUpdates"][0];
    assert_eq!(update["nodeSelector"], json!({"pool": "p-1"}));
    assert_eq!(
        update["annotations"]["autoscaling.x-k8s.io/consume-provisioning-request"],
        json!(name)
    );

    // Kueue finishes the Workload.
    let finished = json!([
        condition("QuotaReserved", "True", ""),
        condition("Finished", "True", "")
    ]);
    set_status(&fixture.workloads(), "wl", json!({"conditions": finished})).await;
    wait(&requests, &name, "the request is gone", Value::is_null).await;
}
