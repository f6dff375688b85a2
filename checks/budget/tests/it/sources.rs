//! Every bad response of a source, and its effects: verdict, message, condition and metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use kueue_check::api::Workload;
use kueue_check_budget::config::BudgetConfig;
use kueue_check_budget::ledger::{BudgetLedger, Decision, HoldReason, run_of};
use kueue_check_budget::messages::MessageFormatter;
use kueue_check_budget::period::Period;
use kueue_check_budget::resource::SourceSpec;
use kueue_check_budget::source::{
    AllowedServer, Credentials, Http, SourceError, SourceWarning, SpendQuery, SpendReport, source,
};
use kueue_check_testenv::Folder;
use serde_json::{Value, json};

use super::server::{Reply, Server, vector};

const AT: i64 = 1_795_251_600;

fn time(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

fn spend_query() -> SpendQuery {
    SpendQuery {
        period: Period {
            start: time(AT - 86_400),
            end: time(AT + 86_400),
        },
        at: time(AT),
        namespaces: Vec::new(),
    }
}

fn spec(url: &str, patch: &Value) -> SourceSpec {
    let mut prometheus =
        json!({"url": url, "query": "rule", "sampleInterval": "1m", "freshness": "raw"});
    for (key, value) in patch.as_object().unwrap() {
        prometheus[key] = value.clone();
    }
    serde_json::from_value(json!({"prometheus": prometheus})).unwrap()
}

async fn query_spend(
    server: &Server,
    patch: &Value,
    credentials: Credentials,
) -> Result<SpendReport, SourceError> {
    source(&spec(&server.url, patch), &Http::new(credentials))
        .query_spend(spend_query())
        .await
}

async fn report_from(reply: Reply) -> Result<SpendReport, SourceError> {
    let server = Server::start().await;
    server.instead(Some(reply));
    query_spend(&server, &json!({}), Credentials::default()).await
}

fn body(kind: &str, result: &Value) -> String {
    json!({"status": "success", "data": {"resultType": kind, "result": result}}).to_string()
}

fn error(kind: &str, text: &str) -> String {
    json!({"status": "error", "errorType": kind, "error": text}).to_string()
}

/// Returns the message of a Workload when the source reports nothing else: that of a job held by a
/// stale account states the reason.
fn held_message(problem: &SourceError) -> String {
    let budget = json!({"unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "10"},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}]});
    let terms =
        Arc::new(BudgetConfig::of_spec("b", &serde_json::from_value(budget).unwrap()).unwrap());
    let workload = Workload::from_json(json!({
        "metadata": {"namespace": "vision", "name": "w", "uid": "u"}, "spec": {"podSets": [{"name": "main", "count": 1, "template": {}}]},
        "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]},
            "admissionChecks": [{"name": "c", "state": "Pending"}]},
    }))
    .unwrap();
    let mut ledger = BudgetLedger::new(Arc::clone(&terms));
    ledger.set_own_limits(BTreeMap::new());
    let now = time(AT);
    ledger.watched_since(now - jiff::SignedDuration::from_hours(2));
    let old = time(AT - 3600);
    let observation = kueue_check_budget::ledger::Observation::of(ledger.period(old).unwrap(), old);
    ledger.observe(&observation, old);
    ledger.failed(problem.to_string());
    let run = run_of(&workload, None, &terms, ["c"].into_iter()).unwrap();
    let decision = ledger.decide(&run, now);
    assert!(
        matches!(decision, Decision::Hold(HoldReason::Stale { .. })),
        "{decision:?}"
    );
    let verdict = MessageFormatter {
        terms: &terms,
        workload: &workload,
        run: &run,
    }
    .verdict(&decision);
    assert!(verdict.is_pending());
    verdict.message().to_owned()
}

#[tokio::test]
async fn each_unusable_response_has_its_reason_pause_and_message() {
    let long = "x".repeat(2000);
    for (reply, reason, word, inactive, part) in [
        (Reply::status(503, error("timeout", "query timed out")), "Unavailable", "unavailable", false, "503 query timed out"),
        (Reply::status(500, "oops"), "Unavailable", "unavailable", false, "500 oops"),
        (Reply::status(502, "<html>bad gateway</html>"), "Unavailable", "unavailable", false, "502"),
        (Reply::status(400, error("bad_data", "parse error at 1:5")), "BadQuery", "bad_query", true, "rejected the query (400): parse error at 1:5"),
        (Reply::status(401, ""), "Unauthorized", "unauthorized", false, "rejected the credentials (401)"),
        (Reply::status(403, "no"), "Unauthorized", "unauthorized", false, "(403)"),
        (Reply::status(404, "not here"), "BadResponse", "bad_response", false, "404 not here"),
        (Reply::status(302, "").header("location", "http://127.0.0.1:1/"), "BadResponse", "bad_response", false, "redirects (302)"),
        (Reply::ok("<html>log in</html>"), "BadResponse", "bad_response", false, "no JSON"),
        (Reply::ok(&body("vector", &json!([]))[..30]), "BadResponse", "bad_response", false, "no JSON"),
        (Reply::ok(error("internal", "who knows")), "BadResponse", "bad_response", false, "status error"),
        (Reply::ok(body("vector", &json!([]))).header("content-encoding", "gzip"), "BadResponse", "bad_response", false, "compressed"),
        (Reply::ok(" ".repeat(17 * 1024 * 1024)), "BadResponse", "bad_response", false, "body cannot be read"),
        (Reply::status(422, error("execution", "many-to-many matching not allowed")), "QueryFailed", "query_failed", false, "many-to-many"),
        (Reply::status(429, "slow down").header("retry-after", "17"), "Throttled", "throttled", false, "pause of 17s"),
        (Reply::status(503, error("unavailable", "later")).header("retry-after", "5"), "Throttled", "throttled", false, "pause of 5s"),
        (Reply::ok(body("scalar", &json!([AT, "1"]))), "WrongShape", "wrong_shape", true, "a scalar"),
        (Reply::ok(body("string", &json!([AT, "x"]))), "WrongShape", "wrong_shape", true, "a string"),
        (Reply::ok(body("matrix", &json!([]))), "WrongShape", "wrong_shape", true, "a matrix"),
        (vector(&[]), "NotMeasured", "not_measured", false, "is missing"),
        (vector(&[json!({"metric": {}, "value": [AT, "1e300"]})]), "NotMeasured", "not_measured", false, "no possible time"),
        (vector(&[json!({"metric": {}, "value": [AT, "-1e300"]})]), "NotMeasured", "not_measured", false, "no possible time"),
        (vector(&[json!({"metric": {}, "value": [AT, "NaN"]})]), "NotMeasured", "not_measured", false, "is missing"),
        (vector(&[json!({"metric": {}, "value": [AT, "+Inf"]})]), "NotMeasured", "not_measured", false, "is missing"),
        (Reply::ok(json!({"status": "success", "warnings": ["results truncated due to limit"], "data": {"resultType": "vector", "result": []}}).to_string()), "Incomplete", "incomplete", false, "truncated due to limit"),
        (Reply::status(500, long), "Unavailable", "unavailable", false, "xxx"),
    ] {
        let shown = format!("{} {:.60}", reply.status, reply.body);
        let error = report_from(reply).await.unwrap_err();
        assert_eq!((error.reason(), error.label(), error.is_configuration()), (reason, word, inactive), "{shown}");
        let text = error.to_string();
        assert!(text.contains(part) && text.chars().count() < 400, "{shown}: {text}");
        let message = held_message(&error);
        assert!(message.starts_with("spend of namespace vision is unknown since") && message.contains(part), "{message}");
    }
    let gone = spec("http://127.0.0.1:1", &json!({}));
    let error = source(&gone, &Http::new(Credentials::default()))
        .query_spend(spend_query())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "Unreachable");
    assert!(
        held_message(&error).contains("Prometheus cannot be reached"),
        "{error}"
    );
}

/// Queries a server whose probe is fresh, and which responds to the other query with `samples`.
async fn spending(samples: &[(&str, &str)]) -> Result<SpendReport, SourceError> {
    let server = Server::start().await;
    let newest = json!({"metric": {}, "value": [AT, (AT - 7).to_string()]});
    let start = json!({"metric": {"budget_check_probe": "start"}, "value": [AT, "1"]});
    let of = |(name, value): &(&str, &str)| {
        let metric = if name.is_empty() {
            json!({})
        } else {
            json!({"namespace": name, "pod": value})
        };
        json!({"metric": metric, "value": [AT, value]})
    };
    server.queue(vec![
        vector(&[newest, start]),
        vector(&samples.iter().map(of).collect::<Vec<_>>()),
    ]);
    query_spend(&server, &json!({}), Credentials::default()).await
}

#[tokio::test]
async fn what_is_missing_odd_or_doubled_has_its_meaning() {
    let report = spending(&[
        ("vision", "12.5"),
        ("nlp", "NaN"),
        ("speech", "-3"),
        ("ocr", "-0.001"),
        ("big", "1e13"),
        ("inf", "+Inf"),
    ])
    .await
    .unwrap();
    assert_eq!(
        report.observation.as_of,
        time(AT - 7),
        "as new as the newest sample"
    );
    let spent: Vec<(&str, String)> = report
        .observation
        .spent
        .iter()
        .map(|(name, spent)| (&**name, spent.to_string()))
        .collect();
    assert_eq!(
        spent,
        [("ocr", "0".to_owned()), ("vision", "12.5".to_owned())]
    );
    let unknown: Vec<&str> = report
        .observation
        .unknown
        .iter()
        .map(|name| &**name)
        .collect();
    assert_eq!(unknown, ["big", "inf", "nlp", "speech"]);

    let report = spending(&[("vision", "1"), ("vision", "2")]).await.unwrap();
    assert_eq!(report.observation.spent["vision"].to_string(), "3");
    assert_eq!(
        report.notes,
        [SourceWarning::Duplicate("vision".to_owned())]
    );

    let report = spending(&[]).await.unwrap();
    assert_eq!(
        (report.observation.spent.len(), report.notes),
        (0, vec![SourceWarning::NoSpendMatched])
    );
    // `or vector(0)` turns missing data into a zero without a name.
    assert_eq!(
        spending(&[("", "0")]).await.unwrap_err().reason(),
        "WrongShape"
    );
    assert_eq!(
        spending(&[("", "0"), ("vision", "1")])
            .await
            .unwrap()
            .observation
            .spent
            .len(),
        1
    );
    let text = spending(&[("vision", "many")]).await.unwrap_err();
    assert_eq!(text.reason(), "BadResponse");
}

/// Returns a ledger in which a job of `vision` has run for `seconds` and costs `cpus` an hour.
fn running(seconds: i64, cpus: &str) -> BudgetLedger {
    let budget = json!({"unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "100"},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}]});
    let terms =
        Arc::new(BudgetConfig::of_spec("b", &serde_json::from_value(budget).unwrap()).unwrap());
    let since = time(AT - seconds).to_string();
    let is = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    let workload = Workload::from_json(json!({
        "metadata": {"namespace": "vision", "name": "w", "uid": "u"}, "spec": {"podSets": [{"name": "main", "count": 1, "template": {}}]},
        "status": {"conditions": [is("QuotaReserved"), is("Admitted")],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": cpus}}]},
            "admissionChecks": [{"name": "c", "state": "Ready"}]},
    }))
    .unwrap();
    let mut ledger = BudgetLedger::new(Arc::clone(&terms));
    ledger.set_own_limits(BTreeMap::new());
    ledger.watched_since(time(AT - 7200));
    let run = run_of(&workload, None, &terms, ["c"].into_iter()).unwrap();
    ledger.observe_run(&run, time(AT - seconds));
    ledger
}

#[tokio::test]
async fn a_job_that_runs_and_is_in_no_figure_is_not_free() {
    let raw = json!({"metric": {}, "value": [AT, AT.to_string()]});
    let start = json!({"metric": {"budget_check_probe": "start"}, "value": [AT, "1"]});
    let current = |namespace: &str| json!({"metric": {"budget_check_probe": "current", "namespace": namespace}, "value": [AT, AT.to_string()]});
    // A recording rule that is no longer evaluated has no current sample, but its past ones still
    // have a sum.
    let spent = json!({"metric": {"namespace": "vision"}, "value": [AT, "5"]});
    for (case, seconds, cpus, also, is_known) in [
        ("measured", 3600, "1", Some(current("vision")), true),
        ("not measured", 3600, "1", None, false),
        (
            "another is measured",
            3600,
            "1",
            Some(current("nlp")),
            false,
        ),
        ("its pods may be starting", 60, "1", None, true),
        ("it costs nothing", 3600, "0", None, true),
    ] {
        let server = Server::start().await;
        let probe: Vec<Value> = [raw.clone(), start.clone()]
            .into_iter()
            .chain(also)
            .collect();
        server.queue(vec![vector(&probe), vector(std::slice::from_ref(&spent))]);
        let report = query_spend(&server, &json!({}), Credentials::default())
            .await
            .unwrap();
        let mut ledger = running(seconds, cpus);
        ledger.observe(&report.observation, time(AT));
        let account = kueue_check_budget::config::Account::Namespace("vision".into());
        assert_eq!(ledger.watermark(&account) == Some(AT), is_known, "{case}");
    }
}

#[tokio::test]
async fn spending_is_known_up_to_the_metric_that_is_furthest_behind() {
    let newest = |mark: Option<&str>, at: i64| {
        let metric = mark.map_or(json!({}), |mark| json!({"budget_check_probe": mark}));
        json!({"metric": metric, "value": [AT, at.to_string()]})
    };
    for (cpu, gpu, expected) in [
        (Some(AT - 5), Some(AT), Ok(AT - 5)),
        (Some(AT), Some(AT - 200), Ok(AT - 200)),
        (Some(AT), None, Err("gpu is missing")),
        (None, Some(AT), Err("raw is missing")),
    ] {
        let server = Server::start().await;
        let samples = [
            cpu.map(|at| newest(None, at)),
            Some(newest(Some("start"), 1)),
            gpu.map(|at| newest(Some("0"), at)),
        ];
        let probe: Vec<Value> = samples.into_iter().flatten().collect();
        server.queue(vec![vector(&probe), vector(&[])]);
        let also = json!({"alsoFresh": ["gpu"]});
        let report = query_spend(&server, &also, Credentials::default()).await;
        let known = report.map(|report| report.observation.as_of);
        match (known, expected) {
            (Ok(known), Ok(expected)) => assert_eq!(known, time(expected)),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (known, expected) => panic!("{known:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_live_exporter_does_not_mask_one_whose_series_have_ended() {
    let server = Server::start().await;
    let by = json!({"freshnessBy": "cluster", "alsoFresh": ["gpu"]});
    query_spend(&server, &by, Credentials::default())
        .await
        .unwrap_err();
    let (probe, ..) = server.requests().remove(0);
    for metric in ["raw", "gpu"] {
        let newest = format!("max by (cluster) (timestamp({metric}))");
        let of_metric = format!("min({newest} or max_over_time({newest}[6h:15m]))");
        assert!(probe.contains(&of_metric), "{probe}");
    }
}

#[tokio::test]
async fn missing_data_of_the_periods_beginning_is_reported() {
    let server = Server::start().await;
    server.queue(vec![
        vector(&[json!({"metric": {}, "value": [AT, AT.to_string()]})]),
        vector(&[json!({"metric": {"namespace": "a"}, "value": [AT, "1"]})]),
    ]);
    let report = query_spend(&server, &json!({}), Credentials::default())
        .await
        .unwrap();
    assert_eq!((report.observation.covered, report.notes), (false, vec![]));
}

#[tokio::test]
async fn the_queries_are_those_of_the_shapes_and_nothing_is_queried_before_there_can_be_anything() {
    for (patch, expected, current) in [
        (
            json!({}),
            "sum by (namespace) (sum_over_time(rule[86400s])) * 60 / 3600",
            Some("rule"),
        ),
        (
            json!({"shape": "Counter", "query": "spent_total"}),
            "sum by (namespace) (increase(spent_total[86400s]))",
            Some("spent_total"),
        ),
        (
            json!({"shape": "PeriodToDate", "query": "sum by (namespace) (x{ns=~\"{{accounts}}\", s=\"{{elapsed}}\", p=\"{{periodStart}}\"})"}),
            "sum by (namespace) (x{ns=~\".*\", s=\"86400\", p=\"1795165200\"})",
            None,
        ),
    ] {
        let server = Server::start().await;
        server.spent("a", 1.0);
        query_spend(&server, &patch, Credentials::default())
            .await
            .unwrap();
        let requests: Vec<(String, i64)> = server
            .requests()
            .into_iter()
            .map(|(query, time, _)| (query, time))
            .collect();
        let mut probe = "max(timestamp(raw))".to_owned();
        for back in [86_100, 86_400, 90_000, 97_200, 108_000] {
            probe += &format!(
                " or label_replace(max(timestamp(raw offset {back}s)), \"budget_check_probe\", \"start\", \"\", \"\")"
            );
        }
        if let Some(current) = current {
            probe += &format!(
                " or label_replace(max by (namespace) (timestamp({current})), \"budget_check_probe\", \"current\", \"\", \"\")"
            );
        }
        assert_eq!(requests, [(probe, AT), (expected.to_owned(), AT)]);
    }
    let server = Server::start().await;
    let early = SpendQuery {
        at: time(AT - 86_400 + 59),
        ..spend_query()
    };
    let report = source(
        &spec(&server.url, &json!({})),
        &Http::new(Credentials::default()),
    )
    .query_spend(early)
    .await
    .unwrap();
    assert_eq!(
        (report.observation.as_of, server.requests().len()),
        (time(AT - 86_400), 0)
    );
}

/// Returns credentials from `folder`, which may be sent to the server at `url`, over plain HTTP
/// too.
pub(crate) fn credentials_for(folder: &Folder, url: &str) -> Credentials {
    Credentials {
        folder: folder.path().to_owned(),
        servers: vec![format!("{url}=.").parse().unwrap()],
    }
}

fn bearer(file: &str) -> Value {
    json!({"auth": {"bearerTokenFile": file}})
}

#[tokio::test]
async fn credentials_come_from_the_one_folder_and_follow_no_redirect() {
    let folder = Folder::new("budget-check").unwrap();
    folder.write("token", "canary-1\n").unwrap();
    folder.write("two", "a\nb").unwrap();
    let server = Server::start().await;
    server.wants("canary-1");
    let credentials = credentials_for(&folder, &server.url);
    query_spend(&server, &bearer("token"), credentials.clone())
        .await
        .unwrap();
    query_spend(
        &server,
        &bearer(folder.path().join("token").to_str().unwrap()),
        credentials.clone(),
    )
    .await
    .unwrap();
    for file in ["/etc/hostname", "../../etc/hostname", "missing", "two"] {
        let error = query_spend(&server, &bearer(file), credentials.clone())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "CredentialsUnusable", "{file}: {error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    // A redirect is a bad response like any other; it is not followed with the token.
    let thief = Server::start().await;
    server.instead(Some(
        Reply::status(307, "").header("location", format!("{}/api/v1/query", thief.url)),
    ));
    let error = query_spend(&server, &bearer("token"), credentials.clone())
        .await
        .unwrap_err();
    assert_eq!((error.reason(), thief.requests().len()), ("BadResponse", 0));
    // A user and a password.
    folder.write("password", "pass:word").unwrap();
    let server = Server::start().await;
    let basic = json!({"auth": {"basic": {"user": "me", "passwordFile": "password"}}});
    query_spend(&server, &basic, credentials_for(&folder, &server.url))
        .await
        .unwrap();
    assert_eq!(
        server.requests()[0].2.as_deref(),
        Some("Basic bWU6cGFzczp3b3Jk")
    );
}

#[tokio::test]
async fn credentials_are_sent_to_the_servers_that_the_deployment_names_and_to_no_others() {
    let folder = Folder::new("budget-check").unwrap();
    folder.write("ours/token", "canary-1").unwrap();
    folder.write("theirs/token", "canary-2").unwrap();
    let server = Server::start().await;
    server.spent("vision", 1.0);
    let port = server.url.rsplit(':').next().unwrap();
    let other_port = Server::start().await.url;
    let entry = |url: &str, credentials: Option<&str>, allow_insecure| AllowedServer {
        origin: url.parse().unwrap(),
        credentials: credentials.map(Into::into),
        allow_insecure,
    };
    let (here, secure) = (&*server.url, format!("https://127.0.0.1:{port}"));
    let localhost = format!("http://localhost:{port}");
    let unusable = "CredentialsUnusable";
    for (case, servers, file, expected) in [
        ("no list, no credentials", vec![], None, Ok(())),
        (
            "no list",
            vec![],
            Some("ours/token"),
            Err((unusable, "does not name it")),
        ),
        (
            "named",
            vec![entry(here, Some("ours"), true)],
            Some("ours/token"),
            Ok(()),
        ),
        (
            "the folder of another server",
            vec![entry(here, Some("ours"), true)],
            Some("theirs/token"),
            Err((unusable, "only below")),
        ),
        (
            "a way around to the folder of another server",
            vec![entry(here, Some("ours"), true)],
            Some("ours/../theirs/token"),
            Err((unusable, "only below")),
        ),
        (
            "a folder beyond that of all credentials",
            vec![entry(here, Some(".."), true)],
            Some("ours/token"),
            Err((unusable, "only below")),
        ),
        (
            "in clear text",
            vec![entry(here, Some("ours"), false)],
            Some("ours/token"),
            Err((unusable, "use https")),
        ),
        (
            "named without credentials",
            vec![entry(here, None, true)],
            Some("ours/token"),
            Err((unusable, "without credentials")),
        ),
        (
            "queried without credentials",
            vec![entry(here, None, false)],
            None,
            Ok(()),
        ),
        (
            "another port",
            vec![entry(&other_port, Some("ours"), true)],
            Some("ours/token"),
            Err((unusable, "does not name it")),
        ),
        (
            "another port, no credentials",
            vec![entry(&other_port, Some("ours"), true)],
            None,
            Err(("Unreachable", "not among the servers that may be queried")),
        ),
        (
            "another scheme",
            vec![entry(&secure, Some("ours"), true)],
            Some("ours/token"),
            Err((unusable, "does not name it")),
        ),
        (
            "another host",
            vec![entry(&localhost, Some("ours"), true)],
            Some("ours/token"),
            Err((unusable, "does not name it")),
        ),
    ] {
        let before = server.requests().len();
        let credentials = Credentials {
            folder: folder.path().to_owned(),
            servers,
        };
        let patch = file.map_or(json!({}), bearer);
        let report = query_spend(&server, &patch, credentials).await;
        let requests = server.requests().split_off(before);
        if let Err((reason, part)) = expected {
            let error = report.expect_err(case);
            assert_eq!(error.reason(), reason, "{case}: {error}");
            assert!(error.to_string().contains(part), "{case}: {error}");
            assert_eq!(requests, [], "{case}");
        } else {
            report.unwrap_or_else(|error| panic!("{case}: {error}"));
            let sent = file.map(|_| "Bearer canary-1".to_owned());
            assert!(
                requests.iter().all(|(_, _, header)| *header == sent),
                "{case}"
            );
        }
    }
}

#[tokio::test]
async fn datadogs_keys_are_sent_nowhere_unless_the_deployment_names_the_server() {
    let folder = Folder::new("budget-check").unwrap();
    folder.write("datadog/api-key", "canary-api").unwrap();
    folder
        .write("datadog/app-key", "canary-application")
        .unwrap();
    let thief = Server::start().await;
    let credentials = Credentials {
        folder: folder.path().to_owned(),
        ..Credentials::default()
    };
    let spec = json!({"datadog": {"site": "datadoghq.com", "url": thief.url, "query": "x by {kube_namespace}", "freshness": "x"}});
    let spec: SourceSpec = serde_json::from_value(spec).unwrap();
    let error = source(&spec, &Http::new(credentials))
        .query_spend(spend_query())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "CredentialsUnusable", "{error}");
    assert!(!error.to_string().contains("canary"), "{error}");
    assert_eq!(thief.requests(), []);
}

#[tokio::test]
async fn a_server_is_trusted_by_the_authority_that_is_named() {
    // The API server is the one real server with a certificate of its own here. It has no queries,
    // and responds accordingly.
    let Some(stage) = super::harness::stage().await else {
        return;
    };
    let kubeconfig = std::fs::read(stage.access.kubeconfig().unwrap()).unwrap();
    let kubeconfig: Value = serde_json::from_slice(&kubeconfig).unwrap();
    let cluster = &kubeconfig["clusters"][0]["cluster"];
    let folder = Folder::new("budget-check").unwrap();
    let authority = cluster["certificate-authority"].as_str().unwrap();
    std::fs::copy(authority, folder.path().join("ca.crt")).unwrap();
    folder.write("none.crt", "no certificate").unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    folder.write("token", token).unwrap();
    let credentials = credentials_for(&folder, cluster["server"].as_str().unwrap());
    for (patch, reason, part) in [
        (
            json!({"caFile": "ca.crt", "auth": {"bearerTokenFile": "token"}}),
            "BadResponse",
            "404",
        ),
        (
            json!({"auth": {"bearerTokenFile": "token"}}),
            "Unreachable",
            "certificate",
        ),
        (
            json!({"caFile": "none.crt"}),
            "CredentialsUnusable",
            "there is none",
        ),
        (
            json!({"caFile": "/etc/hostname"}),
            "CredentialsUnusable",
            "only below",
        ),
    ] {
        let spec = spec(cluster["server"].as_str().unwrap(), &patch);
        let error = source(&spec, &Http::new(credentials.clone()))
            .query_spend(spend_query())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{patch}: {error}");
        assert!(error.to_string().contains(part), "{patch}: {error}");
        assert!(!error.to_string().contains(token), "{error}");
    }
}
