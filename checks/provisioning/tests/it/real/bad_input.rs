//! Input at the limits of what the API server accepts, and beyond: a clear message in the right
//! place, and no lost objects.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::harness::*;

#[tokio::test]
async fn eighteen_pod_sets_are_one_request() {
    let Some(fixture) = checked("eighteen", &json!({})).await else {
        return;
    };
    let names: Vec<String> = (0..18).map(|n| format!("set-{n}")).collect();
    let pod_sets: Vec<Value> = names.iter().map(|name| pod_set(name, 2)).collect();
    let assigned: Vec<Value> = names.iter().map(|name| assignment(name, 2)).collect();
    fixture
        .reserved("wl", &json!(pod_sets), &json!(assigned))
        .await;
    let name = format!("wl-{}-1", fixture.name);
    let request = fixture.requested(&name).await;
    assert_eq!(request["spec"]["podSets"].as_array().unwrap().len(), 18);
    let last = format!("ppt-{name}-set-17");
    assert!(fixture.templates().get_opt(&last).await.unwrap().is_some());
    sets(&fixture, &name, "Provisioned", "there").await;
    let ready = fixture.expect_entry("wl", "Ready", "there").await;
    assert_eq!(ready["podSetUpdates"].as_array().unwrap().len(), 18);
}

#[tokio::test]
async fn pod_sets_of_no_pods_are_left_out() {
    let Some(fixture) = checked("zero", &json!({})).await else {
        return;
    };
    // The API server would reject a request for 0 pods.
    let sets = json!([pod_set("none", 0), pod_set("shrunk", 4), pod_set("main", 1)]);
    let assigned = json!([
        assignment("none", 0),
        assignment("shrunk", 0),
        assignment("main", 1)
    ]);
    fixture.reserved("some", &sets, &assigned).await;
    let request = fixture.requested(&format!("some-{}-1", fixture.name)).await;
    let template = format!("ppt-some-{}-1-main", fixture.name);
    assert_eq!(
        request["spec"]["podSets"],
        json!([{"count": 1, "podTemplateRef": {"name": template}}])
    );
    let sets = json!([pod_set("main", 2)]);
    fixture
        .reserved("all", &sets, &json!([assignment("main", 0)]))
        .await;
    fixture
        .expect_entry("all", "Ready", "the provisioning request is not needed")
        .await;
}

#[tokio::test]
async fn a_pod_set_without_an_assignment_is_reported() {
    let Some(fixture) = checked("unassigned", &json!({})).await else {
        return;
    };
    let sets = json!([pod_set("main", 1), pod_set("workers", 2)]);
    let assigned = json!([assignment("main", 1), assignment("other", 2)]);
    fixture.reserved("wl", &sets, &assigned).await;
    let expected = "inconsistent podSet assignments: missing assignment for PodSet \"workers\"";
    fixture.expect_entry("wl", "Pending", expected).await;
    assert!(is_empty(&fixture.requests()).await);
    assert!(is_empty(&fixture.templates()).await);
    // Kueue corrects it.
    let assigned = json!([assignment("main", 1), assignment("workers", 2)]);
    fixture.reserve("wl", &assigned).await;
    fixture.requested(&format!("wl-{}-1", fixture.name)).await;
}

#[tokio::test]
async fn names_of_253_characters_are_taken() {
    let Some(fixture) = checked("long", &json!({})).await else {
        return;
    };
    let (name, set) = ("w".repeat(253), "s".repeat(63));
    fixture
        .reserved(
            &name,
            &json!([pod_set(&set, 1)]),
            &json!([assignment(&set, 1)]),
        )
        .await;
    let requests = fixture.requests();
    let deadline = Instant::now() + Duration::from_secs(30);
    let request = loop {
        let all = requests.list(&ListParams::default()).await.unwrap().items;
        if let [one] = all.as_slice() {
            break one.clone();
        }
        assert!(Instant::now() < deadline, "{} requests", all.len());
        sleep(Duration::from_millis(100)).await;
    };
    let request_name = request.metadata.name.unwrap();
    assert_eq!(request_name.len(), 253);
    let template = &request.data["spec"]["podSets"][0]["podTemplateRef"]["name"];
    assert_eq!(template.as_str().unwrap().len(), 253);
    sets(&fixture, &request_name, "Provisioned", "there").await;
    let ready = fixture.expect_entry(&name, "Ready", "there").await;
    let annotations = &ready["podSetUpdates"][0]["annotations"];
    assert_eq!(
        annotations["autoscaling.x-k8s.io/consume-provisioning-request"],
        json!(request_name)
    );
}

#[tokio::test]
async fn a_negative_backoff_is_shown_in_active() {
    let Some((fixture, name)) = with_request("negative", &json!({})).await else {
        return;
    };
    // The API server accepts it.
    let configs = fixture.all(KUEUE, "ProvisioningRequestConfig");
    let spec = json!({"spec": {"retryStrategy": {"backoffBaseSeconds": -5}}});
    merge(&configs, &fixture.name, &spec).await;
    fixture
        .active("False", "spec.retryStrategy.backoffBaseSeconds is -5")
        .await;
    // An existing request is still followed, by the last valid config.
    sets(&fixture, &name, "Provisioned", "there").await;
    fixture.expect_entry("wl", "Ready", "there").await;
}

#[tokio::test]
async fn a_limit_of_zero_rejects_at_the_first_failure() {
    let strategy = json!({"retryStrategy": {"backoffLimitCount": 0}});
    let Some((fixture, name)) = with_request("limit", &strategy).await else {
        return;
    };
    sets(&fixture, &name, "Failed", "no nodes").await;
    fixture.expect_entry("wl", "Rejected", "no nodes").await;
}

#[tokio::test]
async fn a_hundred_long_parameters_are_accepted_and_one_more_is_rejected() {
    let parameters: Map<String, Value> = (0..100)
        .map(|n| (format!("p{n}"), json!("x".repeat(255))))
        .collect();
    let Some(fixture) = checked("parameters", &json!({"parameters": parameters})).await else {
        return;
    };
    let (sets, assigned) = (json!([pod_set("main", 1)]), one());
    fixture.reserved("fits", &sets, &assigned).await;
    let request = fixture.requested(&format!("fits-{}-1", fixture.name)).await;
    assert_eq!(
        request["spec"]["parameters"].as_object().unwrap().len(),
        100
    );
    let annotations = json!({"provreq.kueue.x-k8s.io/more": "1"});
    fixture.create(json!({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "wl", "annotations": annotations}, "spec": {"queueName": "q", "podSets": sets}})).await;
    fixture.reserve("wl", &assigned).await;
    let name = format!("wl-{}-1", fixture.name);
    let expected = format!("Error creating ProvisioningRequest \"{name}\": ");
    let entry = fixture.expect_entry("wl", "Pending", &expected).await;
    let text = entry["message"].as_str().unwrap();
    assert!(text.contains("spec.parameters"), "{text}");
    fixture.event("FailedCreate", &expected).await;
    // The user removes the annotation.
    let none = json!({"metadata": {"annotations": {"provreq.kueue.x-k8s.io/more": null}}});
    merge(&fixture.workloads(), "wl", &none).await;
    fixture.requested(&name).await;
}

#[tokio::test]
async fn a_template_that_the_api_server_rejects_is_reported() {
    if on_simulated_server() {
        eprintln!("SKIPPED: the simulated API server does not look into pod templates");
        return;
    }
    let Some(fixture) = checked("template", &json!({})).await else {
        return;
    };
    let mut odd = pod_set("main", 1);
    odd["template"]["spec"]["containers"][0]["name"] = json!("Not_Valid");
    fixture.reserved("wl", &json!([odd]), &one()).await;
    let expected = format!(
        "Error creating PodTemplate \"ppt-wl-{}-1-main\": ",
        fixture.name
    );
    let entry = fixture.expect_entry("wl", "Pending", &expected).await;
    let text = entry["message"].as_str().unwrap();
    assert!(text.contains("Not_Valid"), "{text}");
    fixture.event("FailedCreate", &expected).await;
    assert!(is_empty(&fixture.requests()).await);
}

#[tokio::test]
async fn a_request_that_a_policy_rejects_is_reported_and_created_once_allowed() {
    if on_simulated_server() {
        eprintln!("SKIPPED: the simulated API server has no policies");
        return;
    }
    let Some(fixture) = checked("policy", &json!({})).await else {
        return;
    };
    let expected = "only the class approved.example.com may be requested";
    forbid(&fixture, expected).await;
    fixture
        .reserved("wl", &json!([pod_set("main", 1)]), &one())
        .await;
    let name = format!("wl-{}-1", fixture.name);
    let refused = format!("Error creating ProvisioningRequest \"{name}\": ");
    let entry = fixture.expect_entry("wl", "Pending", &refused).await;
    let text = entry["message"].as_str().unwrap();
    assert!(text.contains(expected), "{text}");
    fixture.event("FailedCreate", expected).await;
    // The template that was created before is kept and used.
    let template = format!("ppt-{name}-main");
    let before = fixture.templates().get(&template).await.unwrap();
    assert_eq!(
        before.metadata.owner_references.as_ref().unwrap()[0].kind,
        "Workload"
    );
    let bindings = fixture.all(ADMISSION, "ValidatingAdmissionPolicyBinding");
    bindings
        .delete(&fixture.name, &DeleteParams::default())
        .await
        .unwrap();
    let request = fixture.requested(&name).await;
    assert_eq!(
        request["metadata"]["ownerReferences"][0]["uid"],
        json!(before.metadata.uid)
    );
    let what = "the old words are over";
    wait(&fixture.workloads(), "wl", what, |workload| {
        workload["status"]["admissionChecks"][0]["message"] == ""
    })
    .await;
}

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Applies a policy that rejects all requests of this namespace but those of one class, and waits
/// until it is in effect.
async fn forbid(fixture: &Fixture, message: &str) {
    let name = &fixture.name;
    let rule = json!({"apiGroups": ["autoscaling.x-k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["provisioningrequests"]});
    fixture.create(json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}, "resourceRules": [rule]},
        "validations": [{"expression": "object.spec.provisioningClassName == 'approved.example.com'", "message": message}],
    }})).await;
    fixture.create(json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}})).await;
    let simulation = json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": "simulation"},
        "spec": {"provisioningClassName": "x", "podSets": [{"count": 1, "podTemplateRef": {"name": "x"}}]}});
    let simulation = serde_json::from_value(simulation).unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while fixture.requests().create(&dry, &simulation).await.is_ok() {
        assert!(Instant::now() < deadline, "the policy is not at work");
        sleep(Duration::from_millis(200)).await;
    }
}
