//! `CELCheck` on the simulated cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kueue_check::api::CheckState;
use kueue_check_rule::cel::Value;
use kueue_check_rule::celcheck::resource::DataSource;
use kueue_check_rule::celcheck::{CELCheck, Fetch};
use kueue_check_sim::simulation::CheckContext;
use kueue_check_sim::{Cluster, Job, Simulation};
use kueue_check_sources::SourceError;
use serde_json::{Value as Json, json};

use crate::service::{allowed, no_harm, submit_many};

/// A stand-in for all data sources, with a response for each name. Clones share their state.
#[derive(Clone, Default)]
pub(crate) struct Sources(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    responses: BTreeMap<String, Json>,
    requests: usize,
    /// The range of requests that fail.
    failing: Option<std::ops::Range<usize>>,
    /// The source that does not respond within its timeout.
    hanging: Option<&'static str>,
}

impl Sources {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_response(&self, source: &str, response: Json) {
        self.state().responses.insert(source.to_owned(), response);
    }
}

impl Fetch for Sources {
    fn fetch(
        &self,
        source: &DataSource,
        _: Option<String>,
        _: Timestamp,
    ) -> BoxFuture<'static, Result<Value, SourceError>> {
        let mut state = self.state();
        state.requests += 1;
        let number = state.requests;
        let fails = state
            .failing
            .as_ref()
            .is_some_and(|failing| failing.contains(&number));
        let response = state
            .responses
            .get(&source.name)
            .filter(|_| !fails)
            .cloned();
        let hangs = state.hanging.is_some_and(|name| name == source.name);
        drop(state);
        async move {
            if hangs {
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
            let down = || SourceError::Unreachable("the server", "nobody listens".to_owned());
            response.as_ref().map(Value::of).ok_or_else(down)
        }
        .boxed()
    }
}

fn cel(spec: &Json) -> Json {
    json!({"apiVersion": "kueue-check.dev/v1alpha1", "kind": "CELCheck", "metadata": {"name": "rule"}, "spec": spec})
}

fn config_map(name: &str, data: &Json) -> Json {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}, "data": data})
}

pub(crate) fn simulation(
    spec: &Json,
    make: impl Fn() -> Sources + Clone + Send + Sync + 'static,
) -> Simulation {
    Simulation::with_context(move |tools: &CheckContext| {
        let sources = tools.external(&make);
        CELCheck::with_fetch(allowed(), Arc::new(sources)).watched(["configmaps".parse().unwrap()])
    })
    .parameters(&cel(spec))
}

fn nights() -> (Json, usize) {
    let text = include_str!("../../examples/nights.yaml");
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && *line != "---");
    let rule = text.split("---\n").next().unwrap();
    let rule: Json = serde_saphyr::from_str(rule).unwrap();
    (rule, lines.count())
}

#[test]
fn jobs_start_at_night_with_no_line_of_code_and_fourteen_of_yaml() {
    let (rule, lines) = nights();
    assert!(lines <= 14, "{lines} lines");
    simulation(&rule["spec"], Sources::default)
        .starting_at("2026-11-23T18:30:00Z")
        .run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster
                .expect_message("train", "starts at 20:00 in Berlin")
                .await;
            cluster.advance(Duration::from_mins(29)).await;
            assert!(!cluster.is_admitted("train"));
            cluster.advance(Duration::from_mins(2)).await;
            cluster.expect_admitted("train").await;
        });
}

#[test]
fn each_verdict_is_written() {
    let updates = json!([{"nodeSelector": {"pool": "'gpu-' + workload.queue"}, "annotations": {"example.com/pods": "string(podSet.count)"}}]);
    simulation(
        &json!({"ready": "true", "podSetUpdates": updates}),
        Sources::default,
    )
    .run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_admitted("train").await;
        let workload = cluster.workload("train").unwrap();
        let entry = &workload["status"]["admissionChecks"][0];
        let queue = workload["spec"]["queueName"].as_str().unwrap();
        let update = &entry["podSetUpdates"][0];
        assert_eq!(update["nodeSelector"]["pool"], format!("gpu-{queue}"));
        assert_eq!(update["annotations"]["example.com/pods"], "1");
    });
    let rejected = json!({"ready": "true", "reject": "workload.name.contains('train')", "message": "'no ' + workload.namespace"});
    simulation(&rejected, Sources::default).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_deactivated("train").await;
    });
    let retry = json!({"ready": "true", "retry": "attempt == 1", "retryAfter": "1m"});
    simulation(&retry, Sources::default).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_state("train", CheckState::Retry).await;
        cluster
            .expect_message("train", "`attempt == 1` is true")
            .await;
    });
}

/// Objects are watched: a change takes effect at once, and an idle hour costs no request.
#[test]
fn objects_are_watched_and_a_quiet_hour_costs_no_request() {
    let spec = json!({
        "variables": [{"name": "pause", "expression": "object('configmaps', 'default', 'pause')"}],
        "ready": "variables.pause == null",
        "message": "'paused: ' + variables.pause.data.why",
    });
    simulation(&spec, Sources::default)
        .object(&config_map("pause", &json!({"why": "maintenance"})))
        .run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.expect_message("train", "paused: maintenance").await;
            cluster.advance(Duration::from_mins(5)).await;
            // Leases are renewed, watches are restarted and their versions compared; nothing else
            // is read or written.
            let of_workloads = |cluster: &Cluster| {
                let kinds = [
                    "apply workloads",
                    "patch workloads",
                    "get workloads",
                    "get configmaps",
                ];
                kinds.map(|kind| cluster.requests(kind))
            };
            let before = of_workloads(cluster);
            cluster.advance(Duration::from_hours(1)).await;
            assert_eq!(of_workloads(cluster), before);
            cluster.apply(&config_map("pause", &json!({"why": "a fire"})));
            cluster.expect_message("train", "paused: a fire").await;
            cluster.delete(&config_map("pause", &json!({})));
            cluster.expect_admitted("train").await;
        });
}

/// With `onError`, a source that stops responding counts as an error even if nothing else happens.
#[test]
fn a_source_that_falls_silent_is_an_error_after_its_max_age() {
    let spec = json!({
        "ready": "http('price').eur < 0.3",
        "data": [{"name": "price", "http": {"url": "https://licences.example/price"}, "interval": "1m", "maxAge": "10m"}],
        "onError": "Admit", "onErrorAfter": "20m",
    });
    simulation(&spec, Sources::default)
        .expect_timeout(Duration::from_mins(60))
        .run(async |cluster| {
            let sources: Sources = cluster.external();
            sources.set_response("price", json!({"eur": 0.5}));
            cluster.submit(Job::new("train"));
            cluster.expect_message("train", "waits until").await;
            cluster.advance(Duration::from_mins(30)).await;
            assert!(!cluster.is_admitted("train"));
            sources.state().responses.clear();
            cluster.advance(Duration::from_mins(25)).await;
            assert!(
                !cluster.is_admitted("train"),
                "10 minutes of age, and 20 of errors"
            );
            cluster.expect_admitted("train").await;
        });
}

/// A source without a value gives no verdict; one with a value is queried at its interval.
#[test]
fn a_data_source_is_queried_apart_from_evaluations() {
    let spec = json!({
        "ready": "http('price').eur < 0.3 || waited > duration('2h')",
        "message": "'waits for a price below 0.30, it is %.2f'.format([http('price').eur])",
        "data": [{"name": "price", "http": {"url": "https://licences.example/price"}, "interval": "1m", "maxAge": "10m"}],
        "recheckAfter": "5m",
    });
    simulation(&spec, Sources::default).run(async |cluster| {
        let sources: Sources = cluster.external();
        cluster.submit(Job::new("train"));
        cluster
            .expect_message(
                "train",
                "the data source `price` has not responded yet: the server cannot be reached",
            )
            .await;
        cluster.advance(Duration::from_mins(3)).await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
        sources.set_response("price", json!({"eur": 0.5}));
        cluster.expect_message("train", "it is 0.50").await;
        let before = sources.state().requests;
        cluster.advance(Duration::from_mins(10)).await;
        let requests = sources.state().requests - before;
        assert!((9..=11).contains(&requests), "{requests}");
        // A value that is too old no longer counts, and the same one again counts at once.
        sources.state().responses.clear();
        cluster.advance(Duration::from_mins(15)).await;
        cluster.submit(Job::new("later"));
        cluster
            .expect_message("later", "the data source `price` has not responded for")
            .await;
        sources.set_response("price", json!({"eur": 0.5}));
        cluster.advance(Duration::from_secs(65)).await;
        assert!(
            cluster.message("later").contains("it is 0.50"),
            "{}",
            cluster.message("later")
        );
        sources.set_response("price", json!({"eur": 0.2}));
        cluster.expect_admitted("train").await;
        cluster.expect_admitted("later").await;
    });
}

/// Returns an AdmissionCheck `other` with the rule `other`.
fn other_check() -> Json {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "other"},
        "spec": {"controllerName": kueue_check_rule::CONTROLLER, "parameters": {"apiGroup": "kueue-check.dev", "kind": "CELCheck", "name": "other"}},
    })
}

/// Kueue admits a job when the last check is Ready, which may be hours later.
#[test]
fn a_ready_that_waits_for_another_check_follows_the_time() {
    let (rule, _) = nights();
    let mut other = cel(&json!({"ready": "object('configmaps', 'default', 'pause') == null"}));
    other["metadata"]["name"] = json!("other");
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}});
    let both = json!({"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}, {"name": "other"}]}}});
    simulation(&rule["spec"], Sources::default)
        .starting_at("2026-11-23T20:00:00Z")
        .object(&config_map("pause", &json!({})))
        .run(async |cluster| {
            cluster.apply(&other);
            cluster.apply(&other_check());
            cluster.expect_active("other").await;
            cluster.merge(&queue, &both);
            cluster.submit(Job::new("train"));
            cluster
                .expect("the night has come", |cluster| {
                    cluster.state_of("check", "train") == Some(CheckState::Ready)
                })
                .await;
            cluster.advance(Duration::from_hours(14)).await;
            cluster.delete(&config_map("pause", &json!({})));
            cluster.advance(Duration::from_mins(5)).await;
            assert!(!cluster.is_admitted("train"), "it is 11:00 in Berlin");
        });
}

#[test]
fn a_data_source_that_hangs_delays_no_other() {
    let with = |name: &str, ready: &str| {
        json!({
            "ready": ready, "message": "'it is %.2f'.format([http('price').eur])",
            "data": [{"name": name, "http": {"url": "https://licences.example/price"}, "interval": "10s"}],
        })
    };
    let mut other = cel(&with("other", "http('other') == 1"));
    other["metadata"]["name"] = json!("other");
    other["spec"]["message"] = json!("'no'");
    let spec = with("price", "http('price').eur < 0.3");
    simulation(&spec, Sources::default).run(async |cluster| {
        let sources: Sources = cluster.external();
        sources.set_response("price", json!({"eur": 0.5}));
        sources.state().hanging = Some("other");
        cluster.apply(&other);
        cluster.apply(&other_check());
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "it is 0.50").await;
        let before = sources.state().requests;
        cluster.advance(Duration::from_mins(5)).await;
        let requests = sources.state().requests - before;
        assert!(
            (34..=42).contains(&requests),
            "30 of `price`, some of the other: {requests}"
        );
        sources.set_response("price", json!({"eur": 0.2}));
        cluster.advance(Duration::from_secs(15)).await;
        assert!(
            cluster.is_admitted("train"),
            "as soon as the value is there"
        );
    });
}

#[test]
fn a_mistake_makes_the_check_inactive_and_names_the_place() {
    for (spec, expected) in [
        (
            json!({"ready": "workload.nmae == 'x'"}),
            "`spec.ready`: line 1, column 9: a workload has no field `nmae`: did you mean `name`?",
        ),
        (
            json!({"ready": "workload.priority"}),
            "`spec.ready`: expected a bool, and it is an int",
        ),
        (
            json!({"ready": "true", "message": "3"}),
            "`spec.message`: expected a string",
        ),
        (
            json!({"ready": "objects('nodes').size() > 0"}),
            "add `--watch nodes` to the arguments",
        ),
        (
            json!({"ready": "variables.b", "variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "true"}]}),
            "`spec.variables[0].expression`",
        ),
        (
            json!({"ready": "http('p') == 1", "data": [{"name": "p", "http": {"url": "http://169.254.169.254/latest"}}]}),
            "the server http://169.254.169.254:80 is not allowed: add `--allow-host",
        ),
        (
            json!({"ready": "true", "podSetUpdates": [{"labels": {"a": "podSet.nam"}}]}),
            "`spec.podSetUpdates[0].labels[a]`: line 1, column 7: ",
        ),
        (
            json!({"ready": "true", "recheckAfter": "1ms"}),
            "`spec.recheckAfter` must be from 1s to 1d",
        ),
    ] {
        simulation(&spec, Sources::default).run(async |cluster| {
            cluster.expect_inactive("check", expected).await;
        });
    }
}

/// Three scenarios, each with a sample of every single fault: no job is evicted, and each starts.
fn with_failures(spec: &Json, failing: Option<std::ops::Range<usize>>) -> Simulation {
    let make = move || {
        let sources = Sources::default();
        sources.set_response("free", json!(0));
        sources.state().failing.clone_from(&failing);
        sources
    };
    simulation(spec, make).invariant("no job is harmed", no_harm)
}

async fn opens(cluster: &Cluster) {
    cluster.submit(Job::new("first"));
    cluster.submit(Job::new("second"));
    cluster.expect_state("first", CheckState::Pending).await;
    cluster.advance(Duration::from_secs(90)).await;
    let sources: Sources = cluster.external();
    sources.set_response("free", json!(2));
    cluster.apply(&config_map("open", &json!({"open": "yes"})));
    cluster.expect_admitted("first").await;
    cluster.complete("first");
    cluster.expect_finished("first").await;
    cluster.expect_admitted("second").await;
}

#[test]
fn each_single_fault_of_the_cluster_and_of_the_sources_is_survived() {
    let data = json!([{"name": "free", "http": {"url": "https://licences.example/free"}, "interval": "10s"}]);
    for (number, (spec, failing)) in [
        (json!({"ready": "waited > duration('2m')"}), None),
        (json!({"ready": "object('configmaps', 'default', 'open').?data.?open.orValue('no') == 'yes'"}), None),
        (json!({"ready": "http('free') > 0", "data": data}), None),
        (json!({"ready": "http('free') > 0", "data": data}), Some(1..5)),
        (json!({"ready": "http('free') > 0", "data": data}), Some(3..40)),
    ]
    .into_iter()
    .enumerate()
    {
        let simulation = with_failures(&spec, failing).points_of_a_kind(2).seed(number as u64).sample(12);
        println!("{}: {}", spec["ready"], simulation.run_with_each_fault(opens));
    }
}

/// 5,000 held jobs with a rule that reads the time and an object are evaluated each minute, and
/// nothing is read or written for it.
#[test]
fn five_thousand_held_workloads_cost_no_request() {
    const JOBS: usize = 5000;
    let spec = json!({
        "ready": "now > timestamp('2027-01-01T00:00:00Z') && object('configmaps', 'default', 'open') != null",
        "message": "'opens next year'",
    });
    simulation(&spec, Sources::default)
        .quota(10_000)
        .run(async |cluster| {
            submit_many(cluster, JOBS);
            cluster.advance(Duration::from_mins(5)).await;
            assert_eq!(cluster.message("job-4999"), "opens next year");
            let of_workloads = || {
                ["apply workloads", "patch workloads", "get workloads"]
                    .map(|kind| cluster.requests(kind))
            };
            let before = of_workloads();
            let evaluated = cluster.verdicts().all().len();
            cluster.advance(Duration::from_mins(5)).await;
            let evaluated = cluster.verdicts().all().len() - evaluated;
            println!("{evaluated} evaluations in 5 minutes");
            assert!(evaluated >= 4 * JOBS, "{evaluated}");
            assert_eq!(of_workloads(), before);
        });
}

/// A rule that takes a million steps for each Workload takes only its share of them. The Workloads
/// of the other rules are still decided. The same holds for a thousand rules.
#[tokio::test(start_paused = true)]
async fn a_hostile_rule_does_not_starve_the_others() {
    use kueue_check::api::Workload;
    use kueue_check::{AdmissionCheckController, ErrorKind, Parameters, RequestBuilder};
    use kueue_check_rule::celcheck::resource;

    let check = CELCheck::with_fetch(allowed(), Arc::new(Sources::default()));
    let check = check.steps_per_minute(3_000_000);
    let bomb = (0..30).fold("[1,2,3,4,5,6,7,8]".to_owned(), |text, level| {
        format!("[1,2,3,4,5,6,7,8].map(v{level}, {text})")
    });
    let rule = |ready: &str| resource::CELCheck::decode(cel(&json!({"ready": ready}))).unwrap();
    let (hostile, good) = (
        rule(&format!("{bomb}.size() > 0")),
        rule("workload.priority >= 0"),
    );
    let evaluate = async |name: &str, number: usize, rule: &resource::CELCheck| {
        let workload = Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": format!("job-{number}"), "uid": format!("u-{number}")},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
                "admission": {"clusterQueue": "c", "podSetAssignments": []},
                "admissionChecks": [{"name": name, "state": "Pending"}]},
        }));
        let request = RequestBuilder::new(workload.unwrap(), name).build(rule.clone());
        check.evaluate(request).await
    };
    let (mut bombs, mut throttled) = (0, 0);
    for number in 0..200 {
        let error = evaluate("hostile", number, &hostile).await.unwrap_err();
        match error.kind() {
            ErrorKind::Throttled { after } => {
                assert!(after >= Duration::from_secs(1), "{after:?}");
                throttled += 1;
            }
            _ => bombs += 1,
        }
        let verdict = evaluate("good", number, &good).await.unwrap();
        assert!(verdict.is_ready(), "{verdict:?}");
    }
    assert!(
        (1..=4).contains(&bombs),
        "{bombs} of 200, {throttled} throttled"
    );
    tokio::time::advance(Duration::from_mins(2)).await;
    for number in 0..1000 {
        let verdict = evaluate(&format!("rule-{number}"), number, &good).await;
        assert!(verdict.unwrap().is_ready(), "{number}");
    }
}

/// The rule of a running job is evaluated only with `onFailure: Evict`, and then also when an
/// object changes.
#[test]
fn a_running_job_is_evicted_only_where_the_rule_sets_evict() {
    for (after_admission, recheck_after, is_stopped) in [
        (json!(null), json!("1m"), false),
        (json!({"onFailure": "Ignore"}), json!("1m"), false),
        (json!({"onFailure": "Evict"}), json!("1m"), true),
        (json!({"onFailure": "Evict"}), json!(null), true),
    ] {
        let spec = json!({
            "ready": "true", "reject": "object('configmaps', 'default', 'stop') != null",
            "recheckAfter": recheck_after, "afterAdmission": after_admission,
        });
        simulation(&spec, Sources::default).run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.expect_admitted("train").await;
            cluster.apply(&config_map("stop", &json!({})));
            cluster.advance(Duration::from_mins(10)).await;
            assert_eq!(
                !cluster.is_admitted("train"),
                is_stopped,
                "{after_admission}, recheckAfter: {recheck_after}"
            );
        });
    }
}
