//! Lists whose items have keys.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{ListKind, Path, Schema};
use crate::FieldError;

/// Returns the key that identifies an item of a map-like list. Key fields that are missing take
/// their default; those without one are left out.
///
/// ```
/// use kueue_check_schema::{compile, key_of};
/// use serde_json::json;
///
/// let port = compile(&json!({"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}}}));
/// let keys = ["containerPort".to_owned(), "protocol".to_owned()];
/// let key = key_of(&json!({"containerPort": 80, "name": "web"}), &keys, &port);
/// assert_eq!(json!(key), json!({"containerPort": 80, "protocol": "TCP"}));
/// ```
pub fn key_of(item: &Value, keys: &[String], schema: &Schema) -> Map<String, Value> {
    let mut found = Map::new();
    for key in keys {
        if let Some(value) = key_field(item, key, schema) {
            found.insert(key.clone(), value.clone());
        }
    }
    found
}

/// Returns a key field of an item, or its default.
fn key_field<'a>(item: &'a Value, key: &str, schema: &'a Schema) -> Option<&'a Value> {
    let default = || schema.properties.get(key)?.default.as_ref();
    item.get(key).or_else(default)
}

/// Returns the earlier state of the item at `index`: only items with keys can be matched. Most items
/// keep their place.
pub(crate) fn counterpart<'a>(
    (index, item): (usize, &Value),
    old: Option<&'a Value>,
    list: &Schema,
    schema: &Schema,
) -> Option<&'a Value> {
    let ListKind::Map(keys) = &list.list else {
        return None;
    };
    let before = old?.as_array()?;
    let is_same = |other: &&Value| {
        let is_same = |key: &String| key_field(other, key, schema) == key_field(item, key, schema);
        keys.iter().all(is_same)
    };
    let at_index = before.get(index).filter(is_same);
    at_index.or_else(|| before.iter().find(is_same))
}

/// Returns an error for each item that appears twice in a list that is a set or a map.
///
/// ```
/// use kueue_check_schema::{compile, duplicates};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {"tiers": {
///     "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
///     "items": {"type": "object", "properties": {"name": {"type": "string"}, "limit": {"type": "integer"}}},
/// }}}));
/// let errors = duplicates(&json!({"tiers": [{"name": "gold", "limit": 9}, {"name": "gold", "limit": 1}]}), &schema);
/// assert_eq!(errors[0].to_string(), r#"tiers[1]: Duplicate value: {"name":"gold"}"#);
/// ```
pub fn duplicates(value: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(value, schema, &Path::root(""), &mut errors);
    errors
}

fn walk(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                if let Some(below) = schema.properties.get(key) {
                    walk(child, below, &path.field(key), errors);
                } else if let Some(below) = &schema.additional {
                    walk(child, below, &path.key(key), errors);
                }
            }
        }
        Value::Array(list) => {
            check(list, schema, path, errors);
            if let Some(item) = &schema.items {
                for (index, child) in list.iter().enumerate() {
                    walk(child, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check(list: &[Value], schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if list.len() < 2 || schema.list == ListKind::Atomic {
        return;
    }
    let item_schema = schema.item();
    let mut seen = BTreeSet::new();
    let mut reported = BTreeSet::new();
    for (index, item) in list.iter().enumerate() {
        let key = match &schema.list {
            ListKind::Map(keys) => Value::Object(key_of(item, keys, &item_schema)),
            ListKind::Atomic | ListKind::Set => item.clone(),
        };
        let text = key.to_string();
        if !seen.insert(text.clone()) && reported.insert(text) {
            errors.push(FieldError::duplicate(&path.index(index), &key));
        }
    }
}
