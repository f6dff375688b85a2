//! The samples of each of several replicas in `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use kube::CustomResourceExt;
use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime};
use kueue_check::{BackgroundContext, Check, Clock, DynCheck, WorkloadEvent};
use kueue_check_budget::controller::BudgetCheck;
use kueue_check_budget::resource::{Budget, NamespaceBudget};
use kueue_check_budget::source::{
    Credentials, Fixed, Source, SourceError, SpendQuery, SpendReport,
};
use kueue_check_sim::apiserver::{
    ApiRequest, ApiServer, Faults, Patch, RequestFault, RequestInfo, Resource, Status, Verb,
};
use kueue_check_testenv::exposition::{Sample, parse};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::harness::budget;

/// A replica of the check, which leads or does not.
pub(crate) struct Replica {
    pub(crate) check: Check<Budget>,
    /// The same, as a runtime calls it.
    pub(crate) called: DynCheck,
    leads: watch::Sender<bool>,
    session: JoinHandle<()>,
}

impl Replica {
    pub(crate) fn new(check: BudgetCheck, server: &ApiServer, clock: &Clock, leads: bool) -> Self {
        let (leads, leadership) = watch::channel(leads);
        let check = Check::new(check);
        let called = DynCheck::new(check.clone());
        let context = BackgroundContext::new(server.client(), clock.clone(), leadership);
        let background = called.clone();
        let session = tokio::spawn(async move { background.background(context).await });
        called.observe(WorkloadEvent::ListStarted);
        called.observe(WorkloadEvent::ListCompleted { continuous: false });
        Self {
            check,
            called,
            leads,
            session,
        }
    }

    /// Returns its samples, by series and account.
    fn shows(&self) -> BTreeMap<(String, String), f64> {
        let text = self.called.metrics() + "# EOF\n";
        let samples = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let key = |sample: &Sample| {
            let label = |name: &str| sample.labels.get(name).cloned();
            let about = label("account").or_else(|| label("result"));
            (sample.name.clone(), about.unwrap_or_default())
        };
        samples
            .iter()
            .map(|sample| (key(sample), sample.value))
            .collect()
    }
}

/// Returns a server with the Budget `budget`, of which `spent` has been spent, and the clock.
pub(crate) fn server(spent: &Value) -> (ApiServer, Clock) {
    let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
    let server = ApiServer::new(clock.clone());
    with_budget(&server, spent);
    (server, clock)
}

fn with_budget(server: &ApiServer, spent: &Value) {
    server.install(vec![Budget::crd(), NamespaceBudget::crd()]);
    let spec = json!({
        "unit": "USD", "period": {"calendar": "Month"}, "source": {"fixed": {"spent": spent}, "interval": "15s"}, "namespaceLimits": {"default": "10"},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "estimate": {"safetyFactor": "1", "defaultDuration": "59m30s", "overrunHorizon": "1h"},
    });
    let budgets = Resource::new("budget.kueue-check.dev", "v1alpha1", "budgets");
    let made = server.call(&ApiRequest::new(Verb::Create, &budgets).body(budget("budget", &spec)));
    assert_eq!(made.code, 201, "{}", made.body);
}

fn replica(server: &ApiServer, clock: &Clock, leads: bool) -> Replica {
    Replica::new(
        BudgetCheck::new(Credentials::default()),
        server,
        clock,
        leads,
    )
}

fn series(name: &str, about: &str) -> (String, String) {
    (name.to_owned(), about.to_owned())
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_shows_figures() {
    let (server, clock) = server(&json!({"default": "4"}));
    let (first, second) = (
        replica(&server, &clock, true),
        replica(&server, &clock, false),
    );
    sleep(Duration::from_secs(60)).await;
    let expected = [
        ("budget_limit", 10.0),
        ("budget_spent", 4.0),
        ("budget_committed", 0.0),
        ("budget_remaining", 6.0),
        ("budget_overspent", 0.0),
        ("budget_pending_workloads", 0.0),
    ];
    let of_accounts = |replica: &Replica| {
        let shown = replica.shows();
        expected.map(|(name, _)| (name, shown.get(&series(name, "default")).copied()))
    };
    let all = expected.map(|(name, value)| (name, Some(value)));
    assert_eq!(of_accounts(&first), all);
    assert_eq!(second.shows(), BTreeMap::new(), "a standby");
    first.leads.send_replace(false);
    second.leads.send_replace(true);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(first.shows(), BTreeMap::new(), "one that has led");
    assert_eq!(of_accounts(&second), all);
    let age = second.shows()[&series("budget_watermark_age_seconds", "")];
    assert!(age < 300.0, "{age}: the source is queried");
    // A session that ends while it leads shows nothing either.
    second.session.abort();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(second.shows(), BTreeMap::new(), "one without a session");
}

/// A source that does not respond.
struct Down;

impl Source for Down {
    fn query_spend(&self, _: SpendQuery) -> BoxFuture<'_, Result<SpendReport, SourceError>> {
        ready(Err(SourceError::Unavailable(
            "The source",
            503,
            String::new(),
        )))
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn while_nothing_is_known_the_age_grows_and_no_figure_is_shown() {
    let (server, clock) = server(&json!({}));
    let check = BudgetCheck::with_sources(|_| Arc::new(Down));
    let replica = Replica::new(check, &server, &clock, false);
    // The age counts from the time at which the replica leads, not from the start of the standby.
    sleep(Duration::from_secs(86_400)).await;
    replica.leads.send_replace(true);
    sleep(Duration::from_secs(1800)).await;
    let shown = replica.shows();
    let age = shown[&series("budget_watermark_age_seconds", "")];
    assert!((1790.0..=1810.0).contains(&age), "{age}");
    let of = |name: &str| shown.get(&series(name, "")).copied();
    assert_eq!(of("budget_source_up"), Some(0.0));
    assert_eq!(of("budget_limits_known"), Some(1.0));
    let figures = shown.keys().filter(|(name, _)| {
        matches!(
            &**name,
            "budget_spent" | "budget_remaining" | "budget_overspent"
        )
    });
    assert_eq!(figures.count(), 0, "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn names_of_the_source_are_no_accounts_unless_a_namespace_can_have_them() {
    let exploit = "x\",kind=\"namespace\"} 1\nkueue_check_leader{pod=\"x";
    let long = "a".repeat(64);
    let (server, clock) = server(&json!({
        "default": "4", "a\"b\nc": "1", exploit: "1", "Team": "1", "-a": "1", "a-": "1", "a.b": "1", "größer": "1", long: "1", "a_b": "1",
        // A valid name, but no namespace of the cluster has it.
        "ghost": "1",
    }));
    let replica = replica(&server, &clock, true);
    sleep(Duration::from_secs(60)).await;
    let shown = replica.shows();
    let accounts: Vec<&str> = shown
        .keys()
        .filter(|(name, _)| name == "budget_spent")
        .map(|(_, account)| account.as_str())
        .collect();
    assert_eq!(accounts, ["default"]);
    let of = |name: &str, about: &str| shown.get(&series(name, about)).copied();
    let queries = of("budget_source_requests_total", "ok").unwrap();
    let dropped = of("budget_source_invalid_names_total", "");
    assert_eq!(dropped, Some(9.0 * queries));
    let budgets = Resource::new("budget.kueue-check.dev", "v1alpha1", "budgets");
    let shown = server.get(&budgets, "", "budget").unwrap();
    let conditions = shown["status"]["conditions"].as_array().unwrap();
    let fresh = conditions
        .iter()
        .find(|condition| condition["type"] == "Fresh");
    let message = fresh.unwrap()["message"].as_str().unwrap();
    assert!(
        message.contains("names that no namespace can have"),
        "{message}"
    );
}

/// Returns a check whose source reports that `spent` has been spent in `default`.
fn check_reporting(spent: &str) -> BudgetCheck {
    let spent = serde_json::from_value(json!({"spent": {"default": spent}})).unwrap();
    let source: Arc<dyn Source> = Arc::new(Fixed::new(spent));
    BudgetCheck::with_sources(move |_| Arc::clone(&source))
}

#[tokio::test(start_paused = true)]
async fn spend_survives_the_loss_of_the_source_and_of_the_process() {
    let (server, clock) = server(&json!({}));
    let spent = |replica: &Replica| replica.shows()[&series("budget_spent", "default")];
    let first = Replica::new(check_reporting("9"), &server, &clock, true);
    sleep(Duration::from_secs(60)).await;
    assert!((spent(&first) - 9.0).abs() < 1e-9);
    first.session.abort();
    // Prometheus has lost its disk, and a node was drained.
    let second = Replica::new(check_reporting("0"), &server, &clock, true);
    sleep(Duration::from_secs(60)).await;
    assert!((spent(&second) - 9.0).abs() < 1e-9, "{}", spent(&second));
    // A replica that has stood by for long has no outdated figure.
    let standby = Replica::new(check_reporting("0"), &server, &clock, false);
    second.session.abort();
    let third = Replica::new(check_reporting("9.5"), &server, &clock, true);
    sleep(Duration::from_secs(1200)).await;
    third.session.abort();
    standby.leads.send_replace(true);
    sleep(Duration::from_secs(60)).await;
    assert!((spent(&standby) - 9.5).abs() < 1e-9, "{}", spent(&standby));
    // The next month begins with zero spend.
    sleep(Duration::from_secs(11 * 86_400)).await;
    assert!(spent(&standby).abs() < 1e-9, "{}", spent(&standby));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_figure_is_corrected_in_the_budget() {
    let (server, clock) = server(&json!({}));
    let spent = |replica: &Replica| replica.shows()[&series("budget_spent", "default")];
    let replica = Replica::new(check_reporting("9"), &server, &clock, true);
    sleep(Duration::from_secs(60)).await;
    assert!((spent(&replica) - 9.0).abs() < 1e-9);
    let budgets = Resource::new("budget.kueue-check.dev", "v1alpha1", "budgets");
    let correct = |overstated: &str, period: &str| {
        let correction = json!({"namespace": "default", "overstated": overstated, "periodStart": period,
            "by": "alice", "reason": "the exporter ran twice, OPS-12"});
        let patch = ApiRequest::new(Verb::Patch(Patch::Merge), &budgets)
            .name("budget")
            .body(json!({"spec": {"source": {"corrections": [correction]}}}));
        let response = server.call(&patch);
        assert_eq!(response.code, 200, "{}", response.body);
    };
    for (overstated, period, expected) in [
        ("7", "2026-11-01T00:00:00Z", 2.0),
        ("7", "2026-10-01T00:00:00Z", 9.0),
        ("100", "2026-11-01T00:00:00Z", 0.0),
        ("6", "2026-11-01T00:00:00Z", 3.0),
    ] {
        correct(overstated, period);
        sleep(Duration::from_secs(700)).await;
        let shown = spent(&replica);
        assert!((shown - expected).abs() < 1e-9, "{overstated}: {shown}");
    }
    let shown = server.get(&budgets, "", "budget").unwrap();
    let conditions = shown["status"]["conditions"].as_array().unwrap();
    let fresh = conditions
        .iter()
        .find(|condition| condition["type"] == "Fresh");
    let message = fresh.unwrap()["message"].as_str().unwrap();
    assert_eq!(message, "corrected by alice: default has spent 6 less");
    // A new process does not restore the wrong figure.
    replica.session.abort();
    let next = Replica::new(check_reporting("9"), &server, &clock, true);
    sleep(Duration::from_secs(60)).await;
    assert!((spent(&next) - 3.0).abs() < 1e-9, "{}", spent(&next));
}

/// A fault: NamespaceBudgets may not be listed.
struct Forbidden;

impl Faults for Forbidden {
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        let is_list = request.call.verb == Verb::List;
        let fails = is_list && request.call.resource.plural == "namespacebudgets";
        fails.then(|| RequestFault::Refuse {
            status: Status::new(403, "Tested", "tested"),
            retry_after: None,
        })
    }
}

/// The program continues: a Budget that requires no NamespaceBudgets is decided by as before.
#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_named_by_readiness_and_the_leader_leads_on() {
    let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
    let server = ApiServer::with_definitions(clock.clone(), kueue_check_sim::definitions::kueue());
    with_budget(&server, &json!({}));
    server.set_faults(Arc::new(Forbidden));
    let lease = LeaseConfig {
        namespace: "default".into(),
        name: "budget".into(),
        identity: "budget-0".into(),
        times: LeaseTimes::default(),
    };
    let runtime = Runtime::builder(server.client())
        .check(BudgetCheck::new(Credentials::default()))
        .clock(clock)
        .lease(lease)
        .build()
        .unwrap();
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    let watch = "kueue-check.dev/budget/namespacebudgets";
    let synced = async |watch: &str| {
        let text = handle.metrics().await;
        let samples = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut samples = samples.into_iter();
        let found = samples.find(|sample| {
            sample.name == "kueue_check_watch_synced" && sample.labels["watch"] == watch
        });
        found.map(|sample| sample.value)
    };
    sleep(Duration::from_secs(600)).await;
    let problems = handle.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = format!("the watch of {watch} has not been synced for ");
    assert!(problems[0].starts_with(&problem), "{problems:?}");
    assert!(
        problems[0].ends_with("; last error: list: 403 tested"),
        "{problems:?}"
    );
    assert_eq!(synced(watch).await, Some(0.0));
    assert_eq!(synced("kueue-check.dev/budget/budgets").await, Some(1.0));
    let shown = serde_json::to_value(handle.diagnostics().await).unwrap();
    assert_eq!(shown["leadership"], "leader");
    assert!(!running.is_finished() && handle.is_alive().await);
    server.clear_faults();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(handle.problems(), Vec::<String>::new());
    assert_eq!(synced(watch).await, Some(1.0));
}
