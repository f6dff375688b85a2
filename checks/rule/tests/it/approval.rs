//! `ApprovalCheck` on the simulated cluster, and its admission policy on a real API server.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, CustomResourceExt};
use kueue_check_rule::ApprovalCheck;
use kueue_check_rule::approval::guard;
use kueue_check_rule::approval::resource::{self, Approval};
use kueue_check_sim::simulation::CheckContext;
use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::{Value, json};

use crate::service::no_harm;

fn check(required: u32) -> Value {
    json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "ApprovalCheck", "metadata": {"name": "leads"},
        "spec": {"approvers": {"groups": ["leads"]}, "required": required, "validFor": "1h"},
    })
}

fn approval(name: &str, job: &str, user: &str) -> Value {
    json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "Approval", "metadata": {"namespace": "default", "name": name},
        "spec": {"job": {"kind": "Job", "name": job}, "approvedBy": user, "groups": ["leads"]},
    })
}

/// Returns the definition of a kind that the simulated API server does not have: admission
/// policies.
pub(crate) fn definition(kind: &str, plural: &str) -> Value {
    let group = "admissionregistration.k8s.io";
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

fn unguarded(required: u32) -> Simulation {
    Simulation::with_context(|_: &CheckContext| ApprovalCheck::default())
        .parameters(&check(required))
        .object(&serde_json::to_value(Approval::crd()).unwrap())
        .object(&definition(
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
        ))
        .object(&definition(
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        ))
        .invariant("no job is harmed", no_harm)
}

fn simulation(required: u32) -> Simulation {
    let guards = guard::objects();
    guards.iter().fold(unguarded(required), Simulation::object)
}

async fn two_approve(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    cluster.submit(Job::new("other"));
    cluster
        .expect_message("train", "waits for 2 approvals by members of leads")
        .await;
    cluster.advance(Duration::from_secs(4)).await;
    cluster.apply(&approval("a", "train", "ann"));
    cluster
        .expect_message(
            "train",
            "waits for 1 approval by members of leads; approved so far by ann",
        )
        .await;
    cluster.apply(&approval("b", "train", "bob"));
    cluster.expect_admitted("train").await;
    cluster.apply(&approval("c", "other", "ann"));
    cluster
        .expect_message("other", "approved so far by ann")
        .await;
    // The approval is deleted.
    cluster.delete(&approval("c", "other", "ann"));
    cluster
        .expect_message("other", "waits for 2 approvals")
        .await;
    // The approval counts for an hour.
    cluster.apply(&approval("d", "other", "ann"));
    cluster
        .expect_message("other", "approved so far by ann")
        .await;
    cluster.advance(Duration::from_mins(62)).await;
    cluster
        .expect_message("other", "waits for 2 approvals")
        .await;
}

#[test]
fn a_job_starts_when_two_people_approved() {
    simulation(2).run(two_approve);
}

#[test]
fn each_single_fault_is_survived() {
    let simulation = simulation(2).points_of_a_kind(2).sample(12);
    println!("{}", simulation.run_with_each_fault(two_approve));
}

/// Kueue writes the pods of a changed job into its Workload while that has no quota.
#[test]
fn an_approval_of_fewer_pods_does_not_count_for_more() {
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"namespace": "default", "name": "queue"}});
    let has_pods = |pods: u32| {
        move |cluster: &Cluster| {
            let workload = cluster.workload("train");
            workload.is_some_and(|workload| workload["spec"]["podSets"][0]["count"] == pods)
        }
    };
    simulation(1).run(async |cluster| {
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
        cluster.submit(Job::new("train").pods(3));
        cluster.scale("train", 1);
        cluster.expect("it has one pod", has_pods(1)).await;
        let uid = cluster.workload("train").unwrap()["metadata"]["uid"].clone();
        cluster.advance(Duration::from_secs(4)).await;
        cluster.apply(&approval("a", "train", "ann"));
        cluster.advance(Duration::from_secs(2)).await;
        cluster.scale("train", 3);
        cluster.expect("it has three pods", has_pods(3)).await;
        assert_eq!(cluster.workload("train").unwrap()["metadata"]["uid"], uid);
        cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
        let changed = "its pods have changed since the approval by ann";
        cluster.expect_message("train", changed).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert!(!cluster.is_admitted("train"));
        cluster.apply(&approval("b", "train", "bob"));
        cluster.expect_admitted("train").await;
    });
}

/// Without the policy that guards the approvers, no approval counts.
#[test]
fn without_the_policy_no_approval_counts() {
    let binding = guard::objects().pop().unwrap();
    simulation(1).run(async |cluster| {
        cluster.expect_active("check").await;
        cluster.delete(&binding);
        cluster.submit(Job::new("train"));
        cluster.advance(Duration::from_secs(5)).await;
        cluster.apply(&approval("a", "train", "ann"));
        let what = "validatingadmissionpolicybindings/kueue-check-approvals is missing";
        cluster.expect_message("train", what).await;
        assert!(!cluster.is_admitted("train"));
        cluster.apply(&binding);
        cluster.advance(Duration::from_mins(5)).await;
        assert!(!cluster.is_admitted("train"), "it may be forged");
        cluster.apply(&approval("b", "train", "ann"));
        cluster.expect_admitted("train").await;
    });
    unguarded(1).run(async |cluster| {
        cluster
            .expect_inactive("check", "so any user could approve in the name of another")
            .await;
        for object in guard::objects() {
            cluster.apply(&object);
        }
        cluster.expect_active("check").await;
    });
}

/// Allows each authenticated user to approve, as far as RBAC applies.
pub(crate) fn approvers() -> [Value; 2] {
    [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "approvers"},
            "rules": [{"apiGroups": ["kueue-check.dev"], "resources": ["approvals"], "verbs": ["create", "delete", "update", "get"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "approvers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approvers"},
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}]}),
    ]
}

#[tokio::test]
async fn the_api_server_vouches_for_who_approves() {
    let what = "Approvals on a real API server";
    let Some(cluster) = kueue_check_testenv::Cluster::start_or_skip(what).await else {
        return;
    };
    let client = cluster.client().unwrap();
    let definitions = vec![Approval::crd(), resource::ApprovalCheck::crd()];
    cluster.install(&client, definitions).await.unwrap();
    let permissions = approvers();
    for object in guard::objects().iter().chain(&permissions) {
        kueue_check_testenv::apply(&client, object).await.unwrap();
    }
    let ann: Api<DynamicObject> = Api::namespaced_with(
        cluster
            .access()
            .client_as("ann", &["leads", "system:authenticated"])
            .unwrap(),
        "default",
        &kube::api::ApiResource::erase::<Approval>(&()),
    );
    let create = async |object: Value| {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        ann.create(&PostParams::default(), &object).await
    };
    // The policy takes effect a moment after its creation.
    let began = tokio::time::Instant::now();
    let refused = loop {
        let Err(refused) = create(approval("as-bob", "train", "bob")).await else {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "nobody refuses it"
            );
            ann.delete("as-bob", &DeleteParams::default())
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        break refused;
    };
    let refused = refused.to_string();
    assert!(
        refused.contains("must be your own name, which is ann"),
        "{refused}"
    );
    let mut of_others = approval("of-others", "train", "ann");
    of_others["spec"]["groups"] = json!(["leads", "system:masters"]);
    let refused = create(of_others).await.unwrap_err().to_string();
    assert!(refused.contains("only groups that you are in"), "{refused}");
    let own = create(approval("own", "train", "ann")).await.unwrap();
    let mut changed = own.clone();
    changed.data["spec"]["job"]["name"] = json!("other");
    let refused = ann.replace("own", &PostParams::default(), &changed).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("can't be changed"), "{refused}");
    let mut neither = approval("neither", "train", "ann");
    neither["spec"]["job"].take();
    let refused = create(neither).await.unwrap_err().to_string();
    assert!(
        refused.contains("name either the job or the Workload"),
        "{refused}"
    );
    let nobody = json!({"apiVersion": "kueue-check.dev/v1alpha1", "kind": "ApprovalCheck", "metadata": {"name": "x"}, "spec": {"approvers": {}}});
    let refused = kueue_check_testenv::apply(&client, &nobody)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("name a user or a group"), "{refused}");
}
