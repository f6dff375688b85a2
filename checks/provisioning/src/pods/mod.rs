//! The capacity that a Workload needs: pure functions over the whole Workload, as the API server
//! stores it.

mod coverage;
mod merge;
mod template;

#[cfg(test)]
mod tests;

use kueue_check::{Family, FamilyRole};
use serde_json::Value;

pub use coverage::{RequestedPods, shortfall};
pub use merge::{Group, merge};
pub use template::{TemplateError, pod_template};

/// The assignments do not fit the pod sets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("inconsistent podSet assignments: missing assignment for PodSet \"{0}\"")]
pub struct MissingAssignment(pub String);

/// A pod set for which capacity is requested.
#[derive(Clone, Debug)]
pub struct RequestedPodSet<'a> {
    /// Its name.
    pub name: &'a str,
    /// The number of pods: those with a quota reservation, or those that a growth adds to the
    /// running ones.
    pub count: u64,
    /// The pods' template.
    pub template: &'a Value,
    /// The topology that the pod set requests, or null.
    pub topology_request: &'a Value,
    /// Kueue's assignment.
    pub assignment: &'a Value,
}

/// Returns the pod sets of `workload` that use a managed resource and have pods, in the order of
/// the spec. `family` has the running pods of the job.
///
/// # Errors
/// [`MissingAssignment`] for the first of them without an assignment.
pub fn wanted<'a>(
    workload: &'a Value,
    family: &Family,
    managed: &[String],
) -> Result<Vec<RequestedPodSet<'a>>, MissingAssignment> {
    let mut wanted = Vec::new();
    for pod_set in candidates(workload, managed) {
        let pods = assigned(workload, family, pod_set)?;
        wanted.extend((pods.count > 0).then_some(pods));
    }
    Ok(wanted)
}

/// Returns true if any capacity is needed. Pod sets after the first that needs some are not
/// evaluated.
///
/// # Errors
/// [`MissingAssignment`] for a pod set without an assignment that may need some.
pub fn is_needed(
    workload: &Value,
    family: &Family,
    managed: &[String],
) -> Result<bool, MissingAssignment> {
    for pod_set in candidates(workload, managed) {
        if assigned(workload, family, pod_set)?.count > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn candidates<'a>(workload: &'a Value, managed: &[String]) -> impl Iterator<Item = &'a Value> {
    let sets = list(&workload["spec"]["podSets"]);
    sets.filter(move |pod_set| count(&pod_set["count"]).unwrap_or(1) > 0)
        .filter(move |pod_set| managed.is_empty() || uses(&pod_set["template"]["spec"], managed))
}

fn assigned<'a>(
    workload: &'a Value,
    family: &Family,
    pod_set: &'a Value,
) -> Result<RequestedPodSet<'a>, MissingAssignment> {
    let name = pod_set["name"].as_str().unwrap_or_default();
    let mut assignments = list(&workload["status"]["admission"]["podSetAssignments"]);
    let assignment = assignments
        .find(|assignment| assignment["name"] == pod_set["name"])
        .ok_or_else(|| MissingAssignment(name.to_owned()))?;
    let planned = count(&pod_set["count"]).unwrap_or(1);
    let reserved = count(&assignment["count"]).unwrap_or(planned);
    Ok(RequestedPodSet {
        name,
        count: if *family.role() == FamilyRole::Growth {
            // A growth that is scaled back keeps its assignment.
            let running = u64::from(family.running_pods(name));
            reserved.min(planned).saturating_sub(running)
        } else {
            reserved
        },
        template: &pod_set["template"],
        topology_request: &pod_set["topologyRequest"],
        assignment,
    })
}

/// Returns true if a container has a request or limit for one of `resources`. As in Kueue's own
/// check, the pod's own resources do not count.
fn uses(spec: &Value, resources: &[String]) -> bool {
    let names = |amounts: &Value| {
        let keys = amounts.as_object().into_iter().flat_map(|map| map.keys());
        keys.cloned().collect::<Vec<String>>()
    };
    containers(spec).any(|container| {
        let amounts = &container["resources"];
        let mut used = names(&amounts["requests"])
            .into_iter()
            .chain(names(&amounts["limits"]));
        used.any(|name| resources.contains(&name))
    })
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    list(&spec["initContainers"]).chain(list(&spec["containers"]))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn count(value: &Value) -> Option<u64> {
    value
        .as_i64()
        .map(|count| u64::try_from(count).unwrap_or_default())
}
