//! Watches of other objects than Workloads. Standbys watch too: they must have all data when they
//! take over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, Client, Resource, ResourceExt};
use kueue_check::{BackgroundContext, Message};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::shared::{LimitOverrideObject, OwnLimits, SharedState};
use super::{CONTROLLER, Feature};
use crate::config::{BudgetConfig, LimitOverride};
use crate::ledger::Listed;
use crate::resource::{Budget, NamespaceBudget, Quota};

/// The delay before a retry for something that does not exist yet.
const LATER: Duration = Duration::from_secs(5);

/// A change: an object that was applied or removed, or a complete list.
enum Change<K> {
    Is(K),
    Gone(K),
    /// The list is complete, and objects missing in it are removed.
    Complete(Vec<K>),
}

/// Passes each change of the objects of the API that `open` returns to `hand`, forever, and each
/// error to `failed`. The watch has the name `name` in `/readyz` and in metrics.
async fn follow<K, F>(
    context: &BackgroundContext,
    name: &str,
    open: impl Fn(Client) -> F + Send + 'static,
    mut hand: impl FnMut(Change<K>),
    mut failed: impl FnMut(&watcher::Error),
) where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    F: Future<Output = kube::Result<Api<K>>> + Send + 'static,
{
    let mut events = context.watch(name, open, Config::default());
    let mut list = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => list.clear(),
            Ok(Event::InitApply(object)) => list.push(object),
            Ok(Event::InitDone) => hand(Change::Complete(std::mem::take(&mut list))),
            Ok(Event::Apply(object)) => hand(Change::Is(object)),
            Ok(Event::Delete(object)) => hand(Change::Gone(object)),
            Err(error) => {
                tracing::warn!(error = %Message::new(error.to_string()), name, "a watch of the budget check fails and is begun again");
                failed(&error);
            }
        }
    }
}

/// Returns the API of all objects of a kind.
async fn all<K>(client: Client) -> kube::Result<Api<K>>
where
    K: Resource<DynamicType = ()>,
{
    Ok(Api::all(client))
}

/// Returns why `resource` cannot be listed and what to do, without details that change with each
/// attempt.
fn advice(error: &watcher::Error, resource: &str) -> String {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    let code = match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => status.code,
        _ => 0,
    };
    match code {
        403 => format!(
            "cannot list {resource}: forbidden (403); apply the output of `budget-check manifests`, or upgrade the Helm release"
        ),
        404 => format!(
            "cannot list {resource}: not installed (404); apply the output of `budget-check crds`, or upgrade the Helm release"
        ),
        _ => format!("cannot list {resource} now; will retry"),
    }
}

/// Ignores the error of a list that no decision waits for: it is logged already.
fn only_logged(_: &watcher::Error) {}

pub(super) async fn budgets(shared: &Arc<SharedState>, context: &BackgroundContext) {
    // A Budget with a value of a later definition cannot be read. It keeps its last configuration,
    // and the watch of the others continues.
    let adopt = |budget: &DeserializeGuard<Budget>| {
        let terms = match &budget.0 {
            Ok(budget) => BudgetConfig::of(budget).map_err(|invalid| invalid.to_string()),
            Err(unreadable) => Err(unreadable.error.clone()),
        };
        match terms {
            Ok(terms) => {
                let adopted = shared.ledgers().adopt(Arc::new(terms), shared.now());
                if adopted {
                    shared.populate_ledgers();
                    shared.request_poll();
                }
            }
            Err(invalid) => {
                // The message is one line, independent of what the author of the Budget wrote.
                let invalid = Message::new(invalid);
                tracing::warn!(budget = budget.name_any(), %invalid, "a Budget is invalid");
            }
        }
    };
    follow(
        context,
        "budgets",
        all::<DeserializeGuard<Budget>>,
        |change| {
            match change {
                Change::Is(budget) => adopt(&budget),
                Change::Gone(budget) => shared.budget_deleted(&budget.name_any()),
                Change::Complete(budgets) => {
                    let names: Vec<String> = budgets.iter().map(ResourceExt::name_any).collect();
                    budgets.iter().for_each(adopt);
                    let gone: Vec<String> = shared
                        .ledgers()
                        .all()
                        .map(|(name, _)| name.to_owned())
                        .filter(|name| !names.contains(name))
                        .collect();
                    for name in gone {
                        shared.budget_deleted(&name);
                    }
                    shared.budgets_listed();
                }
            }
            shared.changed();
        },
        only_logged,
    )
    .await;
}

pub(super) async fn namespace_budgets(shared: &Arc<SharedState>, context: &BackgroundContext) {
    // By namespace and name.
    let mut known = OwnLimits::new();
    let key =
        |object: &NamespaceBudget| (object.namespace().unwrap_or_default(), object.name_any());
    let own = |object: &NamespaceBudget| LimitOverrideObject {
        generation: object.metadata.generation.unwrap_or_default(),
        spec: object.spec.clone(),
    };
    follow(
        context,
        "namespacebudgets",
        all::<NamespaceBudget>,
        |change| {
            match change {
                Change::Is(object) => {
                    known.insert(key(&object), own(&object));
                }
                Change::Gone(object) => {
                    known.remove(&key(&object));
                }
                Change::Complete(objects) => {
                    known = objects
                        .iter()
                        .map(|object| (key(object), own(object)))
                        .collect();
                }
            }
            shared.set_own_limits(&known);
            shared.changed();
        },
        |error| {
            shared.own_limits_failed(&advice(error, "namespacebudgets.budget.kueue-check.dev"));
            shared.changed();
        },
    )
    .await;
}

pub(super) async fn namespaces(shared: &Arc<SharedState>, context: &BackgroundContext) {
    // Pools and exemptions select namespaces. With a default limit each name that the source
    // reports would be an account.
    let needed = |terms: &BudgetConfig| terms.needs_labels() || terms.governs_all();
    while !shared
        .ledgers()
        .all()
        .any(|(_, ledger)| needed(ledger.terms()))
    {
        sleep(LATER).await;
    }
    let mut known: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    follow(
        context,
        "namespaces",
        all::<Namespace>,
        |change| {
            match change {
                Change::Is(namespace) => {
                    known.insert(namespace.name_any(), namespace.labels().clone());
                }
                Change::Gone(namespace) => {
                    known.remove(&namespace.name_any());
                }
                Change::Complete(all) => {
                    known = all
                        .iter()
                        .map(|namespace| (namespace.name_any(), namespace.labels().clone()))
                        .collect();
                }
            }
            shared.set_namespaces(&known);
            shared.changed();
        },
        |error| {
            shared.namespaces_failed(&advice(error, "namespaces"));
            shared.changed();
        },
    )
    .await;
}

/// The versions of Kueue's kinds, newest first.
pub(crate) const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// Returns a Kueue kind in one of its [`VERSIONS`].
pub(crate) fn resource(version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: version.to_owned(),
        api_version: format!("kueue.x-k8s.io/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Returns a Kueue kind in the newest version that the cluster serves now.
pub(super) async fn served(client: &Client, kind: &str, plural: &str) -> kube::Result<ApiResource> {
    let [newest, older] = VERSIONS;
    let newest = resource(newest, kind, plural);
    if is_served(client, &newest).await.is_ok() {
        return Ok(newest);
    }
    let older = resource(older, kind, plural);
    is_served(client, &older).await.map(|()| older)
}

async fn is_served(client: &Client, resource: &ApiResource) -> kube::Result<()> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    api.list(&ListParams::default().limit(1)).await.map(drop)
}

/// Watches objects whose type only the cluster defines.
async fn follow_dynamic(
    context: &BackgroundContext,
    kind: &'static str,
    plural: &'static str,
    hand: impl FnMut(Change<DynamicObject>),
) {
    let open = move |client| all_served(client, kind, plural);
    follow(context, plural, open, hand, only_logged).await;
}

async fn all_served(
    client: Client,
    kind: &'static str,
    plural: &'static str,
) -> kube::Result<Api<DynamicObject>> {
    let resource = served(&client, kind, plural).await?;
    Ok(Api::all_with(client, &resource))
}

/// Watches which AdmissionChecks refer to which Budget. The runtime reports that to the leader
/// only.
pub(super) async fn admission_checks(shared: &Arc<SharedState>, context: &BackgroundContext) {
    let budget_of = |check: &DynamicObject| {
        let ours = check.data["spec"]["controllerName"] == CONTROLLER;
        let name = check.data["spec"]["parameters"]["name"].as_str();
        name.filter(|_| ours).map(str::to_owned)
    };
    follow_dynamic(context, "AdmissionCheck", "admissionchecks", |change| {
        let now = shared.now();
        let mut ledgers = shared.ledgers();
        match change {
            Change::Is(check) => {
                ledgers.refer(&check.name_any(), budget_of(&check).as_deref(), now);
            }
            Change::Gone(check) => ledgers.refer(&check.name_any(), None, now),
            Change::Complete(checks) => {
                let listed: BTreeMap<String, Option<String>> = checks
                    .iter()
                    .map(|check| (check.name_any(), budget_of(check)))
                    .collect();
                for check in ledgers
                    .all_checks()
                    .filter(|check| !listed.contains_key(check))
                    .collect::<Vec<_>>()
                {
                    ledgers.refer(&check, None, now);
                }
                for (check, budget) in &listed {
                    ledgers.refer(check, budget.as_deref(), now);
                }
            }
        }
        drop(ledgers);
        // The source of a Budget without AdmissionChecks is not queried with credentials.
        shared.request_poll();
        shared.changed();
    })
    .await;
}

/// Watches how many Workloads wait in each ClusterQueue, if a Budget has `quota: Yield`, and in
/// which of them Kueue makes variants, once there are some.
pub(super) async fn cluster_queues(shared: &Arc<SharedState>, context: &BackgroundContext) {
    if !shared.has(Feature::ClusterQueues) {
        return;
    }
    let is_needed = || {
        let ledgers = shared.ledgers();
        let mut all = ledgers.all();
        all.any(|(_, ledger)| ledger.terms().quota == Quota::Yield) || ledgers.has_variants()
    };
    while !is_needed() {
        sleep(LATER).await;
    }
    follow_dynamic(
        context,
        "ClusterQueue",
        "clusterqueues",
        |change| match change {
            Change::Is(queue) => shared.set_queue(&queue.name_any(), Some(&queue)),
            Change::Gone(queue) => shared.set_queue(&queue.name_any(), None),
            Change::Complete(queues) => queues
                .iter()
                .for_each(|queue| shared.set_queue(&queue.name_any(), Some(queue))),
        },
    )
    .await;
}

impl SharedState {
    /// Records the ClusterQueue `name`; `None` if it was removed.
    fn set_queue(&self, name: &str, queue: Option<&DynamicObject>) {
        let waits = |queue: &DynamicObject| queue.data["status"]["pendingWorkloads"].as_u64();
        let policy = queue.map(|queue| &queue.data["spec"]["concurrentAdmissionPolicy"]);
        let concurrent = policy.is_some_and(serde_json::Value::is_object);
        self.set_pending(name, queue.map(|queue| waits(queue).unwrap_or(0)));
        let now = self.now();
        let changed = self.ledgers().set_concurrent(name, concurrent, now);
        if changed {
            self.changed();
        }
    }

    fn set_own_limits(&self, known: &OwnLimits) {
        self.keep_own_limits(known.clone());
        self.apply_own_limits();
    }

    fn own_limits_failed(&self, problem: &str) {
        self.own_limits_cannot_be_listed(problem);
        self.apply_own_limits();
    }

    /// Copies the known limit overrides to all ledgers, because a new ledger has none.
    pub(super) fn apply_own_limits(&self) {
        let known = match self.listed_own_limits() {
            Listed::Known(known) => known,
            Listed::Unknown(None) => return,
            Listed::Unknown(Some(problem)) => {
                for (_, ledger) in self.ledgers().all_mut() {
                    ledger.own_limits_failed(&problem);
                }
                return;
            }
        };
        for (name, ledger) in self.ledgers().all_mut() {
            let mut own: BTreeMap<&str, LimitOverride> = BTreeMap::new();
            for ((namespace, of), LimitOverrideObject { spec, .. }) in &known {
                if spec.budget_ref == name {
                    own.entry(namespace)
                        .or_default()
                        .budgets
                        .insert(of.clone(), spec.clone());
                }
            }
            ledger.set_own_limits(
                own.into_iter()
                    .map(|(namespace, own)| (namespace.to_owned(), own))
                    .collect(),
            );
        }
    }
}
