//! The rules of definitions (`x-kubernetes-validations`), in CEL.
//!
//! Rules run where a value changed: an error that was there before is not reported again, as with
//! the ratcheting of the real server. The language is that of the crate `cel`, with optional values
//! and the extensions for strings, lists and numbers.
//!
//! The real server's own libraries (quantity, URL, IP address, regular expressions that find) are
//! missing, times are texts, and lists that are sets or maps are equal only in the same order. A
//! rule that cannot be parsed counts as held, and is logged once. A rule that fails when it runs is
//! an error, as on the real server.

mod rule;
mod value;

use serde_json::Value;

use crate::lists::counterpart;
use crate::{FieldError, Path, Schema};

pub use rule::Rule;
pub(crate) use rule::rules;

/// Returns the errors of the rules of `schema` for an object that was `old` before; none if it is
/// new.
///
/// ```
/// use kueue_check_schema::{CEL_ENABLED, violated_rules, compile};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {"limit": {
///     "type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "may only grow"}],
/// }}}));
/// let (new, old) = (json!({"limit": 1}), json!({"limit": 2}));
/// if CEL_ENABLED {
///     assert_eq!(violated_rules(&new, Some(&old), &schema)[0].to_string(), "limit: Invalid value: 1: may only grow");
/// }
/// assert_eq!(violated_rules(&new, None, &schema), []); // a rule about a change does not apply to a new object
/// ```
pub fn violated_rules(new: &Value, old: Option<&Value>, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(new, old, schema, &Path::root(""), &mut errors);
    errors
}

fn walk(
    new: &Value,
    old: Option<&Value>,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if !schema.has_rules || new.is_null() || old == Some(new) {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    errors.extend(
        schema
            .rules
            .iter()
            .filter_map(|rule| rule.broken(new, old, schema, path)),
    );
    match new {
        Value::Object(map) => {
            for (key, child) in map {
                let named = schema.properties.get(key);
                let Some(below) = named.or(schema.additional.as_ref()) else {
                    continue;
                };
                if !below.has_rules {
                    continue;
                }
                let at = match named {
                    Some(_) => path.field(key),
                    None => path.key(key),
                };
                walk(child, old.and_then(|old| old.get(key)), below, &at, errors);
            }
        }
        Value::Array(list) => {
            let Some(item) = schema.items.as_deref().filter(|item| item.has_rules) else {
                return;
            };
            for (index, child) in list.iter().enumerate() {
                let before = counterpart((index, child), old, schema, item);
                walk(child, before, item, &path.index(index), errors);
            }
        }
        _ => {}
    }
}
