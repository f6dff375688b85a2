//! The requests of waiting Workloads.

use super::show;
use crate::kueue::KueueVersion;
use crate::kueue::objects::{PodSet, PodSetRequest, Requests, Workload, pod_requests};

/// Returns the requests of `count` Pods of a set. `pods`: with the number of Pods.
pub(super) fn totals(set: &PodSet, count: i64, pods: bool, version: KueueVersion) -> Requests {
    let mut requests = pod_requests(&set.template["spec"], version);
    for amount in requests.values_mut() {
        *amount = amount.saturating_mul(count);
    }
    if pods {
        requests.insert("pods".to_owned(), count);
    }
    requests
}

/// Returns the total requests of each pod set, without finished Pods, as the status of a waiting
/// Workload has them (Kueue 0.19.2, `PropagateResourceRequests` in `pkg/workload/workload.go`).
/// `pods`: they include the number of Pods.
pub(crate) fn requests_of(
    workload: &Workload,
    pods: bool,
    version: KueueVersion,
) -> Vec<PodSetRequest> {
    let sets = workload.spec.pod_sets.iter();
    let totals = sets.map(|set| {
        let count = workload.count_after_reclaim(set);
        let requests = totals(set, count, pods, version);
        let shown = requests.into_iter().map(|(name, amount)| {
            let amount = show(&name, amount);
            (name, amount)
        });
        PodSetRequest {
            name: set.name.clone(),
            resources: shown.collect(),
        }
    });
    totals.collect()
}
