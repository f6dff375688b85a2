//! Cohorts.

use serde_json::{Value, json};

use super::Draft;
use super::features::Feature;
use crate::bodies::{CPU, cluster_object, cluster_path};
use crate::history::Step;
use crate::random::Random;

/// Draws cohorts: stores their names and returns their objects. A cohort without an object exists
/// if another object names it.
pub(super) fn cohorts(random: &mut Random, draft: &mut Draft) -> Vec<Value> {
    if draft.has(Feature::DeepCohorts) {
        return deep(random, draft);
    }
    draft.cohorts = vec!["co@".to_owned()];
    if !random.chance(30) {
        return Vec::new();
    }
    if random.chance(50) {
        return vec![
            cluster_object("Cohort", "top@", json!({})),
            cluster_object("Cohort", "co@", json!({"parentName": "top@"})),
        ];
    }
    vec![cluster_object("Cohort", "co@", json!({}))]
}

/// Draws cohorts in three levels, some of them with quota.
fn deep(random: &mut Random, draft: &mut Draft) -> Vec<Value> {
    draft.cohorts = vec!["co@".to_owned(), "side@".to_owned(), "mid@".to_owned()];
    let parents = [
        ("top@", None),
        ("mid@", Some("top@")),
        ("co@", Some("mid@")),
        ("side@", Some("top@")),
    ];
    let each = parents.into_iter().map(|(name, parent)| {
        let mut spec = json!({});
        if let Some(parent) = parent {
            spec["parentName"] = json!(parent);
        }
        if draft.has(Feature::FairSharing) && random.chance(40) {
            spec["fairSharing"] = json!({"weight": random.of(&["500m", "2", "0"])});
        }
        if random.chance(40) {
            spec["resourceGroups"] = quota(random, draft, parent.is_some());
        }
        cluster_object("Cohort", name, spec)
    });
    each.collect()
}

fn quota(random: &mut Random, draft: &Draft, limited: bool) -> Value {
    let flavors: Vec<Value> = draft
        .flavors
        .iter()
        .map(|flavor| {
            let nominal = *random.of(&[0, 1, 2]);
            let mut cpu = json!({"name": CPU, "nominalQuota": nominal.to_string()});
            if limited && random.chance(30) {
                cpu["borrowingLimit"] = json!(random.of(&["0", "1", "2"]));
            }
            if limited && random.chance(30) {
                cpu["lendingLimit"] = json!(random.of(&["0", "1"]));
            }
            json!({"name": flavor, "resources": [cpu]})
        })
        .collect();
    json!([{"coveredResources": [CPU], "flavors": flavors}])
}

/// Changes the quota, the weight or the parent of a cohort.
pub(super) fn change(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    if draft.cohorts.is_empty() {
        return None;
    }
    let name = random.of(&draft.cohorts).clone();
    let spec = match random.below(3) {
        0 => json!({"resourceGroups": quota(random, draft, false)}),
        1 => json!({"fairSharing": {"weight": random.of(&["500m", "2", "0"])}}),
        _ => json!({"parentName": random.of(&[Some("top@"), Some("new@"), None])}),
    };
    Some(Step::Patch {
        about: format!("{name} changes: {spec}"),
        path: format!("{}/{name}", cluster_path("cohorts")),
        body: json!({"spec": spec}),
    })
}
