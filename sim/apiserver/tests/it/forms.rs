//! Responses as metadata and as tables.

use serde_json::json;

use super::definitions::{WIDGETS, make, widget_path};
use super::harness::{Row, delete, get, merge, post, row};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

const CONFIGS: &str = "/api/v1/namespaces/{ns}/configmaps";
const CHECKS: &str = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks";

pub(super) fn rows() -> Vec<Row> {
    let w = widget_path("a");
    let watch = format!("{WIDGETS}?watch=true&timeoutSeconds=2");
    vec![
        row(
            "the metadata of an object",
            [make("a"), get(200, &w).accepting(METADATA)],
        ),
        row(
            "the metadata of objects",
            [
                make("a"),
                make("b"),
                get(200, WIDGETS).accepting(METADATA_LIST),
                get(200, format!("{WIDGETS}?limit=1")).accepting(METADATA_LIST),
            ],
        ),
        row(
            "the metadata of built-in objects",
            [
                post(
                    201,
                    CONFIGS,
                    json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}}),
                ),
                get(200, format!("{CONFIGS}?labelSelector=x")).accepting(METADATA_LIST),
                get(200, format!("{CONFIGS}/a")).accepting(METADATA),
            ],
        ),
        row(
            "a list is no object",
            [get(406, WIDGETS).accepting(METADATA)],
        ),
        row(
            "an object is no list",
            [make("a"), get(500, &w).accepting(METADATA_LIST)],
        ),
        row(
            "the metadata of what is refused",
            [get(404, &w).accepting(METADATA)],
        ),
        row(
            "the metadata of what changes",
            [
                make("a"),
                merge(200, &w, json!({"metadata": {"labels": {"a": "b"}}})).accepting(METADATA),
                delete(200, &w).accepting(METADATA),
            ],
        ),
        row(
            "a watch of metadata",
            [
                make("a"),
                make("b"),
                delete(200, widget_path("b")),
                get(200, format!("{watch}&resourceVersion={{first}}")).accepting(METADATA),
            ],
        ),
        row(
            "a form that is unknown",
            [
                get(406, WIDGETS).accepting("application/json;as=Nope;g=meta.k8s.io;v=v1"),
                get(406, CONFIGS).accepting("application/json;as=Table;g=meta.k8s.io;v=v9"),
                get(200, WIDGETS)
                    .accepting("application/json;as=Nope;g=meta.k8s.io;v=v1,application/json"),
            ],
        ),
        row(
            "a table",
            [make("a"), make("b"), get(200, WIDGETS).accepting(TABLE)],
        ),
        row("a table of one", [make("a"), get(200, &w).accepting(TABLE)]),
        row("a table of nothing", [get(200, WIDGETS).accepting(TABLE)]),
        row(
            "a table with objects",
            [
                make("a"),
                get(200, format!("{WIDGETS}?includeObject=Object")).accepting(TABLE),
            ],
        ),
        row(
            "a table without objects",
            [
                make("a"),
                get(200, format!("{WIDGETS}?includeObject=None")).accepting(TABLE),
            ],
        ),
        row(
            "a table in pages",
            [
                make("a"),
                make("b"),
                get(200, format!("{WIDGETS}?limit=1")).accepting(TABLE),
            ],
        ),
        row(
            "a table of what is refused",
            [get(404, &w).accepting(TABLE)],
        ),
        row(
            "a watch of a table",
            [
                make("a"),
                merge(200, &w, json!({"spec": {"text": "abd"}})),
                get(200, format!("{watch}&resourceVersion={{first}}")).accepting(TABLE),
                get(200, &watch).accepting(TABLE),
            ],
        ),
        row(
            "columns with filters",
            [
                post(
                    201,
                    CHECKS,
                    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "{ns}-table"}, "spec": {"controllerName": "example.com/c"}}),
                ),
                merge(
                    200,
                    format!("{CHECKS}/{{ns}}-table/status"),
                    json!({"status": {"conditions": [{"type": "Active", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2025-03-01T09:00:00Z"}]}}),
                ),
                get(200, format!("{CHECKS}/{{ns}}-table")).accepting(TABLE),
                get(
                    200,
                    "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/workloads",
                )
                .accepting(TABLE),
            ],
        ),
    ]
}
