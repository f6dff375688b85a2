//! Which flavors a Workload would get.

use std::collections::BTreeSet;

use super::amount::show;
use super::considered::Considered;
use super::suitable::{Flavors, unsuitable};
use super::usage::{Cell, Usage};
use crate::kueue::objects::{
    Admission, ClusterQueue, FlavorQuota, PodSet, PodSetAssignment, Requests, ResourceGroup,
    Workload, amount_of, pod_requests,
};

/// Whether there is room. The best is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// There is.
    Fits,
    /// There would be if others left, and there are others that can be made to.
    Preempt,
    /// There would be if others left, but none can be made to.
    NoCandidates,
    /// There never is.
    No,
}

/// What a Workload would get.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    /// Whether there is room for it.
    pub(crate) fit: Fit,
    /// Where it would go, as far as there is a place.
    pub(crate) admission: Admission,
    /// What it would take.
    pub(crate) usage: Usage,
    /// Why it does not fit, for people.
    pub(crate) message: String,
    /// Why it does not fit, in a word of gate `UnadmittedWorkloadsObservability`.
    pub(crate) reason: &'static str,
    /// The flavors that were tried and not taken; empty if the first was taken.
    pub(crate) considered: String,
}

/// What an assignment depends on besides the Workload.
pub(crate) struct Ground<'a> {
    /// The ClusterQueue.
    pub(crate) queue: &'a ClusterQueue,
    /// What others have.
    pub(crate) taken: &'a Usage,
    /// The ResourceFlavors by name.
    pub(crate) flavors: &'a Flavors,
    /// Whether others can be made to leave so that this much fits.
    pub(crate) can_preempt: &'a dyn Fn(&Usage) -> bool,
}

/// Tries the flavors in their order, for each pod set and resource group. The first pod set without a place ends it.
pub(crate) fn assign(workload: &Workload, ground: &Ground<'_>) -> Assignment {
    let mut trial = Trial {
        ground,
        own: Usage::default(),
        reason: "WaitingForQuota",
    };
    let mut considered = Considered::default();
    let mut fit = Fit::Fits;
    let mut messages = Vec::new();
    let mut admission = Admission {
        cluster_queue: ground.queue.metadata.name.clone(),
        ..Admission::default()
    };
    for set in &workload.spec.pod_sets {
        considered.pod_set(&set.name);
        let placed = trial.place(set, &mut considered);
        if !placed.reasons.is_empty() {
            let why: Vec<&str> = placed.reasons.iter().map(String::as_str).collect();
            let (name, why) = (&set.name, why.join(", "));
            messages.push(format!("couldn't assign flavors to pod set {name}: {why}"));
        }
        fit = fit.max(placed.fit);
        admission.pod_set_assignments.push(placed.assignment);
        if placed.fit == Fit::No {
            break;
        }
    }
    Assignment {
        fit,
        admission,
        usage: trial.own,
        message: messages.join("; "),
        reason: trial.reason,
        considered: considered.text(),
    }
}

struct Trial<'a> {
    ground: &'a Ground<'a>,
    /// What earlier pod sets of the same Workload take.
    own: Usage,
    /// Why it does not fit.
    reason: &'static str,
}

struct Placed {
    fit: Fit,
    assignment: PodSetAssignment,
    reasons: BTreeSet<String>,
}

/// What came of one flavor.
pub(super) struct Tried<'a> {
    pub(super) flavor: &'a FlavorQuota,
    pub(super) fit: Fit,
    pub(super) reasons: Vec<String>,
}

impl Trial<'_> {
    fn place(&mut self, set: &PodSet, considered: &mut Considered) -> Placed {
        let queue = self.ground.queue;
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
            if queue.group_of(resource).is_none() {
                placed.fit = Fit::No;
                self.reason = "NoMatchingFlavor";
                let reason = format!("resource {resource} unavailable in ClusterQueue");
                placed.reasons.insert(reason);
            }
        }
        for group in &queue.spec.resource_groups {
            if placed.fit != Fit::No {
                self.place_group(set, group, &requests, &mut placed, considered);
            }
        }
        placed
    }

    /// What all Pods of the set ask for together; Pods themselves count if the ClusterQueue counts them. What is asked for with zero and not counted is nothing.
    fn requests(&self, set: &PodSet) -> Requests {
        let queue = self.ground.queue;
        let mut requests = pod_requests(&set.template["spec"]);
        for amount in requests.values_mut() {
            *amount = amount.saturating_mul(set.count);
        }
        if queue.group_of("pods").is_some() {
            requests.insert("pods".to_owned(), set.count);
        }
        requests.retain(|name, amount| *amount != 0 || queue.group_of(name).is_some());
        requests
    }

    fn place_group(
        &mut self,
        set: &PodSet,
        group: &ResourceGroup,
        requests: &Requests,
        placed: &mut Placed,
        considered: &mut Considered,
    ) {
        let asked: Vec<(&str, i64)> = requests
            .iter()
            .filter(|(name, _)| group.covered_resources.contains(*name))
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        if asked.is_empty() {
            return;
        }
        let takes_preemption = self
            .ground
            .queue
            .spec
            .flavor_fungibility
            .stops_at_preemption();
        let mut best: Option<Tried<'_>> = None;
        let mut reasons = BTreeSet::new();
        for flavor in &group.flavors {
            let tried = self.try_flavor(set, flavor, &asked);
            reasons.extend(tried.reasons.iter().cloned());
            considered.tried(&tried);
            let fit = tried.fit;
            if best.as_ref().is_none_or(|best| fit < best.fit) {
                best = Some(tried);
            }
            if fit == Fit::Fits || fit == Fit::Preempt && takes_preemption {
                break;
            }
        }
        let fit = best.as_ref().map_or(Fit::No, |best| best.fit);
        placed.fit = placed.fit.max(fit);
        if fit != Fit::Fits {
            placed.reasons.append(&mut reasons);
        }
        if let Some(best) = best.filter(|_| fit != Fit::No) {
            self.take(best.flavor, &asked, &mut placed.assignment);
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

    /// The worst of its resources counts; after one that never fits no more are looked at.
    fn try_flavor<'a>(
        &mut self,
        set: &PodSet,
        flavor: &'a FlavorQuota,
        asked: &[(&str, i64)],
    ) -> Tried<'a> {
        let mut tried = Tried {
            flavor,
            fit: Fit::Fits,
            reasons: Vec::new(),
        };
        if let Some(reason) = unsuitable(set, &flavor.name, self.ground.flavors) {
            self.reason = "NoMatchingFlavor";
            tried.fit = Fit::No;
            tried.reasons.push(reason);
            return tried;
        }
        for (resource, amount) in asked {
            let (fit, reason) = self.room(flavor, resource, *amount);
            tried.fit = tried.fit.max(fit);
            tried.reasons.extend(reason);
            if fit == Fit::No {
                break;
            }
        }
        tried
    }

    fn room(&mut self, flavor: &FlavorQuota, resource: &str, amount: i64) -> (Fit, Option<String>) {
        let name = &flavor.name;
        let nominal = nominal(flavor, resource);
        let earlier = self.own.of(name, resource);
        let wanted = earlier.saturating_add(amount);
        let show = |amount| show(resource, amount);
        if wanted > nominal {
            self.reason = "ExceedsMaxQuota";
            let reason = format!(
                "insufficient quota for {resource} in flavor {name}, previously considered podsets requests ({}) + current podset request ({}) > maximum capacity ({})",
                show(earlier),
                show(amount),
                show(nominal),
            );
            return (Fit::No, Some(reason));
        }
        let taken = self.ground.taken.of(name, resource);
        let missing = taken.saturating_add(wanted).saturating_sub(nominal);
        if missing <= 0 {
            return (Fit::Fits, None);
        }
        self.reason = "WaitingForQuota";
        let reason = format!(
            "insufficient unused quota for {resource} in flavor {name}, {} more needed",
            show(missing)
        );
        let mut usage = Usage::default();
        usage.add(&(name.clone(), resource.to_owned()), wanted);
        let possible = (self.ground.can_preempt)(&usage);
        let fit = if possible {
            Fit::Preempt
        } else {
            Fit::NoCandidates
        };
        (fit, Some(reason))
    }
}

pub(super) fn nominal(flavor: &FlavorQuota, resource: &str) -> i64 {
    let quota = flavor.resources.iter().find(|r| r.name == resource);
    quota
        .and_then(|quota| amount_of(resource, &quota.nominal_quota))
        .unwrap_or_default()
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
