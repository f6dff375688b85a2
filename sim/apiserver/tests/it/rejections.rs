//! Paths, methods, forms and bodies that are rejected before anything is read.

use http::Method;
use serde_json::json;

use super::definitions::{WIDGETS, make, widget, widget_path};
use super::harness::{
    Row, Step, call, delete, get, jsonpatch, merge, post, put, row, ssa, strategic,
};

const CONFIGS: &str = "/api/v1/namespaces/{ns}/configmaps";

fn post_raw(code: u16, path: &str, body: &str) -> Step {
    post(code, path, json!({})).raw(body)
}

pub(super) fn rows() -> Vec<Row> {
    let w = widget_path("a");
    let c = format!("{CONFIGS}/a");
    let config = || post(201, CONFIGS, json!({"metadata": {"name": "a"}}));
    let object = || widget("a", json!({}));
    vec![
        row("nothing is there", [get(404, "/nothing"), get(404, "/apis/a/b/c/d"), get(404, "/api/v9/pods")]),
        row("a built-in kind that is not there", [get(404, "/api/v1/nothings"), get(404, "/api/v1/namespaces/{ns}/nothings"), get(404, "/apis/batch/v1/namespaces/{ns}/nothings/a")]),
        row("a built-in subresource that is not there", [config(), get(404, format!("{c}/status")), put(404, format!("{c}/status"), json!({})), get(404, format!("{c}/b/c"))]),
        row("a path too deep", [make("a"), get(404, format!("{w}/b/c"))]),
        row("a named object in all Namespaces", [get(404, "/apis/test.example.com/v1/widgets/a"), get(404, "/api/v1/configmaps/a")]),
        row("a new object in all Namespaces", [post(404, "/apis/test.example.com/v1/widgets", object()), post(405, "/api/v1/configmaps", json!({"metadata": {"name": "a"}}))]),
        row("deleting in all Namespaces", [delete(404, "/apis/test.example.com/v1/widgets"), delete(405, "/api/v1/configmaps"), delete(405, "/api/v1/namespaces")]),
        row("methods that a list does not have", [put(405, CONFIGS, json!({})), merge(405, CONFIGS, json!({})), put(400, WIDGETS, object())]),
        row("methods that an object does not have", [config(), post(405, &c, json!({"metadata": {"name": "a"}}))]),
        row("methods that nothing has", [call(405, Method::OPTIONS, CONFIGS)]),
        row("a Namespace in a Namespace", [get(404, "/api/v1/namespaces/{ns}/namespaces/a")]),
        row("a form that is not there", [make("a"), get(406, &w).accepting("application/xml"), get(406, WIDGETS).accepting("text/html"), get(406, CONFIGS).accepting("application/xml")]),
        row("one form of several", [make("a"), get(200, &w).accepting("application/xml, application/json"), get(200, &w).accepting("*/*"), get(200, &w).accepting("application/*;q=0.5")]),
        row("a body in a form that is not there", [post(415, WIDGETS, object()).typed("text/plain"), post(415, CONFIGS, json!({})).typed("text/plain"), make("a"), put(415, &w, object()).typed("application/xml")]),
        row("a patch in a form that is not there", [make("a"), config(), merge(415, &w, json!({})).typed("text/plain"), merge(415, &c, json!({})).typed("text/plain"), merge(415, &c, json!({})).typed("application/json")]),
        row("a body without a form", [post(201, WIDGETS, object()).typed("")]),
        row("a body in YAML", [post(201, WIDGETS, json!({})).raw("apiVersion: test.example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {text: abc, tags: [a, b]}\n").typed("application/yaml")]),
        row("an apply in YAML", [ssa(201, format!("{w}?fieldManager=x"), json!({})).raw("apiVersion: test.example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  text: abc\n  parts:\n  - name: p\n    size: 3\n")]),
        row("a body that ends too early", [post_raw(400, WIDGETS, "{\"apiVersion\":\"test.example.com/v1\",\"kind\":\"Widget\""), post_raw(400, CONFIGS, "{\"kind\":\"ConfigMap\"")]),
        row("no body", [post_raw(400, WIDGETS, ""), post_raw(400, CONFIGS, "")]),
        row("a body that is no object", [post(400, WIDGETS, json!([1])), post(400, CONFIGS, json!("abc")), post(400, WIDGETS, json!(5)), post(400, CONFIGS, json!(true))]),
        row("an empty object", [post(400, WIDGETS, json!({}))]),
        row("a body that is no JSON", [post_raw(400, WIDGETS, "{abc"), post_raw(400, CONFIGS, "{\"a\":1 2}"), post_raw(400, WIDGETS, "[1 2]"), post_raw(400, CONFIGS, "{}}")]),
        row("a patch that ends too early", [make("a"), merge(400, &w, json!({})).raw("{\"a\":"), jsonpatch(400, &w, json!({})).raw(""), merge(400, &w, json!({})).raw("")]),
        row("a patch that is null", [make("a"), merge(400, &w, json!(null))]),
        row("a patch that is a text", [make("a"), merge(400, &w, json!("x")), merge(400, &w, json!(5)), jsonpatch(400, &w, json!("x"))]),
        row("an apply that is a list", [ssa(400, format!("{w}?fieldManager=x"), json!([1]))]),
        row("an apply of nothing", [ssa(400, format!("{w}?fieldManager=x"), json!({})).raw("")]),
        row("too long a body", [post(413, CONFIGS, json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(3 * 1024 * 1024)}}))]),
        row("values of the wrong type in a built-in kind", [
            post(400, CONFIGS, json!({"metadata": {"name": "a"}, "data": {"k": 5}})),
            post(400, CONFIGS, json!({"metadata": {"name": "a", "labels": {"a": true}}})),
            post(400, CONFIGS, json!({"metadata": {"name": "a", "labels": ["a"]}})),
            post(400, CONFIGS, json!({"metadata": "a"})),
            post(400, CONFIGS, json!({"metadata": {"name": 5}})),
            post(400, "/api/v1/namespaces/{ns}/pods", json!({"metadata": {"name": "a"}, "spec": {"containers": {"a": 1}}})),
            post(400, "/api/v1/namespaces/{ns}/pods", json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": 5}]}})),
            post(400, "/apis/batch/v1/namespaces/{ns}/jobs", json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"parallelism": "2"}})),
            post(400, "/apis/batch/v1/namespaces/{ns}/jobs", json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"parallelism": 1.5}})),
            post(400, "/apis/batch/v1/namespaces/{ns}/jobs", json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"suspend": "yes"}})),
        ]),
        row("a time that is none", [post(400, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "creationTimestamp": "x"}})), post(400, "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {"renewTime": "x"}}))]),
        row("metadata of the wrong type in a patch", [make("a"), merge(422, &w, json!({"metadata": "x"})), merge(422, &w, json!({"metadata": {"labels": {"a": 5}}}))]),
        row("a version that a kind does not have", [post(400, WIDGETS, json!({"kind": "Widget", "metadata": {"name": "a"}})), post(400, CONFIGS, json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}})), post(400, CONFIGS, json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}))]),
        row("a kind that nothing has", [post(400, CONFIGS, json!({"apiVersion": "v1", "kind": "Nope", "metadata": {"name": "a"}}))]),
        row("a kind without a version", [post(201, CONFIGS, json!({"kind": "ConfigMap", "metadata": {"name": "a"}})), post(201, CONFIGS, json!({"apiVersion": "v1", "metadata": {"name": "b"}}))]),
        row("a merge patch to another version", [make("a"), merge(422, &w, json!({"apiVersion": "test.example.com/v1beta1"}))]),
        row("a patch to another namespace", [make("a"), merge(400, &w, json!({"metadata": {"namespace": "other"}})), put(400, &w, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "other", "resourceVersion": "{rv}"}}))]),
        row("a patch without a name", [make("a"), merge(400, &w, json!({"metadata": {"name": null}})), put(400, &w, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"resourceVersion": "{rv}"}}))]),
        row("JSON patches that are none", [
            make("a"),
            jsonpatch(422, &w, json!([{"op": "nope", "path": "/a"}])),
            jsonpatch(422, &w, json!([{"op": "add"}])),
            jsonpatch(422, &w, json!([{"op": "move", "from": "/spec/text", "path": "/spec/x/y"}])),
            jsonpatch(422, &w, json!([{"op": "replace", "path": "/spec/parts/3", "value": 1}])),
            jsonpatch(200, &w, json!([{"op": "test", "path": "/spec/nothing", "value": null}])),
            jsonpatch(200, &w, json!([{"op": "copy", "from": "/spec/text", "path": "/metadata/annotations", "value": 1}, {"op": "remove", "path": "/metadata/annotations"}])),
            jsonpatch(422, &w, json!([{"op": "move", "from": "/spec/text", "path": "/spec/free"}])),
            jsonpatch(200, &w, json!([])),
            jsonpatch(200, &w, json!([{"op": "remove", "path": "/spec"}])),
        ]),
        row("a strategic patch of the wrong sort", [config(), strategic(400, &c, json!([1]))]),
        row("a finalizer of a built-in kind has a domain", [post(422, CONFIGS, json!({"metadata": {"name": "a", "finalizers": ["x"]}}))]),
        row("finalizers without a domain are warned about", [
            post(201, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "finalizers": ["a.b", "c"]}})),
            merge(200, &w, json!({"metadata": {"finalizers": ["c", "d.e"]}})),
            merge(200, &w, json!({"metadata": {"labels": {"a": "b"}}})),
            merge(422, &w, json!({"metadata": {"finalizers": ["a b"]}})),
        ]),
    ]
}
