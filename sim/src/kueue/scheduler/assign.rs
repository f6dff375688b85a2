//! Which flavors a Workload would get.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::amount::show;
use super::usage::{Cell, Usage};
use crate::kueue::objects::{
    Admission, ClusterQueue, FlavorQuota, PodSet, PodSetAssignment, Requests, ResourceFlavor,
    ResourceGroup, WithinClusterQueue, Workload, amount_of, pod_requests,
};

/// The ResourceFlavors by name.
pub type Flavors = BTreeMap<String, ResourceFlavor>;

/// Whether there is room. The best is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// There is.
    Fits,
    /// There would be if others left.
    NeedsPreemption,
    /// There never is.
    No,
}

/// What a Workload would get.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Whether there is room for it.
    pub fit: Fit,
    /// Where it would go, as far as there is a place.
    pub admission: Admission,
    /// What it would take.
    pub usage: Usage,
    /// Why it does not fit, for people.
    pub message: String,
}

/// Tries the flavors in their order, for each pod set and resource group.
pub fn assign(
    workload: &Workload,
    queue: &ClusterQueue,
    taken: &Usage,
    flavors: &Flavors,
) -> Assignment {
    let mut trial = Trial {
        queue,
        taken,
        flavors,
        own: Usage::default(),
    };
    let mut fit = Fit::Fits;
    let mut messages = Vec::new();
    let mut admission = Admission {
        cluster_queue: queue.metadata.name.clone(),
        ..Admission::default()
    };
    for set in &workload.spec.pod_sets {
        let placed = trial.place(set);
        if !placed.reasons.is_empty() {
            let why: Vec<&str> = placed.reasons.iter().map(String::as_str).collect();
            let why = why.join(", ");
            messages.push(format!(
                "couldn't assign flavors to pod set {}: {why}",
                set.name
            ));
        }
        fit = fit.max(placed.fit);
        admission.pod_set_assignments.push(placed.assignment);
    }
    Assignment {
        fit,
        admission,
        usage: trial.own,
        message: messages.join("; "),
    }
}

struct Trial<'a> {
    queue: &'a ClusterQueue,
    taken: &'a Usage,
    flavors: &'a Flavors,
    /// What earlier pod sets of the same Workload take.
    own: Usage,
}

struct Placed {
    fit: Fit,
    assignment: PodSetAssignment,
    reasons: BTreeSet<String>,
}

impl Trial<'_> {
    fn place(&mut self, set: &PodSet) -> Placed {
        let requests = self.requests(set);
        let mut placed = Placed {
            fit: Fit::Fits,
            assignment: PodSetAssignment {
                name: set.name.clone(),
                count: Some(set.count),
                ..PodSetAssignment::default()
            },
            reasons: BTreeSet::new(),
        };
        for resource in requests.keys() {
            if self.queue.group_of(resource).is_none() {
                placed.fit = Fit::No;
                let reason = format!("resource {resource} unavailable in ClusterQueue");
                placed.reasons.insert(reason);
            }
        }
        for group in &self.queue.spec.resource_groups {
            self.place_group(set, group, &requests, &mut placed);
        }
        placed
    }

    /// What all Pods of the set ask for together; Pods themselves count if the ClusterQueue counts them. What is asked for with zero and not counted is nothing.
    fn requests(&self, set: &PodSet) -> Requests {
        let mut requests = pod_requests(&set.template["spec"]);
        for amount in requests.values_mut() {
            *amount = amount.saturating_mul(set.count);
        }
        if self.queue.group_of("pods").is_some() {
            requests.insert("pods".to_owned(), set.count);
        }
        requests.retain(|name, amount| *amount != 0 || self.queue.group_of(name).is_some());
        requests
    }

    fn place_group(
        &mut self,
        set: &PodSet,
        group: &ResourceGroup,
        requests: &Requests,
        placed: &mut Placed,
    ) {
        let asked: Vec<(&str, i64)> = requests
            .iter()
            .filter(|(name, _)| group.covered_resources.contains(*name))
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        if asked.is_empty() {
            return;
        }
        let mut best: Option<(Fit, &FlavorQuota)> = None;
        let mut reasons = BTreeSet::new();
        for flavor in &group.flavors {
            let fit = match self.unsuitable(set, &flavor.name) {
                Some(reason) => {
                    reasons.insert(reason);
                    Fit::No
                }
                None => self.fit(flavor, &asked, &mut reasons),
            };
            if best.is_none_or(|(known, _)| fit < known) {
                best = Some((fit, flavor));
            }
            if fit == Fit::Fits {
                reasons.clear();
                break;
            }
        }
        let (fit, flavor) = match best {
            Some((fit, flavor)) => (fit, Some(flavor)),
            None => (Fit::No, None),
        };
        placed.fit = placed.fit.max(fit);
        placed.reasons.append(&mut reasons);
        if let Some(flavor) = flavor.filter(|_| fit != Fit::No) {
            self.take(flavor, &asked, &mut placed.assignment);
        }
    }

    fn take(&mut self, flavor: &FlavorQuota, asked: &[(&str, i64)], to: &mut PodSetAssignment) {
        for (resource, amount) in asked {
            let cell: Cell = (flavor.name.clone(), (*resource).to_owned());
            self.own.add(&cell, *amount);
            to.flavors
                .insert((*resource).to_owned(), flavor.name.clone());
            let shown = show(resource, *amount);
            to.resource_usage.insert((*resource).to_owned(), shown);
        }
    }

    fn fit(&self, flavor: &FlavorQuota, asked: &[(&str, i64)], why: &mut BTreeSet<String>) -> Fit {
        let fits = asked.iter().map(|(resource, amount)| {
            let (fit, reason) = self.room(flavor, resource, *amount);
            why.extend(reason);
            fit
        });
        fits.max().unwrap_or(Fit::Fits)
    }

    fn room(&self, flavor: &FlavorQuota, resource: &str, amount: i64) -> (Fit, Option<String>) {
        let name = &flavor.name;
        let nominal = nominal(flavor, resource);
        let earlier = self.own.of(name, resource);
        let wanted = earlier.saturating_add(amount);
        if wanted > nominal {
            let reason = format!(
                "insufficient quota for {resource} in flavor {name}, previously considered podsets requests ({}) + current podset request ({}) > maximum capacity ({})",
                show(resource, earlier),
                show(resource, amount),
                show(resource, nominal),
            );
            return (Fit::No, Some(reason));
        }
        let missing = self.taken.of(name, resource).saturating_add(wanted) - nominal;
        if missing <= 0 {
            return (Fit::Fits, None);
        }
        let reason = format!(
            "insufficient unused quota for {resource} in flavor {name}, {} more needed",
            show(resource, missing)
        );
        let never = self.queue.spec.preemption.within_cluster_queue == WithinClusterQueue::Never;
        let fit = if never { Fit::No } else { Fit::NeedsPreemption };
        (fit, Some(reason))
    }

    /// Why the Pods can't run on a flavor's nodes.
    fn unsuitable(&self, set: &PodSet, name: &str) -> Option<String> {
        let Some(flavor) = self.flavors.get(name) else {
            return Some(format!("flavor {name} not found"));
        };
        let spec = &set.template["spec"];
        let taint = flavor.spec.node_taints.iter().find(|taint| {
            let own = flavor.spec.tolerations.iter();
            let tolerations = spec["tolerations"].as_array().into_iter().flatten();
            !own.chain(tolerations).any(|t| tolerates(t, taint))
        });
        if let Some(taint) = taint {
            let part = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
            let (key, value, effect) = (part("key"), part("value"), part("effect"));
            return Some(format!(
                "untolerated taint {{{key} {value} {effect} <nil>}} in flavor {name}"
            ));
        }
        let mut selector = spec["nodeSelector"].as_object().into_iter().flatten();
        let labels = &flavor.spec.node_labels;
        // Only labels that the flavor has are compared; others are the nodes' own affair.
        let differs = selector.any(|(k, v)| labels.get(k).is_some_and(|l| v.as_str() != Some(l)));
        differs.then(|| format!("flavor {name} doesn't match node affinity"))
    }
}

fn nominal(flavor: &FlavorQuota, resource: &str) -> i64 {
    let quota = flavor.resources.iter().find(|r| r.name == resource);
    quota
        .and_then(|quota| amount_of(resource, &quota.nominal_quota))
        .unwrap_or_default()
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let effect = text(toleration, "effect");
    let key = text(toleration, "key");
    let matches_effect = effect.is_empty() || effect == text(taint, "effect");
    let matches_key = key.is_empty() || key == text(taint, "key");
    let exists = text(toleration, "operator") == "Exists";
    matches_effect && matches_key && (exists || text(toleration, "value") == text(taint, "value"))
}

/// Whether what is taken, and this too, is within the quota.
pub(crate) fn within_quota(queue: &ClusterQueue, taken: &Usage, more: &Usage) -> bool {
    let groups = queue.spec.resource_groups.iter();
    groups.flat_map(|g| &g.flavors).all(|flavor| {
        flavor.resources.iter().all(|resource| {
            let name = &resource.name;
            let extra = more.of(&flavor.name, name);
            let sum = taken.of(&flavor.name, name).saturating_add(extra);
            extra == 0 || sum <= nominal(flavor, name)
        })
    })
}
