//! Counts and usage in the status of a ClusterQueue or LocalQueue.

use super::objects::{
    ClusterQueue, FlavorUsage, LocalQueue, QueueStatus, ResourceUsage, amount_of,
};
use super::scheduler::{Usage, show};

/// The number of some Workloads of a queue, and their usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QuotaUsage {
    pub(crate) workloads: usize,
    pub(crate) usage: Usage,
}

impl QuotaUsage {
    pub(crate) fn add(&mut self, usage: &Usage) {
        self.workloads += 1;
        self.usage.add_all(usage);
    }

    pub(crate) fn remove(&mut self, usage: &Usage) {
        self.workloads -= 1;
        self.usage.remove_all(usage);
    }
}

/// The Workloads of a LocalQueue that hold quota, and those of them that are admitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalUsage {
    pub(crate) reserved: QuotaUsage,
    pub(crate) admitted: QuotaUsage,
}

/// Returns the status with these counts and the conditions that it has, without its share (Kueue
/// 0.19.2, `updateCqStatusIfChanged` in `pkg/controller/core/clusterqueue_controller.go`).
pub(crate) fn counted(
    queue: &ClusterQueue,
    pending: usize,
    reserved: &QuotaUsage,
    admitted: &QuotaUsage,
) -> QueueStatus {
    QueueStatus {
        conditions: queue.status.conditions.clone(),
        flavors_reservation: by_flavor(queue, &reserved.usage),
        flavors_usage: by_flavor(queue, &admitted.usage),
        pending_workloads: pending,
        reserving_workloads: reserved.workloads,
        admitted_workloads: admitted.workloads,
        fair_sharing: None,
    }
}

/// Returns the status of a LocalQueue with these counts and the conditions that it has. Without a
/// ClusterQueue only the waiting Workloads are counted (Kueue 0.19.2, `updateStatusIfChanged` in
/// `pkg/controller/core/localqueue_controller.go`).
pub(crate) fn counted_locally(
    local: &LocalQueue,
    queue: Option<&ClusterQueue>,
    pending: usize,
    usage: &LocalUsage,
) -> QueueStatus {
    let status = queue.map(|queue| counted(queue, pending, &usage.reserved, &usage.admitted));
    let mut status = status.unwrap_or_default();
    status.pending_workloads = pending;
    status.conditions = local.status.conditions.clone();
    status.fair_sharing = local.status.fair_sharing;
    let both = [&mut status.flavors_reservation, &mut status.flavors_usage];
    let resources = both
        .into_iter()
        .flatten()
        .flat_map(|flavor| &mut flavor.resources);
    resources.for_each(|resource| resource.borrowed = None);
    status
}

/// Returns the usage of every flavor and resource of the ClusterQueue, also of unused ones. Without
/// a cohort nothing is borrowed (Kueue 0.19.2, `getUsage` in `pkg/cache/scheduler/cache.go`).
fn by_flavor(queue: &ClusterQueue, usage: &Usage) -> Vec<FlavorUsage> {
    let shares = !queue.spec.cohort_name.is_empty();
    let groups = queue.spec.resource_groups.iter();
    let flavors = groups.flat_map(|group| &group.flavors);
    let of_flavor = |flavor: &super::objects::FlavorQuota| {
        let resources = flavor.resources.iter().map(|quota| {
            let total = usage.at(&(flavor.name.clone(), quota.name.clone()));
            let nominal = amount_of(&quota.name, &quota.nominal_quota).unwrap_or_default();
            let borrowed = if shares { total - nominal } else { 0 };
            ResourceUsage {
                name: quota.name.clone(),
                total: show(&quota.name, total),
                borrowed: Some(show(&quota.name, borrowed.max(0))),
            }
        });
        let mut resources: Vec<ResourceUsage> = resources.collect();
        resources.sort_by(|one, other| one.name.cmp(&other.name));
        FlavorUsage {
            name: flavor.name.clone(),
            resources,
        }
    };
    flavors.map(of_flavor).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn queue(cohort: &str) -> ClusterQueue {
        let queue = json!({"spec": {"cohortName": cohort, "resourceGroups": [{
            "coveredResources": ["memory", "cpu"],
            "flavors": [{"name": "spot", "resources": [
                {"name": "memory", "nominalQuota": "4Gi"}, {"name": "cpu", "nominalQuota": "2"},
            ]}],
        }]}});
        serde_json::from_value(queue).unwrap()
    }

    fn taken(cpu: i64) -> QuotaUsage {
        let mut usage = Usage::default();
        usage.add(&("spot".to_owned(), "cpu".to_owned()), cpu);
        QuotaUsage {
            workloads: 1,
            usage,
        }
    }

    /// Returns the `flavorsReservation` of the status.
    fn reservation(cohort: &str, cpu: i64) -> Value {
        let status = counted(&queue(cohort), 3, &taken(cpu), &QuotaUsage::default());
        json!(status)["flavorsReservation"].clone()
    }

    #[test]
    fn every_resource_is_shown_and_what_is_borrowed_of_a_cohort() {
        let memory = json!({"name": "memory", "total": "0", "borrowed": "0"});
        for (cohort, cpu, total, borrowed) in [
            ("", 500, "500m", "0"),
            ("", 3_000, "3", "0"),
            ("research", 2_000, "2", "0"),
            ("research", 3_500, "3500m", "1500m"),
        ] {
            let shown = json!({"name": "cpu", "total": total, "borrowed": borrowed});
            let expected = json!([{"name": "spot", "resources": [shown, memory]}]);
            assert_eq!(reservation(cohort, cpu), expected, "{cohort} {cpu}");
        }
    }

    #[test]
    fn workloads_are_counted() {
        let status = counted(&queue(""), 3, &taken(500), &QuotaUsage::default());
        assert_eq!(
            (
                status.pending_workloads,
                status.reserving_workloads,
                status.admitted_workloads
            ),
            (3, 1, 0)
        );
    }
}
