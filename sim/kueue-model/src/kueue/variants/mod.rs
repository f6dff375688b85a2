//! Concurrent admission: a Workload with a variant for each flavor, of which one starts the job.
//!
//! The rules are those of Kueue 0.19.2: `pkg/controller/concurrentadmission/controller.go`.

mod construct;

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use crate::kueue::objects::{ClusterQueue, Condition, Workload};
use crate::kueue::reconcile::BLOCKED;

pub(crate) use construct::{GATE, variant_of};

/// The label of a Workload that has variants.
pub(crate) const PARENT: &str = "kueue.x-k8s.io/concurrent-admission-parent";

/// The controller's next step for a parent and its variants. One pass of Kueue's does several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next<'a> {
    /// Do nothing.
    Nothing,
    /// Create the variants of these flavors.
    Create(Vec<&'a str>),
    /// Delete a variant whose flavor the ClusterQueue no longer has.
    Delete(&'a Workload),
    /// Evict the parent.
    EvictParent(&'static str, &'static str),
    /// Release the quota of an evicted variant.
    Clear(&'a Workload),
    /// Deactivate a variant, with the reason.
    Deactivate(&'a Workload, String),
    /// Activate a variant, with the reason.
    Activate(&'a Workload, String),
    /// Finish a variant because the job is finished.
    Finish(&'a Workload, &'a Condition),
    /// Start the job with this variant.
    Admit(&'a Workload),
    /// Open the gate of a variant, so that others may be preempted for it.
    OpenGate(&'a Workload),
    /// Wait until the gate of another variant may be opened.
    Wait(Timestamp),
}

/// Returns the next step. `variants`: all variants of the parent.
pub(crate) fn next<'a>(
    parent: &Workload,
    variants: &'a [Workload],
    finished: Option<&'a Condition>,
    queue: &'a ClusterQueue,
    now: Timestamp,
) -> Next<'a> {
    let Some(group) = queue.spec.resource_groups.first() else {
        return Next::Nothing;
    };
    let place = |flavor: &str| group.flavors.iter().position(|known| known.name == flavor);
    let order = |variant: &Workload| place(variant.variant_flavor());
    let has = |flavor: &str| variants.iter().any(|v| v.variant_flavor() == flavor);
    let names = group.flavors.iter().map(|flavor| flavor.name.as_str());
    let missing: Vec<&str> = names.filter(|flavor| !has(flavor)).collect();
    if !missing.is_empty() {
        return Next::Create(missing);
    }
    let mut sorted: Vec<&Workload> = variants.iter().collect();
    sorted.sort_by_key(|variant| order(variant));
    if let Some(stale) = sorted.iter().find(|variant| order(variant).is_none()) {
        return Next::Delete(stale);
    }
    let leaves = |variant: &&&Workload| variant.is_evicted() && variant.has_quota();
    if let Some(variant) = sorted.iter().find(leaves) {
        return match (parent.has_quota(), parent.is_evicted()) {
            (true, false) => Next::EvictParent("VariantEvicted", "Admitted variant was evicted"),
            (true, true) => Next::Nothing,
            (false, _) => Next::Clear(variant),
        };
    }
    let admitted = sorted.iter().copied().find(|variant| variant.is_admitted());
    if let Some((variant, why)) = deactivated(parent, &sorted, admitted, queue, &order) {
        return Next::Deactivate(variant, why);
    }
    if let Some((variant, why)) = activated(parent, &sorted, admitted, queue, &order) {
        return Next::Activate(variant, why);
    }
    if let Some(finished) = finished {
        let open = sorted.iter().find(|variant| !variant.is_finished());
        return open.map_or(Next::Nothing, |variant| Next::Finish(variant, finished));
    }
    match admitted {
        None if parent.is_admitted() && !parent.is_evicted() => {
            Next::EvictParent("ConcurrentAdmission", "No variant is running")
        }
        Some(variant) if !parent.is_admitted() => Next::Admit(variant),
        _ => next_gate(&sorted, now),
    }
}

/// The time from opening the gate of one variant to opening that of the next.
const GATE_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// Returns the step for the next gate: that of the first variant that needs preemptions, unless a
/// better variant has not been tried yet.
fn next_gate<'a>(variants: &[&'a Workload], now: Timestamp) -> Next<'a> {
    let waiting = || variants.iter().copied().filter(|v| v.waits_for_quota());
    let has = |variant: &Workload, kind| variant.status.conditions.get(kind).is_some();
    let mut closed = waiting().filter(|variant| variant.gate_opened(GATE).is_none());
    let first = closed.find(|v| has(v, BLOCKED) || !has(v, "QuotaReserved"));
    let Some(first) = first.filter(|variant| has(variant, BLOCKED)) else {
        return Next::Nothing;
    };
    let last = waiting()
        .filter_map(|variant| variant.gate_opened(GATE))
        .max();
    let due = last.map_or(now, |last| last.saturating_add(GATE_TIMEOUT).unwrap_or(now));
    if due > now {
        Next::Wait(due)
    } else {
        Next::OpenGate(first)
    }
}

type Order<'a> = dyn Fn(&Workload) -> Option<usize> + 'a;

fn deactivated<'a>(
    parent: &Workload,
    variants: &[&'a Workload],
    admitted: Option<&Workload>,
    queue: &ClusterQueue,
    order: &Order<'_>,
) -> Option<(&'a Workload, String)> {
    let active = || {
        variants
            .iter()
            .copied()
            .filter(|variant| variant.is_active())
    };
    if !parent.is_active() {
        let key = parent.metadata.key();
        let why = format!("Parent Workload {key:?} not active");
        return active().next().map(|variant| (variant, why));
    }
    let admitted = admitted?;
    let key = admitted.metadata.key();
    if queue.retains_first_admission() {
        let mut others = active().filter(|v| v.metadata.name != admitted.metadata.name);
        let why = format!("RetainFirstAdmission: another Variant {key:?} is admitted");
        return others.next().map(|variant| (variant, why));
    }
    if let Some(last) = queue.last_acceptable_flavor() {
        let limit = queue.flavors().position(|flavor| flavor == last);
        let below = |v: &&Workload| v.metadata.name != admitted.metadata.name && order(v) > limit;
        let why = format!(
            "being below lastAcceptableFlavor: {last:?} and another Variant admitted {key:?}"
        );
        if let Some(variant) = active().find(below) {
            return Some((variant, why));
        }
    }
    let below = |variant: &&Workload| order(variant) > order(admitted);
    let why = format!("being lower priority than admitted Variant {key:?}");
    active().find(below).map(|variant| (variant, why))
}

fn activated<'a>(
    parent: &Workload,
    variants: &[&'a Workload],
    admitted: Option<&Workload>,
    queue: &ClusterQueue,
    order: &Order<'_>,
) -> Option<(&'a Workload, String)> {
    if !parent.is_active() {
        return None;
    }
    let mut inactive = variants
        .iter()
        .copied()
        .filter(|variant| !variant.is_active());
    let Some(admitted) = admitted else {
        let why = "no other Variant being admitted".to_owned();
        return inactive.next().map(|variant| (variant, why));
    };
    if queue.retains_first_admission() {
        return None;
    }
    let key = admitted.metadata.key();
    let better = |variant: &Workload| order(variant) < order(admitted);
    if let Some(last) = queue.last_acceptable_flavor() {
        let limit = queue.flavors().position(|flavor| flavor == last);
        let why = format!(
            "being at least lastAcceptableFlavor: {last:?} and higher priority than admitted Variant {key:?}"
        );
        let found = inactive.find(|variant| better(variant) && order(variant) <= limit);
        return found.map(|variant| (variant, why));
    }
    let why = format!("being higher priority than admitted Variant {key:?}");
    inactive
        .find(|variant| better(variant))
        .map(|variant| (variant, why))
}
