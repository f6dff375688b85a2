//! The main scenarios. The test acts as Kueue and the autoscaler.

use kueue_check::Clock;
use kueue_check::cli::App;
use kueue_check_provisioning::ProvisioningCheck;
use serde_json::{Value, json};

use super::harness::*;

fn is_gone(object: &Value) -> bool {
    object.is_null()
}

#[tokio::test]
async fn an_attempt_that_fails_is_followed_by_the_next() {
    let strategy = json!({"retryStrategy": {"backoffLimitCount": 1, "backoffBaseSeconds": 7}});
    let Some((fixture, first)) = with_request("retried", &strategy).await else {
        return;
    };
    sets(&fixture, &first, "Failed", "no nodes").await;
    let entry = fixture
        .expect_entry("wl", "Retry", "Retrying after failure: no nodes")
        .await;
    assert_eq!(entry["requeueAfterSeconds"], 7);
    // Kueue evicts, counts, releases the quota, and reserves it again.
    let counted = json!([{"name": fixture.name, "state": "Pending", "message": "Reset to Pending after eviction. Previously: Retry", "retryCount": 1,
        "requeueAfterSeconds": 7, "lastTransitionTime": "2026-11-21T09:01:00Z"}]);
    let evicted = condition("Evicted", "True", "At least one admission check is false");
    let status = json!({"conditions": [condition("QuotaReserved", "True", ""), evicted], "admissionChecks": counted});
    set_status(&fixture.workloads(), "wl", status).await;
    let what = "the first request is gone";
    wait(&fixture.requests(), &first, what, is_gone).await;
    let status = json!({"conditions": [condition("QuotaReserved", "False", ""), evicted], "admission": null});
    set_status(&fixture.workloads(), "wl", status).await;
    let mut reserved = condition("QuotaReserved", "True", "");
    reserved["lastTransitionTime"] = json!("2026-11-21T09:02:00Z");
    let status = json!({"conditions": [reserved], "admission": {"clusterQueue": "q", "podSetAssignments": one()}});
    set_status(&fixture.workloads(), "wl", status).await;
    let second = format!("wl-{}-2", fixture.name);
    fixture.requested(&second).await;
    let entry = fixture.expect_entry("wl", "Pending", "").await;
    assert_eq!(entry["retryCount"], 1, "Kueue's count is Kueue's");
    sets(&fixture, &second, "BookingExpired", "too late").await;
    fixture.expect_entry("wl", "Rejected", "too late").await;
}

#[tokio::test]
async fn explain_reports_the_next_step_without_effect() {
    let Some(mut fixture) = fixture("explained").await else {
        return;
    };
    fixture.config(&json!({})).await;
    fixture.admission_check().await;
    fixture
        .reserved("wl", &json!([pod_set("main", 1)]), &one())
        .await;
    let controller = fixture.controller();
    let app = App::new().check_on(move |client| ProvisioningCheck::new(client, controller.clone()));
    let (target, clock) = ("wl".parse().unwrap(), Clock::system());
    let explain = async |fixture: &Fixture| {
        let explained = app.explain(&fixture.client, Some(&fixture.name), &target, &clock);
        explained.await.unwrap().to_string()
    };
    let before = fixture.workloads().get("wl").await.unwrap();
    let explanation = explain(&fixture).await;
    let request = format!("wl-{}-1", fixture.name);
    let would = format!("would create the ProvisioningRequest \"{request}\"");
    assert!(explanation.contains(&would), "{explanation}");
    assert!(
        fixture
            .requests()
            .get_opt(&request)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(fixture.workloads().get("wl").await.unwrap(), before);
    let client = fixture.client.clone();
    fixture.start(client);
    fixture.requested(&request).await;
    sets(&fixture, &request, "Provisioned", "there are nodes").await;
    fixture.expect_entry("wl", "Ready", "there are nodes").await;
    let explanation = explain(&fixture).await;
    assert!(
        explanation.contains("there are nodes") && explanation.contains("Ready"),
        "{explanation}"
    );
}

#[tokio::test]
async fn revoked_capacity_is_rejected_while_the_job_runs() {
    let Some((fixture, request)) = with_request("revoked", &json!({})).await else {
        return;
    };
    sets(&fixture, &request, "Provisioned", "there").await;
    fixture.expect_entry("wl", "Ready", "there").await;
    let admitted = [
        condition("QuotaReserved", "True", ""),
        condition("Admitted", "True", ""),
    ];
    set_status(&fixture.workloads(), "wl", json!({"conditions": admitted})).await;
    sets(&fixture, &request, "CapacityRevoked", "the nodes are gone").await;
    fixture
        .expect_entry("wl", "Rejected", "the nodes are gone")
        .await;
}

#[tokio::test]
async fn a_changed_config_replaces_the_request_under_its_name() {
    let Some((fixture, request)) = with_request("changed", &json!({})).await else {
        return;
    };
    let before = fixture.requested(&request).await;
    let configs = fixture.all(KUEUE, "ProvisioningRequestConfig");
    let spec = json!({"spec": {"parameters": {"p1": "v1"}}});
    merge(&configs, &fixture.name, &spec).await;
    let what = "the request is another one";
    let replaced = |request: &Value| request["spec"]["parameters"] == json!({"p1": "v1"});
    let after = wait(&fixture.requests(), &request, what, replaced).await;
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let template = format!("ppt-{request}-main");
    let template = fixture.templates().get(&template).await.unwrap();
    let owner = &after["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], json!(template.metadata.uid));
}
