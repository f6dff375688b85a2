//! The provisioning check: it requests capacity, receives it, releases it, and finds objects of
//! another owner.

use kube::Client;
use kueue_check::{ControllerName, DynCheck};
use kueue_check_provisioning::{CONTROLLER_NAME, ProvisioningCheck};
use serde_json::{Value, json};

use crate::harness::{
    Stage, admission_check, condition, is_active, is_in, kueue, reserved, workload,
};
use crate::rbac::{Scenario, each_permission_is_needed};

struct Capacity;

const KUEUE: &str = "kueue.x-k8s.io";

fn config(name: &str) -> Value {
    let spec = json!({"provisioningClassName": "check-capacity.autoscaling.x-k8s.io"});
    kueue("ProvisioningRequestConfig", None, name, spec)
}

fn request(namespace: &str, name: &str) -> Value {
    let set = json!({"count": 1, "podTemplateRef": {"name": "somebody-elses"}});
    json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": name, "namespace": namespace},
        "spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "podSets": [set]}})
}

/// Returns a PodTemplate left over from an earlier request, whose owner is deleted.
fn template(namespace: &str, name: &str) -> Value {
    let owner = json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "name": "gone", "uid": "0b6f1d2e-93a4-4c55-8d6e-000000000001"});
    let metadata = json!({"name": name, "namespace": namespace, "labels": {"kueue.x-k8s.io/managed": "true"}, "ownerReferences": [owner]});
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "old"}]}});
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": pod})
}

async fn finish(stage: &Stage, workload: &Value, name: &str) {
    let mut status = reserved(name);
    let present = stage.get(workload).await;
    status["conditions"] = present["status"]["conditions"].clone();
    status["conditions"]
        .as_array_mut()
        .unwrap()
        .push(condition("Finished", "True"));
    status["admissionChecks"] = present["status"]["admissionChecks"].clone();
    stage.status(workload, status).await;
}

impl Scenario for Capacity {
    const RELEASE: &'static str = "provisioning";
    const VALUES: &'static str = "values-provisioning.yaml";

    fn check(client: &Client) -> DynCheck {
        let name = ControllerName::from_static(CONTROLLER_NAME);
        DynCheck::new(ProvisioningCheck::new(client.clone(), name))
    }

    async fn run(stage: &Stage, name: &str) {
        let namespace = &*stage.namespace;
        let check = admission_check(name, CONTROLLER_NAME, KUEUE, "ProvisioningRequestConfig");
        let flavor = json!({"nodeLabels": {"kind": "default"}});
        stage
            .apply(&kueue("ResourceFlavor", None, "default", flavor))
            .await;
        stage.apply(&config(name)).await;
        stage.apply(&check).await;
        stage
            .wait(&check, "an active check", |check| is_active(check, "True"))
            .await;

        // Capacity is requested, provisioned, and released.
        let job = workload(namespace, &format!("a-{name}"));
        stage.apply(&job).await;
        stage.status(&job, reserved(name)).await;
        let capacity_request = request(namespace, &format!("a-{name}-{name}-1"));
        stage
            .wait(&capacity_request, "a request", |request| !request.is_null())
            .await;
        let provisioned = json!({"conditions": [condition("Accepted", "True"), condition("Provisioned", "True")]});
        stage.status(&capacity_request, provisioned).await;
        stage.wait(&job, "Ready", |job| is_in(job, "Ready")).await;
        finish(stage, &job, name).await;
        stage
            .wait(&capacity_request, "the request's end", Value::is_null)
            .await;

        // The names are in use: the template is reused, the request is another owner's.
        let job = workload(namespace, &format!("b-{name}"));
        let theirs = request(namespace, &format!("b-{name}-{name}-1"));
        let left = template(namespace, &format!("ppt-b-{name}-{name}-1-main"));
        stage.apply(&theirs).await;
        stage.apply(&left).await;
        stage.apply(&job).await;
        stage.status(&job, reserved(name)).await;
        let refused = |job: &Value| {
            let message = &job["status"]["admissionChecks"][0]["message"];
            message
                .as_str()
                .is_some_and(|text| text.contains("belongs to another owner"))
        };
        stage.wait(&job, "a word about the name", refused).await;
        finish(stage, &job, name).await;
        stage
            .wait(&left, "the template's end", Value::is_null)
            .await;

        // An event that is published twice is one object, which is updated.
        stage.delete(&config(name)).await;
        stage
            .wait(&check, "an inactive check", |check| {
                is_active(check, "False")
            })
            .await;
        stage.apply(&config(name)).await;
        stage
            .wait(&check, "an active check", |check| is_active(check, "True"))
            .await;
    }

    async fn clear(stage: &Stage, name: &str) {
        let namespace = &*stage.namespace;
        stage
            .delete(&admission_check(
                name,
                CONTROLLER_NAME,
                KUEUE,
                "ProvisioningRequestConfig",
            ))
            .await;
        stage.delete_all(&workload(namespace, "any")).await;
        stage.delete_all(&request(namespace, "any")).await;
        stage.delete_all(&template(namespace, "any")).await;
        stage.delete(&config(name)).await;
    }
}

#[tokio::test]
async fn the_provisioning_check_needs_each_of_its_permissions_and_no_others() {
    each_permission_is_needed::<Capacity>().await;
}
