//! The admission policies for the status of Workloads, on a real API server. They limit the changes
//! of the check's account, and the accounts that may change the check's state.

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::exemptions::{client_of, refusal, workloads};
use crate::harness::{Stage, condition, eventually, helm, kueue, now, stage, workload};
use crate::values::arguments;

const KUEUE: &str = "system:serviceaccount:kueue-system:kueue-controller-manager";
const OURS: &str = "system:serviceaccount:guarded:guarded-budget-check";
const OTHER: &str = "system:serviceaccount:guarded:other";
/// An account that may patch the status of Workloads.
const NEIGHBOUR: &str = "system:serviceaccount:guarded:neighbour";
const CONTROLLER: &str = "example.com/guarded";

/// Installs the chart's policies for the controller `CONTROLLER`, and users who may patch
/// `workloads/status`.
async fn guarded() -> Option<Stage> {
    let helm = helm()?;
    let stage = stage("guarded").await?;
    let mut arguments = arguments(&["values-budget.yaml"]);
    let set = format!("controllerName={CONTROLLER},statusPolicy.kueueAccounts[0]={KUEUE}");
    arguments.extend(["--set".to_owned(), set]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for document in helm.template("guarded", "guarded", &arguments).unwrap() {
        if document["kind"].as_str().unwrap().starts_with("Validating") {
            stage.apply(&document).await;
        }
    }
    let named = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "guarded-status"}});
    let mut role = named("ClusterRole");
    role["rules"] = json!([{"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads/status"], "verbs": ["patch"]}]);
    stage.apply(&role).await;
    let mut binding = named("ClusterRoleBinding");
    let subject =
        |name: &str| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    binding["subjects"] = json!([KUEUE, OURS, OTHER, NEIGHBOUR].map(subject));
    binding["roleRef"] = json!({"kind": "ClusterRole", "name": "guarded-status", "apiGroup": "rbac.authorization.k8s.io"});
    stage.apply(&binding).await;
    for (name, controller) in [
        ("guarded", CONTROLLER),
        ("guarded-other", "example.com/other"),
    ] {
        let spec = json!({"controllerName": controller});
        stage
            .apply(&kueue("AdmissionCheck", None, name, spec))
            .await;
    }
    Some(stage)
}

fn state(name: &str, state: &str) -> Value {
    json!({"name": name, "state": state, "message": "", "lastTransitionTime": now()})
}

/// Patches the status as `user`. Returns the rejection.
async fn patch(stage: &Stage, user: &str, name: &str, patch: &Value) -> Option<String> {
    let client: Client = client_of(stage, user).await;
    let api: Api<_> = workloads(&client, &stage.namespace);
    let parameters = PatchParams::default();
    refusal(
        api.patch_status(name, &parameters, &Patch::Merge(patch))
            .await,
    )
}

/// Writes as the runtime does: server-side apply of one entry.
async fn write_state(stage: &Stage, user: &str, name: &str, check: &str) -> Option<String> {
    let client: Client = client_of(stage, user).await;
    let api: Api<_> = workloads(&client, &stage.namespace);
    let status = json!({"admissionChecks": [state(check, "Ready")]});
    let body = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name}, "status": status});
    let parameters = PatchParams::apply(user.rsplit(':').next().unwrap()).force();
    refusal(
        api.patch_status(name, &parameters, &Patch::Apply(&body))
            .await,
    )
}

#[tokio::test]
async fn only_a_check_and_kueue_change_the_checks_state_and_a_check_changes_nothing_else() {
    let Some(stage) = guarded().await else { return };
    let entries = |ours: &str, other: &str| {
        let entries = [state("guarded", ours), state("guarded-other", other)];
        json!({"status": {"admissionChecks": entries}})
    };
    let conditions = json!({"status": {"conditions": [condition("Finished", "True")]}});
    let fresh = async |name: &str| {
        let object = workload("guarded", name);
        stage.apply(&object).await;
        let kueues = patch(&stage, KUEUE, name, &entries("Pending", "Pending")).await;
        assert_eq!(kueues, None, "Kueue resets both");
    };
    // A policy takes effect a moment after it was written.
    fresh("first").await;
    let tries = std::sync::atomic::AtomicU32::new(0);
    eventually("the policies act", async || {
        // A patch that changes nothing is allowed.
        let tried = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let kind = format!("Tried{tried}");
        let change = json!({"status": {"conditions": [condition(&kind, "True")]}});
        let rejection = write_state(&stage, NEIGHBOUR, "first", "guarded").await;
        let account = patch(&stage, OURS, "first", &change).await;
        (
            rejection.is_some() && account.is_some(),
            (rejection, account),
        )
    })
    .await;

    fresh("a").await;
    assert_eq!(
        write_state(&stage, OURS, "a", "guarded").await,
        None,
        "its own"
    );
    assert_eq!(
        write_state(&stage, OTHER, "a", "guarded-other").await,
        None,
        "another check's own"
    );
    assert_eq!(
        patch(&stage, NEIGHBOUR, "a", &conditions).await,
        None,
        "not for these policies"
    );
    assert_eq!(
        patch(&stage, KUEUE, "a", &entries("Pending", "Pending")).await,
        None
    );

    let belongs = "the state of guarded-other belongs to example.com/other";
    let only = "only Kueue and example.com/guarded may change the state of guarded";
    let nothing_but = "may change nothing of a Workload's status but status.admissionChecks";
    let none = "may add and remove no element";
    let admission = json!({"status": {"admission": {"clusterQueue": "x", "podSetAssignments": [{"name": "main"}]}}});
    let removed = json!({"status": {"admissionChecks": [state("guarded", "Pending")]}});
    // The server returns the message of one of the policies; which one differs.
    for (user, change, expected) in [
        (OURS, entries("Pending", "Ready"), &[belongs][..]),
        (OURS, entries("Ready", "Ready"), &[belongs]),
        (OURS, conditions.clone(), &[nothing_but]),
        (OURS, admission, &[nothing_but]),
        (OURS, json!({"status": null}), &[nothing_but, belongs]),
        (OURS, removed.clone(), &[none, belongs]),
        (OTHER, entries("Ready", "Pending"), &[only]),
        (NEIGHBOUR, entries("Rejected", "Pending"), &[only]),
        (
            NEIGHBOUR,
            json!({"status": {"admissionChecks": []}}),
            &[only],
        ),
        (NEIGHBOUR, json!({"status": null}), &[only]),
        ("admin", entries("Ready", "Pending"), &[only]),
    ] {
        fresh("b").await;
        let rejection = match user {
            // The administrator needs no role.
            "admin" => {
                let api = workloads(&stage.client, "guarded");
                refusal(
                    api.patch_status("b", &PatchParams::default(), &Patch::Merge(&change))
                        .await,
                )
            }
            user => patch(&stage, user, "b", &change).await,
        };
        let rejection = rejection.unwrap_or_default();
        assert!(
            rejection.starts_with("403") || rejection.starts_with("422"),
            "{user} {change}: {rejection}"
        );
        let fits = expected.iter().any(|own| rejection.contains(own));
        assert!(fits, "{user} {change}: {rejection}");
    }
    let rejection = write_state(&stage, NEIGHBOUR, "b", "guarded")
        .await
        .unwrap();
    assert!(rejection.contains(only), "{rejection}");
    for kind in [
        "ValidatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
    ] {
        for name in [
            "guarded-guarded-budget-check-account",
            "guarded-guarded-budget-check-states",
        ] {
            stage.delete(&json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}})).await;
        }
    }
}

#[test]
fn the_chart_has_the_policies_of_manifests() {
    for (file, own) in [
        (
            "account",
            include_str!("../../../kueue-check/files/status-policy-account.yaml"),
        ),
        (
            "states",
            include_str!("../../../kueue-check/files/status-policy-states.yaml"),
        ),
    ] {
        let path = format!(
            "{}/../../src/cli/status_policy/{file}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            own,
            "{file}: copy it"
        );
    }
}
