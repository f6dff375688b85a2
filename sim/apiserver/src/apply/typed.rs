//! Division of a value into fields that are owned separately.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::set::{Element, FieldSet};
use crate::schema::{ListKind, Schema, key_of};

/// The division of a value for ownership.
pub(crate) enum Shape<'a> {
    /// Owned as a whole.
    Leaf,
    /// Each field is owned separately.
    Map(&'a Map<String, Value>),
    /// Each item is owned separately.
    List(&'a [Value]),
}

/// Returns how `value` divides.
pub(crate) fn shape<'a>(value: &'a Value, schema: &Schema) -> Shape<'a> {
    match value {
        Value::Object(map) if !schema.atomic_map => Shape::Map(map),
        Value::Array(list) if schema.list != ListKind::Atomic => Shape::List(list),
        _ => Shape::Leaf,
    }
}

/// Returns true if lists of this schema divide into items.
fn divides(schema: &Schema) -> bool {
    schema.list != ListKind::Atomic
}

/// Returns the path element that identifies an item in its list.
pub(crate) fn element(item: &Value, list: &Schema, item_schema: &Schema) -> Element {
    match &list.list {
        ListKind::Map(keys) => {
            Element::Key(Value::Object(key_of(item, keys, item_schema)).to_string())
        }
        _ => Element::Value(item.to_string()),
    }
}

/// Returns the schema below `element`, and true if it is a field named in the schema.
pub(crate) fn below(schema: &Schema, element: &Element) -> (Arc<Schema>, bool) {
    match element {
        Element::Field(name) => schema.field(name),
        _ => (schema.item(), false),
    }
}

/// Returns the fields that an applied configuration contains.
pub(crate) fn fields_of(value: &Value, schema: &Schema) -> FieldSet {
    let mut set = FieldSet::default();
    match shape(value, schema) {
        // Only the root value can be a leaf here; leaf fields are inserted by their parents.
        Shape::Leaf => {}
        Shape::Map(map) => {
            for (name, child) in map {
                let element = Element::Field(name.clone());
                let (child_schema, named) = below(schema, &element);
                let empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                add(&mut set, element, child, &child_schema, empty || !named);
            }
        }
        Shape::List(list) => {
            let item_schema = schema.item();
            for item in list {
                let element = element(item, schema, &item_schema);
                add(&mut set, element, item, &item_schema, true);
            }
        }
    }
    set
}

fn add(set: &mut FieldSet, element: Element, child: &Value, schema: &Schema, member: bool) {
    let leaf = matches!(shape(child, schema), Shape::Leaf);
    // A null in place of items sets no field.
    let silent = child.is_null() && divides(schema) && !member;
    if (leaf && !silent) || member {
        set.members.insert(element.clone());
    }
    if !leaf {
        let below = fields_of(child, schema);
        if !below.is_empty() {
            set.children.insert(element, below);
        }
    }
}

/// Returns the set, extended by the named fields on the paths to its members.
pub(crate) fn with_parents(set: &FieldSet, schema: &Schema) -> FieldSet {
    let mut out = FieldSet {
        members: set.members.clone(),
        ..FieldSet::default()
    };
    for (element, child) in &set.children {
        let (child_schema, named) = below(schema, element);
        if named {
            out.members.insert(element.clone());
        }
        out.children
            .insert(element.clone(), with_parents(child, &child_schema));
    }
    out
}

/// Returns `value` without the fields and items of `set`. A member is removed with all below it.
pub(crate) fn without(value: &Value, set: &FieldSet, schema: &Schema) -> Value {
    match shape(value, schema) {
        Shape::Leaf => value.clone(),
        Shape::Map(map) => {
            let mut out = Map::new();
            for (name, child) in map {
                let element = Element::Field(name.clone());
                if set.members.contains(&element) {
                    continue;
                }
                let kept = match set.children.get(&element) {
                    Some(subset) => without(child, subset, &below(schema, &element).0),
                    None => child.clone(),
                };
                out.insert(name.clone(), kept);
            }
            if out.is_empty() {
                Value::Null
            } else {
                Value::Object(out)
            }
        }
        Shape::List(list) => {
            let item_schema = schema.item();
            let mut out = Vec::new();
            for item in list {
                let element = element(item, schema, &item_schema);
                if set.members.contains(&element) {
                    continue;
                }
                out.push(match set.children.get(&element) {
                    Some(subset) => without(item, subset, &item_schema),
                    None => item.clone(),
                });
            }
            if out.is_empty() {
                Value::Null
            } else {
                Value::Array(out)
            }
        }
    }
}
