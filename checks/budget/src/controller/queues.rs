//! `onExhausted.quota: CloseLocalQueues`: stops LocalQueues, Kueue's only way to hold one
//! namespace's jobs without holding quota.
//!
//! A LocalQueue with `stopPolicy: Hold` lets running jobs finish and releases the quota of those
//! that wait. The check closes it while not even the smallest held job fits, and opens it when that
//! much remains again. What waits in a closed queue is not known, since Kueue shows no Workloads of
//! it: the job may be gone, or a smaller one may have come. So the check also opens it in each new
//! period, and after `onExhausted.max`; it closes again if nothing fits. A queue that another user has
//! stopped is not touched. Nor is one of a namespace in which a priority class is exempt: its jobs
//! would wait there unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use kube::Api;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kueue_check::BackgroundContext;
use serde_json::{Value, json};

use super::shared::SharedState;
use super::watches;
use crate::config::Account;
use crate::ledger::{BudgetLedger, HoldReason};
use crate::money::Amount;
use crate::resource::{Enforcement, HoldOrAdmit, Quota};

const MANAGER: &str = "budget-check-queues";
/// The annotations of a closed queue: the Budget that closed it, the amount required to open it, and
/// when it was closed, in seconds since 1970.
const BUDGET: &str = "budget.kueue-check.dev/closed-by";
const NEEDS: &str = "budget.kueue-check.dev/needs";
const SINCE: &str = "budget.kueue-check.dev/closed-since";
/// The seconds between searches for closed queues.
const INTERVAL: i64 = 60;

/// Why a LocalQueue was closed.
struct Closed {
    /// The Budget's UID.
    uid: String,
    needs: Amount,
    since: i64,
}

/// The closed LocalQueues.
#[derive(Default)]
pub(super) struct Queues {
    /// The API of LocalQueues; `None` until it is known.
    served: Option<ApiResource>,
    polled_at: Option<i64>,
    /// By namespace and name.
    closed: BTreeMap<(String, String), Closed>,
    /// The queues that could not be closed, or were just opened, and when: they are closed later.
    kept_open: BTreeMap<(String, String), i64>,
}

impl Queues {
    /// Closes and opens queues as required.
    pub(super) async fn open_and_close(
        &mut self,
        shared: &Arc<SharedState>,
        context: &BackgroundContext,
    ) {
        let wanted = shared
            .ledgers()
            .all()
            .any(|(_, ledger)| ledger.terms().quota == Quota::CloseLocalQueues);
        let now = shared.now().as_second();
        // This also finds queues closed by an earlier process, or for a removed Budget.
        let due = self
            .polled_at
            .is_none_or(|polled_at| now - polled_at >= INTERVAL);
        if due && (wanted || self.polled_at.is_none() || !self.closed.is_empty()) {
            if self.served.is_none() {
                let served = watches::served(context.client(), "LocalQueue", "localqueues").await;
                self.served = served.ok();
            }
            if self.poll(context).await {
                self.polled_at = Some(now);
            }
        }
        self.kept_open.retain(|_, at| now - *at < INTERVAL);
        for (namespace, queue, uid, needs) in to_close(shared) {
            let key = (namespace, queue);
            if self.closed.contains_key(&key) || self.kept_open.contains_key(&key) {
                continue;
            }
            let closed = Closed {
                uid,
                needs,
                since: now,
            };
            if self.close(context, &key.0, &key.1, &closed).await {
                self.closed.insert(key, closed);
            } else {
                self.kept_open.insert(key, now);
            }
        }
        let open: Vec<(String, String)> = self
            .closed
            .iter()
            .filter(|((namespace, _), closed)| may_open(shared, namespace, closed))
            .map(|(key, _)| key.clone())
            .collect();
        for (namespace, queue) in open {
            if self.open(context, &namespace, &queue).await {
                tracing::info!(
                    namespace,
                    queue,
                    "a LocalQueue is opened again: there may be money"
                );
                let key = (namespace, queue);
                self.closed.remove(&key);
                // What waits in it has some time to get quota, and this check to evaluate it.
                self.kept_open.insert(key, now);
            }
        }
    }

    fn api(&self, context: &BackgroundContext, namespace: &str) -> Option<Api<DynamicObject>> {
        let (client, kind) = (context.client().clone(), self.served.as_ref()?);
        Some(Api::namespaced_with(client, namespace, kind))
    }

    /// Lists the closed queues. Returns true if that succeeded.
    async fn poll(&mut self, context: &BackgroundContext) -> bool {
        let Some(kind) = &self.served else {
            return false;
        };
        let api: Api<DynamicObject> = Api::all_with(context.client().clone(), kind);
        let Ok(queues) = api.list(&ListParams::default()).await else {
            return false;
        };
        self.closed = queues
            .into_iter()
            .filter_map(|queue| {
                let annotations = queue.annotations();
                let closed = Closed {
                    uid: annotations.get(BUDGET)?.clone(),
                    needs: number(annotations.get(NEEDS)),
                    since: number(annotations.get(SINCE)),
                };
                Some(((queue.namespace()?, queue.name_any()), closed))
            })
            .collect();
        true
    }

    async fn close(
        &self,
        context: &BackgroundContext,
        namespace: &str,
        queue: &str,
        closed: &Closed,
    ) -> bool {
        let found = self.find(context, namespace, queue).await;
        let open = |found: &DynamicObject| {
            let policy = found.data["spec"]["stopPolicy"].as_str();
            policy.is_none_or(|policy| policy == "None")
        };
        let (Some(found), Some(api), Some(kind)) = (
            found.filter(open),
            self.api(context, namespace),
            &self.served,
        ) else {
            return false;
        };
        // The creator of the queue owns the default of its policy. The `resourceVersion`
        // precondition prevents overwriting a later change.
        let version = found.resource_version();
        let body = json!({
            "metadata": {"annotations": {BUDGET: closed.uid, NEEDS: closed.needs.to_string(), SINCE: closed.since.to_string()}, "resourceVersion": version},
            "spec": {"stopPolicy": "Hold"},
        });
        let body = with_kind(body, kind, namespace, queue);
        let parameters = PatchParams::apply(MANAGER).force();
        let closed = patched(&api, queue, &parameters, &Patch::Apply(body)).await;
        if closed {
            tracing::info!(
                namespace,
                queue,
                "a LocalQueue is closed: nothing that waits in it fits into the budget"
            );
        }
        closed
    }

    /// Removes the stop policy from the queue. One that another user has set since stays.
    async fn open(&self, context: &BackgroundContext, namespace: &str, queue: &str) -> bool {
        let Some(api) = self.api(context, namespace) else {
            return false;
        };
        let Some(found) = self.find(context, namespace, queue).await else {
            // It was removed, or cannot be read now; the next pass retries.
            return false;
        };
        let mut body = json!({"metadata": {"annotations": {BUDGET: null, NEEDS: null, SINCE: null}, "resourceVersion": found.resource_version()}});
        if is_ours(&found) {
            body["spec"] = json!({"stopPolicy": "None"});
        }
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        patched(&api, queue, &parameters, &Patch::Merge(body)).await
    }

    async fn find(
        &self,
        context: &BackgroundContext,
        namespace: &str,
        queue: &str,
    ) -> Option<DynamicObject> {
        let listed = self
            .api(context, namespace)?
            .list(&ListParams::default())
            .await;
        let mut all = listed.into_iter().flatten();
        all.find(|found| found.name_any() == queue)
    }
}

fn number<T: FromStr + Default>(text: Option<&String>) -> T {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn with_kind(mut body: Value, kind: &ApiResource, namespace: &str, queue: &str) -> Value {
    body["apiVersion"] = json!(kind.api_version);
    body["kind"] = json!(kind.kind);
    body["metadata"]["name"] = json!(queue);
    body["metadata"]["namespace"] = json!(namespace);
    body
}

/// Returns true if this program last set the queue's policy.
fn is_ours(queue: &DynamicObject) -> bool {
    queue.managed_fields().iter().any(|entry| {
        let fields = entry.fields_v1.as_ref();
        let policy = fields.and_then(|fields| fields.0.pointer("/f:spec/f:stopPolicy"));
        entry.manager.as_deref() == Some(MANAGER) && policy.is_some()
    })
}

async fn patched(
    api: &Api<DynamicObject>,
    queue: &str,
    parameters: &PatchParams,
    patch: &Patch<Value>,
) -> bool {
    let patched = api.patch(queue, parameters, patch).await;
    if let Err(error) = &patched {
        tracing::warn!(queue, error = %kueue_check::Message::new(error.to_string()), "a LocalQueue could not be opened or closed");
    }
    patched.is_ok()
}

/// Returns the queues in which Workloads wait of which not even the smallest fits.
fn to_close(shared: &SharedState) -> BTreeSet<(String, String, String, Amount)> {
    let now = shared.now();
    let ledgers = shared.ledgers();
    let mut all = BTreeSet::new();
    let closes = |ledger: &BudgetLedger| {
        ledger.terms().quota == Quota::CloseLocalQueues
            && ledger.terms().enforcement != Enforcement::ReportOnly
            && !shared.is_deleted(&ledger.terms().uid)
            && ledger.limits_are_known().is_ok()
    };
    for (_, ledger) in ledgers.all().filter(|(_, ledger)| closes(ledger)) {
        let Some(period) = ledger.period(now) else {
            continue;
        };
        let index = ledger.index();
        for account in ledger.known_accounts(now) {
            let Account::Namespace(namespace) = &account else {
                continue;
            };
            if ledger.exempts_class_in(namespace) != Some(false) {
                continue;
            }
            let (_, smallest) = index.held(&account);
            let balance = index.balance(&account, period, now);
            // The limit is what a queue is opened for, at most.
            let lacks = |smallest: &Amount| (*smallest).min(balance.limit) > balance.remaining();
            let Some(needs) = smallest.filter(lacks) else {
                continue;
            };
            for uid in ledger.waiting(namespace) {
                if let Some(queue) = ledgers.workload(uid).and_then(|workload| workload.queue()) {
                    all.insert((
                        namespace.to_string(),
                        queue.to_owned(),
                        ledger.terms().uid.clone(),
                        needs,
                    ));
                }
            }
        }
    }
    all
}

/// Returns true if a closed queue may be opened: the required amount remains again, it was closed
/// long ago, or no Budget requires it closed.
fn may_open(shared: &SharedState, namespace: &str, closed: &Closed) -> bool {
    let uid = &closed.uid;
    if shared.is_deleted(uid) {
        return true;
    }
    let now = shared.now();
    let ledgers = shared.ledgers();
    let Some((_, ledger)) = ledgers.all().find(|(_, ledger)| ledger.terms().uid == *uid) else {
        // A process that has just started has no Budget yet.
        return shared.has_listed_budgets();
    };
    let account = Account::Namespace(namespace.into());
    let terms = ledger.terms();
    if terms.quota != Quota::CloseLocalQueues || terms.enforcement == Enforcement::ReportOnly {
        return true;
    }
    // Before limits are known, it is unknown whether a namespace has a budget.
    if ledger.limits_are_known().is_err() {
        return false;
    }
    let exempts_class = ledger.exempts_class_in(namespace) == Some(true);
    if ledger.accounts(namespace, now).is_empty() || exempts_class {
        return true;
    }
    // A process that has just started has no spend data, which would count as zero.
    let known = ledger.is_known(&account, now);
    if matches!(known, Err(HoldReason::Stale { .. })) && terms.on_stale == HoldOrAdmit::Admit {
        return true;
    }
    let known = known.is_ok();
    ledger.period(now).filter(|_| known).is_some_and(|period| {
        let balance = ledger.balance(&account, period, now);
        let tried_until = closed.since.saturating_add(terms.yields.1.max(INTERVAL));
        balance.remaining() >= closed.needs.min(balance.limit)
            || closed.since < period.start.as_second()
            || tried_until <= now.as_second()
    })
}
