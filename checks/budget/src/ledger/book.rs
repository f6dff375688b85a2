//! One Budget's book: who runs, who may, who waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kueue_check::api::Uid;

use super::{
    Balance, Claim, Committed, Observation, Reason, Run, RunState, Spend, State, Taken, committed,
};
use crate::money::Amount;
use crate::period::Period;
use crate::terms::{Account, OwnLimit, Terms};

/// Everything that one Budget's decisions rest on. No clock, no client: every method is told the time.
#[derive(Clone, Debug)]
pub struct Book {
    pub(super) terms: Arc<Terms>,
    pub(super) live: BTreeMap<Uid, Live>,
    /// Runs that have ended and of which the source does not know everything yet.
    pub(super) ended: Vec<Claim>,
    pub(super) held: BTreeMap<Uid, Held>,
    pub(super) spend: Spend,
    /// Since when every run has been seen.
    pub(super) watched_since: Option<i64>,
    /// The namespaces' own limits.
    pub(super) own: BTreeMap<String, OwnLimit>,
    /// The labels of namespaces; `None` until they are known. Only pools need them.
    pub(super) namespaces: Option<BTreeMap<String, BTreeMap<String, String>>>,
    /// Why the source gives no answer.
    pub(super) problem: Option<String>,
    /// When somebody last gave quota of a ClusterQueue back.
    pub(super) last_yield: BTreeMap<String, i64>,
    /// Since when more has been spent than the limit, by account.
    pub(super) over_since: BTreeMap<Account, i64>,
    /// How often a run had our word that we did not give.
    pub(super) unsanctioned: u64,
}

/// A run that holds quota, or has our word and lost it.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) since: i64,
    pub(super) priority: i32,
    pub(super) claim: Claim,
    pub(super) approval: Approval,
    pub(super) running: bool,
    pub(super) exempt: bool,
}

/// Whether Kueue may start a run without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Approval {
    /// It has to ask.
    None,
    /// We have just said so, and the cluster does not show it yet: a lien.
    Given,
    /// The cluster shows it.
    Shown,
    /// It lost its quota without an eviction, and Kueue would start it with the word that it had.
    Parked,
}

/// A run that waits for money.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) run: Run,
    /// What it was last told.
    pub(super) said: Option<Said>,
}

/// What a held run was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) code: u8,
    pub(super) remaining: Amount,
    pub(super) at: i64,
}

/// Who is to be asked about again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Those that have just been given money.
    pub(crate) granted: Vec<Uid>,
    /// Those whose message is no longer true.
    pub(crate) retold: Vec<Uid>,
}

/// A message with numbers is told again only after this, and when they have moved by a tenth of the limit.
const RETELL: i64 = 600;

impl Book {
    /// An empty book.
    pub fn new(terms: Arc<Terms>) -> Self {
        Self {
            terms,
            live: BTreeMap::new(),
            ended: Vec::new(),
            held: BTreeMap::new(),
            spend: Spend::default(),
            watched_since: None,
            own: BTreeMap::new(),
            namespaces: None,
            problem: None,
            last_yield: BTreeMap::new(),
            over_since: BTreeMap::new(),
            unsanctioned: 0,
        }
    }

    /// The Budget's terms.
    pub fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    /// Other terms. What was measured by others is forgotten; runs have to be [seen](Self::see) again, because their prices may differ.
    pub fn change_terms(&mut self, terms: Arc<Terms>) {
        if !self.terms.measures_like(&terms) {
            self.spend = Spend::default();
        }
        self.terms = terms;
    }

    /// The limits that all namespaces have of their own.
    pub fn set_own_limits(&mut self, own: BTreeMap<String, OwnLimit>) {
        self.own = own;
    }

    /// The held runs of `namespace`.
    pub fn waiting(&self, namespace: &str) -> impl Iterator<Item = &Uid> {
        self.held
            .iter()
            .filter(move |(_, held)| *held.run.namespace == *namespace)
            .map(|(uid, _)| uid)
    }

    /// The limits that a namespace has of its own.
    pub fn set_own_limit(&mut self, namespace: &str, own: OwnLimit) {
        if own.budgets.is_empty() {
            self.own.remove(namespace);
        } else {
            self.own.insert(namespace.to_owned(), own);
        }
    }

    /// The labels of all namespaces.
    pub fn set_namespaces(&mut self, namespaces: BTreeMap<String, BTreeMap<String, String>>) {
        self.namespaces = Some(namespaces);
    }

    /// Every run since `at` has been seen, or will be: what ended earlier is known to the source once its watermark has passed `at`.
    pub fn watched_since(&mut self, at: Timestamp) {
        self.watched_since = Some(at.as_second());
    }

    /// A run as it is now. It is counted once, however often it is seen.
    pub fn see(&mut self, run: &Run, now: Timestamp) {
        let known = self.live.get(&run.uid);
        let lien =
            known.is_some_and(|live| live.approval == Approval::Given && live.since == run.since);
        if let Some(live) = known.filter(|live| live.since != run.since) {
            // The end of the earlier run was not seen; it was before this reservation.
            self.end(&run.uid, run.since.max(live.since).min(now.as_second()));
        }
        let approval = match run.state {
            RunState::Approved(_) | RunState::Running(_) => Approval::Shown,
            RunState::Asking if lien => Approval::Given,
            RunState::Asking => Approval::None,
        };
        let unasked = self
            .live
            .get(&run.uid)
            .is_some_and(|live| live.since == run.since && live.approval == Approval::None);
        if approval == Approval::Shown && unasked {
            self.unsanctioned += 1;
        }
        if approval != Approval::None {
            self.held.remove(&run.uid);
        }
        // When our word was given is known better here than from what is shown of it.
        let given = self
            .live
            .get(&run.uid)
            .and_then(|live| match live.claim.state {
                State::Open(given)
                    if live.since == run.since && live.approval != Approval::None =>
                {
                    Some(given)
                }
                _ => None,
            });
        let mut live = Live::of(run, approval, now.as_second());
        if let (State::Open(since), Some(given)) = (&mut live.claim.state, given) {
            *since = given.min(*since);
        }
        self.live.insert(run.uid.clone(), live);
    }

    /// A run is over: it finished, was evicted or deleted. `at` is when its last pod had stopped, at the latest.
    pub fn end(&mut self, uid: &Uid, at: i64) {
        self.held.remove(uid);
        let Some(live) = self.live.remove(uid) else {
            return;
        };
        self.settle(live.claim, at);
    }

    fn settle(&mut self, claim: Claim, at: i64) {
        if let State::Running(since) = claim.state {
            let known = self.spend.watermarks().of(&claim.namespace);
            if known.is_none_or(|known| known < at) {
                self.ended.push(Claim {
                    state: State::Ended(since, at.max(since)),
                    ..claim
                });
            }
        }
    }

    /// A run has lost its quota, or is gone: from here that looks the same. If it had our word it keeps it until [`released`](Self::released), because Kueue
    /// does (measured on 0.19.2).
    pub fn lose(&mut self, uid: &Uid, at: i64) {
        self.held.remove(uid);
        let Some(mut live) = self.live.remove(uid) else {
            return;
        };
        self.settle(live.claim.clone(), at);
        if live.approval != Approval::None {
            live.approval = Approval::Parked;
            live.running = false;
            live.claim.state = State::Open(at);
            self.live.insert(uid.clone(), live);
        }
    }

    /// Our word for the reservation that began at `since` is certainly worth nothing any more.
    pub fn released(&mut self, uid: &Uid, since: i64) {
        let Some(live) = self.live.get_mut(uid).filter(|live| live.since == since) else {
            return;
        };
        match live.approval {
            Approval::Parked => {
                self.live.remove(uid);
            }
            Approval::Given => live.approval = Approval::None,
            Approval::Shown | Approval::None => {}
        }
    }

    /// What lost its quota with our word and was not [released](Self::released): each run and when its reservation began.
    pub fn parked(&self) -> impl Iterator<Item = (&Uid, i64)> {
        self.live
            .iter()
            .filter(|(_, live)| live.approval == Approval::Parked)
            .map(|(uid, live)| (uid, live.since))
    }

    /// Forgets what is [parked](Self::parked).
    pub fn forget_parked(&mut self, uid: &Uid) {
        if self
            .live
            .get(uid)
            .is_some_and(|live| live.approval == Approval::Parked)
        {
            self.live.remove(uid);
        }
    }

    /// Takes in what the source has said.
    pub fn observe(&mut self, observation: &Observation, now: Timestamp) -> Taken {
        let taken = self.spend.take(observation, now);
        self.problem = None;
        self.forget_settled();
        let period = self.period(now);
        let over: Vec<Account> = self
            .known_accounts(now)
            .into_iter()
            .filter(|account| {
                period
                    .is_some_and(|period| self.balance(account, period, now).overspent().is_some())
            })
            .collect();
        self.over_since.retain(|account, _| over.contains(account));
        for account in over {
            self.over_since.entry(account).or_insert(now.as_second());
        }
        taken
    }

    /// The source gave no usable answer.
    pub fn failed(&mut self, problem: impl Into<String>) {
        self.problem = Some(problem.into());
    }

    /// Why the source gives no answer.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn forget_settled(&mut self) {
        let watermarks = self.spend.watermarks();
        self.ended.retain(|claim| match claim.state {
            State::Ended(_, end) => watermarks
                .of(&claim.namespace)
                .is_none_or(|known| known < end),
            _ => true,
        });
    }

    /// What is known of spending.
    pub fn spend(&self) -> &Spend {
        &self.spend
    }

    /// The current period; `None` outside a term.
    pub fn period(&self, now: Timestamp) -> Option<Period> {
        self.terms.schedule.at(now)
    }

    /// The accounts that pay for `namespace` at `now`: its own, and the pools that it is in. None if it is not governed.
    pub fn accounts(&self, namespace: &str, now: Timestamp) -> Vec<Account> {
        let own = self
            .limit_of_namespace(namespace, now)
            .map(|_| Account::Namespace(namespace.into()));
        let labels = self.namespaces.as_ref().and_then(|all| all.get(namespace));
        let none = BTreeMap::new();
        let pools = self
            .terms
            .pools
            .iter()
            .filter(|pool| pool.selector.selects(labels.unwrap_or(&none)));
        own.into_iter()
            .chain(pools.map(|pool| Account::Pool(Arc::clone(&pool.name))))
            .collect()
    }

    fn limit_of_namespace(&self, namespace: &str, now: Timestamp) -> Option<Amount> {
        self.terms
            .namespace_limit(namespace, self.own.get(namespace), now)
    }

    /// The limit of `account` at `now`.
    pub fn limit(&self, account: &Account, now: Timestamp) -> Amount {
        let limit = match account {
            Account::Namespace(namespace) => self.limit_of_namespace(namespace, now),
            Account::Pool(name) => self
                .terms
                .pools
                .iter()
                .find(|pool| pool.name == *name)
                .map(|pool| pool.limit),
        };
        limit.unwrap_or_default()
    }

    /// Whether `account` pays for `namespace`.
    pub(super) fn members(&self, account: &Account) -> Members<'_> {
        match account {
            Account::Namespace(namespace) => Members::One(Arc::clone(namespace)),
            Account::Pool(name) => {
                let pool = self.terms.pools.iter().find(|pool| pool.name == *name);
                let all = self.namespaces.iter().flatten();
                Members::Some(
                    all.filter(|(_, labels)| {
                        pool.is_some_and(|pool| pool.selector.selects(labels))
                    })
                    .map(|(name, _)| name.as_str())
                    .collect(),
                )
            }
        }
    }

    /// All claims that `account` pays for.
    fn claims<'a>(&'a self, members: &'a Members<'a>) -> impl Iterator<Item = &'a Claim> {
        let live = self
            .live
            .values()
            .filter(|live| live.approval != Approval::None)
            .map(|live| &live.claim);
        live.chain(&self.ended)
            .filter(move |claim| members.contain(&claim.namespace))
    }

    /// What is committed of `account` in `period`, and what of that is `without`'s left out.
    pub(super) fn committed(
        &self,
        members: &Members<'_>,
        period: Period,
        now: Timestamp,
    ) -> Committed {
        committed(
            self.claims(members),
            period,
            self.spend.watermarks(),
            now.as_second(),
            self.terms.overrun,
        )
    }

    /// Where `account` stands in `period`.
    pub fn balance(&self, account: &Account, period: Period, now: Timestamp) -> Balance {
        let members = self.members(account);
        let spent = match &members {
            Members::One(namespace) => self.spend.spent(namespace, period),
            Members::Some(names) => names
                .iter()
                .map(|name| self.spend.spent(name, period))
                .sum(),
        };
        Balance {
            account: account.clone(),
            period,
            limit: self.limit(account, now),
            spent,
            committed: self.committed(&members, period, now),
        }
    }

    /// Up to when `account`'s spending is known.
    pub fn watermark(&self, account: &Account) -> Option<i64> {
        let watermarks = self.spend.watermarks();
        let behind = watermarks.behind.iter();
        let members = self.members(account);
        let oldest = behind
            .filter(|(namespace, _)| members.contain(namespace))
            .map(|(_, at)| *at)
            .min();
        watermarks
            .common
            .map(|common| oldest.map_or(common, |oldest| oldest.min(common)))
    }

    /// Every account with a claim, a held run, spending or a limit of its own.
    pub fn known_accounts(&self, now: Timestamp) -> BTreeSet<Account> {
        let mut namespaces: BTreeSet<&str> = self.terms.named_namespaces().collect();
        namespaces.extend(self.own.keys().map(String::as_str));
        namespaces.extend(self.live.values().map(|live| &*live.claim.namespace));
        namespaces.extend(self.ended.iter().map(|claim| &*claim.namespace));
        if let Some(period) = self.period(now) {
            namespaces.extend(self.spend.namespaces(period).map(|name| &**name));
        }
        let of_namespaces = namespaces
            .into_iter()
            .filter(|name| self.limit_of_namespace(name, now).is_some());
        let pools = self
            .terms
            .pools
            .iter()
            .map(|pool| Account::Pool(Arc::clone(&pool.name)));
        of_namespaces
            .map(|name| Account::Namespace(name.into()))
            .chain(pools)
            .collect()
    }

    /// How many runs wait for money of `account`, and the estimate of the smallest.
    pub fn held(&self, account: &Account) -> (u32, Option<Amount>) {
        let members = self.members(account);
        let held = self
            .held
            .values()
            .filter(|held| members.contain(&held.run.namespace));
        let estimates: Vec<Amount> = held.map(|held| held.run.quote.total()).collect();
        (
            u32::try_from(estimates.len()).unwrap_or(u32::MAX),
            estimates.into_iter().min(),
        )
    }

    /// The runs that claim money of `account`: each with its part.
    pub fn holders(
        &self,
        account: &Account,
        period: Period,
        now: Timestamp,
    ) -> Vec<(Uid, State, Amount)> {
        let members = self.members(account);
        let live = self.live.iter().filter(|(_, live)| {
            live.approval != Approval::None && members.contain(&live.claim.namespace)
        });
        let part = |claim: &Claim| {
            committed(
                std::iter::once(claim),
                period,
                self.spend.watermarks(),
                now.as_second(),
                self.terms.overrun,
            )
            .total()
        };
        live.map(|(uid, live)| (uid.clone(), live.claim.state, part(&live.claim)))
            .collect()
    }

    /// How often a run had our word that we did not give.
    pub fn unsanctioned(&self) -> u64 {
        self.unsanctioned
    }

    /// Runs without a price.
    pub fn unpriced(&self) -> impl Iterator<Item = &Run> {
        self.held
            .values()
            .map(|held| &held.run)
            .filter(|run| run.quote.unpriced.is_some())
    }

    /// Forgets that a run waits: it was told something else.
    pub(super) fn no_longer_held(&mut self, uid: &Uid) {
        self.held.remove(uid);
    }

    pub(super) fn hold(&mut self, run: &Run) -> &mut Held {
        let held = self.held.entry(run.uid.clone()).or_insert_with(|| Held {
            run: run.clone(),
            said: None,
        });
        if held.run.since != run.since {
            *held = Held {
                run: run.clone(),
                said: None,
            };
        }
        held.run = run.clone();
        held
    }

    /// Walks the held runs once, in the order of the Budget: gives money to those that it suffices for, and says who is to be told something else.
    pub(crate) fn walk(&mut self, now: Timestamp) -> Walked {
        let mut order: Vec<(i32, i64, Uid)> = self
            .held
            .values()
            .map(|held| (-held.run.priority, held.run.since, held.run.uid.clone()))
            .collect();
        order.sort_unstable();
        let mut walked = Walked::default();
        let mut tally = super::decide::Tally::default();
        for (_, _, uid) in order {
            let Some(held) = self.held.get(&uid).cloned() else {
                continue;
            };
            if let Err(reason) = self.judge(&held.run, now, &mut tally) {
                if Self::is_untrue(&held, &reason, now) {
                    walked.retold.push(uid);
                }
            } else {
                self.lien(&held.run, now);
                tally = super::decide::Tally::default();
                walked.granted.push(uid);
            }
        }
        walked
    }

    /// Whether `reason` differs so much from what `held` was told that it is told again.
    pub(super) fn is_untrue(held: &Held, reason: &Reason, now: Timestamp) -> bool {
        let Some(said) = held.said else { return true };
        if said.code != reason.code() {
            return true;
        }
        let (Some(balance), at) = (reason.balance(), now.as_second()) else {
            return false;
        };
        let (more, less) = (
            balance.remaining().max(said.remaining),
            balance.remaining().min(said.remaining),
        );
        at - said.at >= RETELL && more.less(less).percent_of(balance.limit) >= 10
    }

    /// Our word is given, before it is written.
    pub(super) fn lien(&mut self, run: &Run, now: Timestamp) {
        self.held.remove(&run.uid);
        let approval = match self.live.get(&run.uid) {
            Some(live) if live.since == run.since && live.approval == Approval::Shown => {
                Approval::Shown
            }
            _ => Approval::Given,
        };
        self.live
            .insert(run.uid.clone(), Live::of(run, approval, now.as_second()));
    }

    /// Those that were given money and whose word is not on the cluster yet.
    pub(crate) fn liens(&self) -> impl Iterator<Item = &Uid> {
        self.live
            .iter()
            .filter(|(_, live)| live.approval == Approval::Given)
            .map(|(uid, _)| uid)
    }

    /// Our word is taken back, before it could be written.
    pub(super) fn unlien(&mut self, uid: &Uid) {
        if let Some(live) = self.live.get_mut(uid)
            && live.approval == Approval::Given
        {
            live.approval = Approval::None;
        }
    }

    /// Of the running jobs of `account` the one that is stopped first: of the lowest priority, and of those the youngest.
    pub(super) fn first_to_stop(&self, account: &Account) -> Option<&Uid> {
        let members = self.members(account);
        let running = self.live.iter().filter(|(_, live)| {
            live.running && !live.exempt && members.contain(&live.claim.namespace)
        });
        running
            .min_by_key(|(uid, live)| match live.claim.state {
                State::Running(since) => (live.priority, -since, (*uid).clone()),
                _ => (i32::MAX, 0, (*uid).clone()),
            })
            .map(|(uid, _)| uid)
    }
}

impl Live {
    pub(super) fn of(run: &Run, approval: Approval, now: i64) -> Self {
        let (state, running) = match run.state {
            RunState::Running(since) => (State::Running(since), true),
            RunState::Approved(since) => (State::Open(since), false),
            RunState::Asking => (State::Open(now), false),
        };
        Self {
            since: run.since,
            priority: run.priority,
            claim: Claim {
                namespace: Arc::clone(&run.namespace),
                rate: run.quote.rate,
                seconds: run.quote.seconds,
                bounded: run.quote.bounded,
                state,
                variant_of: run.variant_of.clone().map(Box::new),
            },
            approval,
            running,
            exempt: run.exempt.is_some(),
        }
    }
}

/// The namespaces of an account.
pub(super) enum Members<'a> {
    One(Arc<str>),
    Some(BTreeSet<&'a str>),
}

impl Members<'_> {
    pub(super) fn contain(&self, namespace: &str) -> bool {
        match self {
            Self::One(one) => **one == *namespace,
            Self::Some(names) => names.contains(namespace),
        }
    }
}

impl Book {
    /// Whether the held run `uid` may give its quota in `queue` back now; then nobody else may for a while, which doubles with each `attempt`.
    pub fn yield_turn(&mut self, uid: &Uid, queue: &str, attempt: u32, now: Timestamp) -> bool {
        let Some(held) = self.held.get(uid) else {
            return false;
        };
        let waits_for_money = held.said.is_some_and(|said| said.code <= 3);
        let (first, longest) = self.terms.yields;
        let pause = first
            .saturating_mul(1 << attempt.saturating_sub(1).min(20))
            .min(longest);
        let now = now.as_second();
        let since = self
            .last_yield
            .get(queue)
            .copied()
            .unwrap_or(held.run.since);
        if !waits_for_money || now - since < pause || now - held.run.since < pause {
            return false;
        }
        self.last_yield.insert(queue.to_owned(), now);
        true
    }

    /// Held runs that are asked again because they might give their quota back.
    pub(crate) fn may_yield(&self) -> impl Iterator<Item = &Uid> {
        let yields = self.terms.quota == crate::resource::Quota::Yield;
        self.held.keys().filter(move |_| yields)
    }
}

/// After how many seconds a word that was given and is not shown is asked about again.
const LATE: i64 = 30;

impl Book {
    /// Runs that were given money a while ago and whose word is not on the cluster.
    pub(crate) fn late_liens(&self, now: Timestamp) -> impl Iterator<Item = &Uid> {
        let late = move |live: &Live| match live.claim.state {
            State::Open(given) => {
                live.approval == Approval::Given && now.as_second() - given >= LATE
            }
            _ => false,
        };
        self.live
            .iter()
            .filter(move |(_, live)| late(live))
            .map(|(uid, _)| uid)
    }

    /// For each account that has spent more than its limit, the running job that would be stopped first.
    pub(crate) fn overspenders(&self, now: Timestamp) -> Vec<Uid> {
        let Some(period) = self.period(now) else {
            return Vec::new();
        };
        let accounts = self.known_accounts(now);
        let over = accounts
            .iter()
            .filter(|account| self.balance(account, period, now).overspent().is_some());
        over.filter_map(|account| self.first_to_stop(account).cloned())
            .collect()
    }
}

impl Book {
    /// Whether a job has run for so many seconds.
    pub fn has_run_for(&self, seconds: i64, now: Timestamp) -> bool {
        self.live.values().any(|live| matches!(live.claim.state, State::Running(since) if now.as_second() - since >= seconds))
    }

    /// In how many seconds an answer may come that ends a cold start; `None` if there is none to end.
    pub(crate) fn cold_for(&self, settle: i64, now: Timestamp) -> Option<i64> {
        let watched = self.watched_since?;
        let known = self.spend.watermarks().common.unwrap_or(i64::MIN);
        (known < watched).then(|| (watched + settle - now.as_second()).max(1))
    }
}
