//! Server-side apply.

use serde_json::{Value, json};

use super::definitions::{WIDGETS, widget, widget_path};
use super::harness::{Row, Step, get, jsonpatch, merge, post, put, row, ssa};

fn config(spec: Value) -> Value {
    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

fn by(code: u16, manager: &str, spec: Value) -> Step {
    ssa(
        code,
        widget_path(&format!("a?fieldManager={manager}")),
        config(spec),
    )
}

fn forced(manager: &str, spec: Value) -> Step {
    ssa(
        200,
        widget_path(&format!("a?fieldManager={manager}&force=true")),
        config(spec),
    )
}

fn status(manager: &str, status: Value) -> Step {
    ssa(
        200,
        widget_path(&format!("a/status?fieldManager={manager}&force=true")),
        json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": status}),
    )
}

/// Returns the row in which kubectl takes what it applied on the client.
fn from_the_client() -> Row {
    let last = "{\"apiVersion\":\"test.example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"annotations\":{},\"name\":\"a\"},\"spec\":{\"count\":1,\"parts\":[{\"name\":\"p\",\"size\":1}],\"text\":\"abc\"}}\n";
    let mut first =
        config(json!({"text": "abc", "count": 1, "even": 2, "parts": [{"name": "p", "size": 1}]}));
    first["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    let count = json!({"spec": {"count": 2}});
    let mut with_status = config(json!({"text": "abd"}));
    with_status["status"] = json!({"phase": "p"});
    let mut long = config(json!({"text": "abd"}));
    long["metadata"]["annotations"] = json!({"long": "x".repeat(262_000)});
    row(
        "kubectl applies on the client and then on the server",
        [
            post(
                201,
                format!("{WIDGETS}?fieldManager=kubectl-client-side-apply"),
                first,
            ),
            merge(200, widget_path("a?fieldManager=other"), count),
            by(
                409,
                "kubectl",
                json!({"text": "abd", "count": 3, "even": 4}),
            ),
            by(409, "kubectl", json!({"text": "abd", "count": 3})),
            by(409, "x", json!({"text": "abd"})),
            by(
                200,
                "kubectl",
                json!({"text": "abd", "parts": [{"name": "p", "size": 2}]}),
            ),
            by(
                200,
                "kubectl",
                json!({"text": "abd", "parts": [{"name": "p", "size": 2}]}),
            ),
            forced("kubectl", json!({"text": "abd", "count": 4})),
            forced("y", json!({"count": 5})),
            forced(
                "kubectl",
                json!({"text": "abd", "free": {"a": "<a> & b\u{2028}"}}),
            ),
            ssa(
                200,
                widget_path("a?fieldManager=kubectl&force=true"),
                with_status,
            ),
            ssa(200, widget_path("a?fieldManager=kubectl&force=true"), long),
        ],
    )
}

pub(super) fn rows() -> Vec<Row> {
    let w = widget_path("a");
    vec![
        from_the_client(),
        row("an apply makes", [by(201, "x", json!({"text": "abc", "parts": [{"name": "p", "size": 1}], "tags": ["t"], "words": ["w"]})), get(200, &w)]),
        row("an apply needs a manager", [ssa(422, &w, config(json!({}))).message("fieldManager: Required value: is required for apply patch")]),
        row("the same apply again", [by(201, "x", json!({"text": "abc"})), by(200, "x", json!({"text": "abc"}))]),
        row("an apply in a dry run", [ssa(201, format!("{w}?fieldManager=x&dryRun=All"), config(json!({"text": "abc"}))), get(404, &w)]),
        row("a change of one's own", [by(201, "x", json!({"text": "abc"})), by(200, "x", json!({"text": "abd", "on": true}))]),
        row("a field no longer applied goes", [by(201, "x", json!({"text": "abc", "on": true, "labels": {"a": "1", "b": "2"}})), by(200, "x", json!({"text": "abc", "labels": {"a": "1"}})), by(200, "x", json!({}))]),
        row("a field no longer applied stays with its other owner", [by(201, "x", json!({"text": "abc"})), by(200, "y", json!({"text": "abc"})), by(200, "x", json!({})), by(200, "y", json!({}))]),
        row("owners that a client edits", [by(201, "x", json!({"text": "abc"})), jsonpatch(200, &w, json!([{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "y"}])), by(200, "y", json!({})), get(200, &w)]),
        row("owners that a client sends with a status", [by(201, "x", json!({"text": "abc"})), merge(200, widget_path("a/status"), json!({"metadata": {"managedFields": [{}]}, "status": {"phase": "p"}})), get(200, &w)]),
        row("a conflict", [by(201, "x", json!({"text": "abc"})), by(409, "y", json!({"text": "abd"})).message("Apply failed with 1 conflict: conflict with \"x\": .spec.text")]),
        row("two conflicts", [by(201, "x", json!({"text": "abc", "on": true})), by(409, "y", json!({"text": "abd", "on": false})).message("Apply failed with 2 conflicts: conflicts with \"x\":\n- .spec.on\n- .spec.text")]),
        row("conflicts with two", [by(201, "x", json!({"text": "abc"})), by(200, "z", json!({"on": true})), by(409, "y", json!({"text": "abd", "on": false}))]),
        row("a conflict with an update", [post(201, WIDGETS, widget("a", json!({"text": "abc"}))), by(409, "y", json!({"text": "abd"})).message("conflict with \"table\" using test.example.com/v1: .spec.text")]),
        row("a conflict with a status update", [post(201, WIDGETS, widget("a", json!({}))), merge(200, widget_path("a/status"), json!({"status": {"phase": "p"}})), ssa(409, widget_path("a/status?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "status": {"phase": "q"}})).message("with subresource \"status\"")]),
        row("a forced apply takes over", [by(201, "x", json!({"text": "abc", "on": true})), forced("y", json!({"text": "abd"})), by(200, "x", json!({"on": true}))]),
        row("equal values are shared", [by(201, "x", json!({"text": "abc"})), by(200, "y", json!({"text": "abc"})), by(409, "x", json!({"text": "abd"}))]),
        row("an update takes over", [by(201, "x", json!({"text": "abc", "on": true})), merge(200, &w, json!({"spec": {"text": "abd"}})), by(200, "x", json!({"on": true}))]),
        row("an update removes from all", [by(201, "x", json!({"text": "abc", "on": true})), merge(200, &w, json!({"spec": {"text": null}}))]),
        row("an item by its key", [by(201, "x", json!({"parts": [{"name": "p", "size": 1}]})), by(200, "y", json!({"parts": [{"name": "q", "size": 2}]})), by(200, "x", json!({"parts": [{"name": "p", "size": 3, "note": "n"}]}))]),
        row("an item no longer applied goes", [by(201, "x", json!({"parts": [{"name": "p"}, {"name": "q"}]})), by(200, "y", json!({"parts": [{"name": "r"}]})), by(200, "x", json!({"parts": [{"name": "q"}]})), by(200, "x", json!({}))]),
        row("a shared item loses only one's own fields", [by(201, "x", json!({"parts": [{"name": "p", "size": 1}]})), by(200, "y", json!({"parts": [{"name": "p", "note": "n"}]})), by(200, "x", json!({"parts": []}))]),
        row("a conflict in an item", [by(201, "x", json!({"parts": [{"name": "p", "size": 1}]})), by(409, "y", json!({"parts": [{"name": "p", "size": 2}]})).message(".spec.parts[name=\"p\"].size")]),
        row("items keep the order of the apply", [by(201, "x", json!({"parts": [{"name": "a"}, {"name": "b"}]})), by(200, "y", json!({"parts": [{"name": "c"}, {"name": "b"}]})), by(200, "x", json!({"parts": [{"name": "b"}, {"name": "a"}]}))]),
        row("items between items", [by(201, "x", json!({"parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})), by(200, "y", json!({"parts": [{"name": "d"}, {"name": "c"}]})), by(200, "y", json!({"parts": [{"name": "c"}, {"name": "d"}]}))]),
        row("an item with two keys", [by(201, "x", json!({"ports": [{"port": 80}]})), by(200, "y", json!({"ports": [{"port": 80, "protocol": "UDP"}]})), by(200, "x", json!({"ports": []}))]),
        row("an item without its key", [by(500, "x", json!({"parts": [{"size": 1}]})).message("associative list with keys has an element that omits all key fields [\"name\"]")]),
        row("an item that is there twice", [by(500, "x", json!({"parts": [{"name": "p"}, {"name": "p"}]})).message("duplicate entries for key [name=\"p\"]")]),
        row("a member of a set", [by(201, "x", json!({"tags": ["a", "b"]})), by(200, "y", json!({"tags": ["c"]})), by(200, "x", json!({"tags": ["b"]}))]),
        row("a list in an item", [by(201, "x", json!({"parts": [{"name": "p", "tags": ["a"], "words": ["v"]}]})), by(200, "y", json!({"parts": [{"name": "p", "tags": ["b"]}]})), by(409, "y", json!({"parts": [{"name": "p", "words": ["w"]}]}))]),
        row("a list that is one value", [by(201, "x", json!({"words": ["a"]})), by(409, "y", json!({"words": ["b"]})).message(".spec.words"), forced("y", json!({"words": []})), by(200, "y", json!({}))]),
        row("a map that is one value", [by(201, "x", json!({"fixed": {"a": "1"}})), by(409, "y", json!({"fixed": {"b": "2"}})).message(".spec.fixed")]),
        row("a map key by key", [by(201, "x", json!({"labels": {"a": "1"}})), by(200, "y", json!({"labels": {"b": "2"}})), by(409, "y", json!({"labels": {"a": "2"}})).message(".spec.labels.a"), by(200, "x", json!({}))]),
        row("free fields", [by(201, "x", json!({"free": {"a": {"b": 1}, "l": [1]}})), by(200, "y", json!({"free": {"a": {"c": 2}}})), by(409, "y", json!({"free": {"l": [2]}}))]),
        row("an unknown field", [by(500, "x", json!({"nope": 1})).message(".spec.nope: field not declared in schema")]),
        row("an empty object", [by(201, "x", json!({"labels": {}, "parts": [], "nested": {}})), by(200, "x", json!({}))]),
        row("a default belongs to nobody", [by(201, "x", json!({})), by(200, "y", json!({"mode": "Slow"}))]),
        row("labels and finalizers", [
            ssa(201, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"a": "1"}, "finalizers": ["example.com/f"], "annotations": {"n": "1"}}})),
            ssa(200, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"b": "1"}}})),
        ]),
        row("owners by their uid", [
            ssa(201, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "11111111-1111-4111-8111-111111111111"}]}})),
            ssa(200, format!("{w}?fieldManager=y"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "21111111-1111-4111-8111-111111111111"}]}})),
        ]),
        row("a status of one's own", [by(201, "x", json!({"text": "abc"})), status("y", json!({"phase": "p", "parts": [{"name": "a", "note": "1"}]})), status("z", json!({"parts": [{"name": "b"}]})), status("y", json!({"phase": "q"}))]),
        row("a status leaves the rest", [by(201, "x", json!({"text": "abc"})), ssa(200, widget_path("a/status?fieldManager=x&force=true"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"l": "m"}}, "spec": {"text": "zzz"}, "status": {"phase": "p"}}))]),
        row("a spec leaves the status", [ssa(201, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {}, "status": {"phase": "p"}}))]),
        row("a status of nothing", [ssa(404, widget_path("a/status?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": {"phase": "p"}}))]),
        row("a right version", [by(201, "x", json!({"text": "abc"})), ssa(200, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": {"text": "abd"}}))]),
        row("a stale version", [by(201, "x", json!({"text": "abc"})), by(200, "x", json!({"text": "abd"})), ssa(409, format!("{w}?fieldManager=x&force=true"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{first}"}, "spec": {"text": "abe"}})).message("the object has been modified")]),
        row("a stale version that changes nothing", [by(201, "x", json!({"text": "abc"})), by(200, "x", json!({"text": "abd"})), ssa(409, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{first}"}, "spec": {"text": "abd"}}))]),
        row("a version of nothing", [ssa(201, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "5"}}))]),
        row("a uid of nothing", [ssa(409, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "uid": "11111111-1111-4111-8111-111111111111"}})).message("uid mismatch")]),
        row("a wrong uid", [by(201, "x", json!({})), ssa(422, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "uid": "11111111-1111-4111-8111-111111111111"}, "spec": {"text": "abc"}}))]),
        row("managed fields in an apply", [ssa(400, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}})).message("metadata.managedFields must be nil")]),
        row("another name", [ssa(400, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "b"}}))]),
        row("another kind", [ssa(400, format!("{w}?fieldManager=x"), json!({"apiVersion": "test.example.com/v1", "kind": "Plain", "metadata": {"name": "a"}}))]),
        row("no kind", [ssa(400, format!("{w}?fieldManager=x"), json!({"metadata": {"name": "a"}}))]),
        row("an apply that breaks a rule", [by(422, "x", json!({"text": "A"}))]),
        row("an apply of a null", [by(201, "x", json!({"empty": null})), by(200, "x", json!({"empty": "x"})), by(200, "x", json!({"empty": null}))]),
        row("an apply of a null that is not allowed", [by(422, "x", json!({"text": null}))]),
        row("a value of the wrong type", [by(500, "x", json!({"text": {"a": 1}}))]),
        row("a list item of the wrong type", [by(500, "x", json!({"parts": ["p"]}))]),
        row("owners that are cleared", [by(201, "x", json!({"text": "abc"})), jsonpatch(200, &w, json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}])), merge(200, &w, json!({"spec": {"on": true}})), by(409, "x", json!({"text": "abd"}))]),
        row("a replacement that drops what was applied", [by(201, "x", json!({"text": "abc", "parts": [{"name": "p"}]})), put(200, &w, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": {"on": true}}))]),
        row("a ConfigMap", [
            ssa(201, "/api/v1/namespaces/{ns}/configmaps/a?fieldManager=x", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})),
            ssa(409, "/api/v1/namespaces/{ns}/configmaps/a?fieldManager=y", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "w"}})),
            ssa(200, "/api/v1/namespaces/{ns}/configmaps/a?fieldManager=x", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"l": "v"}})),
        ]),
    ]
}
