//! Responses of data sources and webhooks.

use std::sync::LazyLock;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use kueue_check::Reservation;
use kueue_check::api::Uid;
use kueue_check_budget::period::Period;
use kueue_check_budget::resource::{DatadogSource, PrometheusSource};
use kueue_check_budget::source::{Datadog, Http, Prometheus, SpendQuery, SpendReport};
use kueue_check_rule::document::foreign;
use kueue_check_sources::{
    HttpResponse, PrometheusClient, PrometheusServer, ServerPolicy, SourceError, Unlisted,
};
use serde_json::{Value, json};

use super::{Form, KEPT, Outcome, Target, assert_line, magnitude, outcome, shape};
use crate::mutate::split;
use crate::target::DictionaryWords::Of;

/// The maximum number of samples that are read from a response.
const MOST: usize = 20_000;

pub(super) const PROMETHEUS: Target = Target {
    name: "prometheus",
    about: "responses of Prometheus, and the spending that they report",
    form: Form::Parts,
    dictionary: &[Of("
        status success error errorType warnings infos data resultType vector matrix scalar result
        metric value namespace team-a budget_check_probe start current NaN +Inf -Inf 1795000000 0.5
        1e300 -0.001 histogram 200 400 422 429 503 1000000000000
    ")],
    memory: KEPT,
    run: prometheus,
};

pub(super) const DATADOG: Target = Target {
    name: "datadog",
    about: "responses of Datadog, to both kinds of query",
    form: Form::Parts,
    dictionary: &[Of("
        status ok error errors series tag_set scope pointlist data attributes columns type group
        number name values namespace namespace:team-a namespace:N/A 1795000000000 N/A 200 400 403
        404 1e300 -1e300
    ")],
    memory: KEPT,
    run: datadog,
};

static HTTP: LazyLock<Http> = LazyLock::new(|| {
    Http::new(ServerPolicy {
        folder: "/nowhere".into(),
        servers: Vec::new(),
        unlisted: Unlisted::Refuse,
        setting: "none",
    })
});

/// Returns the response in a part: its status and, after an empty line, its body.
fn response(part: &[u8]) -> HttpResponse {
    let end = part.windows(2).position(|window| window == b"\n\n");
    let (head, body) = end.map_or((&b""[..], part), |end| (&part[..end], &part[end + 2..]));
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.trim().parse::<u16>().ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let mut headers = HeaderMap::new();
    for line in lines.take(8) {
        if let Some((name, value)) = line.split_once(':')
            && let Ok(name) = http::HeaderName::from_bytes(name.trim().as_bytes())
            && let Ok(value) = HeaderValue::from_str(value.trim())
        {
            headers.insert(name, value);
        }
    }
    HttpResponse::new(status.unwrap_or(StatusCode::OK), headers, body)
}

fn query() -> SpendQuery {
    let second = |second| Timestamp::from_second(second).unwrap_or_default();
    SpendQuery {
        period: Period {
            start: second(1_794_700_800),
            end: second(1_795_305_600),
        },
        at: second(1_795_000_000),
        namespaces: Vec::new(),
    }
}

/// Asserts the properties of any report of a source.
fn check_report(read: &Result<SpendReport, SourceError>) -> Outcome {
    let report = match read {
        Ok(report) => report.clone().without_invalid_names(),
        Err(error) => {
            let text = error.to_string();
            assert_line(&text, 700);
            let pause = error.pause(3, 0.5);
            assert!(
                pause <= Duration::from_hours(1) && !pause.is_zero(),
                "{pause:?}"
            );
            return outcome((error.reason(), shape(&text)));
        }
    };
    let observation = &report.observation;
    for (name, amount) in &observation.spent {
        assert!((1..=63).contains(&name.len()), "{name:?}");
        assert!(
            !observation.unknown.contains(name),
            "{name} is known and unknown"
        );
        let again = amount.to_string().parse();
        assert!(
            again.as_ref() == Ok(amount) || amount.to_string().len() > 12,
            "{amount}"
        );
    }
    assert!(observation.as_of <= query().at, "spending of the future");
    assert!(observation.spent.len() + observation.unknown.len() <= MOST);
    let notes = format!("{:?}", report.notes);
    assert!(!notes.chars().any(char::is_control), "{notes:?}");
    outcome((
        magnitude(observation.spent.len()),
        magnitude(observation.unknown.len()),
        observation.covered,
        observation
            .current
            .as_ref()
            .map(|names| magnitude(names.len())),
        shape(&notes),
    ))
}

/// Returns the responses to the probe of a source and to the query of its spend. An input of one
/// part is both.
fn probe_and_spend(input: &[u8]) -> (HttpResponse, HttpResponse) {
    let parts = split(input);
    let spent = response(parts.get(1).unwrap_or(&parts[0]));
    (response(&parts[0]), spent)
}

fn prometheus(input: &[u8]) -> Outcome {
    static SOURCE: LazyLock<Prometheus> = LazyLock::new(|| {
        let spec = json!({
            "url": "https://prometheus:9090", "query": "cost", "sampleInterval": "1m",
            "freshness": "raw", "alsoFresh": ["other"],
        });
        let Ok::<PrometheusSource, _>(spec) = serde_json::from_value(spec) else {
            panic!("the source cannot be read");
        };
        Prometheus::new(spec, "namespace".to_owned(), HTTP.clone())
    });
    let (probe, spent) = probe_and_spend(input);
    let client = PrometheusClient::new(PrometheusServer::default(), HTTP.clone());
    let some = client.read_vector(&spent, ["namespace"]);
    let all = client.read_all_labels(&spent, 1_000);
    if let Ok(some) = &some {
        assert!(some.len() <= MOST);
        assert!(
            some.iter()
                .flat_map(|sample| &sample.labels)
                .flatten()
                .all(|label| !label.is_empty())
        );
    }
    if let Ok(all) = &all {
        assert!(all.len() <= 1_000);
    }
    // A reader of one label and a reader of all labels get the same samples.
    if let (Ok(some), Ok(all)) = (&some, &all) {
        assert_eq!(some.len(), all.len());
        for (one, whole) in some.iter().zip(all) {
            assert!(one.value.total_cmp(&whole.value).is_eq());
            let label = whole
                .labels
                .get("namespace")
                .filter(|label| !label.is_empty());
            assert_eq!(one.labels[0].as_deref(), label.map(String::as_str));
        }
    }
    for error in [some.err(), all.err()].into_iter().flatten() {
        assert_line(&error.to_string(), 700);
    }
    check_report(&SOURCE.read_responses(&query(), &probe, &spent))
}

fn datadog(input: &[u8]) -> Outcome {
    static SOURCE: LazyLock<Datadog> = LazyLock::new(|| {
        let spec = json!({"site": "datadoghq.eu", "query": "sum:cost{*} by {namespace}", "freshness": "sum:cost{*}"});
        let Ok::<DatadogSource, _>(spec) = serde_json::from_value(spec) else {
            panic!("the source cannot be read");
        };
        Datadog::new(spec, "namespace".to_owned(), HTTP.clone())
    });
    let (probe, spent) = probe_and_spend(input);
    let scalar = check_report(&SOURCE.read_responses(&query(), &probe, &spent, true));
    let series = check_report(&SOURCE.read_responses(&query(), &probe, &spent, false));
    outcome((scalar, series))
}

pub(super) const REVIEW: Target = Target {
    name: "review",
    about: "responses of a webhook: reviews, held reservations, refusals",
    form: Form::Json,
    dictionary: &[Of("
        apiVersion kueue-check.dev/v1alpha1 kind AdmissionCheckReview AdmissionCheckHeldList
        response items uids uid state Ready Pending Retry Rejected message retryAfterSeconds
        podSetUpdates name labels annotations nodeSelector tolerations key operator effect
        NoSchedule recheckAfterSeconds ttlSeconds error team-a/train/1/licences/1794700800
        team-b/serve/2/licences/1794700800 password=x
    ")],
    memory: KEPT,
    run: review,
};

fn review(input: &[u8]) -> Outcome {
    let since = Timestamp::from_second(1_794_700_800).unwrap_or_default();
    let reservations = [
        Reservation::new("team-a", "train", Uid::new("1"), "licences", since),
        Reservation::new("team-b", "serve", Uid::new("2"), "licences", since),
    ];
    let recheck = Duration::from_secs(60);
    let month = Duration::from_hours(30 * 24);
    let verdicts = match foreign::review(input, &reservations, recheck) {
        Err(problem) => {
            assert_line(&problem, 700);
            vec![shape(&problem)]
        }
        Ok(responses) => {
            let mut keys: Vec<String> = reservations.iter().map(ToString::to_string).collect();
            keys.sort();
            assert_eq!(responses.keys().cloned().collect::<Vec<_>>(), keys);
            let summary = |response: &Result<foreign::Reviewed, String>| match response {
                Err(problem) => {
                    assert_line(problem, 700);
                    shape(problem)
                }
                Ok((verdict, ttl, again)) => {
                    assert_line(verdict.message(), kueue_check::MESSAGE_LIMIT);
                    assert!(*ttl <= month, "{ttl:?}");
                    assert!(again.is_none_or(|again| again <= month && !again.is_zero()));
                    assert!(
                        again.is_some() || !verdict.is_pending(),
                        "it waits for ever"
                    );
                    let updates = verdict.updates().as_slice().len();
                    format!(
                        "{}{}{}{updates}",
                        verdict.is_ready(),
                        verdict.is_retry(),
                        again.is_some()
                    )
                }
            };
            responses.values().map(summary).collect()
        }
    };
    // A response that both sides can read is the same document after it is written again.
    if let Ok(whole) = serde_json::from_slice::<kueue_check_rule::document::ReviewResponse>(input) {
        let again = serde_json::to_value(&whole).ok();
        let again = again.and_then(|again: Value| serde_json::from_value(again).ok());
        assert_eq!(again.as_ref(), Some(&whole));
    }
    let held = foreign::held(input, "licences");
    if let Ok(held) = &held {
        assert!(held.iter().all(|one| one.admission_check() == "licences"));
        assert!(
            held.iter()
                .all(|one| one.to_string().parse().as_ref() == Ok(one))
        );
    }
    let refusal = foreign::refusal(input);
    assert_line(&refusal, 201);
    outcome((
        verdicts,
        held.map_err(|problem| shape(&problem))
            .map(|held| magnitude(held.len())),
    ))
}
