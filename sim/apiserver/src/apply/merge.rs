//! Merging an applied configuration into an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::Element;
use super::typed::{Shape, element, shape};
use crate::schema::Schema;

/// Returns `live` merged with all values of `config`.
pub(crate) fn merge(live: &Value, config: &Value, schema: &Schema) -> Value {
    match (shape(live, schema), shape(config, schema)) {
        (Shape::Map(live), Shape::Map(config)) => Value::Object(merge_maps(live, config, schema)),
        (Shape::List(live), Shape::List(config)) => Value::Array(merge_lists(live, config, schema)),
        _ => config.clone(),
    }
}

fn merge_maps(
    live: &Map<String, Value>,
    config: &Map<String, Value>,
    schema: &Schema,
) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, found) in live {
        let merged = match config.get(name) {
            Some(wanted) => merge(found, wanted, &schema.field(name).0),
            None => found.clone(),
        };
        out.insert(name.clone(), merged);
    }
    for (name, wanted) in config {
        if !live.contains_key(name) {
            out.insert(name.clone(), wanted.clone());
        }
    }
    out
}

/// Merges lists item by item. Items of `config` keep its order; other items stay behind the same
/// neighbour.
fn merge_lists(live: &[Value], config: &[Value], schema: &Schema) -> Vec<Value> {
    let item_schema = schema.item();
    let name = |item: &Value| element(item, schema, &item_schema);
    let live: Vec<(Element, &Value)> = live.iter().map(|i| (name(i), i)).collect();
    let config: Vec<(Element, &Value)> = config.iter().map(|i| (name(i), i)).collect();
    let found: BTreeMap<&Element, &Value> = live.iter().map(|(e, v)| (e, *v)).collect();
    let wanted: BTreeMap<&Element, &Value> = config.iter().map(|(e, v)| (e, *v)).collect();
    let mut shared = config
        .iter()
        .map(|(e, _)| e)
        .filter(|e| found.contains_key(e));
    let mut next_shared = shared.next();
    let take = |element: &Element| match (found.get(element), wanted.get(element)) {
        (Some(found), Some(wanted)) => merge(found, wanted, &item_schema),
        (Some(found), None) => (*found).clone(),
        (None, Some(wanted)) => (*wanted).clone(),
        (None, None) => Value::Null,
    };
    let mut out = Vec::with_capacity(live.len() + config.len());
    let mut done = std::collections::BTreeSet::new();
    let (mut l, mut c) = (0, 0);
    while l < live.len() || c < config.len() {
        if let (Some((at, _)), Some((want, _))) = (live.get(l), config.get(c)) {
            if at == want {
                done.insert(at);
                out.push(take(at));
                l += 1;
                c += 1;
                next_shared = shared.next();
                continue;
            }
            // `config` has this item at a later position.
            if wanted.contains_key(at) && next_shared.is_some_and(|next| next != at) {
                l += 1;
                continue;
            }
        }
        if let Some((at, _)) = live.get(l) {
            if !wanted.contains_key(at) {
                out.push(take(at));
                l += 1;
                continue;
            }
            if done.contains(at) {
                l += 1;
            }
        }
        if let Some((want, _)) = config.get(c) {
            done.insert(want);
            out.push(take(want));
            c += 1;
            if next_shared == Some(want) {
                next_shared = shared.next();
            }
        }
    }
    out
}
