//! The ledgers of all Budgets, and the Workloads that they share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::{CheckState, Owner, Uid, Workload};
use kueue_check::{Family, FamilyRole, Reservation, WorkloadEvent};

use super::run::may_spend;
use super::{BudgetLedger, Run, run_of};
use crate::config::BudgetConfig;

/// The ledgers of all Budgets, on the leader and on standbys alike.
#[derive(Debug, Default)]
pub struct Ledgers {
    by_name: BTreeMap<String, BudgetLedger>,
    /// The Budget to which each AdmissionCheck refers.
    checks: BTreeMap<String, String>,
    live: BTreeMap<Uid, Workload>,
    /// The families of Workloads whose jobs may have several.
    families: BTreeMap<Uid, Family>,
    /// The ClusterQueues in which Kueue makes variants and starts one of them.
    concurrent: BTreeSet<String>,
    /// Approved Workloads that lost their quota, and when the loss was observed.
    pub(super) suspended: BTreeMap<Uid, (Workload, Timestamp)>,
    listing: Option<BTreeSet<Uid>>,
    /// The time since which all Workloads have been observed.
    watched_since: Option<Timestamp>,
}

/// The seconds after which a standby removes suspended Workloads, which the leader has long
/// settled.
const SUSPENDED_FOR: i64 = 3600;

impl Ledgers {
    /// Returns the ledger of the Budget `name`.
    pub fn ledger(&self, name: &str) -> Option<&BudgetLedger> {
        self.by_name.get(name)
    }

    /// Returns the ledger of the Budget `name`, to change it.
    pub fn ledger_mut(&mut self, name: &str) -> Option<&mut BudgetLedger> {
        self.by_name.get_mut(name)
    }

    /// Returns all ledgers, by Budget.
    pub fn all(&self) -> impl Iterator<Item = (&str, &BudgetLedger)> {
        self.by_name
            .iter()
            .map(|(name, ledger)| (name.as_str(), ledger))
    }

    /// Returns all ledgers, to change them.
    pub fn all_mut(&mut self) -> impl Iterator<Item = (&str, &mut BudgetLedger)> {
        self.by_name
            .iter_mut()
            .map(|(name, ledger)| (name.as_str(), ledger))
    }

    /// Returns the AdmissionChecks of the Budget `name`.
    pub fn checks_of(&self, name: &str) -> impl Iterator<Item = &str> {
        self.checks
            .iter()
            .filter(move |(_, budget)| *budget == name)
            .map(|(check, _)| check.as_str())
    }

    /// Returns the Budget of the AdmissionCheck `check`.
    pub fn budget_of(&self, check: &str) -> Option<&str> {
        self.checks.get(check).map(String::as_str)
    }

    /// Returns all AdmissionChecks that refer to a Budget.
    pub fn all_checks(&self) -> impl Iterator<Item = String> + use<> {
        self.checks.keys().cloned().collect::<Vec<_>>().into_iter()
    }

    /// Returns the last observed state of the Workload.
    pub fn workload(&self, uid: &Uid) -> Option<&Workload> {
        self.live.get(uid)
    }

    /// Returns the Workload `uid` as a run of the Budget `name`, by its last observed state.
    /// Returns `None` if the Budget does not apply to it, or it has ended.
    pub fn run(&self, name: &str, uid: &Uid) -> Option<Run> {
        let terms = self.by_name.get(name)?.terms();
        let workload = self.live.get(uid)?;
        let family = accepted_job(&self.concurrent, workload, self.families.get(uid));
        run_of(workload, family, terms, self.checks_of(name))
    }

    /// Adopts the configuration of a Budget, unless it has a newer one. Returns true if anything
    /// changed.
    pub fn adopt(&mut self, terms: Arc<BudgetConfig>, now: Timestamp) -> bool {
        let name = terms.budget.to_string();
        match self.by_name.get_mut(&name) {
            Some(ledger) if ledger.terms().uid == terms.uid => {
                if ledger.terms().generation >= terms.generation {
                    ledger.apply_published_spend(&terms, now);
                    return false;
                }
                ledger.set_config(Arc::clone(&terms));
                ledger.apply_published_spend(&terms, now);
            }
            // Another Budget of the same name gets an empty ledger.
            _ => {
                let mut ledger = BudgetLedger::new(Arc::clone(&terms));
                ledger.apply_published_spend(&terms, now);
                if self.watched_since.is_some() {
                    ledger.watched_since(now);
                }
                self.by_name.insert(name.clone(), ledger);
            }
        }
        self.rebuild(&name, now);
        true
    }

    /// Removes the ledger of the Budget `name`.
    pub fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Records that the AdmissionCheck `check` refers to the Budget `budget`, or to none.
    pub fn refer(&mut self, check: &str, budget: Option<&str>, now: Timestamp) {
        let before = match budget {
            Some(budget) => self.checks.insert(check.to_owned(), budget.to_owned()),
            None => self.checks.remove(check),
        };
        if before.as_deref() == budget {
            return;
        }
        for name in before.iter().map(String::as_str).chain(budget) {
            self.rebuild(name, now);
        }
        // This ledger has not observed runs of the check that have ended.
        let watched = self.watched_since.is_some();
        if let Some(ledger) = budget.and_then(|budget| self.by_name.get_mut(budget))
            && watched
        {
            ledger.watched_since(now);
        }
    }

    /// Returns true if a variant holds quota.
    pub fn has_variants(&self) -> bool {
        self.families.values().any(is_variant)
    }

    /// Records whether Kueue makes variants in the ClusterQueue `queue` and starts one of them.
    /// Returns true if that changed.
    pub fn set_concurrent(&mut self, queue: &str, concurrent: bool, now: Timestamp) -> bool {
        let changed = if concurrent {
            self.concurrent.insert(queue.to_owned())
        } else {
            self.concurrent.remove(queue)
        };
        if changed {
            let names: Vec<String> = self.by_name.keys().cloned().collect();
            for name in &names {
                self.rebuild(name, now);
            }
        }
        changed
    }

    /// Reconciles all Workloads with one ledger.
    fn rebuild(&mut self, name: &str, now: Timestamp) {
        let checks: Vec<String> = self.checks_of(name).map(str::to_owned).collect();
        let Some(ledger) = self.by_name.get_mut(name) else {
            return;
        };
        for (uid, workload) in &self.live {
            let family = accepted_job(&self.concurrent, workload, self.families.get(uid));
            read(ledger, &checks, workload, family, now);
        }
    }

    /// Applies an event of the runtime.
    pub fn observe_workload(&mut self, seen: WorkloadEvent<'_>, now: Timestamp) {
        match seen {
            WorkloadEvent::ListStarted => self.listing = Some(BTreeSet::new()),
            WorkloadEvent::Applied(workload, family) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(workload.uid().clone());
                }
                self.apply(workload, family, now);
            }
            WorkloadEvent::Removed(workload) => self.handle_removed(workload, now),
            WorkloadEvent::ListCompleted {
                continuous: unbroken,
            } => {
                let listed = self.listing.take().unwrap_or_default();
                let vanished: Vec<Workload> = self
                    .live
                    .values()
                    .filter(|workload| !listed.contains(workload.uid()))
                    .cloned()
                    .collect();
                for workload in &vanished {
                    self.handle_removed(workload, now);
                }
                if !unbroken || self.watched_since.is_none() {
                    self.watched_since = Some(now);
                    for ledger in self.by_name.values_mut() {
                        ledger.watched_since(now);
                    }
                }
            }
            _ => {}
        }
    }

    fn apply(&mut self, workload: &Workload, family: &Family, now: Timestamp) {
        let family = family.may_have_several_workloads().then_some(family);
        let holds = may_spend(workload, family);
        let is_accepted = accepted_job(&self.concurrent, workload, family);
        if holds && workload.checks().is_empty() && !self.live.contains_key(workload.uid()) {
            return;
        }
        let uid = workload.uid();
        self.suspended.remove(uid);
        for (name, ledger) in &mut self.by_name {
            let checks: Vec<&str> = self
                .checks
                .iter()
                .filter(|(_, budget)| *budget == name)
                .map(|(check, _)| check.as_str())
                .collect();
            read(ledger, &checks, workload, is_accepted, now);
        }
        if holds {
            match family {
                Some(family) => self.families.insert(uid.clone(), family.clone()),
                None => self.families.remove(uid),
            };
            self.live.insert(uid.clone(), workload.clone());
        } else {
            self.live.remove(uid);
            self.families.remove(uid);
            self.suspend(workload, now);
        }
    }

    fn handle_removed(&mut self, workload: &Workload, now: Timestamp) {
        let uid = workload.uid();
        self.live.remove(uid);
        self.families.remove(uid);
        let conditions = workload.conditions();
        // Kueue does not start it any more. The pods of a replaced Workload are committed by its
        // growth.
        let is_over = conditions.evicted().is_true() || conditions.finished().is_true();
        for ledger in self.by_name.values_mut() {
            if is_over {
                ledger.stop(uid, now.as_second());
            } else {
                ledger.quota_lost(uid, now.as_second());
            }
        }
        self.suspend(workload, now);
    }

    /// Keeps `workload` for the runtime's cleanup, if a ledger has an approval of it.
    fn suspend(&mut self, workload: &Workload, now: Timestamp) {
        let uid = workload.uid();
        if self.is_suspended(uid) {
            self.suspended.insert(uid.clone(), (workload.clone(), now));
        } else {
            self.suspended.remove(uid);
        }
    }

    fn is_suspended(&self, uid: &Uid) -> bool {
        let mut ledgers = self.by_name.values();
        ledgers.any(|ledger| ledger.is_suspended(uid))
    }

    /// Returns held Workloads to evaluate again, because they may release their quota. `waits`
    /// returns true if another Workload waits for quota of a ClusterQueue.
    pub fn due_to_yield(&mut self, now: Timestamp, waits: impl Fn(&str) -> bool) -> Vec<Uid> {
        let live = &self.live;
        let queue_of = |uid: &Uid| {
            let queue = live.get(uid)?.cluster_queue()?;
            waits(queue).then(|| queue.to_owned())
        };
        let ledgers = self.by_name.values_mut();
        ledgers
            .flat_map(|ledger| ledger.due_to_yield(now, queue_of))
            .collect()
    }

    /// Records that the runtime has found `reservation` over and has withdrawn its stale verdict.
    pub fn released(&mut self, reservation: &Reservation) {
        self.suspended.remove(reservation.uid());
        for ledger in self.by_name.values_mut() {
            ledger.released(reservation.uid(), reservation.since().as_second());
        }
    }

    /// Returns the reservations of approved Workloads that lost their quota, for the runtime's
    /// cleanup.
    pub fn suspended(&self) -> Vec<Reservation> {
        let mut all = Vec::new();
        for (workload, _) in self.suspended.values() {
            for (name, ledger) in &self.by_name {
                let suspended = ledger.suspended().find(|(uid, _)| *uid == workload.uid());
                let Some((uid, since)) = suspended else {
                    continue;
                };
                let since = Timestamp::from_second(since).unwrap_or_default();
                all.extend(self.checks_of(name).map(|check| {
                    Reservation::new(
                        workload.namespace(),
                        workload.name(),
                        uid.clone(),
                        check,
                        since,
                    )
                }));
            }
        }
        all
    }

    /// Removes suspended Workloads of which no ledger has an approval any more: their Budget was
    /// deleted.
    pub fn drop_orphaned(&mut self) {
        let mut suspended = std::mem::take(&mut self.suspended);
        suspended.retain(|uid, _| self.is_suspended(uid));
        self.suspended = suspended;
    }

    /// Removes suspended Workloads that another replica has settled long ago.
    pub fn expire_suspended(&mut self, now: Timestamp) {
        let old =
            |(_, at): &(Workload, Timestamp)| now.as_second() - at.as_second() > SUSPENDED_FOR;
        let removed: Vec<Uid> = self
            .suspended
            .iter()
            .filter(|(_, entry)| old(entry))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in removed {
            self.suspended.remove(&uid);
            for ledger in self.by_name.values_mut() {
                ledger.drop_suspended(&uid);
            }
        }
    }
}

fn is_variant(family: &Family) -> bool {
    matches!(family.role(), FamilyRole::Variant { .. })
}

/// Returns `family` as far as it is trusted.
///
/// Users write the annotations and owners that make variants, so only the policy of the
/// ClusterQueue ensures that one of several variants starts. Kueue finishes a replaced slice
/// independent of the author of the annotation.
fn accepted_job<'a>(
    concurrent: &BTreeSet<String>,
    workload: &Workload,
    family: Option<&'a Family>,
) -> Option<&'a Family> {
    let queue = workload.cluster_queue().unwrap_or_default();
    family.filter(|family| !is_variant(family) || concurrent.contains(queue))
}

fn is_approved(workload: &Workload) -> bool {
    let conditions = workload.conditions();
    let over = conditions.finished().is_true() || conditions.evicted().is_true();
    !over
        && workload
            .checks()
            .iter()
            .any(|entry| *entry.state() == CheckState::Ready)
}

/// Reconciles `workload` with one ledger.
fn read(
    ledger: &mut BudgetLedger,
    checks: &[impl AsRef<str>],
    workload: &Workload,
    family: Option<&Family>,
    now: Timestamp,
) {
    let (uid, conditions) = (workload.uid(), workload.conditions());
    // The API truncates fractions of a second.
    let second = |at: Option<Timestamp>| at.map_or(now, |at| at.min(now)).as_second() + 1;
    if conditions.finished().is_true() && !may_spend(workload, family) {
        // A Workload that a growth replaced was finished then, but its pods ran until now.
        let at = match family {
            Some(_) => now.as_second() + 1,
            None => second(conditions.finished().last_transition_time()),
        };
        // Kubernetes 1.31 and later finish a Job when its last pod has terminated; for other kinds
        // that is unknown.
        let is_job = |owner: &Owner| owner.kind() == "Job" && owner.api_version() == "batch/v1";
        if workload.owner().is_some_and(is_job) && !ledger.is_stopped_with_its_growth(uid) {
            ledger.finished(uid, at);
        } else {
            ledger.stop(uid, at);
        }
        return;
    }
    if !workload.holds_quota() {
        // Kueue releases the quota when no pod is active, later than `Evicted`. Terminating pods
        // are not active (Kueue 0.19.2, `job_controller.go`).
        let at = second(conditions.quota_reserved().last_transition_time());
        if is_approved(workload) {
            ledger.quota_lost(uid, at);
        } else {
            ledger.stop(uid, at);
        }
        return;
    }
    let checks = checks.iter().map(AsRef::as_ref);
    match run_of(workload, family, ledger.terms(), checks) {
        Some(run) => ledger.observe_run(&run, now),
        None => ledger.finished(uid, now.as_second()),
    }
}
