//! The Datadog source over real HTTP, against a strict stand-in. It has not been run on the live
//! service.

mod end_to_end;
mod query;
mod service;

use std::path::Path;
use std::time::Duration;

use kueue_check_budget::period::Period;
use kueue_check_budget::resource::SourceSpec;
use kueue_check_budget::source::{
    Credentials, Http, Source, SourceError, SourceWarning, SpendQuery, SpendReport, source,
};
use kueue_check_testenv::Folder;
use serde_json::{Value, json};

use service::{Datadog, Fault};

const METRIC: &str = "aws.cost.net.amortized.realtime.estimated";
/// A Monday, 00:00 in Amsterdam.
const START: i64 = 1_795_388_400;
const DAY: i64 = 86_400;
const KEYS: (&str, &str) = ("canary-api-9d3f", "canary-application-77c1");

fn time(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

fn spend_query(at: i64) -> SpendQuery {
    SpendQuery {
        period: Period {
            start: time(START),
            end: time(START + 7 * DAY),
        },
        at: time(at),
        namespaces: Vec::new(),
    }
}

/// The keys in files, as in a mounted Secret.
struct Keys(Folder);

impl Keys {
    fn new() -> Self {
        let keys = Self(Folder::new("budget-check").unwrap());
        keys.write(KEYS);
        keys
    }

    fn write(&self, (api, application): (&str, &str)) {
        self.0
            .write("datadog/api-key", &format!("{api}\n"))
            .unwrap();
        self.0
            .write("datadog/app-key", &format!("{application}\n"))
            .unwrap();
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }
}

/// A service with a week of spend, and the source that queries it.
struct Setup {
    service: Datadog,
    keys: Keys,
    source: std::sync::Arc<dyn Source>,
}

async fn setup(patch: Value) -> Setup {
    let service = Datadog::start(KEYS.0, KEYS.1).await;
    let mut datadog = json!({
        "site": "datadoghq.eu", "url": service.url,
        "query": format!("sum:{METRIC}{{kube_cluster_name:prod}} by {{kube_namespace}}.as_count()"),
        "freshness": format!("sum:{METRIC}{{kube_cluster_name:prod}}.as_count()"),
    });
    for (key, value) in patch.as_object().unwrap() {
        datadog[key] = value.clone();
    }
    let spec: SourceSpec = serde_json::from_value(json!({"datadog": datadog})).unwrap();
    let keys = Keys::new();
    let credentials = Credentials {
        folder: keys.folder().to_owned(),
        servers: vec![format!("{}=.", service.url).parse().unwrap()],
    };
    let http = Http::new(credentials).deadline(Duration::from_millis(500));
    Setup {
        service,
        keys,
        source: source(&spec, &http),
    }
}

impl Setup {
    /// Adds a week of spend: `vision` spends 1.5 every five minutes and `nlp` 0.25, from the week's
    /// start until `until`; another cluster spends too.
    fn week(&self, until: i64) {
        for at in (START..until).step_by(300) {
            for (cluster, namespace, amount) in [
                ("prod", "vision", 1.5),
                ("prod", "nlp", 0.25),
                ("test", "vision", 100.0),
            ] {
                let tags = [
                    format!("kube_cluster_name:{cluster}"),
                    format!("kube_namespace:{namespace}"),
                ];
                self.service
                    .point(METRIC, at, &[&tags[0], &tags[1]], amount);
            }
            // A node that belongs to no namespace.
            self.service
                .point(METRIC, at, &["kube_cluster_name:prod"], 0.5);
        }
    }

    async fn query_spend(&self, at: i64) -> Result<SpendReport, SourceError> {
        self.source.query_spend(spend_query(at)).await
    }
}

fn spent(report: &SpendReport) -> Vec<(&str, String)> {
    let all = report.observation.spent.iter();
    all.map(|(name, spent)| (&**name, spent.to_string()))
        .collect()
}

#[tokio::test]
async fn both_versions_of_the_api_give_the_same_sums() {
    let at = START + 6 * DAY + 3600;
    for (only_v1, expected, later) in [
        (
            false,
            vec!["GET /api/v1/query", "POST /api/v2/query/scalar"],
            vec!["GET /api/v1/query", "POST /api/v2/query/scalar"],
        ),
        (
            true,
            vec![
                "GET /api/v1/query",
                "POST /api/v2/query/scalar",
                "GET /api/v1/query",
            ],
            vec!["GET /api/v1/query", "GET /api/v1/query"],
        ),
    ] {
        let setup = setup(json!({})).await;
        setup.week(at);
        if only_v1 {
            setup.service.only_v1();
        }
        let report = setup.query_spend(at).await.unwrap();
        // 1,740 samples of 5 min: summed, and not averaged, which is Datadog's default.
        assert_eq!(
            spent(&report),
            [("nlp", "435".to_owned()), ("vision", "2610".to_owned())],
            "only v1: {only_v1}"
        );
        assert_eq!(report.notes, []);
        assert_eq!(setup.service.requests(), expected);
        assert_eq!(setup.query_spend(at).await.unwrap(), report);
        assert_eq!(
            setup.service.requests(),
            later,
            "a missing API is not requested again"
        );
        let breaches = setup.service.breaches();
        assert!(breaches.len() == usize::from(only_v1), "{breaches:?}");
    }
}

#[tokio::test]
async fn what_is_known_ends_where_the_newest_values_begin() {
    let setup = setup(json!({})).await;
    let now = START + DAY;
    // The service is 20 min late.
    setup.week(now - 1200 + 1);
    let report = setup.query_spend(now).await.unwrap();
    assert_eq!(
        report.observation.as_of,
        time(now - 1200),
        "a bucket whose end lies in the future has no data about its end"
    );
    // Finally it is down: its data does not count as complete.
    let error = setup.query_spend(now + 7 * 3600).await.unwrap_err();
    assert_eq!(error.reason(), "NotMeasured", "{error}");
    // No query is sent before there can be data.
    setup.service.requests();
    let early = setup.query_spend(START).await.unwrap();
    assert_eq!(
        (
            early.observation.spent.len(),
            setup.service.requests().len()
        ),
        (0, 0)
    );
}

#[tokio::test]
async fn each_bad_response_has_its_reason_and_pause() {
    let v2 = |attributes: Value| {
        json!({"data": {"type": "scalar_response", "attributes": attributes}}).to_string()
    };
    let number = |values: Value| json!({"type": "number", "name": "spent", "values": values});
    for (fault, reason, pause, message) in [
        (
            Fault::response(429, json!({"errors": ["Rate limit exceeded"]}).to_string())
                .header("x-ratelimit-reset", "37"),
            "Throttled",
            37,
            "a pause of 37s",
        ),
        (
            Fault::response(429, "").header("retry-after", "11"),
            "Throttled",
            11,
            "a pause of 11s",
        ),
        (Fault::response(429, ""), "Throttled", 60, "a pause of 60s"),
        (
            Fault::response(
                400,
                json!({"errors": ["Queries ending outside the retention date are invalid"]})
                    .to_string(),
            ),
            "BadQuery",
            600,
            "outside the retention date",
        ),
        (Fault::response(500, "{}"), "Unavailable", 1, "500"),
        (Fault::response(502, "<html>"), "Unavailable", 1, "502"),
        (
            Fault::response(503, "").header("retry-after", "9"),
            "Throttled",
            9,
            "pause of 9s",
        ),
        (Fault::response(404, "<html>"), "BadResponse", 1, "404"),
        (
            Fault::response(200, "<html>"),
            "BadResponse",
            1,
            "expected value",
        ),
        (
            Fault::response(200, "{\"status\": \"o"),
            "BadResponse",
            1,
            "EOF",
        ),
        (
            Fault::response(302, "").header("location", "http://127.0.0.1:1/"),
            "BadResponse",
            1,
            "redirects (302)",
        ),
        (
            Fault::response(
                200,
                json!({"status": "error", "error": "Timeout"}).to_string(),
            ),
            "QueryFailed",
            1,
            "Timeout",
        ),
        (Fault::Half, "BadResponse", 1, "body cannot be read"),
        (
            Fault::Slow(Duration::from_secs(5)),
            "TimedOut",
            1,
            "did not respond within 500ms",
        ),
        (
            Fault::response(200, "{}").header("content-encoding", "gzip"),
            "BadResponse",
            1,
            "compressed",
        ),
    ] {
        let setup = setup(json!({})).await;
        setup.week(START + DAY);
        let shown = format!("{fault:?}");
        setup.service.faults([fault]);
        let error = setup.query_spend(START + DAY).await.unwrap_err();
        assert_eq!(
            (error.reason(), error.pause(1, 1.0).as_secs()),
            (reason, pause),
            "{shown}: {error}"
        );
        assert!(error.to_string().contains(message), "{shown}: {error}");
        assert!(!error.to_string().contains("canary"), "{shown}: {error}");
        // It recovers by itself.
        assert_eq!(
            spent(&setup.query_spend(START + DAY).await.unwrap())[0],
            ("nlp", "72".to_owned()),
            "{shown}"
        );
    }
    // The same for the second query, whose response has another shape.
    for (body, reason) in [
        (v2(json!({"columns": [number(json!([1]))]})), "WrongShape"),
        (
            v2(
                json!({"columns": [{"type": "group", "name": "host", "values": [["a"]]}, number(json!([1]))]}),
            ),
            "WrongShape",
        ),
        (v2(json!({})), "BadResponse"),
        (
            json!({"status": "ok", "series": []}).to_string(),
            "BadResponse",
        ),
        (
            v2(
                json!({"columns": [{"type": "group", "name": "kube_namespace", "values": [["a"], ["b"]]}, number(json!([1]))]}),
            ),
            "BadResponse",
        ),
    ] {
        let setup = setup(json!({})).await;
        setup.week(START + DAY);
        let probe = json!({"status": "ok", "series": [{"interval": 300, "pointlist": [[(START + DAY - 300) * 1000, 1.0]]}]});
        setup.service.faults([
            Fault::response(200, probe.to_string()),
            Fault::response(200, &body),
        ]);
        let error = setup.query_spend(START + DAY).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{body}: {error}");
    }
}

#[tokio::test]
async fn keys_are_sent_in_headers_only_and_are_read_again_when_they_are_rejected() {
    let setup = setup(json!({})).await;
    setup.week(START + DAY);
    setup.query_spend(START + DAY).await.unwrap();
    assert_eq!(setup.service.breaches(), [""; 0]);
    // The keys are rotated: on the service first, then in the files.
    let rotated = ("canary-api-new", "canary-application-new");
    setup.service.keys(rotated.0, rotated.1);
    let error = setup.query_spend(START + DAY).await.unwrap_err();
    assert_eq!(error.reason(), "Unauthorized");
    assert_eq!(error.to_string(), "Datadog rejected the credentials (403)");
    setup.keys.write(rotated);
    setup.query_spend(START + DAY).await.unwrap();
    // A key that is rotated between its reading and its use causes no outage.
    setup.service.requests();
    setup.service.faults([Fault::response(
        403,
        json!({"errors": ["Forbidden"]}).to_string(),
    )]);
    setup.query_spend(START + DAY).await.unwrap();
    assert_eq!(setup.service.requests().len(), 3);
    std::fs::remove_file(setup.keys.folder().join("datadog/app-key")).unwrap();
    let error = setup.query_spend(START + DAY).await.unwrap_err();
    assert_eq!(error.reason(), "CredentialsUnusable");
    assert!(error.to_string().contains("datadog/app-key"), "{error}");
    // Other files, named in the Budget.
    let named = self::setup(json!({"apiKeyFile": "a", "appKeyFile": "b"})).await;
    named.week(START + DAY);
    named.keys.0.write("a", KEYS.0).unwrap();
    named.keys.0.write("b", KEYS.1).unwrap();
    named.query_spend(START + DAY).await.unwrap();
}

#[tokio::test]
async fn fewer_queries_are_sent_when_few_are_left() {
    for (left, notes) in [(100, vec![]), (99, vec![SourceWarning::SlowDown])] {
        let setup = setup(json!({})).await;
        setup.week(START + DAY);
        setup.service.remaining(left);
        assert_eq!(
            setup.query_spend(START + DAY).await.unwrap().notes,
            notes,
            "{left}"
        );
    }
}

#[tokio::test]
async fn an_invalid_query_is_a_configuration_error() {
    let patch = json!({"query": format!("sum:{METRIC}{{*}} by {{kube_namespace}}.nonsense()")});
    let setup = setup(patch).await;
    setup.week(START + DAY);
    let error = setup.query_spend(START + DAY).await.unwrap_err();
    assert!(error.is_configuration(), "{error}");
    assert!(error.to_string().contains("unknown function"), "{error}");
    // A query whose result has no namespace.
    let silent = self::setup(json!({"query": "sum:nothing{*} by {kube_namespace}"})).await;
    silent.week(START + DAY);
    let report = silent.query_spend(START + DAY).await.unwrap();
    assert_eq!(
        (report.observation.spent.len(), report.notes),
        (0, vec![SourceWarning::NoSpendMatched])
    );
}
