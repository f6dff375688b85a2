//! Create, read, replace.

use serde_json::json;

use super::definitions::{WIDGETS, widget, widget_path};
use super::harness::{Row, delete, get, merge, post, put, row};

pub(super) fn rows() -> Vec<Row> {
    let w = widget_path("a");
    let configs = "/api/v1/namespaces/{ns}/configmaps";
    let config = |data| json!({"metadata": {"name": "a"}, "data": data});
    let full = |spec: serde_json::Value| json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": spec});
    vec![
        row("a new object gets its metadata, defaults and an owner", [
            post(201, WIDGETS, widget("a", json!({"text": "abc"}))),
            get(200, &w),
        ]),
        row("a client without a name", [
            post(201, WIDGETS, widget("a", json!({"text": "abc"}))).by("/1"),
            post(201, configs, config(json!({"k": "v"}))).by("\u{e9}x/1"),
        ]),
        row("a replacement with the version 0", [
            post(201, configs, config(json!({"k": "v"}))),
            put(200, format!("{configs}/a"), json!({"metadata": {"name": "a", "resourceVersion": "0"}, "data": {"k": "w"}})),
            post(201, WIDGETS, widget("a", json!({"text": "abc"}))),
            put(422, &w, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "0"}, "spec": {}})),
        ]),
        row("a status in a new object is dropped", [
            post(201, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"on": true}, "status": {"phase": "x"}})),
        ]),
        row("a name can be made", [post(201, format!("{WIDGETS}?dryRun=All"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "dry"}})), get(404, widget_path("dry"))]),
        row("a name is needed", [post(422, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {}})).message("name or generateName is required")]),
        row("a name is taken", [post(201, WIDGETS, widget("a", json!({}))), post(409, WIDGETS, widget("a", json!({}))).message("widgets.test.example.com \"a\" already exists")]),
        row("a name has rules", [post(422, WIDGETS, widget("A_b", json!({}))).message("a lowercase RFC 1123 subdomain must consist of")]),
        row("a long name", [post(422, WIDGETS, widget(&"a".repeat(254), json!({})))]),
        row("a dot in a name", [post(201, WIDGETS, widget("a.b", json!({})))]),
        row("a version in a new object", [post(500, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "5"}}))]),
        row("another kind", [post(422, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Plain", "metadata": {"name": "a"}}))]),
        row("another version", [post(400, WIDGETS, json!({"apiVersion": "test.example.com/v2", "kind": "Widget", "metadata": {"name": "a"}}))]),
        row("no kind", [post(400, WIDGETS, json!({"metadata": {"name": "a"}}))]),
        row("another namespace", [post(400, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "other"}}))]),
        row("a namespace that is not there", [post(404, "/apis/test.example.com/v1/namespaces/nowhere/widgets", widget("a", json!({}))).message("namespaces \"nowhere\" not found")]),
        row("an object that is not there", [get(404, &w).message("widgets.test.example.com \"a\" not found")]),
        row("a kind that is not there", [get(404, "/apis/test.example.com/v1/gadgets").message("404 page not found")]),
        row("a version that is not there", [get(404, "/apis/test.example.com/v9/widgets")]),
        row("a group that is not there", [get(404, "/apis/nothing.example.com/v1")]),
        row("a replaced object", [post(201, WIDGETS, widget("a", json!({"text": "abc"}))), put(200, &w, full(json!({"text": "abd"}))), get(200, &w)]),
        row("a replacement that changes nothing", [post(201, WIDGETS, widget("a", json!({"text": "abc"}))), put(200, &w, full(json!({"text": "abc"}))), put(200, &w, full(json!({"text": "abc", "mode": "Fast"})))]),
        row("a stale replacement", [
            post(201, WIDGETS, widget("a", json!({"text": "abc"}))),
            merge(200, &w, json!({"spec": {"text": "abd"}})),
            put(409, &w, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "1"}, "spec": {}})).message("the object has been modified; please apply your changes to the latest version and try again"),
        ]),
        row("a replacement without a version", [post(201, WIDGETS, widget("a", json!({}))), put(422, &w, widget("a", json!({}))).message("must be specified for an update")]),
        row("a replacement with a bad version", [post(201, WIDGETS, widget("a", json!({}))), put(500, &w, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "abc"}}))]),
        row("a replacement with another name", [post(201, WIDGETS, widget("a", json!({}))), put(400, &w, widget("b", json!({})))]),
        row("a replacement with another uid", [post(201, WIDGETS, widget("a", json!({}))), put(409, &w, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}", "uid": "00000000-0000-4000-8000-aaaaaaaaaaaa"}}))]),
        row("a replacement of nothing", [put(404, &w, full(json!({})))]),
        row("a generation counts changes of the spec", [
            post(201, WIDGETS, widget("a", json!({"text": "abc"}))),
            merge(200, &w, json!({"metadata": {"labels": {"a": "b"}}})),
            merge(200, &w, json!({"spec": {"text": "abd"}})),
            merge(200, widget_path("a/status"), json!({"status": {"phase": "x"}})),
        ]),
        row("a status is written by itself", [
            post(201, WIDGETS, widget("a", json!({"text": "abc"}))),
            put(200, widget_path("a/status"), json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}", "labels": {"x": "y"}}, "spec": {"text": "zzz"}, "status": {"phase": "p"}})),
            put(200, &w, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": {"text": "abe"}, "status": {"phase": "q"}})),
            get(200, widget_path("a/status")),
        ]),
        row("a status cannot be made or deleted", [post(201, WIDGETS, widget("a", json!({}))), post(405, widget_path("a/status"), widget("a", json!({}))), delete(405, widget_path("a/status"))]),
        row("a subresource that is not there", [post(201, WIDGETS, widget("a", json!({}))), get(404, widget_path("a/scale"))]),
        row("a kind without a status of its own", [
            post(201, "/apis/test.example.com/v1/plains", json!({"apiVersion": "test.example.com/v1", "kind": "Plain", "metadata": {"name": "crud"}, "spec": {"a": "b"}, "status": {"x": 1}})),
            merge(200, "/apis/test.example.com/v1/plains/crud", json!({"status": {"x": 2}})),
            merge(404, "/apis/test.example.com/v1/plains/crud/status", json!({"status": {"x": 2}})),
            post(404, "/apis/test.example.com/v1/namespaces/{ns}/plains", json!({"apiVersion": "test.example.com/v1", "kind": "Plain", "metadata": {"name": "crud2"}, "spec": {"a": "b"}})),
        ]),
        row("another version shows the same object", [
            post(201, WIDGETS, widget("a", json!({"text": "abc"}))),
            get(200, "/apis/test.example.com/v1beta1/namespaces/{ns}/widgets/a"),
            merge(200, "/apis/test.example.com/v1beta1/namespaces/{ns}/widgets/a", json!({"spec": {"text": "abd"}})),
            get(200, &w),
        ]),
        row("a ConfigMap", [post(201, configs, config(json!({"k": "v"}))), get(200, format!("{configs}/a")), put(200, format!("{configs}/a"), config(json!({"k": "w"}))), merge(200, format!("{configs}/a"), json!({"data": {"k": null, "l": "m"}}))]),
        row("a ConfigMap of another kind", [post(400, configs, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}))]),
        row("a Namespace", [post(201, "/api/v1/namespaces", json!({"metadata": {"name": "{ns}-x", "labels": {"a": "b"}}})), get(200, "/api/v1/namespaces/{ns}-x"), merge(200, "/api/v1/namespaces/{ns}-x", json!({"metadata": {"labels": {"a": null}}}))]),
        row("a Namespace has a stricter name", [post(422, "/api/v1/namespaces", json!({"metadata": {"name": "a.b"}}))]),
        row("a label has rules", [post(422, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"a b": "c", "d": "e f"}, "annotations": {"/x": "y"}}}))]),
        row("a finalizer has rules", [post(201, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "finalizers": ["x"]}}))]),
        row("an owner has rules", [post(422, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": ""}]}}))]),
        row("an unknown field is dropped, or refused if requested", [post(201, WIDGETS, widget("a", json!({"nope": 1, "free": {"x": 1}, "nested": {"zip": 1}}))), post(400, format!("{WIDGETS}?fieldValidation=Strict"), widget("b", json!({"nope": 1})))]),
        row("a dry run with another value", [post(422, format!("{WIDGETS}?dryRun=Some"), widget("a", json!({})))]),
        row("a field manager of one's own", [post(201, format!("{WIDGETS}?fieldManager=me"), widget("a", json!({"text": "abc"}))), merge(200, format!("{w}?fieldManager=you"), json!({"spec": {"text": "abd", "on": true}}))]),
    ]
}
