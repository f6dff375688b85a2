//! The ledger of one Budget: active, pending and suspended runs.

mod accounts;
mod exempt;
mod follow;
mod listed;
mod overspent;
mod pending;
mod spend_data;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::Uid;

use super::{Commitment, CommitmentState, Run, RunState, RunningPods, Spend};
use crate::config::{Account, BudgetConfig, LimitOverride, PriorityClass};

pub(crate) use accounts::AccountIndex;
pub(crate) use listed::Listed;
#[cfg(test)]
pub(crate) use pending::AllocationPass;
pub(super) use pending::{LastMessage, PendingRun};

/// The ledger of one Budget, without a clock or a client: every method receives the time.
#[derive(Clone, Debug)]
pub struct BudgetLedger {
    pub(super) terms: Arc<BudgetConfig>,
    pub(super) live: BTreeMap<Uid, ActiveRun>,
    /// Commitments of ended runs that the source has not reported completely yet.
    pub(super) ended: Vec<Commitment>,
    pub(super) held: BTreeMap<Uid, PendingRun>,
    pub(super) spend: Spend,
    /// The time since which every run has been observed.
    pub(super) watched_since: Option<i64>,
    /// The limit overrides of namespaces. Only `namespaceLimits` require them.
    pub(super) own: Listed<BTreeMap<String, LimitOverride>>,
    /// The labels of namespaces. Pools and exemptions with a selector require them.
    pub(super) namespaces: Listed<BTreeMap<String, BTreeMap<String, String>>>,
    /// The last labels of deleted namespaces whose spend or commitments still count in their pools.
    pub(super) vanished: BTreeMap<String, BTreeMap<String, String>>,
    /// Why the source returns no usable response.
    pub(super) problem: Option<String>,
    /// When a held run last released quota, by ClusterQueue.
    pub(super) last_yield: BTreeMap<String, i64>,
    /// When held runs were last evaluated for a release of quota, by ClusterQueue.
    pub(super) yield_evaluations: BTreeMap<String, i64>,
    /// The time since which an account has exceeded its limit.
    pub(super) over_since: BTreeMap<Account, i64>,
    /// The number of runs that were approved without an approval of this ledger.
    pub(super) unapproved_starts: u64,
    /// The names of namespaces, which many runs share.
    pub(super) names: BTreeSet<Arc<str>>,
    /// Approved runs, confirmed or not, that are not admitted and now cost more.
    pub(super) grown: BTreeMap<Uid, Run>,
    /// Used resources and flavors without a price, since the last change of the configuration.
    pub(super) unpriced: BTreeSet<(String, String)>,
}

/// A run that holds quota, or was approved and lost it.
#[derive(Clone, Debug)]
pub(super) struct ActiveRun {
    pub(super) since: i64,
    pub(super) priority: i32,
    pub(super) claim: Commitment,
    pub(super) approval: Approval,
    /// Whether it runs and can be evicted.
    pub(super) running: bool,
    pub(super) class: Option<Arc<PriorityClass>>,
    /// The commitment for the running pods to which a growth adds, if their own Workload was
    /// deleted: that of the whole growth.
    pub(super) base: Option<Box<Commitment>>,
}

/// Whether Kueue may start a run without another evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Approval {
    /// It requires an evaluation.
    None,
    /// The ledger has just approved it, and the cluster does not show it yet.
    Unconfirmed,
    /// The cluster shows it.
    Confirmed,
    /// It lost its quota without an eviction, and Kueue would start it with its existing verdict.
    Suspended,
}

impl BudgetLedger {
    /// Creates an empty ledger.
    pub fn new(terms: Arc<BudgetConfig>) -> Self {
        Self {
            terms,
            live: BTreeMap::new(),
            ended: Vec::new(),
            held: BTreeMap::new(),
            spend: Spend::default(),
            watched_since: None,
            own: Listed::default(),
            namespaces: Listed::default(),
            vanished: BTreeMap::new(),
            problem: None,
            last_yield: BTreeMap::new(),
            yield_evaluations: BTreeMap::new(),
            over_since: BTreeMap::new(),
            unapproved_starts: 0,
            names: BTreeSet::new(),
            grown: BTreeMap::new(),
            unpriced: BTreeSet::new(),
        }
    }

    /// Returns the configuration of the Budget.
    pub fn terms(&self) -> &Arc<BudgetConfig> {
        &self.terms
    }

    /// Replaces the configuration. Spend data of another source, unit or period is dropped. Runs
    /// have to be [observed](Self::observe_run) again, because their prices may differ.
    pub fn set_config(&mut self, terms: Arc<BudgetConfig>) {
        if !self.terms.measures_like(&terms) {
            // Runs that ended before that time are in the dropped data only.
            let known = self.spend.watermarks().common;
            self.watched_since = self
                .watched_since
                .map(|since| known.map_or(since, |known| since.max(known)));
            self.spend = Spend::default();
        }
        self.unpriced.clear();
        self.terms = terms;
    }

    /// Sets the limit overrides of all namespaces.
    pub fn set_own_limits(&mut self, own: BTreeMap<String, LimitOverride>) {
        self.own = Listed::Known(own);
    }

    /// Records that NamespaceBudgets cannot be listed; `problem` states why and what to do.
    pub fn own_limits_failed(&mut self, problem: &str) {
        self.own.fail(problem);
    }

    /// Sets the labels of all namespaces. A namespace that is no longer there stays in its pools as
    /// long as it has spend in the period or a commitment.
    pub fn set_namespaces(&mut self, namespaces: BTreeMap<String, BTreeMap<String, String>>) {
        if let Listed::Known(before) = std::mem::take(&mut self.namespaces) {
            self.vanished.extend(before);
        }
        self.vanished
            .retain(|name, _| !namespaces.contains_key(name));
        self.namespaces = Listed::Known(namespaces);
    }

    /// Records that Namespaces cannot be listed; `problem` states why and what to do.
    pub fn namespaces_failed(&mut self, problem: &str) {
        self.namespaces.fail(problem);
    }

    /// Records that every run since `at` has been observed, or will be. Runs that ended earlier are
    /// in the source's figures once its watermark has passed `at`.
    pub fn watched_since(&mut self, at: Timestamp) {
        self.watched_since = Some(at.as_second());
    }

    /// Records that this replica begins to lead. Approvals of an earlier leader are not unapproved
    /// starts.
    pub fn begin_leading(&mut self) {
        self.unapproved_starts = 0;
    }

    /// Returns the number of runs that were approved without an approval of this ledger.
    pub fn unapproved_starts(&self) -> u64 {
        self.unapproved_starts
    }
}

impl ActiveRun {
    pub(super) fn of(run: &Run, approval: Approval, now: i64) -> Self {
        let (state, running) = match run.state {
            RunState::Running(since) => (CommitmentState::Running(since), true),
            RunState::Approved(since) => (CommitmentState::Approved(since), false),
            RunState::Evaluated => (CommitmentState::Approved(now), false),
        };
        let claim = Commitment {
            namespace: Arc::clone(&run.namespace),
            rate: run.estimate.rate,
            seconds: run.estimate.seconds,
            bounded: run.estimate.bounded,
            grace: run.estimate.grace,
            state,
            job: run.job.clone().map(Box::new),
        };
        let base = (run.grows == Some(RunningPods::Unknown)).then(|| {
            Box::new(Commitment {
                state: CommitmentState::Running(run.since),
                ..claim.clone()
            })
        });
        Self {
            since: run.since,
            priority: run.priority,
            claim,
            approval,
            running: running && !run.replaced,
            class: run.class.clone(),
            base,
        }
    }

    /// Returns its commitments.
    pub(super) fn claims(&self) -> impl Iterator<Item = &Commitment> {
        let claim = (self.approval != Approval::None).then_some(&self.claim);
        claim.into_iter().chain(self.base.as_deref())
    }
}
