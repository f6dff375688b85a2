//! Mutations of JSON trees.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::Material;

/// The maximum number of nodes that can be changed.
const NODES: usize = 2_000;

/// Returns `input` with one change of its tree; `None` unless it is JSON.
pub(super) fn mutate(random: &mut Rng, input: &[u8], material: Material<'_>) -> Option<Vec<u8>> {
    let mut tree: Value = serde_json::from_slice(input).ok()?;
    let nodes = count(&tree).min(NODES);
    let mut at = random.usize(0..nodes);
    let node = find(&mut tree, &mut at)?;
    change(random, node, material);
    serde_json::to_vec(&tree).ok()
}

fn count(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(elements) => elements.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// Returns the node with this number, in the order of the text.
fn find<'t>(tree: &'t mut Value, left: &mut usize) -> Option<&'t mut Value> {
    if *left == 0 {
        return Some(tree);
    }
    *left -= 1;
    match tree {
        Value::Array(elements) => elements.iter_mut().find_map(|element| find(element, left)),
        Value::Object(members) => members.values_mut().find_map(|member| find(member, left)),
        _ => None,
    }
}

fn change(random: &mut Rng, node: &mut Value, material: Material<'_>) {
    let choice = random.u8(0..12);
    match (choice, &mut *node) {
        (0..=3, Value::Object(members)) => change_object(random, members, material),
        (0..=3, Value::Array(elements)) => change_list(random, elements, material),
        (0..=4, Value::String(text)) => {
            let bytes = text.clone().into_bytes();
            let changed = super::bytes::mutate(random, bytes, material);
            *text = String::from_utf8_lossy(&changed).into_owned();
        }
        (0..=3, Value::Number(_)) => *node = number(random),
        (5 | 6, _) => *node = other_tree(random, material),
        (7, _) => *node = json!([node.take()]),
        (8, _) => {
            let mut members = Map::new();
            members.insert(material.word(random).to_owned(), node.take());
            *node = Value::Object(members);
        }
        (9, _) => *node = Value::String(material.word(random).to_owned()),
        _ => *node = plain(random, material),
    }
}

fn change_object(random: &mut Rng, members: &mut Map<String, Value>, material: Material<'_>) {
    let keys: Vec<String> = members.keys().cloned().collect();
    let key = random.choice(&keys).cloned().unwrap_or_default();
    match random.u8(0..5) {
        0 | 1 => {
            members.remove(&key);
        }
        2 => {
            // The same value under another name.
            let value = members.remove(&key).unwrap_or_default();
            members.insert(material.word(random).to_owned(), value);
        }
        3 => {
            members.insert(material.word(random).to_owned(), plain(random, material));
        }
        _ => {
            members.insert(
                material.word(random).to_owned(),
                other_tree(random, material),
            );
        }
    }
}

fn change_list(random: &mut Rng, elements: &mut Vec<Value>, material: Material<'_>) {
    if elements.is_empty() {
        elements.push(other_tree(random, material));
        return;
    }
    let at = random.usize(0..elements.len());
    match random.u8(0..5) {
        0 => {
            elements.remove(at);
        }
        1 => {
            let times = 1 << random.u32(0..6);
            let element = elements[at].clone();
            elements.splice(at..at, std::iter::repeat_n(element, times));
        }
        2 => {
            let with = random.usize(0..elements.len());
            elements.swap(at, with);
        }
        3 => elements.insert(at, plain(random, material)),
        _ => elements.insert(at, other_tree(random, material)),
    }
}

fn number(random: &mut Rng) -> Value {
    match random.u8(0..12) {
        0 => json!(0),
        1 => json!(-1),
        2 => json!(i32::MAX),
        3 => json!(i64::from(i32::MAX) + 1),
        4 => json!(i64::MAX),
        5 => json!(i64::MIN),
        6 => json!(u64::MAX),
        7 => json!(1e300),
        8 => json!(-0.5),
        9 => json!(u32::MAX),
        10 => json!(1e-9),
        _ => json!(random.i32(-1000..1000)),
    }
}

fn plain(random: &mut Rng, material: Material<'_>) -> Value {
    match random.u8(0..10) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(false),
        3 => json!([]),
        4 => json!({}),
        5 => json!(""),
        6 => json!("x".repeat(1 << random.u32(0..12))),
        7 => Value::String(material.word(random).to_owned()),
        _ => number(random),
    }
}

/// Returns a node of another input.
fn other_tree(random: &mut Rng, material: Material<'_>) -> Value {
    let other = super::split(material.any(random));
    let part = &other[random.usize(0..other.len())];
    let Ok(mut tree) = serde_json::from_slice::<Value>(part) else {
        return plain(random, material);
    };
    let mut at = random.usize(0..count(&tree).min(NODES));
    find(&mut tree, &mut at)
        .map(Value::take)
        .unwrap_or_default()
}
