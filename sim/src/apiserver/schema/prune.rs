//! Dropping what a schema does not know.

use serde_json::Value;

use super::Schema;

/// Drops the fields that the schema does not name. Returns the paths of those dropped.
pub(crate) fn prune(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(value, schema, "", &mut dropped);
    dropped
}

fn walk(value: &mut Value, schema: &Schema, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let keep_unknown = schema.preserve || schema.additional.is_some();
            if !keep_unknown {
                map.retain(|key, _| {
                    let known = schema.properties.contains_key(key)
                        || (schema.embedded && is_type_field(key));
                    if !known {
                        dropped.push(join(path, key));
                    }
                    known
                });
            }
            for (key, child) in map.iter_mut() {
                let below = schema.properties.get(key).or(schema.additional.as_ref());
                if let Some(below) = below {
                    walk(child, below, &join(path, key), dropped);
                }
            }
        }
        Value::Array(list) => {
            let Some(item) = &schema.items else { return };
            for (index, child) in list.iter_mut().enumerate() {
                walk(child, item, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

fn is_type_field(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
