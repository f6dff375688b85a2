//! Deleting.

use serde_json::{Value, json};

use super::definitions::{WIDGETS, make, widget, widget_path, with};
use super::harness::{Row, Step, delete, delete_with, get, merge, post, put, row, ssa};

fn held(name: &str) -> Step {
    post(
        201,
        WIDGETS,
        json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": name, "finalizers": ["example.com/f"]}}),
    )
}

fn options(fields: Value) -> Value {
    with(
        json!({"apiVersion": "v1", "kind": "DeleteOptions"}),
        &fields,
    )
}

pub(super) fn rows() -> Vec<Row> {
    let w = widget_path("a");
    vec![
        row("an object goes", [make("a"), delete(200, &w), get(404, &w)]),
        row("an object that is not there", [delete(404, &w)]),
        row(
            "options in the query and in a body",
            [
                held("a"),
                make("b"),
                delete_with(
                    200,
                    format!("{w}?propagationPolicy=Foreground"),
                    options(json!({})),
                ),
                get(200, &w),
                delete_with(
                    200,
                    format!("{}?dryRun=All&gracePeriodSeconds=x", widget_path("b")),
                    options(json!({})),
                ),
                get(404, widget_path("b")),
            ],
        ),
        row(
            "some of all objects",
            [
                make("a"),
                make("b"),
                make("c"),
                delete(200, format!("{WIDGETS}?limit=2")),
                get(200, WIDGETS),
            ],
        ),
        row(
            "a Namespace that Kubernetes needs",
            [delete(403, "/api/v1/namespaces/default")
                .message("this namespace may not be deleted")],
        ),
        row(
            "a Namespace with a finalizer goes when it has none",
            [
                post(
                    201,
                    "/api/v1/namespaces",
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}-gone", "finalizers": ["example.com/f"]}}),
                ),
                delete(200, "/api/v1/namespaces/{ns}-gone"),
                merge(
                    200,
                    "/api/v1/namespaces/{ns}-gone",
                    json!({"metadata": {"labels": {"a": "b"}}}),
                ),
                get(200, "/api/v1/namespaces/{ns}-gone"),
            ],
        ),
        row(
            "a second deletion keeps the policy",
            [
                make("a"),
                delete_with(200, &w, options(json!({"propagationPolicy": "Foreground"}))),
                delete(200, &w),
                get(200, &w),
            ],
        ),
        row(
            "a second deletion keeps orphans",
            [
                make("a"),
                delete_with(200, &w, options(json!({"propagationPolicy": "Orphan"}))),
                delete(200, &w),
                get(200, &w),
            ],
        ),
        row(
            "an object with a finalizer stays",
            [
                held("a"),
                delete(200, &w),
                get(200, &w),
                merge(200, &w, json!({"spec": {"text": "abd"}})),
            ],
        ),
        row(
            "no finalizer can be added to what goes",
            [
                held("a"),
                delete(200, &w),
                merge(
                    422,
                    &w,
                    json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}),
                )
                .message("no new finalizers can be added if the object is being deleted"),
            ],
        ),
        row(
            "a name stays taken until what has it is gone",
            [
                held("a"),
                post(409, WIDGETS, widget("a", json!({"text": "abc"}))).message("already exists"),
                delete(200, &w),
                post(409, WIDGETS, widget("a", json!({"text": "abc"})))
                    .message("object is being deleted: widgets.test.example.com"),
            ],
        ),
        row(
            "the last finalizer lets it go",
            [
                held("a"),
                delete(200, &w),
                put(
                    200,
                    &w,
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}"}}),
                ),
                get(404, &w),
            ],
        ),
        row(
            "a right uid",
            [
                make("a"),
                delete_with(
                    200,
                    format!("{w}?dryRun=Some"),
                    options(json!({"dryRun": ["All"]})),
                ),
                delete_with(200, &w, options(json!({"preconditions": {"uid": "{uid}"}}))),
            ],
        ),
        row(
            "a wrong uid",
            [
                make("a"),
                delete_with(
                    409,
                    &w,
                    options(
                        json!({"preconditions": {"uid": "00000000-0000-4000-8000-aaaaaaaaaaaa"}}),
                    ),
                ),
            ],
        ),
        row(
            "a wrong version",
            [
                make("a"),
                merge(200, &w, json!({"spec": {"on": true}})),
                delete_with(
                    409,
                    &w,
                    options(json!({"preconditions": {"resourceVersion": "{first}"}})),
                ),
            ],
        ),
        row(
            "a dry run",
            [
                make("a"),
                delete_with(
                    422,
                    format!("{w}?dryRun=Some"),
                    options(json!({"dryRun": ["Some"]})),
                ),
                delete_with(200, &w, options(json!({"dryRun": ["All"]}))),
                get(200, &w),
            ],
        ),
        row(
            "in the background",
            [
                make("a"),
                delete_with(200, &w, options(json!({"propagationPolicy": "Background"}))),
                get(404, &w),
            ],
        ),
        row(
            "many",
            [
                make("a"),
                make("b"),
                held("c"),
                delete(200, format!("{WIDGETS}?fieldSelector=metadata.name!%3Db")),
                get(200, WIDGETS),
            ],
        ),
        row(
            "a ConfigMap",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/configmaps",
                    json!({"metadata": {"name": "a"}}),
                ),
                delete(200, "/api/v1/namespaces/{ns}/configmaps/a"),
            ],
        ),
        row(
            "what goes can be applied to",
            [
                held("a"),
                delete(200, &w),
                ssa(
                    200,
                    format!("{w}?fieldManager=x"),
                    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"text": "abd"}}),
                ),
            ],
        ),
        row(
            "nothing can be made in a Namespace that goes",
            [
                post(
                    201,
                    "/api/v1/namespaces",
                    json!({"metadata": {"name": "{ns}-gone"}}),
                ),
                delete(200, "/api/v1/namespaces/{ns}-gone"),
                post(
                    403,
                    "/apis/test.example.com/v1/namespaces/{ns}-gone/widgets",
                    widget("a", json!({})),
                )
                .message("because it is being terminated"),
                get(200, "/api/v1/namespaces/{ns}-gone"),
            ],
        ),
    ]
}
