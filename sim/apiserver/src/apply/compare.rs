//! Field-by-field comparison of two objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{Element, FieldSet};
use super::typed::{Shape, below, element, shape};
use crate::schema::Schema;

/// The fields added, removed and modified between two objects.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Difference {
    pub(crate) added: FieldSet,
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
}

/// Compares `old` with `new`.
pub(crate) fn compare(old: &Value, new: &Value, schema: &Schema) -> Difference {
    let mut walk = Walk {
        path: Vec::new(),
        found: Difference::default(),
    };
    walk.node(Some(old), Some(new), schema);
    walk.found
}

struct Walk {
    path: Vec<Element>,
    found: Difference,
}

impl Walk {
    fn node(&mut self, old: Option<&Value>, new: Option<&Value>, schema: &Schema) {
        if old == new {
            return;
        }
        let leaf = self.divide(old, new, schema);
        if leaf {
            self.leaf(old, new);
        } else if old.is_none() {
            self.found.added.insert(&self.path);
        } else if new.is_none() {
            self.found.removed.insert(&self.path);
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => self.found.added.insert(&self.path),
            (Some(_), None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if old != new => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    /// Compares the children if both sides can be divided. Returns true if this is a leaf.
    fn divide(&mut self, old: Option<&Value>, new: Option<&Value>, schema: &Schema) -> bool {
        match (parts(old, schema), parts(new, schema)) {
            (Parts::Map(old), Parts::Map(new)) => {
                if nothing(old) && nothing(new) {
                    return true;
                }
                self.maps(old, new, schema);
            }
            (Parts::Map(old), Parts::Missing) => self.maps(old, None, schema),
            (Parts::Missing, Parts::Map(new)) => self.maps(None, new, schema),
            (Parts::List(old), Parts::List(new)) => {
                if old.is_empty() && new.is_empty() {
                    return true;
                }
                self.lists(old, new, schema);
            }
            (Parts::List(old), Parts::Missing) => self.lists(old, &[], schema),
            (Parts::Missing, Parts::List(new)) => self.lists(&[], new, schema),
            _ => return true,
        }
        // An empty map or list against a missing value is a leaf.
        let empty = |side: Option<&Value>| {
            side.is_none_or(|v| match v {
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                _ => true,
            })
        };
        empty(old) && empty(new)
    }

    fn maps(
        &mut self,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        schema: &Schema,
    ) {
        for (name, was) in old.into_iter().flatten() {
            self.field(name, Some(was), new.and_then(|m| m.get(name)), schema);
        }
        for (name, is) in new.into_iter().flatten() {
            if old.is_none_or(|m| !m.contains_key(name)) {
                self.field(name, None, Some(is), schema);
            }
        }
    }

    fn field(&mut self, name: &str, was: Option<&Value>, is: Option<&Value>, schema: &Schema) {
        if was == is {
            return;
        }
        let step = Element::Field(name.to_owned());
        let child = below(schema, &step).0;
        self.path.push(step);
        self.node(was, is, &child);
        self.path.pop();
    }

    fn lists(&mut self, old: &[Value], new: &[Value], schema: &Schema) {
        let item_schema = schema.item();
        let mut items: BTreeMap<Element, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
        for item in old {
            items
                .entry(element(item, schema, &item_schema))
                .or_default()
                .0 = Some(item);
        }
        for item in new {
            items
                .entry(element(item, schema, &item_schema))
                .or_default()
                .1 = Some(item);
        }
        for (step, (was, is)) in items {
            self.path.push(step);
            self.node(was, is, &item_schema);
            self.path.pop();
        }
    }
}

enum Parts<'a> {
    Missing,
    Map(Option<&'a Map<String, Value>>),
    List(&'a [Value]),
    Leaf,
}

fn parts<'a>(value: Option<&'a Value>, schema: &Schema) -> Parts<'a> {
    let Some(value) = value.filter(|v| !v.is_null()) else {
        return Parts::Missing;
    };
    match shape(value, schema) {
        Shape::Leaf => Parts::Leaf,
        Shape::Map(map) => Parts::Map(Some(map)),
        Shape::List(list) => Parts::List(list),
    }
}

fn nothing(map: Option<&Map<String, Value>>) -> bool {
    map.is_none_or(Map::is_empty)
}
