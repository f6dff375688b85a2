//! Field validation, dry runs, field managers and warnings.

use serde_json::json;

use super::definitions::{WIDGETS, make, widget, widget_path};
use super::harness::{
    Row, delete, delete_with, get, jsonpatch, merge, post, put, row, ssa, strategic,
};

const CONFIGS: &str = "/api/v1/namespaces/{ns}/configmaps";

pub(super) fn rows() -> Vec<Row> {
    let w = widget_path("a");
    let odd = || {
        let mut object = widget("a", json!({"nope": 1, "parts": [{"name": "p", "zip": 2}]}));
        object["metadata"]["zip"] = json!(1);
        object
    };
    let config = || json!({"metadata": {"name": "a", "zip": 1}, "datas": {"k": "v"}});
    let of = |value: &str| format!("{WIDGETS}?fieldValidation={value}");
    let apply = |spec: serde_json::Value| json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    vec![
        row(
            "unknown fields are warned about",
            [post(201, WIDGETS, odd())],
        ),
        row(
            "unknown fields are ignored if requested",
            [post(201, of("Ignore"), odd())],
        ),
        row(
            "unknown fields are refused if requested",
            [post(400, of("Strict"), odd()), get(404, &w)],
        ),
        row("a warning if requested", [post(201, of("Warn"), odd())]),
        row("an odd way to validate", [post(422, of("Odd"), odd())]),
        row(
            "unknown fields of a built-in kind",
            [
                post(400, format!("{CONFIGS}?fieldValidation=Strict"), config()),
                post(201, CONFIGS, config()),
            ],
        ),
        row(
            "unknown fields in a replacement",
            [
                make("a"),
                put(
                    400,
                    format!("{w}?fieldValidation=Strict"),
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": {"nope": 1}}),
                ),
                put(
                    200,
                    &w,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": {"nope": 1}}),
                ),
            ],
        ),
        row(
            "unknown fields in a merge patch",
            [
                make("a"),
                merge(
                    422,
                    format!("{w}?fieldValidation=Strict"),
                    json!({"spec": {"nope": 1}}),
                ),
                merge(200, &w, json!({"spec": {"nope": 1}})),
                merge(
                    200,
                    format!("{w}?fieldValidation=Ignore"),
                    json!({"spec": {"nope": 1}}),
                ),
            ],
        ),
        row(
            "unknown fields in a JSON patch",
            [
                make("a"),
                jsonpatch(
                    422,
                    format!("{w}?fieldValidation=Strict"),
                    json!([{"op": "add", "path": "/spec/nope", "value": 1}]),
                ),
                jsonpatch(
                    200,
                    &w,
                    json!([{"op": "add", "path": "/spec/nope", "value": 1}]),
                ),
            ],
        ),
        row(
            "unknown fields in a strategic patch",
            [
                post(201, CONFIGS, json!({"metadata": {"name": "a"}})),
                strategic(
                    422,
                    format!("{CONFIGS}/a?fieldValidation=Strict"),
                    json!({"datas": {"k": "v"}}),
                ),
                strategic(200, format!("{CONFIGS}/a"), json!({"datas": {"k": "v"}})),
            ],
        ),
        row(
            "unknown fields in an apply",
            [
                ssa(
                    500,
                    format!("{w}?fieldManager=x&fieldValidation=Strict"),
                    apply(json!({"nope": 1})),
                ),
                ssa(
                    500,
                    format!("{w}?fieldManager=x&fieldValidation=Ignore"),
                    apply(json!({"nope": 1})),
                ),
            ],
        ),
        row(
            "a dry replacement",
            [
                make("a"),
                put(
                    200,
                    format!("{w}?dryRun=All"),
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": {"text": "abd"}}),
                ),
                get(200, &w),
            ],
        ),
        row(
            "a dry apply",
            [
                make("a"),
                ssa(
                    409,
                    format!("{w}?fieldManager=x&dryRun=All"),
                    apply(json!({"text": "abd"})),
                ),
                ssa(
                    200,
                    format!("{w}?fieldManager=x&dryRun=All&force=true"),
                    apply(json!({"text": "abd"})),
                ),
                get(200, &w),
            ],
        ),
        row(
            "a dry creation of what is there",
            [
                make("a"),
                post(409, format!("{WIDGETS}?dryRun=All"), widget("a", json!({}))),
            ],
        ),
        row(
            "a dry creation that breaks a rule",
            [post(
                422,
                format!("{WIDGETS}?dryRun=All"),
                widget("a", json!({"text": "A"})),
            )],
        ),
        row(
            "a dry deletion",
            [
                make("a"),
                delete(200, format!("{w}?dryRun=All")),
                get(200, &w),
                delete(404, widget_path("b?dryRun=All")),
            ],
        ),
        row(
            "a dry deletion of many",
            [
                make("a"),
                delete(200, format!("{WIDGETS}?dryRun=All")),
                get(200, &w),
            ],
        ),
        row(
            "an odd dry run",
            [
                make("a"),
                delete(422, format!("{w}?dryRun=Some")),
                delete_with(
                    422,
                    &w,
                    json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["Some"]}),
                ),
                merge(422, format!("{w}?dryRun=Some"), json!({})),
            ],
        ),
        row(
            "too long a field manager",
            [
                post(
                    422,
                    format!("{WIDGETS}?fieldManager={}", "a".repeat(129)),
                    widget("a", json!({})),
                ),
                ssa(
                    201,
                    format!("{w}?fieldManager={}", "a".repeat(128)),
                    apply(json!({})),
                ),
            ],
        ),
        row(
            "a field manager that is not printable",
            [post(
                422,
                format!("{WIDGETS}?fieldManager=x%07"),
                widget("a", json!({})),
            )],
        ),
        row(
            "one manager in two ways",
            [
                post(
                    201,
                    format!("{WIDGETS}?fieldManager=x"),
                    widget("a", json!({"text": "abc"})),
                ),
                ssa(
                    409,
                    format!("{w}?fieldManager=x"),
                    apply(json!({"text": "abd"})),
                ),
                ssa(
                    200,
                    format!("{w}?fieldManager=x"),
                    apply(json!({"text": "abc", "on": true})),
                ),
                ssa(
                    200,
                    format!("{w}?fieldManager=x&force=true"),
                    apply(json!({"text": "abd"})),
                ),
                merge(
                    200,
                    format!("{w}?fieldManager=x"),
                    json!({"spec": {"text": "abe"}}),
                ),
            ],
        ),
        row(
            "one manager in two versions",
            [
                post(
                    201,
                    format!("{WIDGETS}?fieldManager=x"),
                    widget("a", json!({"text": "abc"})),
                ),
                merge(
                    200,
                    "/apis/test.example.com/v1beta1/namespaces/{ns}/widgets/a?fieldManager=x",
                    json!({"spec": {"on": true}}),
                ),
                ssa(
                    200,
                    "/apis/test.example.com/v1beta1/namespaces/{ns}/widgets/a?fieldManager=y",
                    json!({"apiVersion": "test.example.com/v1beta1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"mode": "Fast"}}),
                ),
                ssa(
                    200,
                    format!("{w}?fieldManager=y"),
                    apply(json!({"mode": "Fast"})),
                ),
                ssa(
                    400,
                    format!("{w}?fieldManager=y"),
                    json!({"apiVersion": "test.example.com/v1beta1", "kind": "Widget", "metadata": {"name": "a"}}),
                ),
            ],
        ),
        row("more managers than are distinguished", {
            let mut steps = vec![make("a")];
            steps.extend((0..12).map(|n| {
                merge(
                    200,
                    format!("{}?fieldManager=m{n:02}", widget_path("a")),
                    json!({"metadata": {"annotations": {format!("k{n:02}"): "v"}}}),
                )
            }));
            <[_; 13]>::try_from(steps).unwrap_or_else(|_| panic!("13 steps"))
        }),
        row(
            "owners that are named twice",
            [post(
                201,
                WIDGETS,
                json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}, {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}]}}),
            )],
        ),
        row(
            "owners that cannot be",
            [
                post(
                    422,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}]}}),
                ),
                post(
                    422,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": true}, {"apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "2", "controller": true, "blockOwnerDeletion": false}]}}),
                ),
                post(
                    422,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]}}),
                ),
            ],
        ),
        row(
            "a made name",
            [
                post(
                    201,
                    format!("{WIDGETS}?dryRun=All"),
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"generateName": "gen-"}}),
                ),
                post(
                    201,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"generateName": "gen-"}}),
                ),
                post(
                    201,
                    CONFIGS,
                    json!({"metadata": {"generateName": "a".repeat(70)}}),
                ),
                post(
                    201,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"generateName": "gen-", "name": "b"}}),
                ),
                post(
                    422,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"generateName": "A_", "name": "b"}}),
                ),
            ],
        ),
        row(
            "what the server writes cannot be given",
            [post(
                201,
                WIDGETS,
                json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "uid": "abc", "generation": 7, "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3, "selfLink": "/x"}}),
            )],
        ),
        row(
            "what the server writes cannot be changed",
            [
                make("a"),
                merge(
                    422,
                    &w,
                    json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}),
                ),
                merge(
                    200,
                    &w,
                    json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x"}}),
                ),
            ],
        ),
        row(
            "labels that have rules",
            [
                make("a"),
                merge(
                    422,
                    &w,
                    json!({"metadata": {"labels": {"a b": "c"}, "annotations": {"/x": "1"}}}),
                ),
                post(
                    422,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "b", "labels": {"x": "a".repeat(64)}}}),
                ),
                post(
                    422,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "b", "labels": {"a".repeat(64): "x"}}}),
                ),
                post(
                    422,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "b", "labels": {"a/b/c": "x", "": "y", "A_/x": "z"}}}),
                ),
                post(
                    422,
                    WIDGETS,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "b", "annotations": {"k": "x".repeat(300_000)}}}),
                ),
            ],
        ),
        row(
            "names that have rules",
            [
                post(
                    422,
                    "/api/v1/namespaces",
                    json!({"metadata": {"name": "A_b"}}),
                ),
                post(
                    422,
                    "/api/v1/namespaces",
                    json!({"metadata": {"name": "a".repeat(64)}}),
                ),
                post(422, CONFIGS, json!({"metadata": {"name": "-a"}})),
                post(422, CONFIGS, json!({"metadata": {}})),
            ],
        ),
    ]
}
