//! Validation of ClusterQueues and Cohorts.
//!
//! The rules are those of Kueue 0.19.2: `pkg/webhooks/clusterqueue_webhook.go` and
//! `cohort_webhook.go`.

use std::collections::BTreeSet;

use kueue_check::api::Quantity;
use serde_json::Value;

use super::{duplicate, metadata};
use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::objects::{amount_of, with_canonical_quantities};
use kueue_check_apiserver::FieldError;

const NEGATIVE: &str = "must be greater than or equal to 0";

/// Returns the errors of a ClusterQueue; `old` is null for a new one.
pub(super) fn errors(queue: &Value, old: &Value, version: KueueVersion) -> Vec<FieldError> {
    let in_cohort = is_named(&queue["spec"]["cohortName"]);
    let mut errors = groups(queue, Owner::ClusterQueue { in_cohort });
    let selector = &queue["spec"]["namespaceSelector"];
    metadata::selector(selector, "spec.namespaceSelector", &mut errors);
    errors.extend(fair_weight(queue));
    if version.validates_on_flavors {
        errors.extend(on_flavors(queue, old));
    }
    errors
}

/// Returns the errors of a Cohort.
pub(super) fn cohort_errors(cohort: &Value) -> Vec<FieldError> {
    let has_parent = is_named(&cohort["spec"]["parentName"]);
    let mut errors: Vec<FieldError> = fair_weight(cohort).into_iter().collect();
    errors.extend(groups(cohort, Owner::Cohort { has_parent }));
    errors
}

/// Returns the error in the weight for fair sharing. One that is negative or hardly more than 0 is
/// refused (Kueue 0.15.0 to 0.19.2, `validateFairSharing` in `pkg/webhooks/common.go`).
fn fair_weight(object: &Value) -> Option<FieldError> {
    let given = with_canonical_quantities(&object["spec"]["fairSharing"]);
    let weight: Quantity = given["weight"].as_str()?.parse().ok()?;
    let least: Quantity = "1n".parse().ok()?;
    let why = if weight < Quantity::ZERO {
        NEGATIVE
    } else if weight > Quantity::ZERO && weight <= least {
        "When not 0, weight must be > 10e-9"
    } else {
        return None;
    };
    Some(FieldError::invalid(
        "spec.fairSharing",
        &given["weight"],
        why,
    ))
}

fn is_named(name: &Value) -> bool {
    name.as_str().is_some_and(|name| !name.is_empty())
}

/// The owner of a quota.
#[derive(Clone, Copy)]
enum Owner {
    ClusterQueue { in_cohort: bool },
    Cohort { has_parent: bool },
}

impl Owner {
    /// Returns the reason why limits are rejected, if they are.
    fn refuses_limits(self) -> Option<&'static str> {
        match self {
            Self::ClusterQueue { in_cohort: false } => Some("must be nil when cohort is empty"),
            Self::Cohort { has_parent: false } => Some("must be nil when parent is empty"),
            _ => None,
        }
    }
}

/// Returns the errors of the resource groups. Names must be in order, and limits require a cohort
/// or a parent. A ClusterQueue lends at most its nominal quota. Each resource and flavor occurs
/// once, and the name of a resource is that of a label.
fn groups(object: &Value, owner: Owner) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (mut resources, mut flavors) = (BTreeSet::new(), BTreeSet::new());
    for (at, group) in list(&object["spec"]["resourceGroups"]).enumerate() {
        let path = format!("spec.resourceGroups[{at}]");
        for (nth, name) in list(&group["coveredResources"]).enumerate() {
            let path = format!("{path}.coveredResources[{nth}]");
            metadata::label_key(name.as_str().unwrap_or_default(), &path, &mut errors);
            if !resources.insert(name.as_str()) {
                errors.push(duplicate(path, name));
            }
        }
        for (nth, flavor) in list(&group["flavors"]).enumerate() {
            let path = format!("{path}.flavors[{nth}]");
            let covered = list(&group["coveredResources"]);
            for (place, (quota, name)) in list(&flavor["resources"]).zip(covered).enumerate() {
                let path = format!("{path}.resources[{place}]");
                quotas(quota, name, owner, &path, &mut errors);
            }
            if !flavors.insert(flavor["name"].as_str()) {
                errors.push(duplicate(format!("{path}.name"), &flavor["name"]));
            }
        }
    }
    errors
}

fn quotas(quota: &Value, name: &Value, owner: Owner, path: &str, errors: &mut Vec<FieldError>) {
    let resource = quota["name"].as_str().unwrap_or_default();
    let amount = |field: &str| amount_of(resource, &quota[field]);
    let mut refuse = |field: &str, why: &str| {
        let value = &quota[field];
        errors.push(FieldError::invalid(format!("{path}.{field}"), value, why));
    };
    if quota["name"] != *name {
        refuse("name", "must match the name in coveredResources");
    }
    let negative = |field: &str| amount(field).is_some_and(|amount| amount < 0);
    if negative("nominalQuota") {
        refuse("nominalQuota", NEGATIVE);
    }
    if !quota["borrowingLimit"].is_null() {
        if let Some(why) = owner.refuses_limits() {
            refuse("borrowingLimit", why);
        }
        if negative("borrowingLimit") {
            refuse("borrowingLimit", NEGATIVE);
        }
    }
    if !quota["lendingLimit"].is_null() {
        if negative("lendingLimit") {
            refuse("lendingLimit", NEGATIVE);
        }
        if let Some(why) = owner.refuses_limits() {
            refuse("lendingLimit", why);
        }
        let lends = matches!(owner, Owner::ClusterQueue { .. });
        if lends && amount("lendingLimit") > amount("nominalQuota") {
            let why = "must be less than or equal to the nominalQuota";
            refuse("lendingLimit", why);
        }
    }
}

/// Returns the flavors of a ClusterQueue.
fn flavors(queue: &Value) -> BTreeSet<&str> {
    let groups = list(&queue["spec"]["resourceGroups"]);
    let flavors = groups.flat_map(|group| list(&group["flavors"]));
    flavors
        .filter_map(|flavor| flavor["name"].as_str())
        .collect()
}

fn rules(queue: &Value) -> impl Iterator<Item = &Value> {
    list(&queue["spec"]["admissionChecksStrategy"]["admissionChecks"])
}

/// Rejects check rules for flavors that the ClusterQueue does not have. An unchanged rule is
/// accepted as long as the flavors stay the same.
fn on_flavors(queue: &Value, old: &Value) -> Vec<FieldError> {
    let known = flavors(queue);
    let of_rule = |rule: &Value| -> BTreeSet<String> {
        let all = list(&rule["onFlavors"]).filter_map(Value::as_str);
        all.map(str::to_owned).collect()
    };
    let same_flavors = !old.is_null() && flavors(old) == known;
    let was_so = |rule: &Value| {
        let mut before = rules(old).filter(|before| before["name"] == rule["name"]);
        same_flavors && before.any(|before| of_rule(before) == of_rule(rule))
    };
    let allowed: Vec<Value> = known.iter().map(|name| Value::from(*name)).collect();
    let mut errors = Vec::new();
    for (at, rule) in rules(queue).enumerate() {
        if was_so(rule) {
            continue;
        }
        for (nth, flavor) in list(&rule["onFlavors"]).enumerate() {
            if !flavor.as_str().is_some_and(|name| known.contains(name)) {
                let path =
                    format!("spec.admissionChecksStrategy.admissionChecks[{at}].onFlavors[{nth}]");
                errors.push(FieldError::not_supported(path, flavor, &allowed));
            }
        }
    }
    errors
}
