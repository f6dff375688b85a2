//! The admission check that evaluates the expressions of a `CELCheck` for each Workload.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt, stream};
use jiff::SignedDuration;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kueue_check::api::{AdmissionCheck, Uid, Workload};
use kueue_check::{
    AdmissionCheckController, BackgroundContext, Check, CheckError, CheckRequest, ControllerName,
    Inactive, Preview, Request, Trigger, Verdict, WorkloadEvent,
};
use kueue_check_sources::ServerPolicy;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::resource;
use super::rule::{Environment, Problem, Rule};
use super::shares::Shares;
use super::sources::{Fetch, HttpFetch, Source, SourceRegistry};
use super::starting::StartingJobs;
use super::watched::{Objects, Watched};
use crate::CONTROLLER;
use crate::cel::{Data, Value};
use crate::servers::allowed;

/// How long changes of objects are collected before Workloads are evaluated again.
const COLLECTED: Duration = Duration::from_millis(500);
/// How long a replica leads before rules that count jobs decide. Until then the previous leader may
/// write its last verdicts, and a watch may be behind. It is longer than a takeover.
const SETTLED: Duration = Duration::from_secs(15);
/// How long `explain` waits for the objects that a rule reads.
const EXPLAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The check. One instance decides for any number of AdmissionChecks.
///
/// ```
/// use kueue_check_rule::celcheck::CELCheck;
/// use kueue_check_rule::{ServerPolicy, Unlisted};
///
/// let servers = ServerPolicy {
///     folder: "/var/run/secrets/rule-check".into(),
///     servers: Vec::new(),
///     unlisted: Unlisted::Refuse,
///     setting: "--allow-host",
/// };
/// let check = CELCheck::new(servers).watched(["configmaps".parse()?]).annotations(["example.com/"]);
/// let app = kueue_check::App::new().check(check);
/// # let _ = app;
/// # Ok::<(), String>(())
/// ```
pub struct CELCheck {
    servers: ServerPolicy,
    fetch: Arc<dyn Fetch>,
    annotations: Vec<String>,
    watched: Vec<Watched>,
    environment: Environment,
    shared: Arc<Shared>,
}

/// The state that evaluations and background tasks share.
#[derive(Default)]
struct Shared {
    sources: SourceRegistry,
    objects: Mutex<BTreeMap<String, Objects>>,
    /// The AdmissionChecks whose rule reads a resource, by resource.
    users: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// The AdmissionChecks whose Workloads are to be evaluated.
    changed: Mutex<BTreeSet<String>>,
    notified: Notify,
    /// Notified when a list of objects is complete.
    listed: Notify,
    /// Whether this replica leads, and so queries the data sources.
    leads: AtomicBool,
    /// A hash of the states of all checks, by Workload that holds quota, if a rule reads them.
    states: Mutex<BTreeMap<Uid, u64>>,
    /// The AdmissionChecks whose rule reads states.
    state_users: Mutex<BTreeSet<String>>,
    /// The Workloads that are to be evaluated.
    workloads: Mutex<BTreeSet<Uid>>,
    /// The step limits of rules.
    shares: Mutex<Shares>,
    /// The jobs for which rules returned Ready.
    starting: Mutex<StartingJobs>,
    /// A lock for each AdmissionCheck: verdicts of rules that count jobs are computed one after
    /// another.
    turns: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    /// Since when this replica has led.
    led_since: Mutex<Option<Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CELCheck {
    /// Creates a check that queries the data sources that the deployment allows.
    pub fn new(servers: ServerPolicy) -> Self {
        let fetch = Arc::new(HttpFetch::new(servers.clone()));
        Self::with_fetch(servers, fetch)
    }

    /// Creates a check with a stand-in for the data sources, for tests.
    pub fn with_fetch(servers: ServerPolicy, fetch: Arc<dyn Fetch>) -> Self {
        Self {
            servers,
            fetch,
            annotations: Vec::new(),
            watched: Vec::new(),
            environment: Environment {
                resources: Some(BTreeSet::new()),
                setting: "--watch",
            },
            shared: Arc::default(),
        }
    }

    /// Sets the number of steps that all rules together may take in a minute. Default: 1,000
    /// million. Rules that were evaluated in the last minute have equal shares. A rule that has
    /// used its share is evaluated later.
    #[must_use]
    pub fn steps_per_minute(self, steps: u64) -> Self {
        *lock(&self.shared.shares) = Shares::new(steps);
        self
    }

    /// Adds resources whose objects rules may read. Default: none.
    #[must_use]
    pub fn watched(mut self, resources: impl IntoIterator<Item = Watched>) -> Self {
        for resource in resources {
            let known = self.environment.resources.get_or_insert_default();
            if known.insert(resource.name()) {
                self.watched.push(resource);
            }
        }
        self
    }

    /// Adds annotations of Workloads that rules may read: whole keys, or domains with their slash.
    /// Default: none.
    #[must_use]
    pub fn annotations(mut self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.annotations.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Returns the rule of `check`, which is compiled on first use.
    fn rule(&self, check: &resource::CELCheck) -> Result<Arc<Rule>, Problem> {
        let spec = &check.spec;
        spec.compiled
            .get(|| Rule::registered(spec, &self.environment, &self.shared.sources).map(Arc::new))
    }

    fn decide(
        &self,
        request: &CheckRequest<resource::CELCheck>,
        is_preview: bool,
    ) -> Result<Verdict, CheckError> {
        let rule = self.rule(request.parameters())?;
        // Its data sources are being queried, and their responses trigger an evaluation.
        let unknown = rule.sources().values().any(|source| source.is_unknown());
        if unknown || !self.shared.is_known(&rule) {
            return Ok(Verdict::unchanged());
        }
        let data = RuleData {
            shared: &self.shared,
            sources: rule.sources(),
            request,
            is_preview,
        };
        if is_preview {
            return Ok(rule.decide(request, &data)?.verdict);
        }
        let check = request.admission_check();
        let may = lock(&self.shared.shares).may_evaluate(check, Instant::now());
        may.map_err(|wait| {
            CheckError::throttled(wait, "the rule has taken its share of steps in this minute")
        })?;
        let decide = || {
            let (decided, steps) = rule.decide_counted(request, &data);
            lock(&self.shared.shares).spent(check, steps);
            decided
        };
        if rule.starting().is_none() {
            return Ok(decide()?.verdict);
        }
        if !self.shared.is_settled() {
            return Ok(Verdict::unchanged());
        }
        let turn = Arc::clone(
            lock(&self.shared.turns)
                .entry(check.to_owned())
                .or_default(),
        );
        let _turn = lock(&turn);
        let verdict = decide()?.verdict;
        let reservation = request.reservation();
        lock(&self.shared.starting).decided(check, reservation, verdict.is_ready());
        Ok(verdict)
    }
}

/// The data for one evaluation of a rule.
struct RuleData<'k> {
    shared: &'k Shared,
    sources: &'k BTreeMap<String, Arc<Source>>,
    request: &'k Request,
    is_preview: bool,
}

impl RuleData<'_> {
    fn objects<T>(&self, resource: &str, look: impl FnOnce(&Objects) -> T) -> Result<T, String> {
        let objects = lock(&self.shared.objects);
        match objects.get(resource) {
            Some(objects) if objects.is_complete() => Ok(look(objects)),
            _ => Err(format!("the {resource} are not known yet")),
        }
    }
}

impl Data for RuleData<'_> {
    fn object(&self, resource: &str, namespace: Option<&str>, name: &str) -> Result<Value, String> {
        self.objects(resource, |objects| {
            objects.get(namespace, name).cloned().unwrap_or(Value::Null)
        })
    }

    fn objects(&self, resource: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        self.objects(resource, |objects| objects.all(namespace))
    }

    fn source(&self, name: &str) -> Result<Value, String> {
        match self.sources.get(name) {
            Some(source) => source.last_value(),
            None => Err(format!("there is no data source `{name}`")),
        }
    }

    fn starting(&self, within: SignedDuration) -> Result<Vec<Value>, String> {
        if self.is_preview {
            return Err("only the running check records which jobs are starting".to_owned());
        }
        let (check, own) = (
            self.request.admission_check(),
            self.request.workload().uid(),
        );
        let mut starting = lock(&self.shared.starting);
        Ok(starting.starting(check, own, within, self.request.now()))
    }
}

impl Shared {
    /// Enqueues the Workloads of `checks` for evaluation.
    fn evaluate(&self, checks: impl IntoIterator<Item = String>) {
        lock(&self.changed).extend(checks);
        self.notified.notify_one();
    }

    fn handle(&self, resource: &str, event: Event<DynamicObject>) {
        let listed = matches!(event, Event::InitDone);
        let changed = lock(&self.objects)
            .entry(resource.to_owned())
            .or_default()
            .handle(event);
        if listed {
            self.listed.notify_waiters();
        }
        if changed {
            let users = lock(&self.users).get(resource).cloned();
            self.evaluate(users.unwrap_or_default());
        }
    }

    /// Returns true if this replica has led long enough to have observed the jobs that the previous
    /// leader let start.
    fn is_settled(&self) -> bool {
        lock(&self.led_since).is_some_and(|since| since.elapsed() >= SETTLED)
    }

    /// Handles a Workload event for rules that count starting jobs.
    fn count(&self, event: WorkloadEvent<'_>) {
        let freed = lock(&self.starting).observe(event);
        if !freed.is_empty() {
            self.evaluate(freed);
        }
    }

    /// Handles a Workload event for rules that read the states of other checks. The runtime does
    /// not evaluate again when only those change.
    fn observe(&self, workload: &Workload, is_gone: bool) {
        if lock(&self.state_users).is_empty() {
            return;
        }
        let mut states = lock(&self.states);
        if is_gone || !workload.holds_quota() {
            states.remove(workload.uid());
            return;
        }
        let mut hasher = DefaultHasher::new();
        for entry in workload.checks() {
            (entry.name(), entry.state().as_str()).hash(&mut hasher);
        }
        let hash = hasher.finish();
        let before = states.insert(workload.uid().clone(), hash);
        if before.is_some_and(|before| before != hash) {
            lock(&self.workloads).insert(workload.uid().clone());
            self.notified.notify_one();
        }
    }

    /// Returns the triggers for Workloads to evaluate.
    fn triggers(self: Arc<Self>) -> impl Stream<Item = Trigger> {
        stream::unfold(self, async |shared| {
            loop {
                let next = lock(&shared.changed).pop_first();
                if let Some(check) = next {
                    return Some((Trigger::AdmissionCheck(check), shared));
                }
                let next = lock(&shared.workloads).pop_first();
                if let Some(uid) = next {
                    return Some((Trigger::Uid(uid), shared));
                }
                shared.notified.notified().await;
                sleep(COLLECTED).await;
            }
        })
    }

    /// Returns true if all objects that `rule` reads are listed.
    fn is_known(&self, rule: &Rule) -> bool {
        let objects = lock(&self.objects);
        let complete = |name: &String| objects.get(name).is_some_and(Objects::is_complete);
        rule.resources().iter().all(complete)
    }

    /// Waits until all objects that `rule` reads are listed.
    async fn known(&self, rule: &Rule) {
        loop {
            let listed = self.listed.notified();
            if self.is_known(rule) {
                return;
            }
            listed.await;
        }
    }
}

/// Queries the data sources of all rules until the session ends.
async fn query_sources(shared: Arc<Shared>, fetch: Arc<dyn Fetch>, mut context: BackgroundContext) {
    let mut counts = false;
    let mut queries = FuturesUnordered::new();
    let mut queried: Vec<Arc<Source>> = Vec::new();
    loop {
        shared.leads.store(context.is_leader(), Ordering::Relaxed);
        if !context.is_leader() {
            *lock(&shared.led_since) = None;
            counts = false;
            queries.clear();
            queried.clear();
            context.leadership_changed().await;
            continue;
        }
        let led_since = *lock(&shared.led_since).get_or_insert_with(Instant::now);
        if !counts && shared.is_settled() {
            counts = true;
            let users: Vec<String> = lock(&shared.starting).users().collect();
            shared.evaluate(users);
        }
        let now = context.clock().now();
        for source in shared.sources.due(&queried) {
            queried.push(Arc::clone(&source));
            let fetch = Arc::clone(&fetch);
            queries.push(async move {
                let changed = source.query(&*fetch, now).await;
                (source, changed)
            });
        }
        let next = shared.sources.next(&queried);
        tokio::select! {
            Some((source, changed)) = queries.next(), if !queries.is_empty() => {
                queried.retain(|other| !Arc::ptr_eq(other, &source));
                if changed {
                    shared.evaluate(source.users());
                }
            }
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            () = shared.sources.added.notified() => {}
            () = sleep_until(led_since + SETTLED), if !counts => {}
            () = context.leadership_changed() => {}
        }
    }
}

impl AdmissionCheckController for CELCheck {
    type Parameters = resource::CELCheck;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static(CONTROLLER) }
    }

    async fn activate(
        &self,
        check: &AdmissionCheck,
        parameters: &Arc<resource::CELCheck>,
    ) -> Result<(), Inactive> {
        for (index, source) in parameters.spec.data.iter().enumerate() {
            let (url, secret) = source.server();
            let field = format!("spec.data[{index}]");
            allowed(&self.servers, &field, url, secret)?;
        }
        let rule = self
            .rule(parameters)
            .map_err(|problem| Inactive::new("ExpressionInvalid", problem.to_string()))?;
        for source in rule.sources().values() {
            source.used_by(check.name());
        }
        if rule.starting().is_some() {
            lock(&self.shared.starting).used_by(check.name());
        }
        if rule.uses_checks() {
            lock(&self.shared.state_users).insert(check.name().to_owned());
        }
        let mut users = lock(&self.shared.users);
        for resource in rule.resources() {
            let users = users.entry(resource.clone()).or_default();
            users.insert(check.name().to_owned());
        }
        Ok(())
    }

    async fn evaluate(
        &self,
        request: CheckRequest<resource::CELCheck>,
    ) -> Result<Verdict, CheckError> {
        self.decide(&request, false)
    }

    async fn preview(
        &self,
        request: CheckRequest<resource::CELCheck>,
    ) -> Result<Preview, CheckError> {
        let rule = self.rule(request.parameters())?;
        let _ = timeout(EXPLAIN_TIMEOUT, self.shared.known(&rule)).await;
        let sources = rule.sources().values();
        join_all(sources.map(|source| source.query(&*self.fetch, request.now()))).await;
        self.decide(&request, true).map(Preview::of)
    }

    fn configure(self: &Arc<Self>, check: Check<resource::CELCheck>) -> Check<resource::CELCheck> {
        let share = || Arc::clone(&self.shared);
        let (background, triggers, metrics, observer) = (share(), share(), share(), share());
        let fetch = Arc::clone(&self.fetch);
        let check = check
            .annotations(self.annotations.iter().cloned())
            .background(move |context| query_sources(Arc::clone(&background), Arc::clone(&fetch), context))
            .observe(move |event| {
                observer.count(event);
                match event {
                    WorkloadEvent::Applied(workload, _) => observer.observe(workload, false),
                    WorkloadEvent::Removed(workload) => observer.observe(workload, true),
                    _ => {}
                }
            })
            .watches_stream("data of rules", move || Arc::clone(&triggers).triggers())
            .metrics(move |text| {
                let sizes: Vec<_> = {
                    let objects = lock(&metrics.objects);
                    let sizes = objects.iter();
                    sizes
                        .map(|(name, objects)| (name.clone(), objects.size()))
                        .collect()
                };
                let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
                let mut objects =
                    text.gauge("rule_watched_objects", "Objects that rules may read");
                for (resource, (number, _)) in &sizes {
                    objects.count(&[("resource", resource)], count(*number));
                }
                let mut bytes = text.gauge(
                    "rule_watched_bytes",
                    "The memory that these objects take, about",
                );
                for (resource, (_, size)) in &sizes {
                    bytes.count(&[("resource", resource)], count(*size));
                }
                // Only the leader queries sources, so the series of two replicas are never mixed.
                let sources = if metrics.leads.load(Ordering::Relaxed) {
                    metrics.sources.health()
                } else {
                    Vec::new()
                };
                let mut up = text.gauge(
                    "rule_data_source_up",
                    "Whether the last query of a data source succeeded",
                );
                for source in &sources {
                    let labels = [("admission_check", &*source.check), ("source", &*source.source)];
                    up.count(&labels, source.is_up.into());
                }
                let mut stale = text.gauge(
                    "rule_data_source_stale",
                    "Whether the last value of a data source is too old: rules that use it have no verdict",
                );
                for source in &sources {
                    let labels = [("admission_check", &*source.check), ("source", &*source.source)];
                    stale.count(&labels, source.is_stale.into());
                }
            });
        self.watched.iter().fold(check, |check, watched| {
            let (shared, name) = (Arc::clone(&self.shared), watched.name());
            let config = watcher::Config::default();
            check.watches_resource(watched.resource(), config, move |event| {
                shared.handle(&name, event);
                Trigger::Ignore
            })
        })
    }
}
