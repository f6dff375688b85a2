//! The controller of a new Job or Pod, which may make it none of Kueue's business.

use std::sync::Arc;

use serde_json::Value;

use crate::jobs::QUEUE;
use crate::json::list;
use crate::kueue::api::jobs;
use kueue_check_apiserver::{Resource, Review};

/// The longest chain of controllers that is followed (Kueue 0.19.2, `managedOwnersChainLimit` in
/// `pkg/controller/jobframework/reconciler.go`).
const LIMIT: usize = 10;

/// The kinds of the integrations that Kueue 0.19.2 enables
/// (`config/components/manager/controller_manager_config.yaml`), with their API groups.
const INTEGRATIONS: [(&str, &str); 12] = [
    ("batch", "Job"),
    ("", "Pod"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("jobset.x-k8s.io", "JobSet"),
    ("kubeflow.org", "MPIJob"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    ("ray.io", "RayCluster"),
    ("ray.io", "RayJob"),
    ("ray.io", "RayService"),
    ("trainer.kubeflow.org", "TrainJob"),
    ("workload.codeflare.dev", "AppWrapper"),
];

fn controller(object: &Value) -> Option<&Value> {
    list(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true)
}

/// Returns true if the object is controlled by one of a kind that Kueue may manage, whether it does
/// or not: such a Job is not put into the default queue (Kueue 0.15.0 to 0.19.2,
/// `IsOwnerManagedByKueueForObject` in `pkg/controller/jobframework/integrationmanager.go`).
pub(super) fn has_manageable_controller(object: &Value) -> bool {
    controller(object).is_some_and(|owner| {
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        let (group, _) = version.split_once('/').unwrap_or(("", version));
        INTEGRATIONS.contains(&(group, owner["kind"].as_str().unwrap_or_default()))
    })
}

/// Returns true if a Job or Pod of a queue controls the new object, or its controller: Kueue then
/// manages the Pod through that one. Owners that are not the controller, or of a kind that Kueue
/// does not manage, do not count (Kueue 0.15.0 to 0.19.2, `FindAncestorJobManagedByKueue` in
/// `pkg/controller/jobframework/reconciler.go`). A missing owner counts as one without a queue;
/// Kueue refuses the Pod.
pub(super) fn has_managed_ancestor(review: &Review<'_>) -> bool {
    let mut parent: Option<Arc<Value>> = None;
    for _ in 0..LIMIT {
        let found = controller(parent.as_deref().unwrap_or(review.object))
            .and_then(|owner| stored(review, owner));
        let Some(found) = found else {
            return false;
        };
        let queue = found["metadata"]["labels"][QUEUE].as_str();
        if queue.is_some_and(|queue| !queue.is_empty()) {
            return true;
        }
        parent = Some(found);
    }
    false
}

/// Returns the Job or Pod that this reference names, unless it is another one of the same name.
fn stored(review: &Review<'_>, owner: &Value) -> Option<Arc<Value>> {
    let resource = match (owner["apiVersion"].as_str()?, owner["kind"].as_str()?) {
        ("batch/v1", "Job") => jobs(),
        ("v1", "Pod") => Resource::new("", "v1", "pods"),
        _ => return None,
    };
    let name = owner["name"].as_str()?;
    let found = review.stored.object(&resource, review.namespace, name)?;
    (found["metadata"]["uid"] == owner["uid"]).then_some(found)
}
