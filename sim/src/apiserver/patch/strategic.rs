//! Strategic merge: a merge patch that knows which lists have keys.

use serde_json::{Map, Value};

use crate::apiserver::schema::Schema;

/// `object` changed as `patch` says. Understood are `$patch: delete|replace`, `$retainKeys` is passed over, `$setElementOrder/…` too: items keep their
/// order, new ones come last. `$deleteFromPrimitiveList/…` removes scalars.
pub(crate) fn strategic_merge(object: &Value, patch: &Value, schema: &Schema) -> Value {
    let (Value::Object(old), Value::Object(new)) = (object, patch) else {
        return without_directives(patch);
    };
    if new.get("$patch").and_then(Value::as_str) == Some("replace") {
        return without_directives(patch);
    }
    let mut out = old.clone();
    for (name, wanted) in new {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            delete_scalars(&mut out, list, wanted);
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        let child = schema.field(name).0;
        match (out.get(name), wanted) {
            (_, Value::Null) => {
                out.remove(name);
            }
            (Some(found @ Value::Object(_)), Value::Object(map)) => {
                if map.get("$patch").and_then(Value::as_str) == Some("delete") {
                    out.remove(name);
                } else {
                    let merged = strategic_merge(found, wanted, &child);
                    out.insert(name.clone(), merged);
                }
            }
            (Some(Value::Array(found)), Value::Array(list)) => {
                let merged = merge_lists(found, list, &child);
                out.insert(name.clone(), Value::Array(merged));
            }
            _ => {
                out.insert(name.clone(), without_directives(wanted));
            }
        }
    }
    Value::Object(out)
}

fn merge_lists(old: &[Value], patch: &[Value], schema: &Schema) -> Vec<Value> {
    let replaces = patch
        .iter()
        .any(|i| i.get("$patch").and_then(Value::as_str) == Some("replace"));
    let Some(key) = schema.merge_key.as_deref().filter(|_| !replaces) else {
        let kept = patch.iter().filter(|i| i.get("$patch").is_none());
        return kept.map(without_directives).collect();
    };
    let mut out = old.to_vec();
    if key.is_empty() {
        for item in patch {
            if !out.contains(item) {
                out.push(item.clone());
            }
        }
        return out;
    }
    let item_schema = schema.item();
    for item in patch {
        let same = |other: &Value| other.get(key).is_some() && other.get(key) == item.get(key);
        if item.get("$patch").and_then(Value::as_str) == Some("delete") {
            out.retain(|other| !same(other));
        } else if let Some(found) = out.iter_mut().find(|other| same(other)) {
            *found = strategic_merge(found, item, &item_schema);
        } else {
            out.push(without_directives(item));
        }
    }
    out
}

fn delete_scalars(out: &mut Map<String, Value>, list: &str, gone: &Value) {
    let Some(Value::Array(found)) = out.get_mut(list) else {
        return;
    };
    let gone = gone.as_array().cloned().unwrap_or_default();
    found.retain(|item| !gone.contains(item));
}

fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(name, child)| !name.starts_with('$') && !child.is_null())
            .map(|(name, child)| (name.clone(), without_directives(child)))
            .collect(),
        Value::Array(list) => list.iter().map(without_directives).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apiserver::schema::compile;

    #[test]
    fn keyed_lists_merge_and_others_are_replaced() {
        let schema = compile(&json!({"properties": {
            "c": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}, "l": {"type": "array"},
        }}));
        let old = json!({"c": [{"name": "a", "x": 1}, {"name": "b"}], "l": [1, 2]});
        let patch = json!({"c": [{"name": "a", "y": 2}, {"name": "b", "$patch": "delete"}, {"name": "d"}], "l": [3]});
        assert_eq!(
            strategic_merge(&old, &patch, &schema),
            json!({"c": [{"name": "a", "x": 1, "y": 2}, {"name": "d"}], "l": [3]})
        );
    }
}
