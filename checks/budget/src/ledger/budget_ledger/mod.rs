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

/// Everything that one Budget's decisions rest on. No clock, no client: every method receives the
/// time.
#[derive(Clone, Debug)]
pub struct BudgetLedger {
    pub(super) terms: Arc<BudgetConfig>,
    pub(super) live: BTreeMap<Uid, ActiveRun>,
    /// Runs that have ended and of which the source does not know everything yet.
    pub(super) ended: Vec<Commitment>,
    pub(super) held: BTreeMap<Uid, PendingRun>,
    pub(super) spend: Spend,
    /// Since when every run has been seen.
    pub(super) watched_since: Option<i64>,
    /// The namespaces' own limits. Only `namespaceLimits` need them.
    pub(super) own: Listed<BTreeMap<String, LimitOverride>>,
    /// The labels of namespaces. Pools and exemptions with a selector need them.
    pub(super) namespaces: Listed<BTreeMap<String, BTreeMap<String, String>>>,
    /// Why the source gives no answer.
    pub(super) problem: Option<String>,
    /// When a held run last released quota of a ClusterQueue.
    pub(super) last_yield: BTreeMap<String, i64>,
    /// When held runs of a ClusterQueue were last asked whether they do.
    pub(super) asked_to_yield: BTreeMap<String, i64>,
    /// Since when more has been spent than the limit, by account.
    pub(super) over_since: BTreeMap<Account, i64>,
    /// How often a run had our word that we did not give.
    pub(super) unapproved_starts: u64,
    /// The names of namespaces, which many runs share.
    pub(super) names: BTreeSet<Arc<str>>,
    /// Runs that have our word, shown or not, and cost more since, and are not admitted.
    pub(super) grown: BTreeMap<Uid, Run>,
    /// Resources and flavors that are used and have no price, since the terms are what they are.
    pub(super) unpriced: BTreeSet<(String, String)>,
}

/// A run that holds quota, or has our word and lost it.
#[derive(Clone, Debug)]
pub(super) struct ActiveRun {
    pub(super) since: i64,
    pub(super) priority: i32,
    pub(super) claim: Commitment,
    pub(super) approval: Approval,
    /// Whether it runs, and can be stopped.
    pub(super) running: bool,
    pub(super) class: Option<Arc<PriorityClass>>,
    /// The pods that a growth adds to, if it claims them because their own Workload was deleted:
    /// all that it has.
    pub(super) base: Option<Box<Commitment>>,
}

/// Whether Kueue may start a run without another evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Approval {
    /// It has to ask.
    None,
    /// We have just said so, and the cluster does not show it yet: a lien.
    Unconfirmed,
    /// The cluster shows it.
    Confirmed,
    /// It lost its quota without an eviction, and Kueue would start it with the word that it had.
    Suspended,
}

impl BudgetLedger {
    /// An empty book.
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
            problem: None,
            last_yield: BTreeMap::new(),
            asked_to_yield: BTreeMap::new(),
            over_since: BTreeMap::new(),
            unapproved_starts: 0,
            names: BTreeSet::new(),
            grown: BTreeMap::new(),
            unpriced: BTreeSet::new(),
        }
    }

    /// The Budget's terms.
    pub fn terms(&self) -> &Arc<BudgetConfig> {
        &self.terms
    }

    /// Other terms. What was measured by others is forgotten; runs have to be
    /// [seen](Self::observe_run) again, because their prices may differ.
    pub fn set_config(&mut self, terms: Arc<BudgetConfig>) {
        if !self.terms.measures_like(&terms) {
            self.spend = Spend::default();
        }
        self.unpriced.clear();
        self.terms = terms;
    }

    /// The limits that all namespaces have of their own.
    pub fn set_own_limits(&mut self, own: BTreeMap<String, LimitOverride>) {
        self.own = Listed::Known(own);
    }

    /// NamespaceBudgets cannot be listed; `problem` says why and what to do.
    pub fn own_limits_failed(&mut self, problem: &str) {
        self.own.fail(problem);
    }

    /// The labels of all namespaces.
    pub fn set_namespaces(&mut self, namespaces: BTreeMap<String, BTreeMap<String, String>>) {
        self.namespaces = Listed::Known(namespaces);
    }

    /// Namespaces cannot be listed; `problem` says why and what to do.
    pub fn namespaces_failed(&mut self, problem: &str) {
        self.namespaces.fail(problem);
    }

    /// Every run since `at` has been seen, or will be: what ended earlier is known to the source
    /// once its watermark has passed `at`.
    pub fn watched_since(&mut self, at: Timestamp) {
        self.watched_since = Some(at.as_second());
    }

    /// This replica begins to lead. What another one approved before is not unsanctioned.
    pub fn begin_leading(&mut self) {
        self.unapproved_starts = 0;
    }

    /// How often a run had our word that we did not give.
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

    /// What it claims.
    pub(super) fn claims(&self) -> impl Iterator<Item = &Commitment> {
        let claim = (self.approval != Approval::None).then_some(&self.claim);
        claim.into_iter().chain(self.base.as_deref())
    }
}
