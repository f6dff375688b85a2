//! Selecting by labels and by fields.

use serde_json::json;

use super::definitions::{WIDGETS, widget, widget_path};
use super::harness::{Row, Step, get, merge, post, row};

fn labelled(name: &str, labels: serde_json::Value, text: &str) -> Step {
    let mut object = widget(name, json!({"text": text}));
    object["metadata"]["labels"] = labels;
    post(201, WIDGETS, object)
}

fn by(name: &'static str, query: &str) -> Row {
    row(
        name,
        [
            labelled("a", json!({"x": "1", "y": "a"}), "aa"),
            labelled("b", json!({"x": "2"}), "bb"),
            labelled("c", json!({"y": "b"}), "cc"),
            get(200, format!("{WIDGETS}?{query}")),
        ],
    )
}

fn refused(name: &'static str, query: &str) -> Row {
    row(name, [get(400, format!("{WIDGETS}?{query}"))])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        by("a label with a value", "labelSelector=x%3D1"),
        by("a label without a value", "labelSelector=x!%3D1"),
        by("a label that is there", "labelSelector=y"),
        by("a label that is not there", "labelSelector=!y"),
        by("a label among others", "labelSelector=x%20in%20(1,3)"),
        by(
            "a label not among others",
            "labelSelector=x%20notin%20(1,3)",
        ),
        by("two labels", "labelSelector=x%3D1,y%3D%3Da"),
        by("a label that is greater", "labelSelector=x%3E1"),
        refused("a label selector that is none", "labelSelector=a%20b"),
        refused("a label that cannot be", "labelSelector=a%20in%20b"),
        by("a name", "fieldSelector=metadata.name%3Da"),
        by("another name", "fieldSelector=metadata.name!%3Da"),
        by("a namespace", "fieldSelector=metadata.namespace%3D{ns}"),
        by("a selectable field", "fieldSelector=spec.text%3Dbb"),
        by(
            "a selectable field with another value",
            "fieldSelector=spec.text!%3Dbb",
        ),
        by(
            "a selectable field that is missing",
            "fieldSelector=status.phase%3D",
        ),
        by(
            "both selectors",
            "fieldSelector=spec.text!%3Dbb&labelSelector=y",
        ),
        refused(
            "a field that cannot be selected",
            "fieldSelector=spec.mode%3DFast",
        ),
        refused("a field selector that is none", "fieldSelector=abc"),
        row(
            "a field that is a number",
            [
                post(201, WIDGETS, widget("a", json!({"count": 3}))),
                get(200, format!("{WIDGETS}?fieldSelector=spec.count%3D3")),
                merge(
                    200,
                    widget_path("a/status"),
                    json!({"status": {"phase": "x"}}),
                ),
                get(200, format!("{WIDGETS}?fieldSelector=status.phase!%3D")),
            ],
        ),
        row(
            "a ConfigMap by a field that cannot be",
            [get(
                400,
                "/api/v1/namespaces/{ns}/configmaps?fieldSelector=data.x%3D1",
            )],
        ),
        row(
            "a ConfigMap by its name",
            [
                post(
                    201,
                    "/api/v1/namespaces/{ns}/configmaps",
                    json!({"metadata": {"name": "a"}}),
                ),
                get(
                    200,
                    "/api/v1/namespaces/{ns}/configmaps?fieldSelector=metadata.name%3Da",
                ),
            ],
        ),
        row(
            "a Pod by a field that cannot be",
            [get(
                400,
                "/api/v1/namespaces/{ns}/pods?fieldSelector=spec.x%3D1",
            )],
        ),
        row(
            "a Workload by its ClusterQueue",
            [get(
                200,
                "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/workloads?fieldSelector=status.admission.clusterQueue!%3D",
            )],
        ),
    ]
}
