//! Flavors with a topology, which Kueue delays only for its own check name.

use std::time::Duration;

use kueue_check::ControllerName;
use kueue_check_provisioning::{KUEUES_CONTROLLER_NAME, ProvisioningCheck};
use kueue_check_sim::apiserver::{ApiRequest, Patch, Resource, Verb};
use kueue_check_sim::{Cluster, Simulation};
use serde_json::{Value, json};

use crate::harness::*;

/// Slightly more than the interval between two reads of queues and flavors.
const READ: Duration = Duration::from_secs(310);
/// The maximum number of reads until one returns the current state: others fail, or are stale.
const READS: usize = 4;

/// Waits until the condition `Active` of the AdmissionCheck names the flavor `default`, or does
/// not.
async fn expect_default(cluster: &Cluster, expected: bool) {
    let names_default = || active(cluster).1.contains("default of ClusterQueue queue");
    for _ in 0..READS {
        cluster.advance(READ).await;
        if names_default() == expected {
            break;
        }
    }
    let (status, message) = active(cluster);
    assert_eq!(names_default(), expected, "{message}");
    assert_eq!(status, "True", "{message}");
}

/// Changes the specification of an object of Kueue.
fn change(cluster: &Cluster, plural: &str, name: &str, spec: &Value) {
    let resource = Resource::new("kueue.x-k8s.io", "v1beta2", plural);
    let call = ApiRequest::new(Verb::Patch(Patch::Merge), &resource)
        .name(name)
        .agent("operator")
        .body(json!({ "spec": spec }));
    let response = cluster.server().call(&call);
    assert_eq!(response.code, 200, "{}", response.body);
}

/// Returns the status and message of the condition `Active` of the AdmissionCheck.
fn active(cluster: &Cluster) -> (String, String) {
    let resource = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
    let check = cluster.server().object(&resource, "", "check").unwrap();
    let conditions = check["status"]["conditions"].as_array();
    let active = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Active"));
    let text = |field: &str| {
        active
            .map_or("", |one| one[field].as_str().unwrap())
            .to_owned()
    };
    (text("status"), text("message"))
}

/// Checks that `Active` names the flavor while it has a topology and the check applies to it.
async fn scenario(cluster: &Cluster, named: bool) {
    expect_default(cluster, false).await;
    // It can be set, but not unset.
    let racks = json!({"topologyName": "racks", "nodeLabels": {"pool": "a"}});
    change(cluster, "resourceflavors", "default", &racks);
    expect_default(cluster, named).await;
    let none = json!({"admissionChecksStrategy": null});
    change(cluster, "clusterqueues", "queue", &none);
    expect_default(cluster, false).await;
    assert_eq!(active(cluster).1, "The admission check is active");
}

#[test]
fn active_names_flavors_with_a_topology_whose_jobs_are_never_evaluated() {
    let topologies = async |cluster: &Cluster| scenario(cluster, true).await;
    simulation(&retries(1)).every_single_fault(topologies);
}

#[test]
fn under_kueues_name_they_are_evaluated() {
    let name = ControllerName::from_static(KUEUES_CONTROLLER_NAME);
    let own = Simulation::with_context(move |tools| {
        ProvisioningCheck::new(tools.client.clone(), name.clone())
    });
    own.parameters(&retries(1))
        .run(async |cluster| scenario(cluster, false).await);
}

#[test]
fn it_is_reported_once_and_a_restart_writes_nothing_else() {
    simulation(&retries(1)).run(async |cluster| {
        let writes = || cluster.requests("apply admissionchecks/status");
        let racks = json!({"topologyName": "racks", "nodeLabels": {"pool": "a"}});
        change(cluster, "resourceflavors", "default", &racks);
        expect_default(cluster, true).await;
        let (before, message) = (writes(), active(cluster).1);
        cluster.crash(0);
        cluster.advance(READ * 2).await;
        assert_eq!((writes(), active(cluster).1), (before, message));
    });
}
