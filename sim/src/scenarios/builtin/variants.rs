//! Jobs with a variant for each flavor.

use serde_json::{Value, json};

use super::{MINUTE, SECOND};
use crate::kueue::KueueVersion;
use crate::scenarios::Seats;
use crate::simulation::{CHECK, Cluster, Job, QUEUE, Simulation};

fn flavor(name: &str) -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": {"pool": name}}})
}

/// Returns one seat, and a queue of two flavors on which each job has two variants.
pub(super) fn seated() -> Simulation {
    let quota =
        |name: &str| json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": "10"}]});
    let groups =
        json!([{"coveredResources": ["cpu"], "flavors": [quota("spot"), quota("on-demand")]}]);
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": {
        "namespaceSelector": {}, "resourceGroups": groups,
        "concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}},
        "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
    }});
    Simulation::with_context(|tools| tools.external(|| Seats::new(1)))
        .invariant("seats", Seats::are_held)
        .kueue(KueueVersion {
            concurrent_admission: true,
            ..KueueVersion::V0_19
        })
        .object(&flavor("spot"))
        .object(&flavor("on-demand"))
        .object(&queue)
}

/// A job starts through the better of its variants, and holds one seat from start to end. Then the
/// next job gets the seat.
pub(super) async fn won(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    cluster.expect_admitted("train").await;
    cluster.advance(MINUTE).await;
    cluster.submit(Job::new("next"));
    cluster.advance(10 * SECOND).await;
    cluster.expect_waiting("next", MINUTE).await;
    cluster.complete("train");
    cluster.expect_admitted("next").await;
}
