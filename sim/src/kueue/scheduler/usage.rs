//! How much of each flavor is taken.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kueue::objects::{Workload, amount_of};

/// A resource of a flavor.
pub(crate) type Cell = (String, String);

/// How much of each flavor and resource is taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage(BTreeMap<Cell, i64>);

impl Usage {
    /// How much of a cell is taken.
    pub(crate) fn at(&self, cell: &Cell) -> i64 {
        self.0.get(cell).copied().unwrap_or_default()
    }

    /// Whether anything of a cell is asked for, be it zero.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        self.0.contains_key(cell)
    }

    /// More is taken.
    pub(crate) fn add(&mut self, cell: &Cell, amount: i64) {
        let sum = self.0.entry(cell.clone()).or_default();
        *sum = sum.saturating_add(amount);
    }

    /// All of it is taken too.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (cell, amount) in &other.0 {
            self.add(cell, *amount);
        }
    }

    /// All of it is given back.
    pub(crate) fn remove_all(&mut self, other: &Self) {
        for (cell, amount) in &other.0 {
            self.add(cell, amount.saturating_neg());
        }
    }

    /// What is taken, by flavor and resource.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Cell, &i64)> {
        self.0.iter()
    }
}

/// What a Workload with quota takes.
pub(crate) fn usage_of(workload: &Workload) -> Usage {
    let mut usage = Usage::default();
    let Some(admission) = &workload.status.admission else {
        return usage;
    };
    for set in &admission.pod_set_assignments {
        for (resource, flavor) in &set.flavors {
            let amount = set.resource_usage.get(resource);
            let amount = amount.and_then(|a| amount_of(resource, &Value::String(a.clone())));
            let cell = (flavor.clone(), resource.clone());
            usage.add(&cell, amount.unwrap_or_default());
        }
    }
    usage
}
