//! Small kinds for the rows. One has every sort of list, map, bound and default, one has no
//! Namespace, and one has rules.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::harness::{Step, post};

pub(super) fn all() -> Vec<CustomResourceDefinition> {
    [widgets(), plain(), ruled()]
        .into_iter()
        .map(|definition| serde_json::from_value(definition).expect("definition"))
        .collect()
}

fn definition(plural: &str, kind: &str, scope: &str, versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.test.example.com")},
        "spec": {"group": "test.example.com", "scope": scope, "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")}, "versions": versions},
    })
}

/// Returns a kind with a status subresource, in two versions without conversion.
fn widgets() -> Value {
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "note": {"type": "string"},
    }});
    let part = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 10}, "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "words": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
    }});
    let spec = json!({"type": "object", "properties": {
        "text": {"type": "string", "minLength": 2, "maxLength": 8, "pattern": "^[a-z]+$"},
        "mode": {"type": "string", "enum": ["Fast", "Slow"], "default": "Fast"},
        "count": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 5},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1},
        "even": {"type": "integer", "multipleOf": 2},
        "on": {"type": "boolean"},
        "when": {"type": "string", "format": "date-time"},
        "size": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "empty": {"type": "string", "nullable": true},
        "nested": {"type": "object", "default": {}, "properties": {"depth": {"type": "integer", "default": 3}, "other": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
        "fixed": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        "parts": {"type": "array", "maxItems": 4, "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "ports": {"type": "array", "items": port, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
        "tags": {"type": "array", "minItems": 1, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "words": {"type": "array", "items": {"type": "string"}},
        "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    }});
    let status = json!({"type": "object", "properties": {
        "phase": {"type": "string"}, "seen": {"type": "integer"},
        "parts": {"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    }});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema, "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".spec.text"}, {"jsonPath": ".spec.count"}, {"jsonPath": ".status.phase"}],
        })
    };
    definition(
        "widgets",
        "Widget",
        "Namespaced",
        json!([version("v1", true), version("v1beta1", false)]),
    )
}

/// Returns a cluster-scoped kind without a status subresource.
fn plain() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}});
    definition(
        "plains",
        "Plain",
        "Cluster",
        json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]),
    )
}

/// Returns a CEL rule with the `message` of its violation.
fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// Returns a kind with a rule at every sort of node.
fn ruled() -> Value {
    let word = |rules: Value| json!({"type": "string", "maxLength": 20, "x-kubernetes-validations": rules});
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 9},
        "n": {"type": "integer", "x-kubernetes-validations": [rule("self > 0", "must be positive")]},
        "keep": word(json!([rule("self == oldSelf", "keep it")])),
    }});
    let spec = json!({"type": "object", "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"}, "dash-ed": {"type": "integer"}, "namespace": {"type": "integer"}, "any": {"x-kubernetes-int-or-string": true},
        "fixed": word(json!([rule("self == oldSelf", "field is immutable")])),
        "text": word(json!([{"rule": "self.startsWith('a')"}, {"rule": "self != 'ab'", "messageExpression": "'not ' + self", "reason": "FieldValueForbidden"}])),
        "opt": word(json!([{"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": true, "message": "set once"}])),
        "items": {
            "type": "array", "maxItems": 5, "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-validations": [{"rule": "self.all(x, self.exists_one(y, y.name == x.name))"}, rule("size(self) < 3", "at most two")],
        },
        "words": {
            "type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 9},
            "x-kubernetes-validations": [rule("self.all(w, w.matches('^[a-z]+$'))", "words are lower case"), rule("!('z' in self) && self.filter(w, w == 'y').size() == 0 && self.map(w, w.size()).all(n, n < 8)", "odd words")],
        },
        "map": {
            "type": "object", "maxProperties": 4, "additionalProperties": word(json!([rule("self != 'x'", "no x")])),
            "x-kubernetes-validations": [rule("!('bad' in self) && self.all(k, k != 'worse')", "no bad key")],
        },
    }, "x-kubernetes-validations": [
        rule("!has(self.min) || !has(self.max) || self.min <= self.max", "min above max"),
        {"rule": "!has(self.min) || self.min < 100", "fieldPath": ".min", "message": "too much"},
        rule("!has(self.dash__dash__ed) || self.dash__dash__ed > 0", "dashes"),
        rule("!has(self.__namespace__) || self.__namespace__ > 0", "namespaces"),
        rule("has(oldSelf.min) ? has(self.min) : true", "min stays"),
        rule("!has(self.any) || (type(self.any) == int ? self.any > 0 : self.any.endsWith('%'))", "odd amount"),
        rule("self.max != 7", "not seven"),
    ]});
    let status = json!({"type": "object", "properties": {
        "phase": {"type": "string", "maxLength": 9}, "seen": {"type": "integer", "x-kubernetes-validations": [rule("self >= oldSelf", "never less")]},
    }});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}, "x-kubernetes-validations": [
        rule("!has(self.status) || !has(self.status.phase) || self.status.phase != self.metadata.name", "phase is not a name"),
        {"rule": "self.metadata.name != 'forbidden'"},
        rule("!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.spec == self.spec", "spec is fixed once there is a phase"),
    ]}});
    definition(
        "ruleds",
        "Ruled",
        "Namespaced",
        json!([{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}]),
    )
}

/// The path of Widgets in the row's Namespace.
pub(super) const WIDGETS: &str = "/apis/test.example.com/v1/namespaces/{ns}/widgets";

/// Returns the path of one Widget.
pub(super) fn widget_path(rest: &str) -> String {
    format!("{WIDGETS}/{rest}")
}

/// Returns a Widget.
pub(super) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Returns the object with these fields.
pub(super) fn with(mut object: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
    object
}

/// Creates a Widget.
pub(super) fn make(name: &str) -> Step {
    post(201, WIDGETS, widget(name, json!({"text": "abc"})))
}
