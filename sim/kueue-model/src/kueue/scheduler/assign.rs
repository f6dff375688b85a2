//! Flavor assignment.
//!
//! The rules are those of Kueue 0.19.2: `pkg/scheduler/flavorassigner/flavorassigner.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::amount::show;
use super::fit::Fit;
use super::node_affinity::{Flavors, unsuitable};
use super::rejected_flavors::RejectedFlavors;
use super::requests::totals;
use super::tree::{NodeId, Tree};
use super::usage::{Cell, Usage, usage_of_set};
use crate::kueue::KueueVersion;
use crate::kueue::objects::{
    Admission, ClusterQueue, FlavorFungibility, FlavorQuota, PodSet, PodSetAssignment,
    PreemptionPolicy, Requests, ResourceGroup, Workload,
};

/// The last flavor tried for each resource of a pod set, if untried flavors remain.
pub(crate) type LastTried = BTreeMap<(usize, String), usize>;

/// The flavor assignment that a Workload would get.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    /// The fit of the Workload.
    pub(crate) fit: Fit,
    /// The height in the cohort tree up to which quota has to be borrowed.
    pub(crate) borrowing: usize,
    /// The admission, up to the first pod set that does not fit.
    pub(crate) admission: Admission,
    /// The quota that it would use.
    pub(crate) usage: Usage,
    /// The cells of `usage` that exceed the quota available now.
    pub(crate) without_capacity: BTreeSet<Cell>,
    /// The point from which the flavor search would continue.
    pub(crate) last_tried: LastTried,
    /// The message for people if it does not fit.
    pub(crate) message: String,
    /// The reason why it does not fit, as defined by gate `UnadmittedWorkloadsObservability`.
    pub(crate) reason: &'static str,
    /// The flavors that were tried, except those that fit without borrowing; empty if there are
    /// none.
    pub(crate) considered: String,
}

/// The inputs of an assignment besides the Workload.
pub(crate) struct AssignmentInput<'a> {
    /// The ClusterQueue.
    pub(crate) queue: &'a ClusterQueue,
    /// The node of the ClusterQueue.
    pub(crate) node: NodeId,
    /// The quota and usage of all ClusterQueues and cohorts.
    pub(crate) tree: &'a Tree,
    /// The ResourceFlavors by name.
    pub(crate) flavors: &'a Flavors,
    /// Simulates preemption for an amount of a cell. Returns the fit and the height up to which
    /// quota has to be borrowed.
    pub(crate) simulate: &'a dyn Fn(&Cell, i64) -> (Fit, usize),
    /// The point from which the flavor search continues.
    pub(crate) last_tried: &'a LastTried,
    /// The number of Pods of each pod set, if reduced.
    pub(crate) counts: Option<&'a [i64]>,
    pub(crate) version: KueueVersion,
    /// The slice with quota that the Workload replaces. Only the additional amount is requested, of
    /// the same flavors.
    pub(crate) replaced: Option<&'a Workload>,
}

/// Assigns flavors to each pod set and resource group, trying the flavors in order. Ends at the
/// first pod set that does not fit.
pub(crate) fn assign<'a>(workload: &'a Workload, ground: &'a AssignmentInput<'a>) -> Assignment {
    let mut attempt = Attempt {
        ground,
        own: Usage::default(),
        allowed: None,
        reason: "WaitingForQuota",
        borrowing: 0,
        without_capacity: BTreeSet::new(),
        last_tried: LastTried::new(),
    };
    let mut considered = RejectedFlavors::new(ground.version);
    let mut fit = Fit::Fits;
    let mut messages = Vec::new();
    let mut admission = Admission {
        cluster_queue: ground.queue.metadata.name.clone(),
        ..Admission::default()
    };
    for (at, set) in workload.spec.pod_sets.iter().enumerate() {
        considered.pod_set(&set.name);
        let reduced = ground.counts.and_then(|counts| counts.get(at).copied());
        let count = reduced.unwrap_or_else(|| workload.count_after_reclaim(set));
        attempt.allowed = Some(workload.variant_flavor()).filter(|flavor| !flavor.is_empty());
        let placed = attempt.place(at, (set, count), &mut considered);
        if !placed.reasons.is_empty() {
            let why = placed.reasons.join(", ");
            let name = &set.name;
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
        borrowing: attempt.borrowing,
        admission,
        usage: attempt.own,
        without_capacity: attempt.without_capacity,
        last_tried: attempt.last_tried,
        message: messages.join("; "),
        reason: attempt.reason,
        considered: considered.text(),
    }
}

struct Attempt<'a> {
    ground: &'a AssignmentInput<'a>,
    /// The usage of earlier pod sets of the same Workload.
    own: Usage,
    /// The only flavor that a variant may use.
    allowed: Option<&'a str>,
    /// The reason why it does not fit.
    reason: &'static str,
    borrowing: usize,
    without_capacity: BTreeSet<Cell>,
    last_tried: LastTried,
}

struct Placed {
    fit: Fit,
    assignment: PodSetAssignment,
    reasons: Vec<String>,
}

/// The requests of a pod set from a resource group.
struct GroupRequests<'a> {
    set: (usize, &'a PodSet),
    /// The resource that comes first.
    first: &'a str,
    requests: &'a Requests,
}

/// Returns the hash by which Kueue orders resources: 64-bit FNV-1a (0.19.2, `hashResourceName` in
/// `pkg/resources/slice_requests.go`).
#[must_use]
pub fn resource_hash(name: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    name.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Sorts resources into the order in which Kueue tries them.
fn sort_resources<T>(resources: &mut [T], name: impl Fn(&T) -> &str) {
    resources.sort_by(|a, b| {
        let (a, b) = (name(a), name(b));
        (resource_hash(a), a).cmp(&(resource_hash(b), b))
    });
}

/// The fit of a request and the height up to which its quota is borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) fit: Fit,
    pub(super) borrowing: usize,
}

impl Capacity {
    /// Returns true if this one is preferred to the other.
    pub(super) fn is_better_than(
        self,
        other: Self,
        by: &FlavorFungibility,
        version: KueueVersion,
    ) -> bool {
        if self.fit == Fit::No || other.fit == Fit::No {
            return self.fit != Fit::No;
        }
        let (hopeless, other_hopeless) = (
            self.fit == Fit::NoCandidates,
            other.fit == Fit::NoCandidates,
        );
        if version.ranks_candidates && hopeless != other_hopeless {
            return other_hopeless;
        }
        if by.prefers_preemption(version) {
            (self.borrowing, self.fit) < (other.borrowing, other.fit)
        } else {
            (self.fit, self.borrowing) < (other.fit, other.borrowing)
        }
    }

    /// Returns true if the next flavor is tried too.
    fn goes_on(self, by: &FlavorFungibility) -> bool {
        match self.fit {
            Fit::No | Fit::NoCandidates => true,
            Fit::Reclaim | Fit::Preempt if !by.stops_at_preemption() => true,
            _ => self.borrowing > 0 && !by.stops_at_borrowing(),
        }
    }
}

/// The result of trying one flavor.
struct FlavorAttempt<'a> {
    flavor: &'a FlavorQuota,
    capacity: Capacity,
    /// The largest borrowing height of its resources.
    borrowing: usize,
    reasons: Vec<String>,
    capacities: Vec<Capacity>,
}

impl Attempt<'_> {
    fn place(
        &mut self,
        at: usize,
        (set, count): (&PodSet, i64),
        considered: &mut RejectedFlavors,
    ) -> Placed {
        let queue = self.ground.queue;
        let requests = self.requests(set, count);
        let mut placed = Placed {
            fit: Fit::Fits,
            assignment: PodSetAssignment {
                name: set.name.clone(),
                count: Some(count),
                ..PodSetAssignment::default()
            },
            reasons: Vec::new(),
        };
        let mut taken = Usage::default();
        let mut last_tried = LastTried::new();
        let mut names: Vec<&str> = requests.keys().map(String::as_str).collect();
        sort_resources(&mut names, |name| name);
        for name in names {
            if placed.assignment.flavors.contains_key(name) {
                continue;
            }
            let Some(group) = queue.group_of(name) else {
                placed.fit = Fit::No;
                self.reason = "NoMatchingFlavor";
                placed.reasons = vec![format!("resource {name} unavailable in ClusterQueue")];
                break;
            };
            let group_requests = GroupRequests {
                set: (at, set),
                first: name,
                requests: &requests,
            };
            let own = self.place_group(
                &group_requests,
                group,
                &mut placed,
                &mut last_tried,
                considered,
            );
            if placed.fit == Fit::No {
                break;
            }
            taken.add_all(&own);
        }
        if placed.fit != Fit::No {
            self.last_tried.append(&mut last_tried);
            self.own.add_all(&taken);
        }
        placed.reasons.sort();
        placed
    }

    /// Returns the total requests of all Pods of the set, including `pods` if the ClusterQueue
    /// covers it. Drops zero requests of resources that the ClusterQueue does not cover (since
    /// 0.16).
    fn requests(&self, set: &PodSet, count: i64) -> Requests {
        let queue = self.ground.queue;
        let pods = queue.group_of("pods").is_some();
        let mut requests = totals(set, count, pods, self.ground.version);
        if self.ground.version.skips_zero_requests {
            requests.retain(|name, amount| *amount != 0 || queue.group_of(name).is_some());
        }
        requests
    }

    /// Returns the usage of a resource group by the pod set.
    fn place_group(
        &mut self,
        of: &GroupRequests<'_>,
        group: &ResourceGroup,
        placed: &mut Placed,
        last_tried: &mut LastTried,
        considered: &mut RejectedFlavors,
    ) -> Usage {
        let (at, set) = of.set;
        let mut amounts: Vec<(&str, i64)> = of
            .requests
            .iter()
            .filter(|(name, _)| group.covered_resources.contains(*name))
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        sort_resources(&mut amounts, |(name, _)| name);
        let rules = &self.ground.queue.spec.flavor_fungibility;
        let mut best: Option<FlavorAttempt<'_>> = None;
        let mut reasons = Vec::new();
        let last = self.ground.last_tried.get(&(at, of.first.to_owned()));
        let from = last.map_or(0, |last| last + 1);
        let mut attempted = 0;
        for (place, flavor) in group.flavors.iter().enumerate().skip(from) {
            attempted = place;
            if self.allowed.is_some_and(|allowed| allowed != flavor.name) {
                let name = &flavor.name;
                reasons.push(format!(
                    "skipping flavor {name} due to WorkloadAllowedResourceFlavorAnnotation annotation"
                ));
                continue;
            }
            let tried = self.try_flavor(set, flavor, group, &amounts);
            reasons.extend(tried.reasons.iter().cloned());
            let (name, fit) = (&tried.flavor.name, tried.capacity.fit);
            considered.tried(name, fit, tried.borrowing, &tried.reasons);
            let capacity = tried.capacity;
            if !capacity.goes_on(rules) {
                best = Some(tried);
                break;
            }
            let better = |best: &FlavorAttempt<'_>| {
                capacity.is_better_than(best.capacity, rules, self.ground.version)
            };
            if capacity.fit != Fit::No && best.as_ref().is_none_or(better) {
                best = Some(tried);
            }
        }
        let Some(best) = best else {
            placed.fit = Fit::No;
            placed.reasons = reasons;
            return Usage::default();
        };
        placed.fit = placed.fit.max(best.capacity.fit);
        if best.capacity.fit != Fit::Fits {
            placed.reasons.append(&mut reasons);
        }
        if attempted + 1 < group.flavors.len() {
            let tried = amounts.iter().map(|(name, _)| (at, (*name).to_owned()));
            last_tried.extend(tried.map(|key| (key, attempted)));
        }
        self.take(set, &best, &amounts, &mut placed.assignment)
    }

    /// Returns the flavor and amount of a resource that the replaced slice holds for this pod set.
    fn replaced(&self, set: &PodSet, resource: &str) -> Option<(String, i64)> {
        let old = self.ground.replaced?;
        let mut sets = old.status.admission.as_ref()?.pod_set_assignments.iter();
        let assigned = sets.find(|assigned| assigned.name == set.name)?;
        let flavor = assigned.flavors.get(resource)?.clone();
        let cell = (flavor.clone(), resource.to_owned());
        Some((flavor, usage_of_set(old, assigned).at(&cell)))
    }

    fn take(
        &mut self,
        set: &PodSet,
        best: &FlavorAttempt<'_>,
        amounts: &[(&str, i64)],
        to: &mut PodSetAssignment,
    ) -> Usage {
        let flavor = best.flavor;
        let mut usage = Usage::default();
        for ((resource, amount), capacity) in amounts.iter().zip(&best.capacities) {
            let cell: Cell = (flavor.name.clone(), (*resource).to_owned());
            let before = self.replaced(set, resource).map_or(0, |(_, amount)| amount);
            usage.add(&cell, amount.saturating_sub(before));
            to.flavors
                .insert((*resource).to_owned(), flavor.name.clone());
            let shown = show(resource, *amount);
            to.resource_usage.insert((*resource).to_owned(), shown);
            self.borrowing = self.borrowing.max(capacity.borrowing);
            if capacity.fit != Fit::Fits {
                self.without_capacity.insert(cell);
            }
        }
        usage
    }

    /// Returns true if node selectors and affinities for a label can exclude a flavor.
    fn label_counts(&self, key: &str, flavor: &FlavorQuota, group: &ResourceGroup) -> bool {
        group.flavors.iter().any(|other| {
            let counts = self.ground.version.excludes_unlabeled || other.name == flavor.name;
            let known = self.ground.flavors.get(&other.name).filter(|_| counts);
            known.is_some_and(|known| known.spec.node_labels.contains_key(key))
        })
    }

    /// Tries one flavor. Its worst resource determines the result.
    fn try_flavor<'a>(
        &mut self,
        set: &PodSet,
        flavor: &'a FlavorQuota,
        group: &ResourceGroup,
        amounts: &[(&str, i64)],
    ) -> FlavorAttempt<'a> {
        let mut tried = FlavorAttempt {
            flavor,
            capacity: Capacity {
                fit: Fit::Fits,
                borrowing: 0,
            },
            borrowing: 0,
            reasons: Vec::new(),
            capacities: Vec::new(),
        };
        let counts = |key: &str| self.label_counts(key, flavor, group);
        if let Some(reason) = unsuitable(set, &flavor.name, counts, self.ground.flavors) {
            self.reason = "NoMatchingFlavor";
            tried.capacity.fit = Fit::No;
            tried.reasons.push(reason);
            return tried;
        }
        let rules = &self.ground.queue.spec.flavor_fungibility;
        for (resource, amount) in amounts {
            let replaced = self.replaced(set, resource);
            let original = replaced.as_ref().filter(|(known, _)| *known != flavor.name);
            if let Some((original, _)) = original {
                let name = &flavor.name;
                let reason = format!(
                    "could not assign {name} flavor since the original workload is assigned: {original}"
                );
                tried.reasons.push(reason);
            }
            // Usage of the old slice in another flavor is not subtracted.
            let same = replaced.as_ref().filter(|_| original.is_none());
            let more = amount.saturating_sub(same.map_or(0, |(_, before)| *before));
            let (capacity, reason) = self.capacity(flavor, resource, more);
            tried.reasons.extend(reason);
            tried.borrowing = tried.borrowing.max(capacity.borrowing);
            if original.is_some() {
                self.reason = "NoMatchingFlavor";
                tried.capacity.fit = Fit::No;
            } else if tried
                .capacity
                .is_better_than(capacity, rules, self.ground.version)
            {
                tried.capacity = capacity;
            }
            tried.capacities.push(capacity);
            // 0.19 tries the others too: it returns from a closure where earlier versions leave
            // the loop.
            if tried.capacity.fit == Fit::No && !self.ground.version.sorts_requests {
                break;
            }
        }
        tried.reasons.sort();
        tried
    }

    fn capacity(
        &mut self,
        flavor: &FlavorQuota,
        resource: &str,
        amount: i64,
    ) -> (Capacity, Option<String>) {
        let (tree, node) = (self.ground.tree, self.ground.node);
        let name = &flavor.name;
        let cell: Cell = (name.clone(), resource.to_owned());
        let earlier = self.own.at(&cell);
        let wanted = earlier.saturating_add(amount);
        let show = |amount| show(resource, amount);
        let most = tree.potential(node, &cell);
        if wanted > most {
            self.reason = "ExceedsMaxQuota";
            let reason = format!(
                "insufficient quota for {resource} in flavor {name}, previously considered podsets requests ({}) + current podset request ({}) > maximum capacity ({})",
                show(earlier),
                show(amount),
                show(most),
            );
            let capacity = Capacity {
                fit: Fit::No,
                borrowing: 0,
            };
            return (capacity, Some(reason));
        }
        let (borrowing, may_reclaim) = tree.borrowing_height(node, &cell, wanted);
        let available = tree.available(node, &cell);
        if wanted <= available {
            let fit = Fit::Fits;
            return (Capacity { fit, borrowing }, None);
        }
        self.reason = "WaitingForQuota";
        let missing = show(wanted.saturating_sub(available));
        let reason = format!(
            "insufficient unused quota for {resource} in flavor {name}, {missing} more needed"
        );
        let own = tree.quota(node, &cell).nominal >= wanted;
        let (fit, borrowing) = if own || may_reclaim || self.may_preempt_while_borrowing() {
            (self.ground.simulate)(&cell, wanted)
        } else {
            (Fit::No, borrowing)
        };
        (Capacity { fit, borrowing }, Some(reason))
    }

    fn may_preempt_while_borrowing(&self) -> bool {
        let policies = &self.ground.queue.spec.preemption;
        let borrowing = policies.borrow_within_cohort;
        let fairly = self.ground.version.fair_sharing.is_some();
        borrowing.is_some_and(|b| b.policy != PreemptionPolicy::Never)
            || fairly && policies.reclaim_within_cohort != PreemptionPolicy::Never
    }
}
