//! Usage of flavors.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kueue::objects::{PodSetAssignment, Workload, amount_of};

/// A resource of a flavor.
pub(crate) type Cell = (String, String);

/// The usage of each flavor and resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage(BTreeMap<Cell, i64>);

impl Usage {
    /// Returns the usage of a cell.
    pub(crate) fn at(&self, cell: &Cell) -> i64 {
        self.0.get(cell).copied().unwrap_or_default()
    }

    /// Returns true if a cell is requested, even with amount zero.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        self.0.contains_key(cell)
    }

    /// Adds an amount to a cell.
    pub(crate) fn add(&mut self, cell: &Cell, amount: i64) {
        let sum = self.0.entry(cell.clone()).or_default();
        *sum = sum.saturating_add(amount);
    }

    /// Adds all of another usage.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (cell, amount) in &other.0 {
            self.add(cell, *amount);
        }
    }

    /// Removes all of another usage.
    pub(crate) fn remove_all(&mut self, other: &Self) {
        for (cell, amount) in &other.0 {
            self.add(cell, amount.saturating_neg());
        }
    }

    /// Returns the usage of all resources but the number of Pods.
    pub(crate) fn without_pods(&self) -> Self {
        let all = self.0.iter();
        let others = all.filter(|((_, resource), _)| resource != "pods");
        Self(
            others
                .map(|(cell, amount)| (cell.clone(), *amount))
                .collect(),
        )
    }

    /// Iterates over the usage by flavor and resource.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Cell, &i64)> {
        self.0.iter()
    }
}

/// Returns the usage of a Workload with quota.
pub(crate) fn usage_of(workload: &Workload) -> Usage {
    let mut usage = Usage::default();
    let admission = workload.status.admission.iter();
    for set in admission.flat_map(|admission| &admission.pod_set_assignments) {
        usage.add_all(&usage_of_set(workload, set));
    }
    usage
}

/// Returns the usage of one pod set of a Workload with quota. Finished Pods and Pods that an
/// elastic job no longer has do not count (Kueue 0.19.2, `totalRequestsFromAdmission` in
/// `pkg/workload/workload.go`).
pub(crate) fn usage_of_set(workload: &Workload, assigned: &PodSetAssignment) -> Usage {
    let mut sets = workload.spec.pod_sets.iter();
    let set = sets.find(|set| set.name == assigned.name);
    let left = set.map(|set| workload.count_after_reclaim(set));
    let mut usage = Usage::default();
    for (resource, flavor) in &assigned.flavors {
        let amount = assigned.resource_usage.get(resource);
        let amount = amount.and_then(|a| amount_of(resource, &Value::String(a.clone())));
        let amount = amount.unwrap_or_default();
        let amount = match (assigned.count, left) {
            (Some(count), Some(left)) if left < count => amount / count * left,
            _ => amount,
        };
        usage.add(&(flavor.clone(), resource.clone()), amount);
    }
    usage
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_are_done_or_no_longer_wanted_take_nothing() {
        // Pods in the spec, finished, assigned; CPU usage in millicores.
        let table = [
            (4, 0, 4, 8000),
            (4, 2, 4, 4000),
            (4, 2, 2, 4000),
            (2, 0, 4, 4000),
            (4, 2, 3, 4000),
            (4, 0, 3, 6000),
            (1, 3, 4, 0),
        ];
        for (count, done, assigned, expected) in table {
            let cpus = (assigned * 2).to_string();
            let workload: Workload = serde_json::from_value(json!({
                "spec": {"podSets": [{"name": "main", "count": count}]},
                "status": {
                    "reclaimablePods": [{"name": "main", "count": done}],
                    "admission": {"clusterQueue": "cq", "podSetAssignments": [
                        {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpus}, "count": assigned},
                    ]},
                },
            }))
            .unwrap();
            let cell = ("default".to_owned(), "cpu".to_owned());
            let usage = usage_of(&workload);
            assert_eq!(usage.at(&cell), expected, "{count} {done} {assigned}");
        }
    }
}
