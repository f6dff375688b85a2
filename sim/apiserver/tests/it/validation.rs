//! Schemas: rejected, dropped and defaulted fields.

use serde_json::{Value, json};

use super::definitions::{WIDGETS, widget};
use super::harness::{Row, merge, post, row};

fn refused(name: &'static str, spec: Value, message: &'static str) -> Row {
    row(
        name,
        [post(422, WIDGETS, widget("a", spec)).message(message)],
    )
}

fn taken(name: &'static str, spec: Value) -> Row {
    row(name, [post(201, WIDGETS, widget("a", spec))])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        refused("a number for a text", json!({"text": 5}), "must be of type string"),
        refused("a text for a number", json!({"count": "5"}), "must be of type integer"),
        refused("a fraction for a whole number", json!({"count": 1.5}), "must be of type int32: \"float64\""),
        refused("a text for a flag", json!({"on": "yes"}), "must be of type boolean"),
        refused("a list for an object", json!({"nested": []}), "must be of type object"),
        refused("an object for a list", json!({"words": {}}), "must be of type array"),
        refused("a text for the spec", json!("x"), "must be of type object"),
        taken("a null that is not allowed is dropped", json!({"text": null})),
        taken("a null that is allowed", json!({"empty": null})),
        refused("a word that is not in the list", json!({"mode": "Odd"}), "supported values: \"Fast\", \"Slow\""),
        refused("a text that is too short", json!({"text": "a"}), "should be at least 2 chars long"),
        refused("a text that is too long", json!({"text": "abcdefghi"}), "Too long: may not be more than 8 bytes"),
        refused("a text that does not match", json!({"text": "ABC"}), "should match '^[a-z]+$'"),
        refused("a number that is too small", json!({"count": 0}), "should be greater than or equal to 1"),
        refused("a number that is too large", json!({"count": 6}), "should be less than or equal to 5"),
        refused("a number at an open bound", json!({"ratio": 0}), "should be greater than 0"),
        refused("a number that does not divide", json!({"even": 3}), "multiple of 2"),
        taken("a fraction", json!({"ratio": 0.25})),
        refused("a time that is none", json!({"when": "yesterday"}), "date-time"),
        taken("a time", json!({"when": "2025-03-01T09:00:00Z"})),
        taken("a number where texts are allowed too", json!({"size": 5})),
        taken("a text where numbers are allowed too", json!({"size": "5%"})),
        refused("a flag where neither is", json!({"size": true}), "spec.size"),
        refused("too many items", json!({"parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}]}), "must have at most 4 items"),
        refused("too few items", json!({"tags": []}), "should have at least 1 items"),
        refused("too many properties", json!({"labels": {"a": "1", "b": "2", "c": "3"}}), "must have at most 2"),
        refused("a missing field", json!({"ports": [{"note": "x"}]}), "spec.ports[0].port: Required value"),
        refused("a key that is there twice", json!({"parts": [{"name": "a"}, {"name": "a"}]}), "Duplicate value"),
        refused("two keys that are there twice", json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}), "Duplicate value"),
        taken("keys that differ in one part", json!({"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]})),
        refused("a member of a set that is there twice", json!({"tags": ["a", "a"]}), "Duplicate value: \"a\""),
        refused("one of two", json!({"choice": {"a": "x", "b": "y"}}), "oneOf"),
        refused("several faults", json!({"text": 5, "count": 9, "mode": "Odd"}), "Widget.test.example.com \"a\" is invalid"),
        refused("a fault deep inside", json!({"parts": [{"name": "a", "size": 11}]}), "spec.parts[0].size"),
        refused("a number beyond its format", json!({"parts": [{"name": "a", "size": 4_294_967_296_i64}]}), "spec.parts[0].size"),
        taken("defaults inside of defaults", json!({"nested": {"other": "x"}})),
        taken("defaults in lists", json!({"ports": [{"port": 80}]})),
        taken("unknown fields deep inside", json!({"parts": [{"name": "a", "zip": 1}], "free": {"a": {"b": [1, 2]}}})),
        row("a spec that is needed", [post(422, "/apis/test.example.com/v1/plains", json!({"apiVersion": "test.example.com/v1", "kind": "Plain", "metadata": {"name": "v1"}})).message("spec: Required value")]),
        row("labels that are no texts", [post(400, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"a": 5}}}))]),
        row("metadata that is no object", [post(400, WIDGETS, json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": "x"}))]),
        row("a status that breaks a rule", [post(201, WIDGETS, widget("a", json!({}))), merge(422, format!("{WIDGETS}/a/status"), json!({"status": {"seen": "x"}}))]),
    ]
}
