//! The story of a request, and how Kueue's own integration suite tells it.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::Job;
use serde_json::json;

use crate::stage::*;

#[test]
fn a_request_is_created_followed_and_consumed() {
    trial(&config(&json!({"parameters": {"p1": "v1"}}), &json!({}))).run(async |cluster| {
        let job = Job::new("train").pods(3).annotation("provreq.kueue.x-k8s.io/ValidUntilSeconds", "0");
        cluster.submit(job);
        let name = requested(cluster, "train", 1).await;
        cluster.advance(Duration::from_secs(2)).await;
        let request = &requests(cluster)[0];
        let template = format!("ppt-{name}-main");
        assert_eq!(
            request["spec"],
            json!({"provisioningClassName": CLASS, "parameters": {"p1": "v1", "ValidUntilSeconds": "0"},
                   "podSets": [{"count": 3, "podTemplateRef": {"name": template}}]}),
        );
        assert_eq!(request["metadata"]["ownerReferences"][0]["kind"], "Workload");
        let templates = templates(cluster);
        assert_eq!((templates.len(), &templates[0]["metadata"]["name"]), (1, &json!(template)));
        assert_eq!(templates[0]["metadata"]["ownerReferences"][0]["name"], json!(name));
        assert_eq!(events(cluster, "ProvisioningRequestCreated"), [format!("Created ProvisioningRequest: \"{name}\"")]);

        says(cluster, &name, "Accepted", "True", "accepted");
        says(cluster, &name, "Provisioned", "False", "Not provisioned, ETA: 2024-02-22T10:36:40Z.");
        cluster.expect_message("train", "Not provisioned, ETA").await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
        says(cluster, &name, "Provisioned", "True", "Provisioned");
        cluster.expect_admitted("train").await;
        let entry = entry(cluster, "train");
        let annotations = json!({"autoscaling.x-k8s.io/consume-provisioning-request": name, "autoscaling.x-k8s.io/provisioning-class-name": CLASS});
        assert_eq!(entry["podSetUpdates"], json!([{"name": "main", "annotations": annotations}]));
        let changed = format!("Admission check check updated state from Pending to Ready with message: Provisioned");
        assert_eq!(events(cluster, "AdmissionCheckUpdated"), [changed]);

        cluster.complete("train");
        no_requests(cluster).await;
        cluster.expect("the template went with it", |cluster| crate::stage::templates(cluster).is_empty()).await;
        assert_eq!(cluster.state("train"), Some(CheckState::Ready));
    });
}
