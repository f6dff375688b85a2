//! Plain Pods: gated, started, stopped and deleted.

use kueue_check_apiserver::Resource;
use kueue_check_kueue_model::jobs::{GATE, Jobs};
use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use crate::kueue::cluster::{Cluster, in_virtual_time, pod_set, with};

fn pods() -> Resource {
    Resource::new("", "v1", "pods")
}

fn pod(name: &str, more: &Value) -> Value {
    let spec = with(pod_set("main", 1, "1")["template"]["spec"].clone(), more);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "t", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}, "spec": spec})
}

/// Runs a scenario on a cluster with a ClusterQueue with check `c`, nodes, and a Pod `p`.
fn on_cluster(more: &Value, scenario: impl AsyncFnOnce(&Cluster)) {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue("4", &["c"], &json!({}));
        cluster.create(&pod("p", more));
        cluster.pass(1.0).await;
        scenario(&cluster).await;
    });
}

fn get(cluster: &Cluster) -> Value {
    cluster.server.get(&pods(), "t", "p").unwrap_or_default()
}

fn ready_with(cluster: &Cluster, update: &Value) {
    let update = with(json!({"name": "main"}), update);
    let fields = json!({"state": "Ready", "podSetUpdates": [update]});
    let response = cluster.entry("p", "c", &fields);
    assert_eq!(response.code, 200, "{}", response.body);
}

/// Returns the reason in the condition of a Pod that Kueue has stopped.
fn why_stopped(cluster: &Cluster) -> Value {
    let changes = cluster.server.history().into_iter();
    let target = changes.filter(|c| c.resource == pods()).find_map(|c| {
        let conditions = c.object["status"]["conditions"].as_array()?.clone();
        conditions
            .into_iter()
            .find(|c| c["type"] == "TerminationTarget")
    });
    target.unwrap()["reason"].clone()
}

#[test]
fn a_pod_of_a_queue_waits_behind_a_gate() {
    on_cluster(&json!({}), async |cluster| {
        let pod = get(cluster);
        let gates = json!([{"name": GATE}, {"name": "kueue.x-k8s.io/topology"}]);
        assert_eq!(pod["spec"]["schedulingGates"], gates);
        assert_eq!(pod["metadata"]["labels"]["kueue.x-k8s.io/managed"], "true");
        assert_eq!(
            pod["metadata"]["finalizers"],
            json!(["kueue.x-k8s.io/managed"])
        );
        assert_eq!(pod["status"]["phase"], "Pending");
        assert_eq!(cluster.line(), "p:R(c=Pending)");
        assert!(cluster.name_of("p").starts_with("pod-p-"));
        let mut alien = self::pod("alien", &json!({}));
        alien["metadata"]["labels"] = json!({});
        cluster.create(&alien);
        let alien = cluster.server.get(&pods(), "t", "alien").unwrap();
        assert_eq!(alien["spec"]["schedulingGates"], Value::Null);
    });
}

/// Each row has the kind, the name and the role of an owner, and whether a Pod of a queue waits.
#[test]
fn only_a_controller_with_a_queue_spares_a_pod() {
    let rows = [
        ("Job", "queued", true, false),
        ("Job", "queued", false, true),
        ("Job", "plain", true, true),
        ("Workflow", "plain", true, true),
    ];
    on_cluster(&json!({}), async |cluster| {
        cluster.job_of("queued", &json!({}), &json!({}));
        cluster.job_of("plain", &json!({"labels": {}}), &json!({}));
        let jobs = Resource::new("batch", "v1", "jobs");
        for (number, (kind, name, controls, waits)) in rows.into_iter().enumerate() {
            let job = cluster.server.get(&jobs, "t", name).unwrap();
            let version = if kind == "Job" {
                "batch/v1"
            } else {
                "argoproj.io/v1alpha1"
            };
            let mut owned = pod(&format!("owned-{number}"), &json!({}));
            owned["metadata"]["ownerReferences"] = json!([{
                "apiVersion": version, "kind": kind, "name": name,
                "uid": job["metadata"]["uid"], "controller": controls,
            }]);
            let made = cluster.try_create(&owned).body;
            let gated = made["spec"]["schedulingGates"].is_array();
            assert_eq!(gated, waits, "{kind} {name} {controls}");
        }
        cluster.pass(1.0).await;
        assert!(cluster.name_of("owned-3").starts_with("pod-owned-3-"));
    });
}

#[test]
fn it_gets_its_directives_and_loses_its_gate_in_one_update() {
    on_cluster(&json!({"nodeSelector": {"own": "1"}}), async |cluster| {
        let toleration = json!({"key": "spot", "operator": "Exists", "effect": "NoSchedule"});
        ready_with(
            cluster,
            &json!({"nodeSelector": {"zone": "a"}, "labels": {"l": "1"}, "annotations": {"n": "1"}, "tolerations": [toleration]}),
        );
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "p:RA(c=Ready)");
        let changes = cluster.server.history().into_iter();
        let mut updates = changes.filter(|c| c.resource == pods() && c.agent == "kueue");
        let start = &updates.next().unwrap().object;
        assert!(updates.next().is_none(), "more than one update");
        assert_eq!(start["spec"]["schedulingGates"], json!([]));
        assert_eq!(
            start["spec"]["nodeSelector"],
            json!({"own": "1", "zone": "a"})
        );
        assert!(
            start["spec"]["tolerations"]
                .as_array()
                .unwrap()
                .contains(&toleration)
        );
        assert_eq!(start["metadata"]["labels"]["l"], "1");
        assert_eq!(
            start["metadata"]["labels"]["kueue.x-k8s.io/queue-name"],
            "lq"
        );
        assert_eq!(start["metadata"]["annotations"]["n"], "1");
        assert_eq!(get(cluster)["status"]["phase"], "Running");
        assert_eq!(cluster.condition("p", "PodsReady")["reason"], "Started");
    });
}

#[test]
fn an_update_that_contradicts_the_pod_ends_it() {
    on_cluster(&json!({"nodeSelector": {"zone": "b"}}), async |cluster| {
        ready_with(cluster, &json!({"nodeSelector": {"zone": "a"}}));
        cluster.pass(1.0).await;
        let finished = cluster.condition("p", "Finished");
        assert_eq!(finished["reason"], "FailedToStart");
        assert_eq!(
            finished["message"],
            "invalid admission check PodSetUpdate: conflict for nodeSelector: conflict for key=zone, value1=b, value2=a"
        );
        assert_eq!(get(cluster)["spec"]["nodeSelector"], json!({"zone": "b"}));
    });
}

#[test]
fn evicted_behind_its_gate_it_waits_again() {
    on_cluster(&json!({}), async |cluster| {
        cluster.verdict("p", "c", "Retry", 0);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "p:R(c=Pending1)");
        assert_eq!(get(cluster)["status"]["phase"], "Pending");
    });
}

#[test]
fn evicted_while_it_runs_it_gets_the_reason_and_is_deleted() {
    on_cluster(&json!({}), async |cluster| {
        ready_with(cluster, &json!({}));
        cluster.pass(1.0).await;
        cluster.verdict("p", "c", "Retry", 0);
        cluster.pass(1.0).await;
        assert_eq!(get(cluster), Value::Null);
        assert_eq!(why_stopped(cluster), "WorkloadEvictedDueToAdmissionCheck");
        assert_eq!(cluster.line(), "", "the Workload goes with its Pod");
        assert_eq!(cluster.notes("Stopped").len(), 1);
    });
}

#[test]
fn finished_it_is_let_go() {
    on_cluster(&json!({}), async |cluster| {
        ready_with(cluster, &json!({}));
        cluster.pass(1.0).await;
        cluster.merge(
            "pods",
            "t",
            "p",
            "status",
            &json!({"status": {"phase": "Succeeded"}}),
        );
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "p:RAF(c=Ready)");
        assert_eq!(get(cluster)["metadata"]["finalizers"], Value::Null);
        assert_eq!(cluster.get("p")["metadata"]["finalizers"], Value::Null);
    });
}

#[test]
fn deleted_it_takes_its_workload_with_it() {
    on_cluster(&json!({}), async |cluster| {
        assert_eq!(cluster.delete("pods", "p").code, 200);
        cluster.pass(1.0).await;
        assert_eq!(get(cluster), Value::Null);
        assert_eq!(cluster.line(), "");
    });
}

#[test]
fn waiting_or_running_it_goes_with_its_workload() {
    for runs in [false, true] {
        on_cluster(&json!({}), async |cluster| {
            if runs {
                ready_with(cluster, &json!({}));
                cluster.pass(1.0).await;
            }
            let name = cluster.name_of("p");
            assert_eq!(cluster.delete("workloads", &name).code, 200);
            cluster.pass(60.0).await;
            assert_eq!(get(cluster), Value::Null, "{runs}");
            assert_eq!(cluster.line(), "", "{runs}");
            assert_eq!(why_stopped(cluster), "WorkloadDeleted");
            assert_eq!(cluster.notes("Stopped").len(), 1);
            assert_eq!(cluster.notes("CreatedWorkload").len(), 1);
            let changes = cluster.server.history().into_iter();
            let mut finished = changes.filter(|c| c.object["kind"] == "Workload");
            assert!(!finished.any(|c| c.object.to_string().contains("OwnerNotFound")));
        });
    }
}

#[test]
fn with_another_image_it_is_stopped_while_it_runs() {
    on_cluster(&json!({}), async |cluster| {
        ready_with(cluster, &json!({}));
        cluster.pass(1.0).await;
        let mut containers = get(cluster)["spec"]["containers"].clone();
        containers[0]["image"] = json!("another");
        let spec = json!({"spec": {"containers": containers}});
        assert_eq!(cluster.merge("pods", "t", "p", "", &spec).code, 200);
        cluster.pass(60.0).await;
        assert_eq!(why_stopped(cluster), "NoMatchingWorkload");
        assert_eq!(cluster.notes("DeletedWorkload").len(), 1);
        assert_eq!(cluster.line(), "");
    });
}

#[test]
fn with_another_toleration_it_gets_another_workload_while_it_waits() {
    on_cluster(&json!({}), async |cluster| {
        let mut tolerations = get(cluster)["spec"]["tolerations"].clone();
        let spot = json!({"key": "spot", "operator": "Exists"});
        tolerations.as_array_mut().unwrap().push(spot.clone());
        let spec = json!({"spec": {"tolerations": tolerations}});
        let response = cluster.merge("pods", "t", "p", "", &spec);
        assert_eq!(response.code, 200, "{}", response.body);
        cluster.pass(1.0).await;
        assert_eq!(cluster.notes("DeletedWorkload").len(), 1);
        let set = cluster.get("p")["spec"]["podSets"][0].clone();
        let tolerations = set["template"]["spec"]["tolerations"].clone();
        assert!(tolerations.as_array().unwrap().contains(&spot), "{set}");
    });
}

#[test]
fn the_actor_can_be_made_without_a_version() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        let jobs = Jobs::new(&cluster.server, &cluster.clock);
        assert!(format!("{jobs:?}").starts_with("Jobs"));
    });
}
