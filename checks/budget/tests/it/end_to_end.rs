//! The binary on a real API server, with the permissions of its manifests. Prometheus is a strict
//! stand-in.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use kueue_check_testenv::Folder;
use serde_json::{Value, json};

use super::harness::{Stage, eventually, stage_alone, unique};
use super::program::{Program, install, output_to};
use super::server::{Reply, Server};

/// Returns the spec of a Budget of `limit`, in which a CPU costs 1 for an hour. Its period is far
/// from its end, whenever the test runs: near the end a job costs less within the period.
fn spec(server: &Server, limit: &str) -> Value {
    json!({
        "unit": "USD", "period": {"term": {"from": "2020-01-01T00:00:00Z", "until": "2400-01-01T00:00:00Z"}},
        "source": {
            "prometheus": {"url": server.url, "query": "namespace:cost:sum", "sampleInterval": "1s", "freshness": "raw", "auth": {"bearerTokenFile": "token"}},
            "interval": "15s", "settleDelay": "1s", "stalenessBound": "35s",
        },
        "namespaceLimits": {"default": limit},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "estimate": {"safetyFactor": "1"},
    })
}

fn credentials(token: &str) -> Folder {
    let folder = Folder::new("budget-check").unwrap();
    folder.write("token", &format!("{token}\n")).unwrap();
    folder
}

struct Scenario {
    stage: Stage,
    server: Server,
    name: String,
    kubeconfig: std::path::PathBuf,
    credentials: Folder,
}

const TOKEN: &str = "canary-token-5f1c";

async fn scenario(limit: &str) -> Option<(Scenario, Program)> {
    let stage = stage_alone().await?;
    let server = Server::start().await;
    server.wants(TOKEN);
    let name = unique("budget");
    let kubeconfig = install(&stage, &name).await;
    let credentials = credentials(TOKEN);
    stage.budget(&name, &spec(&server, limit)).await;
    let program = Program::start(&name, &kubeconfig, Some((credentials.path(), &server.url)));
    let scenario = Scenario {
        stage,
        server,
        name,
        kubeconfig,
        credentials,
    };
    scenario
        .stage
        .wait_active(&scenario.name, "True", "Active")
        .await;
    scenario
        .stage
        .wait_condition(&scenario.name, "Fresh", "True", "Fresh")
        .await;
    Some((scenario, program))
}

fn count(entries: &[(String, String, String)], state: &str) -> usize {
    entries.iter().filter(|(_, is, _)| is == state).count()
}

#[tokio::test]
async fn five_hundred_jobs_at_once_and_money_for_twenty() {
    let Some((scenario, program)) = scenario("20").await else {
        return;
    };
    let Scenario {
        stage,
        server,
        name,
        ..
    } = &scenario;
    // The start of the first job shows that the cold start is over.
    stage.job("first", name, 1).await;
    stage
        .wait("first", "Ready", "estimate 1.00 USD committed")
        .await;
    let before = server.requests().len();
    let jobs: Vec<String> = (0..499).map(|number| format!("job-{number:03}")).collect();
    join_all(jobs.iter().map(|job| stage.job(job, name, 1))).await;
    let entries = eventually("500 verdicts", async || {
        let entries = stage.entries().await;
        let decided = entries
            .iter()
            .filter(|(_, state, message)| state == "Ready" || !message.is_empty())
            .count();
        (decided == 500, entries)
    })
    .await;
    assert_eq!(
        (count(&entries, "Ready"), count(&entries, "Pending")),
        (20, 480)
    );
    let held = &entries
        .iter()
        .find(|(_, state, _)| state == "Pending")
        .unwrap()
        .2;
    assert!(
        held.contains("needs about 1.00 USD, 0.00 is left")
            && held.contains("20.00 committed to 20 running or starting jobs"),
        "{held}"
    );
    // The two queries of each interval and no more: the queried time is the same for both.
    let requests = server.requests()[before..].to_vec();
    let mut by_moment: BTreeMap<i64, usize> = BTreeMap::new();
    for (_, time, _) in &requests {
        *by_moment.entry(*time).or_default() += 1;
    }
    println!(
        "{} queries while 500 jobs were decided, at {by_moment:?}",
        requests.len()
    );
    assert!(by_moment.values().all(|count| *count <= 2), "{by_moment:?}");
    let moments: Vec<i64> = by_moment.into_keys().collect();
    assert!(
        moments.windows(2).all(|pair| pair[1] - pair[0] >= 14),
        "{moments:?}"
    );

    // Nothing changes, so nothing is written.
    let writes = "kueue_check_api_requests_total{verb=\"patch\"";
    tokio::time::sleep(Duration::from_secs(2)).await;
    let settled = program.metric(writes).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(
        program.metric(writes).await - settled <= 1.0,
        "at most a balance was written"
    );
    assert_eq!(count(&stage.entries().await, "Ready"), 20);

    // The end of one job frees money for another.
    stage.set_condition("first", "Finished").await;
    eventually("one more", async || {
        let entries = stage.entries().await;
        (count(&entries, "Ready") == 21, count(&entries, "Ready"))
    })
    .await;

    // Reported spend is no longer committed; with a top-up two more start.
    server.spent(&stage.namespace, 3.0);
    let own = json!({"apiVersion": "budget.kueue-check.dev/v1alpha1", "kind": "NamespaceBudget", "metadata": {"name": "own", "namespace": stage.namespace},
        "spec": {"budgetRef": name, "topUps": [{"amount": "5", "validUntil": "2999-01-01T00:00:00Z"}]}});
    stage.apply(&own).await;
    let balance = eventually("the balance of the namespace", async || {
        let object = stage.get(&own).await;
        (
            object["status"]["limit"] == "25" && object["status"]["spent"] == "3",
            object["status"].clone(),
        )
    })
    .await;
    assert!(balance["held"].as_u64().unwrap() > 450, "{balance}");
    let only = &balance["conditions"][0];
    assert_eq!(
        (
            &only["type"],
            &only["status"],
            &balance["observedGeneration"]
        ),
        (&json!("Conflicting"), &json!("False"), &json!(1))
    );

    // A second one for the same namespace: both report it, and the lower limit applies.
    let mut second = own.clone();
    second["metadata"]["name"] = json!("second");
    second["spec"] = json!({"budgetRef": name, "limit": "4"});
    stage.apply(&second).await;
    for object in [&own, &second] {
        eventually("the conflict to be shown", async || {
            let status = stage.get(object).await["status"].clone();
            let conflict = status["conditions"][0]["status"] == "True";
            (conflict && status["limit"] == "4", status)
        })
        .await;
    }

    eventually("the Budget to show it too", async || {
        let status = stage.get(&super::harness::budget(name, &Value::Null)).await["status"].clone();
        let account = &status["accounts"][0];
        (
            account["limit"] == "4" && account["spent"] == "3",
            status["accounts"].clone(),
        )
    })
    .await;
    assert_balance(stage, name);
}

/// Checks the output of `balance` for the Budget and the namespace.
fn assert_balance(stage: &Stage, name: &str) {
    let kubeconfig = stage.access.kubeconfig().unwrap();
    let (code, text, error) = output_to(&kubeconfig, &["balance", name, "-n", &stage.namespace]);
    assert_eq!(code, Some(0), "{error}");
    let line = |begins: &str| {
        let found = text.lines().find(|line| line.starts_with(begins));
        found
            .unwrap_or_else(|| panic!("{begins} in {text}"))
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(
        text.starts_with(&format!("Budget {name} (USD), as of 20")),
        "{text}"
    );
    assert_eq!(line(&stage.namespace)[1..3], ["4.00", "3.00"], "{text}");
    let states = |state: &str| text.lines().filter(|line| line.ends_with(state)).count();
    assert!(
        states("may start") >= 20 && states("waits") > 450,
        "{} may start, {} wait",
        states("may start"),
        states("waits")
    );
    let (code, _, error) = output_to(&kubeconfig, &["balance", "no-such-budget"]);
    assert!(
        code != Some(0) && error.contains("the Budget") && error.contains("not found"),
        "{error}"
    );
}

#[tokio::test]
async fn a_new_process_keeps_what_was_given_and_gives_no_more() {
    let Some((scenario, program)) = scenario("3").await else {
        return;
    };
    let Scenario { stage, name, .. } = &scenario;
    for job in ["a", "b", "c", "d"] {
        stage.job(job, name, 1).await;
    }
    eventually("three", async || {
        let entries = stage.entries().await;
        (
            count(&entries, "Ready") == 3 && count(&entries, "Pending") == 1,
            entries,
        )
    })
    .await;
    program.kill();
    let _program = Program::start(
        name,
        &scenario.kubeconfig,
        Some((scenario.credentials.path(), &scenario.server.url)),
    );
    stage.job("e", name, 1).await;
    stage.wait("e", "Pending", "0.00 is left").await;
    assert_eq!(count(&stage.entries().await, "Ready"), 3);
    let kubeconfig = stage.access.kubeconfig().unwrap();
    let (code, text, error) = output_to(&kubeconfig, &["explain", "e", "-n", &stage.namespace]);
    assert_eq!(code, Some(0), "{error}");
    let statement = format!(
        "`budget-check balance {name} --namespace {}`",
        stage.namespace
    );
    for part in [
        "0.00 is left",
        "the ledger is kept by the program that runs",
        &statement,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// Returns all that the program has logged, shown, and written about the Budget `name` and its
/// jobs, and the events alone.
pub(super) async fn all_output(
    program: &Program,
    stage: &Stage,
    name: &str,
) -> (String, Vec<Event>) {
    let mut output =
        program.log() + &program.get("/metrics").await + &program.get("/diagnostics").await;
    for (name, state, message) in stage.entries().await {
        output += &[name, state, message].concat();
    }
    let budget = stage.get(&super::harness::budget(name, &Value::Null)).await;
    output += &budget.to_string();
    let events: Api<Event> = Api::all(stage.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    output += &serde_json::to_string(&events).unwrap();
    (output, events)
}

#[tokio::test]
async fn an_outage_of_the_source_evicts_nothing() {
    let Some((scenario, program)) = scenario("100").await else {
        return;
    };
    let Scenario {
        stage,
        server,
        name,
        ..
    } = &scenario;
    server.spent(&stage.namespace, 0.5);
    stage.job("before", name, 1).await;
    stage.wait("before", "Ready", "committed").await;
    stage.set_condition("before", "Admitted").await;
    server.instead(Some(Reply::status(
        503,
        json!({"status": "error", "errorType": "timeout", "error": "query timed out"}).to_string(),
    )));
    stage
        .wait_condition(name, "Fresh", "False", "Unavailable")
        .await;
    // Within the bound of 35 s spend is estimated, and jobs still start.
    stage.job("during", name, 1).await;
    stage.wait("during", "Ready", "committed").await;
    tokio::time::sleep(Duration::from_secs(37)).await;
    stage.job("after", name, 1).await;
    stage
        .wait(
            "after",
            "Pending",
            "query timed out); jobs wait until data is back",
        )
        .await;
    // A rotated token is read again.
    server.wants("canary-token-77aa");
    scenario
        .credentials
        .write("token", "canary-token-77aa")
        .unwrap();
    server.instead(None);
    stage.wait("after", "Ready", "committed").await;
    stage.wait_condition(name, "Fresh", "True", "Fresh").await;
    assert_eq!(
        count(&stage.entries().await, "Ready"),
        3,
        "nothing was evicted"
    );
    assert!(program.metric("kueue_check_evictions_total").await < 1.0);
    let (seen, events) = all_output(&program, stage, name).await;
    assert!(!seen.contains("canary-token"), "a token was shown");
    let outages = events.iter().filter(|event| {
        event.reason.as_deref() == Some("SourceFailed")
            && event
                .regarding
                .as_ref()
                .is_some_and(|object| object.name.as_deref() == Some(name))
    });
    assert_eq!(outages.count(), 1, "one event for one outage");
}

#[tokio::test]
async fn a_query_that_prometheus_rejects_makes_the_check_inactive() {
    let Some(stage) = stage_alone().await else {
        return;
    };
    let server = Server::start().await;
    let name = unique("budget");
    let kubeconfig = install(&stage, &name).await;
    let mut spec = spec(&server, "20");
    spec["source"]["prometheus"]["auth"] = Value::Null;
    spec["source"]["prometheus"]["shape"] = json!("PeriodToDate");
    spec["source"]["prometheus"]["query"] = json!("nonsense {{elapsed}}");
    spec["source"]["prometheus"]
        .as_object_mut()
        .unwrap()
        .remove("auth");
    stage.budget(&name, &spec).await;
    let credentials = credentials("x");
    let _program = Program::start(&name, &kubeconfig, Some((credentials.path(), &server.url)));
    let message = stage.wait_active(&name, "False", "BadQuery").await;
    assert!(
        message.contains("Prometheus rejected the query (400): parse error at char 1"),
        "{message}"
    );
    spec["source"]["prometheus"]["query"] =
        json!("sum by (namespace) (spent{since=\"{{elapsed}}\"})");
    stage.budget(&name, &spec).await;
    stage.wait_active(&name, "True", "Active").await;
}
