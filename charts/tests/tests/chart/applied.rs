//! What the chart renders, on a real API server: every field is known, and pods are of the `restricted` standard.

use serde_json::{Value, json};

use crate::stage::{helm, stage};
use crate::values::{EVERYTHING, FILES, arguments};

#[tokio::test]
async fn everything_that_is_rendered_is_accepted() {
    let Some(helm) = helm() else { return };
    for (number, files) in FILES.into_iter().enumerate() {
        let name = format!("applied-{number}");
        let Some(stage) = stage(&name).await else {
            return;
        };
        let arguments = arguments(files);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let arguments = [&arguments[..], &EVERYTHING].concat();
        let documents = helm.template(&name, &name, &arguments).unwrap();
        let mut kinds = Vec::new();
        for document in &documents {
            // Definitions belong to the whole cluster, and the other tests of this binary install them.
            if document["kind"] != "CustomResourceDefinition" {
                stage.apply(document).await;
            }
            kinds.push(document["kind"].as_str().unwrap());
            if document["kind"] == "Deployment" {
                pod_is_admitted(&stage, &document["spec"]["template"]).await;
            }
        }
        for expected in [
            "AdmissionCheck",
            "ClusterRole",
            "ClusterRoleBinding",
            "ConfigMap",
            "Deployment",
            "NetworkPolicy",
            "PodDisruptionBudget",
            "PrometheusRule",
            "Role",
            "RoleBinding",
            "Service",
            "ServiceAccount",
            "ServiceMonitor",
        ] {
            assert!(kinds.contains(&expected), "{expected}: {kinds:?}");
        }
        let check = documents
            .iter()
            .find(|own| own["kind"] == "AdmissionCheck")
            .unwrap();
        let controller = [
            "kueue-check.dev/provisioning-request",
            "kueue.x-k8s.io/provisioning-request",
            "kueue-check.dev/budget",
        ][number];
        assert_eq!(check["spec"]["controllerName"], controller);
        assert!(check["spec"]["parameters"]["kind"].is_string(), "{check}");
        // Other tests have their own AdmissionChecks of these controllers.
        stage.delete(check).await;
    }
}

/// A Deployment is accepted whatever its pods are; a pod is not.
async fn pod_is_admitted(stage: &crate::stage::Stage, template: &Value) {
    let mut pod = template.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("pod");
    pod["metadata"]["namespace"] = json!(stage.namespace);
    stage.apply(&pod).await;
    // The server does look: a pod that may gain privileges is refused.
    pod["metadata"]["name"] = json!("worse");
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let refused = stage.try_apply(&pod).await.unwrap_err().to_string();
    assert!(
        refused.contains("violates PodSecurity \"restricted"),
        "{refused}"
    );
}
