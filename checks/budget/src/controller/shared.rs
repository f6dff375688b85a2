//! State that evaluations and background work share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::api::{Uid, Workload};
use kueue_check::{CheckError, Clock};
use tokio::sync::{Notify, broadcast, watch};

use super::{Feature, SourceFactory};
use crate::config::BudgetConfig;
use crate::ledger::{BudgetLedger, Decision, Ledgers, Listed, SpendUpdate};
use crate::resource::{Budget, NamespaceBudgetSpec};
use crate::source::{SourceError, SourceWarning};

/// The time that an activation waits for the source's first response. A source that is down proves
/// nothing about the Budget.
const FIRST_REPORT: Duration = Duration::from_secs(10);

pub(super) struct SharedState {
    /// The enabled features.
    pub(super) features: Vec<Feature>,
    ledgers: Mutex<Ledgers>,
    pub(super) make: Box<SourceFactory>,
    clock: OnceLock<Clock>,
    /// The last result of each Budget's source.
    source_results: Mutex<BTreeMap<String, SourceResult>>,
    result_count: watch::Sender<u64>,
    poll_requested: Notify,
    changed: watch::Sender<()>,
    triggers: broadcast::Sender<Uid>,
    /// Queries to sources, by Budget and result.
    source_queries: Mutex<BTreeMap<(String, &'static str), u64>>,
    decisions: Mutex<BTreeMap<(String, &'static str), u64>>,
    pub(super) status_writes: AtomicU64,
    /// The number of Workloads that wait for quota, by ClusterQueue.
    pending: Mutex<BTreeMap<String, u64>>,
    /// Whether the list of Budgets has been read.
    budgets_known: AtomicBool,
    /// The uids of deleted Budgets: their last configuration is used only for evaluations in
    /// flight.
    gone: Mutex<BTreeSet<String>>,
    own: Mutex<Listed<OwnLimits>>,
    namespaces: Mutex<Listed<Labels>>,
    /// The time since which this replica leads.
    leads_since: Mutex<Option<Timestamp>>,
    /// The number of names in responses of sources that no namespace can have, by Budget.
    invalid_names: Mutex<BTreeMap<String, u64>>,
}

/// NamespaceBudgets, by namespace and name.
pub(super) type OwnLimits = BTreeMap<(String, String), LimitOverrideObject>;

/// The generation and the spec of a NamespaceBudget.
#[derive(Clone, Debug)]
pub(super) struct LimitOverrideObject {
    pub(super) generation: i64,
    pub(super) spec: NamespaceBudgetSpec,
}

/// The labels of namespaces.
type Labels = BTreeMap<String, BTreeMap<String, String>>;

/// The result of a query to a source.
#[derive(Clone, Debug)]
pub(super) struct SourceResult {
    /// The generation of the Budget for which it was queried.
    pub(super) generation: i64,
    pub(super) result: Result<Vec<SourceWarning>, SourceError>,
    /// The anomalies of the figures.
    pub(super) taken: SpendUpdate,
    pub(super) number: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedState {
    pub(super) fn new(make: Box<SourceFactory>) -> Self {
        Self {
            features: Vec::new(),
            ledgers: Mutex::default(),
            make,
            clock: OnceLock::new(),
            source_results: Mutex::default(),
            result_count: watch::Sender::new(0),
            poll_requested: Notify::new(),
            changed: watch::Sender::new(()),
            triggers: broadcast::channel(4096).0,
            source_queries: Mutex::default(),
            decisions: Mutex::default(),
            status_writes: AtomicU64::new(0),
            pending: Mutex::default(),
            budgets_known: AtomicBool::new(false),
            gone: Mutex::default(),
            own: Mutex::default(),
            namespaces: Mutex::default(),
            leads_since: Mutex::default(),
            invalid_names: Mutex::default(),
        }
    }

    pub(super) fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    pub(super) fn ledgers(&self) -> MutexGuard<'_, Ledgers> {
        lock(&self.ledgers)
    }

    /// Sets the runtime's clock, once it exists.
    pub(super) fn set_clock(&self, clock: &Clock) {
        let _ = self.clock.set(clock.clone());
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock
            .get()
            .map_or_else(|| Clock::system().now(), Clock::now)
    }

    /// Records that the AdmissionCheck `check` refers to the Budget of `terms`.
    pub(super) fn refer(&self, check: &str, terms: BudgetConfig) {
        let (now, name) = (self.now(), terms.budget.to_string());
        let mut ledgers = self.ledgers();
        let adopted = ledgers.adopt(Arc::new(terms), now);
        ledgers.refer(check, Some(&name), now);
        drop(ledgers);
        if adopted {
            self.populate_ledgers();
        }
        self.poll_requested.notify_one();
        self.changed();
    }

    /// Copies what is known of namespaces to all ledgers, because a new ledger has nothing.
    pub(super) fn populate_ledgers(&self) {
        self.apply_own_limits();
        let namespaces = lock(&self.namespaces);
        for (_, ledger) in self.ledgers().all_mut() {
            match &*namespaces {
                Listed::Known(known) => ledger.set_namespaces(known.clone()),
                Listed::Unknown(Some(problem)) => ledger.namespaces_failed(problem),
                Listed::Unknown(None) => {}
            }
        }
    }

    pub(super) fn set_namespaces(&self, known: &Labels) {
        *lock(&self.namespaces) = Listed::Known(known.clone());
        self.populate_ledgers();
    }

    pub(super) fn namespaces_failed(&self, problem: &str) {
        lock(&self.namespaces).fail(problem);
        self.populate_ledgers();
    }

    /// Records since when this replica leads; `None` if it does not lead.
    pub(super) fn set_leads_since(&self, since: Option<Timestamp>) {
        *lock(&self.leads_since) = since;
    }

    /// Returns the time since which this replica leads; `None` if it does not.
    pub(super) fn leads_since(&self) -> Option<Timestamp> {
        *lock(&self.leads_since)
    }

    pub(super) fn budgets_listed(&self) {
        self.budgets_known.store(true, Ordering::Relaxed);
    }

    /// Returns true if the list of Budgets has been read: a Budget that is not in it does not
    /// exist.
    pub(super) fn has_listed_budgets(&self) -> bool {
        self.budgets_known.load(Ordering::Relaxed)
    }

    /// Records that the Budget `name` was deleted.
    pub(super) fn budget_deleted(&self, name: &str) {
        let mut ledgers = self.ledgers();
        if let Some(ledger) = ledgers.ledger(name) {
            lock(&self.gone).insert(ledger.terms().uid.clone());
        }
        ledgers.remove(name);
    }

    /// Returns true if the Budget with this uid was deleted.
    pub(super) fn is_deleted(&self, uid: &str) -> bool {
        lock(&self.gone).contains(uid)
    }

    pub(super) fn own_limits(&self) -> OwnLimits {
        lock(&self.own).known().cloned().unwrap_or_default()
    }

    pub(super) fn listed_own_limits(&self) -> Listed<OwnLimits> {
        lock(&self.own).clone()
    }

    pub(super) fn keep_own_limits(&self, own: OwnLimits) {
        *lock(&self.own) = Listed::Known(own);
    }

    pub(super) fn own_limits_cannot_be_listed(&self, problem: &str) {
        lock(&self.own).fail(problem);
    }

    /// Records the Budget of an evaluation, which is almost always recorded already.
    pub(super) fn register_budget(&self, check: &str, budget: &Budget) -> Result<(), CheckError> {
        let name = budget.metadata.name.as_deref().unwrap_or_default();
        let generation = budget.metadata.generation.unwrap_or_default();
        let uid = budget.metadata.uid.as_deref().unwrap_or_default();
        let known = {
            let ledgers = self.ledgers();
            let of_ledger = ledgers.ledger(name).is_some_and(|ledger| {
                ledger.terms().uid == uid && ledger.terms().generation >= generation
            });
            of_ledger && ledgers.budget_of(check) == Some(name)
        };
        if !known {
            self.refer(
                check,
                BudgetConfig::of(budget).map_err(CheckError::parameters)?,
            );
        }
        Ok(())
    }

    /// Signals a change in the ledgers.
    pub(super) fn changed(&self) {
        self.changed.send_replace(());
    }

    /// Subscribes to changes in the ledgers.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) async fn wait_for_poll_request(&self) {
        self.poll_requested.notified().await;
    }

    pub(super) fn request_poll(&self) {
        self.poll_requested.notify_one();
    }

    pub(super) fn triggers(&self) -> broadcast::Receiver<Uid> {
        self.triggers.subscribe()
    }

    pub(super) fn trigger(&self, uid: &Uid) {
        // There is no receiver while nothing waits for a trigger.
        let _ = self.triggers.send(uid.clone());
    }

    /// Returns the first result of the source of `budget` for this generation; `None` if it takes
    /// longer than an activation can wait.
    pub(super) async fn first_report(
        &self,
        budget: &str,
        generation: i64,
    ) -> Option<Result<Vec<SourceWarning>, SourceError>> {
        let known = self
            .source_result(budget)
            .filter(|last_result| last_result.generation == generation);
        if let Some(SourceResult {
            result: Ok(notes), ..
        }) = known
        {
            return Some(Ok(notes));
        }
        let before = known.map_or(0, |last_result| last_result.number);
        let mut result_count = self.result_count.subscribe();
        self.clear_pause(budget);
        self.request_poll();
        let waited = tokio::time::timeout(FIRST_REPORT, async {
            loop {
                let last_result = self.source_result(budget).filter(|last_result| {
                    last_result.generation == generation && last_result.number > before
                });
                if let Some(last_result) = last_result {
                    return last_result.result;
                }
                if result_count.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        });
        waited.await.ok()
    }

    fn clear_pause(&self, budget: &str) {
        lock(&self.source_results)
            .entry(budget.to_owned())
            .and_modify(|last_result| last_result.generation = -1);
    }

    pub(super) fn source_result(&self, budget: &str) -> Option<SourceResult> {
        lock(&self.source_results).get(budget).cloned()
    }

    /// Records the result of a query.
    pub(super) fn record_source_result(
        &self,
        budget: &str,
        generation: i64,
        result: Result<Vec<SourceWarning>, SourceError>,
        taken: SpendUpdate,
    ) {
        let word = match &result {
            Ok(_) => "ok",
            Err(error) => error.label(),
        };
        *lock(&self.source_queries)
            .entry((budget.to_owned(), word))
            .or_default() += 1;
        let mut source_results = lock(&self.source_results);
        let number = source_results
            .get(budget)
            .map_or(0, |last_result| last_result.number)
            + 1;
        source_results.insert(
            budget.to_owned(),
            SourceResult {
                generation,
                result,
                taken,
                number,
            },
        );
        drop(source_results);
        self.result_count.send_modify(|count| *count += 1);
    }

    pub(super) fn count(&self, budget: &str, decision: &Decision) {
        let word = match decision {
            Decision::Unchanged => return,
            Decision::NotGoverned => "not_governed",
            Decision::Admit(_) => "admitted",
            Decision::Hold(reason) | Decision::Reject(reason) => reason.label(),
            Decision::Stop(_) => "stopped",
        };
        *lock(&self.decisions)
            .entry((budget.to_owned(), word))
            .or_default() += 1;
    }

    /// Counts names in the response of the source of `budget` that no namespace can have.
    pub(super) fn count_invalid_names(&self, budget: &str, names: u64) {
        *lock(&self.invalid_names)
            .entry(budget.to_owned())
            .or_default() += names;
    }

    pub(super) fn invalid_names(&self) -> BTreeMap<String, u64> {
        lock(&self.invalid_names).clone()
    }

    pub(super) fn source_requests(&self) -> BTreeMap<(String, &'static str), u64> {
        lock(&self.source_queries).clone()
    }

    pub(super) fn decisions(&self) -> BTreeMap<(String, &'static str), u64> {
        lock(&self.decisions).clone()
    }

    pub(super) fn status_written(&self) {
        self.status_writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_pending(&self, queue: &str, pending: Option<u64>) {
        match pending {
            Some(pending) => lock(&self.pending).insert(queue.to_owned(), pending),
            None => lock(&self.pending).remove(queue),
        };
    }

    /// Returns true if the held `workload` releases its quota now: another Workload waits for it,
    /// and none has released any recently.
    pub(super) fn may_yield(
        &self,
        ledger: &mut BudgetLedger,
        workload: &Workload,
        attempt: u32,
        now: Timestamp,
    ) -> bool {
        let Some(queue) = workload.cluster_queue() else {
            return false;
        };
        self.waits_for_quota(queue) && ledger.try_yield(workload.uid(), queue, attempt, now)
    }

    /// Returns true if a Workload waits for quota of the ClusterQueue `queue`.
    pub(super) fn waits_for_quota(&self, queue: &str) -> bool {
        lock(&self.pending)
            .get(queue)
            .is_some_and(|pending| *pending > 0)
    }
}
