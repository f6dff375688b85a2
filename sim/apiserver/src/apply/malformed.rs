//! Validation of an applied configuration, with the messages of the real server.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::typed::element;
use crate::schema::{ListKind, Schema, Type, key_of};

/// Returns why `config` cannot be applied; `None` if it can. Only the first error is returned.
pub(crate) fn malformed(config: &Value, schema: &Schema) -> Option<String> {
    walk(config, schema, "")
}

fn walk(value: &Value, schema: &Schema, path: &str) -> Option<String> {
    if value.is_null() {
        return None;
    }
    if let Some(why) = unexpected(value, schema) {
        return Some(format!("{path}: {why}"));
    }
    match value {
        Value::Object(map) => map.iter().find_map(|(name, child)| {
            let (below, named) = schema.field(name);
            let known = named || schema.additional.is_some() || schema.preserve;
            let at = format!("{path}.{name}");
            if known {
                walk(child, &below, &at)
            } else {
                Some(format!("{at}: field not declared in schema"))
            }
        }),
        Value::Array(list) => items(list, schema, path),
        _ => None,
    }
}

/// Returns an error if the value's type differs from the schema's type.
fn unexpected(value: &Value, schema: &Schema) -> Option<String> {
    if schema.int_or_string {
        return None;
    }
    let (fits, wanted, got): (bool, &str, fn(&Value) -> String) = match schema.kind {
        Type::Any => return None,
        Type::Object => (value.is_object(), "map", go_value),
        Type::Array => (value.is_array(), "list", go_value),
        Type::Boolean => (value.is_boolean(), "boolean", go_value),
        Type::String => (value.is_string(), "string", go_syntax),
        Type::Integer | Type::Number => {
            let got = |value: &Value| go_type(value).to_owned();
            (value.is_number(), "numeric (int or float)", got)
        }
    };
    (!fits).then(|| format!("expected {wanted}, got {}", got(value)))
}

fn items(list: &[Value], schema: &Schema, path: &str) -> Option<String> {
    let item_schema = schema.item();
    let mut seen = BTreeSet::new();
    for (index, item) in list.iter().enumerate() {
        let at = if schema.list == ListKind::Atomic {
            format!("{path}[{index}]")
        } else {
            if let Some(why) = nameless(item, &schema.list, &item_schema) {
                return Some(format!("{path}: element {index}: {why}"));
            }
            let element = element(item, schema, &item_schema);
            let shown = element.show();
            if !seen.insert(element) {
                return Some(format!("{path}: duplicate entries for key {shown}"));
            }
            format!("{path}{shown}")
        };
        if let Some(why) = walk(item, &item_schema, &at) {
            return Some(why);
        }
    }
    None
}

/// Returns why an item of an associative list cannot be identified.
fn nameless(item: &Value, list: &ListKind, schema: &Schema) -> Option<String> {
    let ListKind::Map(keys) = list else {
        let what = match item {
            Value::Object(_) => "a map type",
            Value::Null => "an explicit null",
            _ => return None,
        };
        return Some(format!(
            "associative list without keys has an element that's {what}"
        ));
    };
    let why = match item {
        Value::Null => "may not have a null element".to_owned(),
        Value::Object(_) if key_of(item, keys, schema).is_empty() => {
            let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            format!(
                "has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                names.join(" ")
            )
        }
        Value::Object(_) => return None,
        _ => "may not have non-map elements".to_owned(),
    };
    Some(format!("associative list with keys {why}"))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a pointer to a value as Go's `%v`.
fn go_value(value: &Value) -> String {
    format!("&{{{}}}", go_map(value))
}

/// Formats a value as Go's `%v`.
pub(crate) fn go_map(value: &Value) -> String {
    let spaced = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", spaced(list.iter().map(go_map).collect())),
        Value::Object(map) => {
            let pair = |(name, child): (&String, &Value)| format!("{name}:{}", go_map(child));
            format!("map[{}]", spaced(map.iter().map(pair).collect()))
        }
        other => other.to_string(),
    }
}

/// Formats a value as Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    let mut out = String::from("&value.valueUnstructured{Value:");
    syntax(value, &mut out);
    out.push('}');
    out
}

fn syntax(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Array(list) => {
            out.push_str("[]interface {}{");
            for (index, item) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                syntax(item, out);
            }
            out.push('}');
        }
        Value::Object(map) => syntax_map(map, out),
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn syntax_map(map: &Map<String, Value>, out: &mut String) {
    out.push_str("map[string]interface {}{");
    for (index, (name, child)) in map.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(out, "{comma}{name:?}:");
        syntax(child, out);
    }
    out.push('}');
}
