//! The `Active` conditions of ClusterQueues and LocalQueues.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::objects::{
    AdmissionCheck, ClusterQueue, Condition, LocalQueue, ResourceFlavor, StopPolicy, True,
};

/// Returns the `Active` condition of a ClusterQueue. The reason is the first that holds; the
/// message names all.
pub(crate) fn active(
    queue: &ClusterQueue,
    checks: &BTreeMap<String, AdmissionCheck>,
    flavors: &BTreeMap<String, ResourceFlavor>,
    now: Timestamp,
) -> Condition {
    if queue.metadata.deletion_timestamp.is_some() {
        let message = "Can't admit new workloads; clusterQueue is terminating";
        return Condition::new("Active", True(false), "Terminating", message, now);
    }
    let names = |of: Vec<&str>| of.join(",");
    let rules = queue.checks().iter().map(|rule| rule.name.as_str());
    let mut used: Vec<&str> = rules.collect();
    used.sort_unstable();
    let (known, missing): (Vec<&str>, Vec<&str>) = used
        .into_iter()
        .partition(|name| checks.contains_key(*name));
    let inactive = known.into_iter().filter(|name| !checks[*name].is_active());
    let inactive: Vec<&str> = inactive.collect();
    let unknown: Vec<&str> = queue
        .flavors()
        .filter(|f| !flavors.contains_key(*f))
        .collect();
    let mut why: Vec<(&str, String)> = Vec::new();
    if queue.spec.stop_policy != StopPolicy::None {
        why.push(("Stopped", "is stopped".to_owned()));
    }
    if !unknown.is_empty() {
        why.push((
            "FlavorNotFound",
            format!("references missing ResourceFlavor(s): {}", names(unknown)),
        ));
    }
    if !missing.is_empty() {
        why.push((
            "AdmissionCheckNotFound",
            format!("references missing AdmissionCheck(s): {}", names(missing)),
        ));
    }
    if !inactive.is_empty() {
        why.push((
            "AdmissionCheckInactive",
            format!("references inactive AdmissionCheck(s): {}", names(inactive)),
        ));
    }
    for name in queue.flavors() {
        let topology = flavors
            .get(name)
            .and_then(|f| f.spec.topology_name.as_ref());
        why.extend(topology.map(|topology| {
            let message = format!("there is no Topology {topology:?} for TAS flavor {name:?}");
            ("TopologyNotFound", message)
        }));
    }
    let Some((reason, _)) = why.first() else {
        return Condition::new(
            "Active",
            True(true),
            "Ready",
            "Can admit new workloads",
            now,
        );
    };
    let all: Vec<&str> = why.iter().map(|(_, message)| message.as_str()).collect();
    let message = format!("Can't admit new workloads: {}.", all.join(", "));
    Condition::new("Active", True(false), *reason, message, now)
}

/// Returns the `Active` condition of a LocalQueue of the ClusterQueue `behind`.
pub(crate) fn local_active(
    queue: &LocalQueue,
    behind: Option<&ClusterQueue>,
    now: Timestamp,
) -> Condition {
    let (active, reason, message) = match behind {
        _ if queue.spec.stop_policy != StopPolicy::None => {
            (false, "Stopped", "LocalQueue is stopped")
        }
        None => (
            false,
            "ClusterQueueDoesNotExist",
            "Can't submit new workloads to clusterQueue",
        ),
        Some(behind) if behind.status.conditions.is_true("Active") => {
            (true, "Ready", "Can submit new workloads to localQueue")
        }
        Some(_) => (
            false,
            "ClusterQueueIsInactive",
            "Can't submit new workloads to clusterQueue",
        ),
    };
    Condition::new("Active", True(active), reason, message, now)
}
