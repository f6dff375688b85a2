//! CEL rules: what they reject, at which path they report it, and when they run.

use serde_json::{Value, json};

use super::harness::{Row, Step, merge, post, put, row, ssa};

const RULEDS: &str = "/apis/test.example.com/v1/namespaces/{ns}/ruleds";

fn object(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "test.example.com/v1", "kind": "Ruled", "metadata": {"name": name}, "spec": spec})
}

/// Adds `max` to a spec, because one of its rules reads it without `has()`.
fn with_max(mut spec: Value) -> Value {
    if spec.get("max").is_none() {
        spec["max"] = json!(50);
    }
    spec
}

fn refused(name: &'static str, spec: Value, message: &'static str) -> Row {
    row(
        name,
        [post(422, RULEDS, object("a", with_max(spec))).message(message)],
    )
}

fn taken(name: &'static str, spec: Value) -> Row {
    row(name, [post(201, RULEDS, object("a", with_max(spec)))])
}

/// Returns a row with one change of the spec of an object.
fn change(name: &'static str, spec: Value, code: u16, patch: Value) -> Row {
    let path = format!("{RULEDS}/a");
    row(
        name,
        [
            post(201, RULEDS, object("a", with_max(spec))),
            merge(code, path, json!({"spec": patch})),
        ],
    )
}

fn status(code: u16, status: Value) -> Step {
    merge(
        code,
        format!("{RULEDS}/a/status"),
        json!({"status": status}),
    )
}

pub(super) fn rows() -> Vec<Row> {
    let start = || post(201, RULEDS, object("a", json!({"max": 50, "min": 1})));
    let path = format!("{RULEDS}/a");
    vec![
        refused("a rule of an object", json!({"min": 5, "max": 3}), "min above max"),
        refused("a rule that names another field", json!({"min": 200, "max": 300}), "too much"),
        refused("two rules of one object", json!({"min": 200, "max": 100}), "min above max"),
        refused("a rule without a message", json!({"text": "b"}), "failed rule: self.startsWith('a')"),
        refused("a rule whose message is an expression", json!({"text": "ab"}), "Forbidden: not ab"),
        refused("a rule of a list and one of a number", json!({"items": [{"name": "a", "n": 0}, {"name": "b"}, {"name": "c"}]}), "at most two"),
        refused("a rule about each word", json!({"words": ["A"]}), "words are lower case"),
        refused("a word that may not be in a list", json!({"words": ["z"]}), "odd words"),
        refused("rules of a map and its values", json!({"map": {"bad": "x", "ok": "y"}}), "no bad key"),
        refused("a rule about each key", json!({"map": {"worse": "a"}}), "no bad key"),
        refused("fields whose names are no identifiers", json!({"dash-ed": 0, "namespace": 0}), "dashes"),
        refused("a number that may be a text", json!({"any": 0}), "odd amount"),
        refused("a text that may be a number", json!({"any": "5"}), "odd amount"),
        taken("what holds every rule", json!({"min": 1, "text": "abc", "opt": "a", "fixed": "x", "words": ["a"], "map": {"k": "v"}, "any": "5%", "dash-ed": 1, "items": [{"name": "a", "n": 1, "keep": "k"}]})),
        refused("rules are not tried on what is malformed", json!({"min": "x", "max": 1}), "some validation rules were not checked"),
        row("a rule that fails", [post(422, RULEDS, object("a", json!({"min": 1}))).message("no such key: max evaluating rule: not seven")]),
        row("a rule of the whole object", [post(422, RULEDS, object("forbidden", json!({"max": 1}))).message("failed rule: self.metadata.name != 'forbidden'")]),
        change("an immutable field", json!({"fixed": "a"}), 422, json!({"fixed": "b"})),
        change("an immutable field that stays", json!({"fixed": "a"}), 200, json!({"fixed": "a", "min": 2})),
        change("an immutable field may go", json!({"fixed": "a"}), 200, json!({"fixed": null})),
        change("an immutable field may come", json!({}), 200, json!({"fixed": "a"})),
        change("a field that is set once", json!({"opt": "a"}), 422, json!({"opt": "b"})),
        change("a field that may not go", json!({"min": 1}), 422, json!({"min": null})),
        change("an item keeps its field", json!({"items": [{"name": "a", "keep": "k"}]}), 422, json!({"items": [{"name": "b", "keep": "z"}, {"name": "a", "keep": "y"}]})),
        change("an item that is another", json!({"items": [{"name": "a", "keep": "k"}]}), 200, json!({"items": [{"name": "b", "keep": "y"}]})),
        row("a status that breaks a rule of the whole", [start(), status(422, json!({"phase": "a"})).message("phase is not a name")]),
        row("a status that may not fall", [start(), status(200, json!({"seen": 3})), status(422, json!({"seen": 2})).message("never less"), status(200, json!({"seen": 4}))]),
        row("a spec that is fixed by its status", [
            start(),
            status(200, json!({"phase": "x"})),
            merge(422, &path, json!({"spec": {"max": 60}})).message("spec is fixed once there is a phase"),
            merge(200, &path, json!({"metadata": {"labels": {"l": "m"}}})),
        ]),
        row("a replacement that breaks a rule", [start(), put(422, &path, json!({"apiVersion": "test.example.com/v1", "kind": "Ruled", "metadata": {"name": "a", "resourceVersion": "{rv}"}, "spec": {"max": 60}})).message("min stays")]),
        row("an apply that breaks a rule of its own", [
            ssa(422, format!("{path}?fieldManager=x"), object("a", json!({"max": 1, "min": 2}))).message("min above max"),
            ssa(201, format!("{path}?fieldManager=x"), object("a", json!({"max": 3, "min": 2}))),
            ssa(422, format!("{path}?fieldManager=x"), object("a", json!({"max": 3}))).message("min stays"),
        ]),
    ]
}
