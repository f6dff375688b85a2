//! Merge, JSON and strategic patches.

use serde_json::json;

use super::definitions::{WIDGETS, widget, widget_path};
use super::harness::{Row, get, jsonpatch, merge, post, row, strategic};

pub(super) fn rows() -> Vec<Row> {
    let w = widget_path("a");
    let start = || {
        post(
            201,
            WIDGETS,
            widget(
                "a",
                json!({"text": "abc", "labels": {"x": "1"}, "parts": [{"name": "p", "size": 1}, {"name": "q"}], "words": ["a", "b"]}),
            ),
        )
    };
    let configs = "/api/v1/namespaces/{ns}/configmaps";
    let config = || {
        post(
            201,
            configs,
            json!({"metadata": {"name": "a", "finalizers": ["example.com/a"]}, "data": {"k": "v"}}),
        )
    };
    vec![
        row(
            "a merge patch changes and removes",
            [
                start(),
                merge(
                    200,
                    &w,
                    json!({"spec": {"text": null, "labels": {"y": "2"}, "words": ["c"]}}),
                ),
            ],
        ),
        row(
            "a merge patch replaces lists",
            [
                start(),
                merge(200, &w, json!({"spec": {"parts": [{"name": "r"}]}})),
            ],
        ),
        row(
            "a merge patch that changes nothing",
            [
                start(),
                merge(200, &w, json!({"spec": {"text": "abc"}})),
                merge(200, &w, json!({})),
            ],
        ),
        row(
            "a merge patch of the version",
            [
                start(),
                merge(
                    200,
                    &w,
                    json!({"metadata": {"resourceVersion": "{rv}"}, "spec": {"text": "abd"}}),
                ),
                merge(
                    409,
                    &w,
                    json!({"metadata": {"resourceVersion": "{first}"}, "spec": {"text": "abe"}}),
                )
                .message("Operation cannot be fulfilled on widgets.test.example.com \"a\""),
            ],
        ),
        row(
            "a merge patch of another uid",
            [
                start(),
                merge(
                    422,
                    &w,
                    json!({"metadata": {"uid": "00000000-0000-4000-8000-aaaaaaaaaaaa"}}),
                ),
            ],
        ),
        row(
            "a merge patch of the name",
            [start(), merge(400, &w, json!({"metadata": {"name": "b"}}))],
        ),
        row(
            "a merge patch of the kind",
            [start(), merge(422, &w, json!({"kind": "Plain"}))],
        ),
        row(
            "a merge patch of nothing",
            [merge(404, &w, json!({"spec": {"text": "abc"}}))],
        ),
        row(
            "a merge patch that breaks a rule",
            [
                start(),
                merge(422, &w, json!({"spec": {"mode": "Odd"}}))
                    .message("Unsupported value: \"Odd\""),
            ],
        ),
        row(
            "a merge patch that is a list",
            [start(), merge(400, &w, json!([1]))],
        ),
        row(
            "a merge patch of what the server writes",
            [
                start(),
                merge(
                    200,
                    &w,
                    json!({"metadata": {"generation": 9, "creationTimestamp": null}}),
                ),
            ],
        ),
        row(
            "a merge patch of a status touches nothing else",
            [
                start(),
                merge(
                    200,
                    widget_path("a/status"),
                    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"text": "zzz"}, "status": {"phase": "x"}}),
                ),
                merge(200, widget_path("a/status"), json!({"status": null})),
            ],
        ),
        row(
            "a null default",
            [
                start(),
                merge(
                    200,
                    &w,
                    json!({"spec": {"mode": null, "nested": null, "empty": null}}),
                ),
            ],
        ),
        row(
            "a JSON patch",
            [
                start(),
                jsonpatch(
                    200,
                    &w,
                    json!([{"op": "test", "path": "/spec/text", "value": "abc"}, {"op": "replace", "path": "/spec/text", "value": "abd"}, {"op": "add", "path": "/spec/words/-", "value": "z"}, {"op": "remove", "path": "/spec/parts/0"}]),
                ),
            ],
        ),
        row(
            "a JSON patch whose test fails",
            [
                start(),
                jsonpatch(
                    422,
                    &w,
                    json!([{"op": "test", "path": "/spec/text", "value": "zzz"}]),
                ),
            ],
        ),
        row(
            "a JSON patch of a missing path",
            [
                start(),
                jsonpatch(422, &w, json!([{"op": "remove", "path": "/spec/on"}])),
            ],
        ),
        row(
            "a JSON patch that replaces a missing path",
            [
                start(),
                jsonpatch(
                    200,
                    &w,
                    json!([{"op": "replace", "path": "/spec/on", "value": true}]),
                ),
            ],
        ),
        row(
            "a JSON patch that tests the version",
            [
                start(),
                jsonpatch(
                    200,
                    &w,
                    json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "{rv}"}, {"op": "add", "path": "/spec/on", "value": true}]),
                ),
                jsonpatch(
                    422,
                    &w,
                    json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "{first}"}]),
                ),
            ],
        ),
        row(
            "a JSON patch that is an object",
            [start(), jsonpatch(400, &w, json!({"a": 1}))],
        ),
        row(
            "a strategic patch of a custom kind",
            [
                start(),
                strategic(415, &w, json!({"spec": {}}))
                    .message("the body of the request was in an unknown format"),
            ],
        ),
        row(
            "a strategic patch of a ConfigMap",
            [
                config(),
                strategic(
                    200,
                    format!("{configs}/a"),
                    json!({"data": {"l": "m"}, "metadata": {"finalizers": ["example.com/b"]}}),
                ),
                strategic(
                    200,
                    format!("{configs}/a"),
                    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}),
                ),
            ],
        ),
        row(
            "a strategic patch of owners",
            [
                config(),
                strategic(
                    200,
                    format!("{configs}/a"),
                    json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "11111111-1111-4111-8111-111111111111"}]}}),
                ),
                strategic(
                    200,
                    format!("{configs}/a"),
                    json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "21111111-1111-4111-8111-111111111111"}]}}),
                ),
                strategic(
                    200,
                    format!("{configs}/a"),
                    json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "11111111-1111-4111-8111-111111111111"}]}}),
                ),
            ],
        ),
        row(
            "force belongs to apply",
            [start(), merge(422, format!("{w}?force=true"), json!({}))],
        ),
        row(
            "a patch in a dry run",
            [
                start(),
                merge(
                    200,
                    format!("{w}?dryRun=All"),
                    json!({"spec": {"text": "abd"}}),
                ),
                get(200, &w),
            ],
        ),
    ]
}
