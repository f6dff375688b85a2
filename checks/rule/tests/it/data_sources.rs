//! The queries of data sources and the reading of responses, over real HTTP on loopback.

use std::time::Duration;

use kueue_check::Parameters;
use kueue_check_rule::celcheck::resource;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::prometheus::verdict;
use crate::server::{Reply, Server};

/// Returns a rule whose message shows the value of its data source.
fn rule(source: &Value, http: &Value) -> Value {
    let mut data = json!({"name": "price", "http": http});
    let fields = source.as_object().unwrap().clone();
    data.as_object_mut().unwrap().extend(fields);
    json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "CELCheck", "metadata": {"name": "rule"},
        "spec": {"ready": "false", "message": "'%s'.format([http('price')])", "data": [data]},
    })
}

/// Returns the message, which has the value of the data source or the error.
async fn message(rule: &Value, url: &str) -> String {
    let verdict = verdict(rule, url, &json!({})).await;
    verdict.map_or_else(|error| error, |verdict| verdict.message().to_owned())
}

#[tokio::test]
async fn a_request_has_the_method_and_the_body_of_its_data_source() {
    let server = Server::start(|_| Reply::json(200, "1")).await;
    for (http, line, body) in [
        (json!({}), "GET /x?y=z HTTP/1.1", ""),
        (
            json!({"bodyExpression": "'{\"day\": \"' + now.date('UTC').substring(0, 3) + '\"}'"}),
            "POST /x?y=z HTTP/1.1",
            "{\"day\": \"202\"}",
        ),
        (json!({"method": "POST"}), "POST /x?y=z HTTP/1.1", ""),
        (
            json!({"method": "GET", "body": "{}"}),
            "GET /x?y=z HTTP/1.1",
            "{}",
        ),
    ] {
        let mut query = json!({"url": format!("{}/x?y=z", server.url)});
        let fields = http.as_object().unwrap().clone();
        query.as_object_mut().unwrap().extend(fields);
        let rule = rule(&json!({}), &query);
        assert_eq!(message(&rule, &server.url).await, "1", "{http}");
        let received = server.received().pop().unwrap();
        assert_eq!(received.head.lines().next(), Some(line), "{http}");
        assert_eq!(received.body, body, "{http}");
        let kind = (!body.is_empty()).then_some("application/json");
        assert_eq!(received.header("content-type"), kind, "{http}");
    }
}

#[tokio::test]
async fn a_response_is_read_within_the_limits_of_its_data_source() {
    let server = Server::start(|request| match &request.head {
        head if head.contains("/slow") => Reply::Silence,
        _ => Reply::json(200, r#"{"data": [{"eur": 7}, {"eur": 9}]}"#),
    })
    .await;
    let url = |path: &str| json!(format!("{}{path}", server.url));
    let whole = json!({"url": url("/")});
    let part = |path: &str| json!({"url": url("/"), "jsonPath": path});
    for (source, http, expected) in [
        (json!({}), part("$.data[1].eur"), "9"),
        (json!({}), part("$.date"), "there is nothing at $.date"),
        (json!({"maxBytes": 34}), part("$.data[0].eur"), "7"),
        (
            json!({"maxBytes": 33}),
            whole.clone(),
            "its body cannot be read: it is larger than 33 bytes",
        ),
        (
            json!({"timeout": "300ms"}),
            json!({"url": url("/slow")}),
            "did not respond within 300ms",
        ),
        (
            json!({}),
            json!({"url": url("/"), "bodyExpression": "'x'.substring(3)"}),
            "`bodyExpression`: ",
        ),
    ] {
        let begun = Instant::now();
        let found = message(&rule(&source, &http), &server.url).await;
        assert!(
            found.contains(expected),
            "{http}: `{found}`, not `{expected}`"
        );
        assert!(begun.elapsed() < Duration::from_secs(5), "{http}");
    }
}

#[test]
fn a_mistake_in_a_data_source_is_reported_with_its_place() {
    let url = json!("https://a.example");
    let http = |field: &str, value: &str| json!({"url": url, field: value});
    for (source, http, expected) in [
        (
            json!({"timeout": "50ms"}),
            json!({"url": url}),
            "`spec.data[0].timeout` must be from 100ms to 1m",
        ),
        (
            json!({"maxBytes": 0}),
            json!({"url": url}),
            "`spec.data[0].maxBytes` must be from 1 to 1048576",
        ),
        (
            json!({}),
            http("jsonPath", "$..a"),
            "`spec.data[0].http.jsonPath`: only names, indexes and `*` may stand in it",
        ),
        (
            json!({}),
            http("jsonPath", "a"),
            "`spec.data[0].http.jsonPath`: no JSONPath: ",
        ),
        (
            json!({}),
            json!({"url": url, "body": "", "bodyExpression": "''"}),
            "`spec.data[0].http`: a request has either body or bodyExpression",
        ),
        (
            json!({}),
            http("bodyExpression", "3"),
            "`spec.data[0].http.bodyExpression`: expected a string, and it is an int",
        ),
        (
            json!({}),
            http("bodyExpression", "workload.name"),
            "`spec.data[0].http.bodyExpression`: line 1, column 1: there is no variable `workload`",
        ),
        (
            json!({}),
            http("bodyExpression", "http('price')"),
            "`spec.data[0].http.bodyExpression`: line 1, column 6: ",
        ),
    ] {
        let rule = resource::CELCheck::decode(rule(&source, &http)).unwrap();
        let error = rule.validate().unwrap_err();
        assert!(error.contains(expected), "`{error}`, not `{expected}`");
    }
}
