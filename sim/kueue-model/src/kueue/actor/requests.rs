//! Deletion of ProvisioningRequests by Kueue's built-in check.
//!
//! The check finds the requests of a Workload by the *name* in their owner references, whatever the
//! kind. It deletes those that none of its checks requires. If only other checks evaluate the
//! Workload, it deletes all of them (`pkg/controller/admissionchecks/provisioning`, read in 0.19.2,
//! measured on 0.19.2). The model contains nothing else of that check. Where another controller
//! uses its controller name, the model assumes that the built-in check is disabled.

use serde_json::Value;

use super::{Kueue, Task};
use kueue_check_apiserver::Resource;

/// `spec.controllerName` of the AdmissionChecks that Kueue's built-in check evaluates.
const OWN: &str = "kueue.x-k8s.io/provisioning-request";

pub(super) fn resource() -> Resource {
    Resource::new("autoscaling.x-k8s.io", "v1", "provisioningrequests")
}

fn owners(request: &Value) -> impl Iterator<Item = &Value> {
    let owners = request["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten()
}

impl Kueue {
    /// Enqueues the Workload that owns a changed request.
    pub(super) fn request_changed(&mut self, request: &Value) {
        let namespace = request["metadata"]["namespace"].as_str();
        for owner in owners(request).filter(|owner| owner["kind"] == "Workload") {
            if let (Some(namespace), Some(name)) = (namespace, owner["name"].as_str()) {
                self.enqueue(Task::Workload(format!("{namespace}/{name}")));
            }
        }
    }

    pub(super) fn discard_requests(&mut self, key: &str) {
        let Some(known) = self.cache.workloads.get(key) else {
            return;
        };
        let (workload, metadata) = (&known.workload, &known.workload.metadata);
        let mut checks = workload.status.admission_checks.iter();
        let own = checks.any(|entry| {
            let check = self.cache.checks.get(&entry.name);
            check.is_some_and(|check| check.spec.controller_name == OWN)
        });
        let evicted = workload.is_evicted();
        let looks = workload.is_finished()
            || (workload.has_quota() && !evicted)
            || (evicted && self.version.discards_requests_on_eviction);
        if own || !looks {
            return;
        }
        for request in self.api.list(&resource(), &metadata.namespace) {
            if owners(&request).any(|owner| owner["name"] == metadata.name.as_str()) {
                let name = request["metadata"]["name"].as_str().unwrap_or_default();
                self.api.delete(&resource(), &metadata.namespace, name);
            }
        }
    }
}
