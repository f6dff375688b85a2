//! The Prometheus operator's kinds (monitoring.coreos.com/v1), as far as the chart uses them. A
//! field that is missing here is rejected, as by the operator's own schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn list(item: Value) -> Value {
    json!({"type": "array", "items": item})
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

fn texts() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// Returns the operator's pattern for durations.
fn duration() -> Value {
    json!({"type": "string", "pattern": "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"})
}

fn definition(kind: &str, spec: &Value) -> CustomResourceDefinition {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = object(&["spec"], json!({"spec": spec}));
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]},
    });
    serde_json::from_value(definition).unwrap()
}

/// Returns the definitions of `ServiceMonitor` and `PrometheusRule`.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    let tls = object(
        &[],
        json!({"serverName": text(), "insecureSkipVerify": {"type": "boolean"}, "caFile": text()}),
    );
    let endpoint = object(
        &["port"],
        json!({"port": text(), "path": text(), "interval": duration(), "scheme": {"type": "string", "enum": ["http", "https"]},
               "bearerTokenFile": text(), "tlsConfig": tls}),
    );
    let monitor = object(
        &["selector", "endpoints"],
        json!({
            "selector": object(&[], json!({"matchLabels": texts()})),
            "namespaceSelector": object(&[], json!({"matchNames": list(text())})),
            "endpoints": list(endpoint),
        }),
    );
    let rule = object(
        &["expr"],
        json!({"alert": text(), "record": text(), "expr": text(), "for": duration(), "labels": texts(), "annotations": texts()}),
    );
    let group = object(
        &["name"],
        json!({"name": text(), "interval": duration(), "rules": list(rule)}),
    );
    let rules = object(&[], json!({"groups": list(group)}));
    vec![
        definition("ServiceMonitor", &monitor),
        definition("PrometheusRule", &rules),
    ]
}
