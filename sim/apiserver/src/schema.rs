//! Schemas, and decoding errors of built-in kinds. JSON that does not fit the Go types is reported
//! with the messages of Go's decoder.

use serde_json::Value;

pub(crate) use kueue_check_schema::{
    Definitions, ListKind, Schema, Type, blocks_rules, compile, default_fields, drop_nulls,
    duplicates, key_of, prune, validate, validate_change, validate_status_change, violated_rules,
};

/// Returns why `value` cannot be decoded. `root` is the decoded Go type, such as `ConfigMap`. Only
/// the first error is returned.
pub(crate) fn undecodable(value: &Value, schema: &Schema, root: &str) -> Option<String> {
    walk(value, schema, root, "")
}

fn walk(value: &Value, schema: &Schema, owner: &str, path: &str) -> Option<String> {
    if let Some(why) = no_time(value, schema) {
        return Some(why);
    }
    // Times, quantities and the like decode themselves.
    if value.is_null() || schema.int_or_string || is_own(schema) {
        return None;
    }
    if !fits(value, schema) {
        let found = json_name(value);
        let wanted = go_type(schema);
        return Some(if path.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {wanted}")
        } else {
            format!(
                "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}"
            )
        });
    }
    let owner = schema
        .name
        .rsplit('.')
        .next()
        .filter(|n| !n.is_empty())
        .unwrap_or(owner);
    match value {
        Value::Object(map) => map.iter().find_map(|(key, child)| {
            if let Some(below) = schema.properties.get(key) {
                let at = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                walk(child, below, owner, &at)
            } else {
                walk(child, schema.additional.as_ref()?, owner, path)
            }
        }),
        Value::Array(list) => {
            let item = schema.items.as_ref()?;
            list.iter().find_map(|child| walk(child, item, owner, path))
        }
        _ => None,
    }
}

/// Returns the error for an invalid time. Go's message depends on where parsing stops; this is its
/// message for a word.
fn no_time(value: &Value, schema: &Schema) -> Option<String> {
    let text = value.as_str().filter(|_| schema.format == "date-time")?;
    if text.parse::<jiff::Timestamp>().is_ok() {
        return None;
    }
    let micro = if schema.name.ends_with("MicroTime") {
        ".000000"
    } else {
        ""
    };
    Some(format!(
        "parsing time {text:?} as \"2006-01-02T15:04:05{micro}Z07:00\": cannot parse {text:?} as \"2006\""
    ))
}

fn is_own(schema: &Schema) -> bool {
    matches!(schema.format.as_str(), "date-time" | "byte")
        || schema.name.ends_with(".Quantity")
        || (schema.preserve && schema.kind == Type::Object)
}

fn fits(value: &Value, schema: &Schema) -> bool {
    match schema.kind {
        Type::Any => true,
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number => value.is_number(),
        Type::Integer => value.is_i64() || value.is_u64(),
    }
}

fn json_name(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if number.is_f64() => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn go_type(schema: &Schema) -> String {
    if !schema.name.is_empty() {
        return schema.name.clone();
    }
    match schema.kind {
        Type::String => "string".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::Integer if schema.format.is_empty() => "int64".to_owned(),
        Type::Integer => schema.format.clone(),
        Type::Number => "float64".to_owned(),
        Type::Array => format!(
            "[]{}",
            schema
                .items
                .as_ref()
                .map_or_else(String::new, |i| go_type(i))
        ),
        Type::Object => format!(
            "map[string]{}",
            schema
                .additional
                .as_ref()
                .map_or_else(String::new, |a| go_type(a))
        ),
        Type::Any => "interface {}".to_owned(),
    }
}
