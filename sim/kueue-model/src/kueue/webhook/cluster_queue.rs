//! What is refused in a ClusterQueue.

use serde_json::{Value, json};

use kueue_check_apiserver::FieldError;

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A check can only be for flavors that the ClusterQueue has.
pub(super) fn errors(queue: &Value) -> Vec<FieldError> {
    let spec = &queue["spec"];
    let groups = list(&spec["resourceGroups"]);
    let flavors: Vec<&Value> = groups
        .flat_map(|group| list(&group["flavors"]).map(|flavor| &flavor["name"]))
        .collect();
    let rules = list(&spec["admissionChecksStrategy"]["admissionChecks"]);
    let mut errors = Vec::new();
    for (at, rule) in rules.enumerate() {
        for (nth, flavor) in list(&rule["onFlavors"]).enumerate() {
            if !flavors.contains(&flavor) {
                let path =
                    format!("spec.admissionChecksStrategy.admissionChecks[{at}].onFlavors[{nth}]");
                let why = "flavor not found in the ClusterQueue's resource groups";
                errors.push(FieldError::invalid(path, &json!(flavor), why));
            }
        }
    }
    errors
}
