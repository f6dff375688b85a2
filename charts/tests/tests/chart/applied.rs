//! The output of the chart on a real API server: every field is known, and pods meet the
//! `restricted` standard.

use kueue_check_chart_tests::chart;
use serde_json::{Value, json};

use crate::harness::{helm, stage};
use crate::values::{FILES, arguments, everything};

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
        let arguments = [&arguments[..], &everything(files)].concat();
        let documents = helm.template(&name, &name, &arguments).unwrap();
        let mut kinds = Vec::new();
        for document in &documents {
            // Definitions are cluster-scoped, and the other tests of this binary install them. A
            // policy about the controller's states would also apply to their accounts.
            let name = document["metadata"]["name"].as_str().unwrap();
            let binds_all =
                document["kind"] == "ValidatingAdmissionPolicyBinding" && name.ends_with("-states");
            if document["kind"] != "CustomResourceDefinition" && !binds_all {
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
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
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
            "kueue-check.dev/rule",
        ][number];
        assert_eq!(check["spec"]["controllerName"], controller);
        assert!(check["spec"]["parameters"]["kind"].is_string(), "{check}");
        // Other tests have their own AdmissionChecks of these controllers.
        stage.delete(check).await;
    }
}

/// The API server accepts a Deployment with any pods, but not any pod.
async fn pod_is_admitted(stage: &crate::harness::Stage, template: &Value) {
    let mut pod = template.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("pod");
    pod["metadata"]["namespace"] = json!(stage.namespace);
    stage.apply(&pod).await;
    // The server does evaluate the standard: it rejects a pod that may gain privileges.
    pod["metadata"]["name"] = json!("worse");
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let refused = stage.try_apply(&pod).await.unwrap_err().to_string();
    assert!(
        refused.contains("violates PodSecurity \"restricted"),
        "{refused}"
    );
}

/// Returns the `helm-values` output of a program with its own parameters.
fn sample() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"limit": {"type": "integer", "maximum": 2_000_000_000}}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "samples.chart.example.com"},
        "spec": {"group": "chart.example.com", "scope": "Cluster", "names": {"kind": "Sample", "plural": "samples"}, "versions": [version]},
    });
    let controller = json!({"name": "example.com/sample", "parameters": {"apiGroup": "chart.example.com", "kind": "Sample"}});
    let rule =
        json!({"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["get"]});
    json!({
        "image": {"repository": "example.com/sample"},
        "check": {"program": "sample-check", "controllers": [controller], "clusterRules": [rule], "definitions": [definition]},
    })
}

#[tokio::test]
async fn helm_installs_upgrades_and_removes_it_and_parameters_stay() {
    let Some(helm) = helm() else { return };
    let Some(stage) = stage("installed").await else {
        return;
    };
    let kubeconfig = stage.access.kubeconfig().unwrap();
    let file = std::env::temp_dir().join(format!("kueue-check-chart-{}.json", std::process::id()));
    std::fs::write(&file, sample().to_string()).unwrap();
    let (chart, file) = (chart(), file.to_string_lossy().into_owned());
    let chart = chart.to_string_lossy();
    let run = async |arguments: &[&str]| {
        let all: Vec<String> = [
            &arguments[..1],
            &["sample"],
            &arguments[1..],
            &["--namespace", "installed"],
        ]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
        let (helm, kubeconfig) = (helm.clone(), kubeconfig.clone());
        let output = tokio::task::spawn_blocking(move || {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            helm.on(&kubeconfig, &all)
        });
        output.await.unwrap().unwrap()
    };
    let notes = run(&["install", &chart, "--values", &file]).await;
    for expected in [
        "sample-check runs as sample-check in installed, 2 replica(s)",
        "controllerName: example.com/sample",
        "parameters: {apiGroup: chart.example.com, kind: Sample, name: NAME-OF-YOUR-SAMPLE}",
        "https://localhost:8443/readyz",
        "These definitions stay when the release is removed",
    ] {
        assert!(notes.contains(expected), "{expected}: {notes}");
    }
    let definition = &sample()["check"]["definitions"][0];
    let stored = stage.get(definition).await;
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/limit/maximum";
    assert_eq!(
        stored.pointer(schema).and_then(Value::as_f64),
        Some(2e9),
        "{stored}"
    );

    let check = "admissionChecks[0].name=installed,admissionChecks[0].parameters.name=one";
    let notes = run(&[
        "upgrade",
        &chart,
        "--values",
        &file,
        "--set",
        "replicas=3",
        "--set",
        check,
    ])
    .await;
    assert!(
        notes.contains("kubectl get admissioncheck installed"),
        "{notes}"
    );
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "sample-check", "namespace": "installed"}});
    assert_eq!(stage.get(&deployment).await["spec"]["replicas"], 3);
    let check = crate::harness::kueue("AdmissionCheck", None, "installed", Value::Null);
    let expected = json!({"controllerName": "example.com/sample", "parameters": {"apiGroup": "chart.example.com", "kind": "Sample", "name": "one"}});
    assert_eq!(stage.get(&check).await["spec"], expected);

    run(&["uninstall"]).await;
    assert_eq!(stage.get(&deployment).await, Value::Null);
    assert!(
        stage.get(definition).await.is_object(),
        "with it, all parameters would go"
    );
    stage.delete(definition).await;
}
