//! GKE's admission webhook for ProvisioningRequests.

use serde_json::Value;

use super::QUEUED_PROVISIONING;

/// Returns the message with which GKE's admission webhook rejects `request`, if it does. Queued
/// provisioning allows one pod set per request.
pub fn refuses(request: &Value) -> Option<&'static str> {
    let spec = &request["spec"];
    let queued = spec["provisioningClassName"] == QUEUED_PROVISIONING;
    let sets = spec["podSets"].as_array().map_or(0, Vec::len);
    (queued && sets > 1).then_some(
        "admission webhook \"warden-validating.common-webhooks.networking.gke.io\" denied the request: GKE Warden rejected the request because it violates one or \
         more constraints.\nViolations details: {\"[denied by provisioning-request-cr-validation]\":[\"the queued provisioning feature currently supports only single \
         PodSet per request\"]}",
    )
}
