//! Pruning of fields that a schema does not name.

use serde_json::Value;

use super::{Path, Schema};

/// Drops the fields that the schema does not name. Returns the paths of those dropped.
///
/// ```
/// use kueue_check_schema::{compile, prune};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {
///     "tiers": {"type": "array", "items": {"type": "object", "properties": {"limit": {"type": "integer"}}}},
/// }}));
/// let mut object = json!({"tiers": [{"limit": 1}, {"limti": 2}]});
/// assert_eq!(prune(&mut object, &schema), ["tiers[1].limti"]);
/// assert_eq!(object, json!({"tiers": [{"limit": 1}, {}]}));
/// ```
pub fn prune(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(value, schema, &Path::root(""), &mut dropped);
    dropped
}

fn walk(value: &mut Value, schema: &Schema, path: &Path<'_>, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let keep_unknown = schema.preserve || schema.additional.is_some();
            map.retain(|key, child| {
                if let Some(below) = schema.properties.get(key).or(schema.additional.as_ref()) {
                    if child.is_object() || child.is_array() {
                        walk(child, below, &path.field(key), dropped);
                    }
                    return true;
                }
                let known = keep_unknown || (schema.embedded && is_type_field(key));
                if !known {
                    dropped.push(path.field(key).to_string());
                }
                known
            });
        }
        Value::Array(list) => {
            let Some(item) = &schema.items else { return };
            for (index, child) in list.iter_mut().enumerate() {
                if child.is_object() || child.is_array() {
                    walk(child, item, &path.index(index), dropped);
                }
            }
        }
        _ => {}
    }
}

/// Drops nulls where null is not allowed and no default takes their place.
///
/// ```
/// use kueue_check_schema::{compile, default_fields, drop_nulls};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {
///     "limit": {"type": "integer"}, "unit": {"type": "string", "default": "pods"}, "owner": {"type": "string", "nullable": true},
/// }}));
/// let mut object = json!({"limit": null, "unit": null, "owner": null});
/// drop_nulls(&mut object, &schema);
/// assert_eq!(object, json!({"unit": null, "owner": null}));
/// default_fields(&mut object, &schema); // which takes the null that was left for it
/// assert_eq!(object, json!({"unit": "pods", "owner": null}));
/// ```
pub fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => map.retain(|key, child| {
            let Some(below) = schema.properties.get(key).or(schema.additional.as_ref()) else {
                return true;
            };
            if child.is_null() {
                return below.nullable || below.default.is_some();
            }
            drop_nulls(child, below);
            true
        }),
        Value::Array(list) => {
            let Some(item) = &schema.items else { return };
            for child in list {
                drop_nulls(child, item);
            }
        }
        _ => {}
    }
}

fn is_type_field(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}
