//! Lists, pages and versions.

use serde_json::json;

use super::definitions::{WIDGETS, make, widget_path};
use super::harness::{Row, Step, delete, get, merge, post, row};

/// Requests the newest version; until then the cache of the real server may be stale.
pub(super) fn caught_up() -> Step {
    get(
        200,
        format!("{WIDGETS}?resourceVersion={{rv}}&resourceVersionMatch=NotOlderThan"),
    )
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("an empty list", [get(200, WIDGETS)]),
        row(
            "a list in order of names",
            [make("c"), make("a"), make("b"), get(200, WIDGETS)],
        ),
        row(
            "a list of a kind that is built in",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/configmaps",
                    json!({"metadata": {"name": "a"}}),
                ),
                get(200, "/api/v1/namespaces/{ns}/configmaps"),
            ],
        ),
        row(
            "pages",
            [
                make("a"),
                make("b"),
                make("c"),
                get(200, format!("{WIDGETS}?limit=2")),
                get(200, format!("{WIDGETS}?limit=2&continue={{token}}")),
            ],
        ),
        row(
            "pages show one moment",
            [
                make("a"),
                make("b"),
                make("c"),
                get(200, format!("{WIDGETS}?limit=1")),
                delete(200, widget_path("b")),
                make("d"),
                get(200, format!("{WIDGETS}?limit=5&continue={{token}}")),
            ],
        ),
        row(
            "pages of a selection do not count the rest",
            [
                make("a"),
                make("b"),
                get(
                    200,
                    format!("{WIDGETS}?limit=1&fieldSelector=spec.text%3Dabc"),
                ),
            ],
        ),
        row(
            "a continue that is none",
            ["abc", "YWJj*", "YWJjZ", "YW=j"]
                .map(|token| get(400, format!("{WIDGETS}?limit=1&continue={token}"))),
        ),
        row(
            "a continue with a version",
            [
                make("a"),
                make("b"),
                get(200, format!("{WIDGETS}?limit=1")),
                get(
                    400,
                    format!("{WIDGETS}?limit=1&resourceVersion={{first}}&continue={{token}}"),
                ),
            ],
        ),
        row(
            "a list of an exact version",
            [
                make("a"),
                make("b"),
                get(
                    200,
                    format!("{WIDGETS}?resourceVersion={{first}}&resourceVersionMatch=Exact"),
                ),
            ],
        ),
        row(
            "a list not older than a version",
            [
                make("a"),
                make("b"),
                // The real server may respond from a cache that does not contain the second one
                // yet.
                caught_up(),
                get(
                    200,
                    format!(
                        "{WIDGETS}?resourceVersion={{first}}&resourceVersionMatch=NotOlderThan"
                    ),
                ),
            ],
        ),
        row(
            "a list of any version",
            [
                make("a"),
                caught_up(),
                get(200, format!("{WIDGETS}?resourceVersion=0&limit=1")),
            ],
        ),
        row(
            "a page of a version",
            [
                make("a"),
                merge(200, widget_path("a"), json!({"spec": {"text": "abd"}})),
                make("b"),
                get(200, format!("{WIDGETS}?resourceVersion={{first}}&limit=1")),
            ],
        ),
        row(
            "a version that is none",
            [get(400, format!("{WIDGETS}?resourceVersion=abc"))],
        ),
        row(
            "a rule without a version",
            [get(422, format!("{WIDGETS}?resourceVersionMatch=Exact"))],
        ),
        row(
            "a rule that is none",
            [get(
                422,
                format!("{WIDGETS}?resourceVersion=1&resourceVersionMatch=Some"),
            )],
        ),
        row(
            "an exact version of nothing",
            [get(
                422,
                format!("{WIDGETS}?resourceVersion=0&resourceVersionMatch=Exact"),
            )],
        ),
    ]
}
