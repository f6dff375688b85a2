//! Strategic merge: a merge patch that merges lists with keys by key.

use serde_json::{Map, Value};

use crate::schema::Schema;

/// Applies a strategic merge `patch` to `object`.
///
/// Supported are `$patch: delete|replace`, `$setElementOrder/…` beside the list that it orders, and
/// `$deleteFromPrimitiveList/…`. `$retainKeys` is ignored.
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
                let order = new.get(&format!("$setElementOrder/{name}"));
                let order = order.and_then(Value::as_array).unwrap_or(list);
                let merged = merge_lists(found, list, order, &child);
                out.insert(name.clone(), Value::Array(merged));
            }
            _ => {
                out.insert(name.clone(), without_directives(wanted));
            }
        }
    }
    Value::Object(out)
}

/// Merges lists by key. `order` is the value of `$setElementOrder`, or the patch itself.
fn merge_lists(old: &[Value], patch: &[Value], order: &[Value], schema: &Schema) -> Vec<Value> {
    let replaces = patch
        .iter()
        .any(|i| i.get("$patch").and_then(Value::as_str) == Some("replace"));
    let Some(key) = schema.merge_key.as_deref().filter(|_| !replaces) else {
        let kept = patch.iter().filter(|i| i.get("$patch").is_none());
        return kept.map(without_directives).collect();
    };
    let name = |item: &Value| -> Value {
        if key.is_empty() {
            item.clone()
        } else {
            item.get(key).cloned().unwrap_or_default()
        }
    };
    let item_schema = schema.item();
    let mut out = old.to_vec();
    for item in patch {
        let wanted = name(item);
        if item.get("$patch").and_then(Value::as_str) == Some("delete") {
            out.retain(|other| name(other) != wanted);
        } else if let Some(found) = out.iter_mut().find(|other| name(other) == wanted) {
            if !key.is_empty() {
                *found = strategic_merge(found, item, &item_schema);
            }
        } else {
            out.push(without_directives(item));
        }
    }
    let place = |list: &[Value], item: &Value| {
        let wanted = name(item);
        list.iter().position(|other| name(other) == wanted)
    };
    let (mut ordered, rest): (Vec<Value>, Vec<Value>) = out
        .into_iter()
        .partition(|item| place(order, item).is_some());
    ordered.sort_by_key(|item| place(order, item));
    interleave(rest, ordered, |item| place(old, item))
}

/// Inserts items that only the server has (`rest`) into the items that the patch orders. Each is
/// placed before a neighbour that it preceded, else as late as possible.
fn interleave(
    rest: Vec<Value>,
    ordered: Vec<Value>,
    before: impl Fn(&Value) -> Option<usize>,
) -> Vec<Value> {
    let mut out = Vec::with_capacity(rest.len() + ordered.len());
    let (mut rest, mut ordered) = (rest.into_iter().peekable(), ordered.into_iter().peekable());
    while let (Some(left), Some(right)) = (rest.peek(), ordered.peek()) {
        let first = match (before(left), before(right)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        out.extend(if first { rest.next() } else { ordered.next() });
    }
    out.extend(rest);
    out.extend(ordered);
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
    use crate::schema::compile;

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
