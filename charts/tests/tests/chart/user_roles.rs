//! The roles for users of a check's parameters, on a real API server.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::{Stage, eventually, helm, stage};
use crate::values::arguments;

/// Returns true if `user` may do `verb` to all of `resource` in `namespace`; in the whole cluster
/// if it is empty.
async fn may(stage: &Stage, user: &str, verb: &str, resource: &str, namespace: &str) -> bool {
    let attributes = json!({"group": "budget.kueue-check.dev", "resource": resource, "verb": verb, "namespace": namespace});
    let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
    let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
    let reviews: Api<SubjectAccessReview> = Api::all(stage.client.clone());
    let review = reviews.create(&PostParams::default(), &review).await;
    review.unwrap().status.unwrap().allowed
}

#[tokio::test]
async fn a_tenant_reads_its_limit_and_only_who_is_bound_to_the_editor_role_changes_it() {
    let Some(helm) = helm() else { return };
    let Some(stage) = stage("user-roles").await else {
        return;
    };
    let arguments = arguments(&["values-budget.yaml"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let documents = helm
        .template("user-roles", "user-roles", &arguments)
        .unwrap();
    let prefix = "user-roles:user-roles-budget-check";
    let role = |suffix: &str| {
        let name = format!("{prefix}:{suffix}");
        let mut all = documents.iter();
        let found = all.find(|own| own["kind"] == "ClusterRole" && own["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let group = "rbac.authorization.k8s.io";
    let aggregated = |role: &Value| {
        let labels = role["metadata"]["labels"].as_object().unwrap().keys();
        let mut own = labels.filter_map(|key| key.strip_prefix("rbac.authorization.k8s.io/"));
        own.next().map(str::to_owned)
    };
    for (suffix, expected) in [
        ("namespacebudgets-viewer", Some("aggregate-to-view")),
        ("namespacebudgets-editor", None),
        ("budgets-viewer", None),
        ("budgets-editor", None),
    ] {
        let role = role(suffix);
        assert_eq!(aggregated(&role).as_deref(), expected, "{suffix}");
        stage.apply(&role).await;
    }
    for (user, suffix) in [
        ("tenant", "namespacebudgets-viewer"),
        ("lead", "namespacebudgets-editor"),
    ] {
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": user, "namespace": "user-roles"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": format!("{prefix}:{suffix}")},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        stage.apply(&binding).await;
    }
    eventually("the roles act", async || {
        let reads = may(&stage, "tenant", "get", "namespacebudgets", "user-roles").await;
        let writes = may(&stage, "lead", "update", "namespacebudgets", "user-roles").await;
        (reads && writes, (reads, writes))
    })
    .await;
    for (user, verb, resource, namespace) in [
        ("tenant", "update", "namespacebudgets", "user-roles"),
        ("tenant", "create", "namespacebudgets", "user-roles"),
        ("tenant", "get", "namespacebudgets", "default"),
        ("lead", "update", "namespacebudgets", "default"),
        ("lead", "update", "namespacebudgets/status", "user-roles"),
        ("lead", "get", "budgets", ""),
    ] {
        let allowed = may(&stage, user, verb, resource, namespace).await;
        assert!(!allowed, "{user} {verb} {resource} {namespace}");
    }
}
