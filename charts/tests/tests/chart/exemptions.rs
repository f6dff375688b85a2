//! The policies of `checks/budget/deploy` on a real API server. They reject a class that is exempt
//! from budgets where it is not allowed, and pods with a long termination, for every user.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, Error};
use serde_json::{Value, json};

use crate::harness::{Stage, eventually, stage, workload};

const POLICY: &str = include_str!("../../../../checks/budget/deploy/exemptions.yaml");
const EXAMPLE: &str = include_str!("../../../../checks/budget/deploy/example.yaml");
const TERMINATION: &str = include_str!("../../../../checks/budget/deploy/termination.yaml");
/// The class and its namespace, in the policy and in the example.
const CLASS: &str = "sla-critical";
const ALLOWED: &str = "serving";

fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").map(serde_saphyr::from_str);
    documents.collect::<Result<_, _>>().unwrap()
}

/// Returns a Workload that names a priority class.
fn with_class(namespace: &str, name: &str, kind: &str, class: &str) -> Value {
    let group = match kind {
        "PriorityClass" => "scheduling.k8s.io",
        _ => "kueue.x-k8s.io",
    };
    let mut workload = workload(namespace, name);
    workload["spec"]["priority"] = json!(1000);
    workload["spec"]["priorityClassRef"] = json!({"group": group, "kind": kind, "name": class});
    workload
}

/// Returns a client that impersonates `user`.
pub(crate) async fn client_of(stage: &Stage, user: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(stage.access.kubeconfig().unwrap()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.default_retry = false;
    config.auth_info.impersonate = Some(user.to_owned());
    ClientBuilder::try_from(config).unwrap().build()
}

/// Creates `object` as `client`.
async fn create(client: &Client, object: &Value) -> Result<DynamicObject, Error> {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let namespace = object.metadata.namespace.as_deref().unwrap();
    workloads(client, namespace)
        .create(&PostParams::default(), &object)
        .await
}

pub(crate) fn workloads(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let version = "v1beta2".to_owned();
    let kind = ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        api_version: format!("kueue.x-k8s.io/{version}"),
        version,
        kind: "Workload".to_owned(),
        plural: "workloads".to_owned(),
    };
    Api::namespaced_with(client.clone(), namespace, &kind)
}

pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(Error::Api(status)) => Some(format!("{} {}", status.code, status.message)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_policy_allows_what_the_example_exempts() {
    let budget = documents(EXAMPLE).swap_remove(0);
    let classes = budget["spec"]["exempt"]["priorityClasses"].clone();
    assert_eq!(classes, json!([{"name": CLASS, "namespaces": [ALLOWED]}]));
    let variables = &documents(POLICY)[0]["spec"]["variables"];
    let allowed = format!("{{'WorkloadPriorityClass/{CLASS}': ['{ALLOWED}']}}");
    assert_eq!(
        variables[0],
        json!({"name": "allowed", "expression": allowed})
    );
}

#[tokio::test]
async fn an_exempt_class_is_rejected_for_every_user_where_it_is_not_allowed() {
    let Some(serving) = stage(ALLOWED).await else {
        return;
    };
    let team = stage("exempt-team").await.unwrap();
    let kueue = "system:serviceaccount:kueue-system:kueue-controller-manager";
    let ci = "system:serviceaccount:exempt-team:ci";
    let users = [
        ci,
        kueue,
        "system:serviceaccount:serving:default",
        "system:node:one",
        "somebody",
    ];
    let rule = json!({"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "workloads/status"], "verbs": ["*"]});
    let subjects = users
        .map(|user| json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}));
    let named = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "exempt-workloads"}});
    let mut role = named("ClusterRole");
    role["rules"] = json!([rule]);
    let mut binding = named("ClusterRoleBinding");
    binding["subjects"] = json!(subjects);
    binding["roleRef"] = json!({"kind": "ClusterRole", "name": "exempt-workloads", "apiGroup": "rbac.authorization.k8s.io"});
    team.apply(&role).await;
    team.apply(&binding).await;

    // Kueue has to end Workloads from before the policy, whatever their class is.
    let before = with_class("exempt-team", "before", "WorkloadPriorityClass", CLASS);
    team.apply(&before).await;
    for document in documents(POLICY) {
        team.apply(&document).await;
    }
    let probe = with_class("exempt-team", "probe", "WorkloadPriorityClass", CLASS);
    eventually("the policy is in force", async || {
        let refused = refusal(create(&team.client, &probe).await);
        team.delete(&probe).await;
        (refused.is_some(), refused)
    })
    .await;

    let own = "WorkloadPriorityClass";
    let denied = format!(
        "the priority class WorkloadPriorityClass/{CLASS} is exempt from budgets and may not be used in namespace exempt-team"
    );
    for (number, user) in users.into_iter().enumerate() {
        let client = client_of(&team, user).await;
        for (namespace, kind, class, allowed) in [
            ("exempt-team", own, CLASS, false),
            (ALLOWED, own, CLASS, true),
            ("exempt-team", own, "high", true),
            // Another class with the same name; the Budget does not exempt it.
            ("exempt-team", "PriorityClass", CLASS, true),
        ] {
            let name = format!("w{number}-{}-{class}", kind.to_lowercase());
            let object = with_class(namespace, &name, kind, class);
            let refused = refusal(create(&client, &object).await);
            if allowed {
                assert_eq!(refused, None, "{user} {namespace} {kind} {class}");
            } else {
                let rejection = refused.unwrap_or_else(|| panic!("{user} may in {namespace}"));
                assert!(
                    rejection.starts_with("403") && rejection.contains(&denied),
                    "{rejection}"
                );
            }
        }
    }

    // The class cannot be set later either.
    let client = client_of(&team, ci).await;
    create(&client, &workload("exempt-team", "later"))
        .await
        .unwrap();
    let reference = json!({"group": "kueue.x-k8s.io", "kind": own, "name": CLASS});
    let patch = json!({"spec": {"priority": 1000, "priorityClassRef": reference}});
    let patch = workloads(&client, "exempt-team")
        .patch("later", &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    assert!(refusal(patch).is_some_and(|rejection| rejection.contains(&denied)));

    // Kueue's own operations where the class is allowed: it creates the Workload, changes it, and
    // ends it.
    let client = client_of(&serving, kueue).await;
    let object = with_class(ALLOWED, "flow", own, CLASS);
    create(&client, &object).await.unwrap();
    let changed = [
        json!({"metadata": {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}}),
        json!({"spec": {"active": false}}),
        json!({"metadata": {"finalizers": null}}),
    ];
    for patch in &changed {
        workloads(&client, ALLOWED)
            .patch("flow", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
    // The same for an earlier Workload where the class is not allowed.
    let client = client_of(&team, kueue).await;
    for patch in &changed {
        workloads(&client, "exempt-team")
            .patch("before", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    // The other tests of this binary share the server.
    for document in documents(POLICY) {
        team.delete(&document).await;
    }
}

#[tokio::test]
async fn pods_that_may_terminate_for_long_are_rejected() {
    let Some(team) = stage("slow-team").await else {
        return;
    };
    let with = |name: &str, graces: &[Option<i64>]| {
        let mut object = workload("slow-team", name);
        let pods = object["spec"]["podSets"][0].clone();
        let of = |(number, grace): (usize, &Option<i64>)| {
            let mut pods = pods.clone();
            pods["name"] = json!(format!("set{number}"));
            if let Some(grace) = grace {
                pods["template"]["spec"]["terminationGracePeriodSeconds"] = json!(grace);
            }
            pods
        };
        let sets: Vec<Value> = graces.iter().enumerate().map(of).collect();
        object["spec"]["podSets"] = json!(sets);
        object
    };
    team.apply(&with("before", &[Some(86_400)])).await;
    for document in documents(TERMINATION) {
        team.apply(&document).await;
    }
    let probe = with("probe", &[Some(601)]);
    eventually("the policy is in force", async || {
        let refused = refusal(create(&team.client, &probe).await);
        team.delete(&probe).await;
        (refused.is_some(), refused)
    })
    .await;
    for (graces, refused) in [
        (&[None][..], None),
        (&[Some(0)], None),
        (&[Some(600), None], None),
        (&[Some(601)], Some("set0")),
        (&[None, Some(2_592_000)], Some("set1")),
    ] {
        let object = with("job", graces);
        let rejection = refusal(create(&team.client, &object).await);
        let expected = refused
            .map(|set| format!("terminationGracePeriodSeconds is more than 600 in pod set {set}"));
        match (&rejection, expected) {
            (None, None) => team.delete(&object).await,
            (Some(rejection), Some(expected)) if rejection.contains(&expected) => {}
            (_, expected) => panic!("{graces:?}: {rejection:?}, not {expected:?}"),
        }
    }
    deletions_are_bounded(&team.client).await;
    // Kueue ends earlier Workloads.
    workloads(&team.client, "slow-team")
        .patch(
            "before",
            &PatchParams::default(),
            &Patch::Merge(&json!({"spec": {"active": false}})),
        )
        .await
        .unwrap();
    for document in documents(TERMINATION) {
        team.delete(&document).await;
    }
}

/// Deletes and evicts pods of a node with a longer and shorter time for their termination.
async fn deletions_are_bounded(client: &Client) {
    let expected = "gracePeriodSeconds is more than 600";
    eventually("the policy of pods is in force", async || {
        let rejection = deletion(client, 30, Some(601), false).await;
        (rejection.is_some(), rejection)
    })
    .await;
    for (grace, refused) in [
        (Some(601), true),
        (Some(600), false),
        (Some(0), false),
        (None, false),
    ] {
        for evicts in [false, true] {
            let rejection = deletion(client, 30, grace, evicts).await;
            let is_right = rejection.as_ref().map(|text| text.contains(expected));
            assert_eq!(
                is_right,
                refused.then_some(true),
                "{grace:?}: {rejection:?}"
            );
        }
    }
    // A pod that has more time of its own, as a drain of its node gives it.
    assert_eq!(deletion(client, 3600, Some(1800), false).await, None);
    let longer = deletion(client, 700, Some(701), false).await;
    assert!(longer.is_some_and(|text| text.contains(expected)));
}

/// Creates a pod with its `own` time for its termination, and deletes or evicts it with the time
/// `grace`. Returns why that was rejected.
async fn deletion(client: &Client, own: i64, grace: Option<u32>, evicts: bool) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "slow-team");
    let pod = json!({"metadata": {"name": "pod"}, "spec": {
        "nodeName": "node",
        "terminationGracePeriodSeconds": own,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": "image", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        }}],
    }});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let rejection = if evicts {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": "slow-team", "name": "pod"},
            "deleteOptions": {"gracePeriodSeconds": grace},
        });
        let parameters = PostParams::default();
        let evicted: Result<Value, Error> = pods
            .create_subresource("eviction", "pod", &parameters, &eviction)
            .await;
        refusal(evicted)
    } else {
        let options = DeleteParams {
            grace_period_seconds: grace,
            ..DeleteParams::default()
        };
        refusal(pods.delete("pod", &options).await)
    };
    let now = DeleteParams::default().grace_period(0);
    let _ = pods.delete("pod", &now).await;
    rejection
}
