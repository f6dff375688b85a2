//! `onExhausted.quota: CloseLocalQueues`: the only way of Kueue's to hold one namespace's jobs without holding quota.
//!
//! A LocalQueue with `stopPolicy: Hold` lets running jobs finish and takes quota back from those that wait. It is closed while not even the smallest held job fits, and
//! opened when that much is left again. A queue that somebody else has stopped is not touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Api;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kueue_check::Background;
use serde_json::json;

use super::shared::Shared;
use crate::money::Amount;
use crate::resource::Quota;
use crate::terms::Account;

const MANAGER: &str = "budget-check-queues";
/// On a queue that is closed: by which Budget, and how much must be left before it is opened.
const BUDGET: &str = "budget.kueue-check.dev/closed-by";
const NEEDS: &str = "budget.kueue-check.dev/needs";
/// How often closed queues are looked for.
const LOOK: i64 = 60;

/// What is closed.
#[derive(Default)]
pub(super) struct Queues {
    looked: i64,
    /// By namespace and name: the Budget's uid, and what is needed.
    closed: BTreeMap<(String, String), (String, Amount)>,
}

fn kind(version: &str) -> ApiResource {
    ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: version.to_owned(),
        api_version: format!("kueue.x-k8s.io/{version}"),
        kind: "LocalQueue".to_owned(),
        plural: "localqueues".to_owned(),
    }
}

impl Queues {
    /// Closes and opens what has to be.
    pub(super) async fn open_and_close(&mut self, shared: &Arc<Shared>, context: &Background) {
        let wanted = shared
            .books()
            .all()
            .any(|(_, book)| book.terms().quota == Quota::CloseLocalQueues);
        let now = shared.now().as_second();
        // One that was closed by an earlier process, or for a Budget that is gone, must be found too.
        if (wanted || self.looked == 0 || !self.closed.is_empty()) && now - self.looked >= LOOK {
            self.look(context).await;
            self.looked = now;
        }
        for (namespace, queue, uid, needs) in to_close(shared) {
            if !self
                .closed
                .contains_key(&(namespace.clone(), queue.clone()))
                && self.close(context, &namespace, &queue, &uid, needs).await
            {
                self.closed.insert((namespace, queue), (uid, needs));
            }
        }
        let open: Vec<(String, String)> = self
            .closed
            .iter()
            .filter(|((namespace, _), (uid, needs))| may_open(shared, namespace, uid, *needs))
            .map(|(key, _)| key.clone())
            .collect();
        for (namespace, queue) in open {
            if self.apply(context, &namespace, &queue, json!({})).await {
                tracing::info!(
                    namespace,
                    queue,
                    "a LocalQueue is opened again: there is money"
                );
                self.closed.remove(&(namespace, queue));
            }
        }
    }

    async fn look(&mut self, context: &Background) {
        let api: Api<DynamicObject> = Api::all_with(context.client().clone(), &kind("v1beta2"));
        let Ok(queues) = api.list(&ListParams::default()).await else {
            return;
        };
        self.closed = queues
            .into_iter()
            .filter_map(|queue| {
                let uid = queue.annotations().get(BUDGET)?.clone();
                let needs = queue
                    .annotations()
                    .get(NEEDS)
                    .and_then(|needs| needs.parse().ok())
                    .unwrap_or_default();
                Some(((queue.namespace()?, queue.name_any()), (uid, needs)))
            })
            .collect();
    }

    async fn close(
        &self,
        context: &Background,
        namespace: &str,
        queue: &str,
        uid: &str,
        needs: Amount,
    ) -> bool {
        let api: Api<DynamicObject> =
            Api::namespaced_with(context.client().clone(), namespace, &kind("v1beta2"));
        let listed = api.list(&ListParams::default()).await;
        let found = listed
            .into_iter()
            .flatten()
            .find(|found| found.name_any() == queue);
        let stopped = found.as_ref().is_none_or(|found| {
            found.data["spec"]["stopPolicy"]
                .as_str()
                .is_some_and(|policy| policy != "None")
        });
        if stopped {
            return false;
        }
        let body = json!({"metadata": {"annotations": {BUDGET: uid, NEEDS: needs.to_string()}}, "spec": {"stopPolicy": "Hold"}});
        let closed = self.apply(context, namespace, queue, body).await;
        if closed {
            tracing::info!(
                namespace,
                queue,
                "a LocalQueue is closed: nothing that waits in it fits into the budget"
            );
        }
        closed
    }

    /// What this manager says of the queue; nothing gives everything back.
    async fn apply(
        &self,
        context: &Background,
        namespace: &str,
        queue: &str,
        says: serde_json::Value,
    ) -> bool {
        let api: Api<DynamicObject> =
            Api::namespaced_with(context.client().clone(), namespace, &kind("v1beta2"));
        let mut body = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": queue, "namespace": namespace}});
        if let Some(annotations) = says["metadata"].get("annotations") {
            body["metadata"]["annotations"] = annotations.clone();
            body["spec"] = says["spec"].clone();
        }
        let applied = api
            .patch(queue, &PatchParams::apply(MANAGER), &Patch::Apply(body))
            .await;
        if let Err(error) = &applied {
            tracing::warn!(namespace, queue, error = %kueue_check::Message::new(error.to_string()), "a LocalQueue could not be opened or closed");
        }
        applied.is_ok()
    }
}

/// Queues in which Workloads wait of which not even the smallest fits.
fn to_close(shared: &Shared) -> BTreeSet<(String, String, String, Amount)> {
    let now = shared.now();
    let books = shared.books();
    let mut all = BTreeSet::new();
    for (_, book) in books
        .all()
        .filter(|(_, book)| book.terms().quota == Quota::CloseLocalQueues)
    {
        let Some(period) = book.period(now) else {
            continue;
        };
        for account in book.known_accounts(now) {
            let Account::Namespace(namespace) = &account else {
                continue;
            };
            let (_, smallest) = book.held(&account);
            let Some(needs) = smallest
                .filter(|smallest| *smallest > book.balance(&account, period, now).remaining())
            else {
                continue;
            };
            for uid in book.waiting(namespace) {
                if let Some(queue) = books.workload(uid).and_then(|workload| workload.queue()) {
                    all.insert((
                        namespace.to_string(),
                        queue.to_owned(),
                        book.terms().uid.clone(),
                        needs,
                    ));
                }
            }
        }
    }
    all
}

fn may_open(shared: &Shared, namespace: &str, uid: &str, needs: Amount) -> bool {
    let now = shared.now();
    let books = shared.books();
    let Some((_, book)) = books.all().find(|(_, book)| book.terms().uid == uid) else {
        return true;
    };
    let account = Account::Namespace(namespace.into());
    book.terms().quota != Quota::CloseLocalQueues
        || book
            .period(now)
            .is_some_and(|period| book.balance(&account, period, now).remaining() >= needs)
}
