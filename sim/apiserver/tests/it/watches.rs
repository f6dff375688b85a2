//! Watches.

use serde_json::json;

use super::definitions::{WIDGETS, make, widget_path};
use super::harness::{Row, Step, delete, get, merge, post, put, row};
use super::lists::caught_up;

fn watch(query: &str) -> Step {
    get(200, format!("{WIDGETS}?watch=true&timeoutSeconds=2{query}"))
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row(
            "a watch starts with what is there",
            [make("a"), make("b"), watch("")],
        ),
        row(
            "a watch of any version",
            [make("a"), caught_up(), watch("&resourceVersion=0")],
        ),
        row(
            "a watch after a version",
            [
                make("a"),
                make("b"),
                merge(200, widget_path("a"), json!({"spec": {"text": "abd"}})),
                delete(200, widget_path("b")),
                watch("&resourceVersion={first}"),
            ],
        ),
        row(
            "a watch of one name",
            [
                make("a"),
                make("b"),
                watch("&fieldSelector=metadata.name%3Da"),
            ],
        ),
        row(
            "an object that leaves the selection",
            [
                make("a"),
                merge(200, widget_path("a"), json!({"spec": {"text": "abd"}})),
                merge(200, widget_path("a"), json!({"spec": {"on": true}})),
                merge(200, widget_path("a"), json!({"spec": {"text": "abc"}})),
                watch("&resourceVersion={first}&fieldSelector=spec.text%3Dabc"),
            ],
        ),
        row(
            "an object that enters a selection by label",
            [
                make("a"),
                merge(
                    200,
                    widget_path("a"),
                    json!({"metadata": {"labels": {"x": "1"}}}),
                ),
                merge(
                    200,
                    widget_path("a"),
                    json!({"metadata": {"labels": {"x": null}}}),
                ),
                watch("&resourceVersion={first}&labelSelector=x"),
            ],
        ),
        row(
            "what changes nothing is no event",
            [
                make("a"),
                merge(200, widget_path("a"), json!({"spec": {"text": "abc"}})),
                watch("&resourceVersion={first}"),
            ],
        ),
        row(
            "an object with a finalizer",
            [
                post(
                    201,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "finalizers": ["example.com/f"]}}),
                ),
                delete(200, widget_path("a")),
                delete(200, widget_path("a")),
                merge(
                    200,
                    widget_path("a"),
                    json!({"metadata": {"finalizers": null}}),
                ),
                get(404, widget_path("a")),
                watch("&resourceVersion={first}"),
            ],
        ),
        row(
            "initial events end with a bookmark",
            [
                make("a"),
                watch(
                    "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
                ),
            ],
        ),
        row(
            "initial events of nothing",
            [watch(
                "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
            )],
        ),
        row(
            "initial events need a rule",
            [get(
                422,
                format!("{WIDGETS}?watch=true&sendInitialEvents=true"),
            )],
        ),
        row(
            "a rule needs initial events",
            [get(
                422,
                format!("{WIDGETS}?watch=true&resourceVersion=1&resourceVersionMatch=Exact"),
            )],
        ),
        row(
            "no initial events",
            [
                make("a"),
                watch(
                    "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={first}",
                ),
            ],
        ),
        row(
            "a watch by a field that cannot be",
            [get(
                400,
                format!("{WIDGETS}?watch=true&fieldSelector=spec.mode%3DFast"),
            )],
        ),
        row(
            "a watch of a version that is none",
            [get(
                500,
                format!("{WIDGETS}?watch=true&resourceVersion=abc"),
            )],
        ),
        row(
            "timeouts of watches that are too long or none",
            [
                make("a"),
                get(
                    400,
                    format!("{WIDGETS}?watch=true&timeoutSeconds=18446744073709551615"),
                ),
                get(400, format!("{WIDGETS}?watch=true&timeoutSeconds=abc")),
                get(
                    400,
                    format!("{WIDGETS}?timeoutSeconds=18446744073709551615"),
                ),
                get(400, format!("{WIDGETS}?limit=-9223372036854775809")),
            ],
        ),
        row(
            "a watch that ends at once",
            [
                make("a"),
                get(
                    200,
                    format!("{WIDGETS}?watch=true&resourceVersion={{rv}}&timeoutSeconds=-1"),
                ),
                get(
                    200,
                    format!(
                        "{WIDGETS}?watch=true&resourceVersion={{rv}}&timeoutSeconds=9223372036854775807"
                    ),
                ),
            ],
        ),
        row(
            "a watch in another version",
            [
                make("a"),
                get(
                    200,
                    "/apis/test.example.com/v1beta1/namespaces/{ns}/widgets?watch=true&timeoutSeconds=1",
                ),
            ],
        ),
        row(
            "a watch of ConfigMaps",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/configmaps",
                    json!({"metadata": {"name": "a"}}),
                ),
                put(
                    200,
                    "/api/v1/namespaces/{ns}/configmaps/a",
                    json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
                ),
                delete(200, "/api/v1/namespaces/{ns}/configmaps/a"),
                get(
                    200,
                    "/api/v1/namespaces/{ns}/configmaps?watch=true&timeoutSeconds=2&resourceVersion={first}",
                ),
            ],
        ),
    ]
}

/// The real server does not guarantee the times of bookmarks, so this test does not compare both.
#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    use http_body_util::BodyExt;

    let server = kueue_check_apiserver::ApiServer::new(kueue_check_apiserver::system_time());
    let client = server.client();
    let path = "/api/v1/namespaces/default/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion=1&timeoutSeconds=130";
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .unwrap();
    let began = tokio::time::Instant::now();
    let mut body = client.send(request).await.unwrap().into_body();
    let mut seen = Vec::new();
    while let Some(frame) = body.frame().await {
        let bytes = frame.unwrap().into_data().unwrap();
        let event: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        seen.push(began.elapsed().as_secs());
    }
    assert_eq!(seen, [60, 120, 128]);
    assert_eq!(began.elapsed().as_secs(), 130);
}
