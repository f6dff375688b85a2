//! Defaults of a schema for missing fields.

use serde_json::Value;

use super::Schema;

/// Sets the defaults of missing fields. A null where null is not allowed counts as missing if there
/// is a default.
///
/// ```
/// use kueue_check_schema::{compile, default_fields};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {
///     "spec": {"type": "object", "properties": {"unit": {"type": "string", "default": "pods"}}},
/// }}));
/// let mut objects = [json!({"spec": {"unit": null}}), json!({})];
/// objects.iter_mut().for_each(|object| default_fields(object, &schema));
/// // What is above a default is not made for it.
/// assert_eq!(objects, [json!({"spec": {"unit": "pods"}}), json!({})]);
/// ```
pub fn default_fields(value: &mut Value, schema: &Schema) {
    if !schema.has_defaults {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                let missing = map
                    .get(name)
                    .is_none_or(|found| found.is_null() && !property.nullable);
                if missing {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (key, child) in map.iter_mut() {
                if let Some(below) = schema.properties.get(key).or(schema.additional.as_ref()) {
                    default_fields(child, below);
                }
            }
        }
        Value::Array(list) => {
            let Some(item) = &schema.items else { return };
            for child in list {
                default_fields(child, item);
            }
        }
        _ => {}
    }
}
