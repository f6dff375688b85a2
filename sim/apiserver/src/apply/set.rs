//! Sets of fields, and their encoding in `fieldsV1`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// One step of a field path. The order is that of the real server: fields, keys, values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A field of an object, or a key of a map.
    Field(String),
    /// An item of a map-like list; the JSON of its key fields.
    Key(String),
    /// An item of a set; its JSON.
    Value(String),
    /// An item by its index; parsed, but never created here.
    Index(String),
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.get(2..)?.to_owned();
        match text.get(..2)? {
            "f:" => Some(Self::Field(rest)),
            "k:" => Some(Self::Key(rest)),
            "v:" => Some(Self::Value(rest)),
            "i:" => Some(Self::Index(rest)),
            _ => None,
        }
    }

    fn encode(&self) -> String {
        let (prefix, text) = match self {
            Self::Field(text) => ("f:", text),
            Self::Key(text) => ("k:", text),
            Self::Value(text) => ("v:", text),
            Self::Index(text) => ("i:", text),
        };
        [prefix, text].concat()
    }

    /// Formats the step as messages do: `.name`, `[name="a"]`, `[="a"]`, `[3]`.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Value(value) => format!("[={value}]"),
            Self::Index(index) => format!("[{index}]"),
            Self::Key(json) => {
                let keys: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
                let parts: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("[{}]", parts.join(","))
            }
        }
    }
}

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(crate) members: BTreeSet<Element>,
    pub(crate) children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Adds all members of `other`.
    pub(crate) fn add(&mut self, other: Self) {
        self.members.extend(other.members);
        for (element, theirs) in other.children {
            self.children.entry(element).or_default().add(theirs);
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut out = Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (element, ours) in &self.children {
            let Some(theirs) = other.children.get(element) else {
                continue;
            };
            out.put_child(element, ours.intersection(theirs));
        }
        out
    }

    /// Removes the members of `other`; paths below them stay.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.members
            .retain(|member| !other.members.contains(member));
        self.children.retain(|element, ours| {
            if let Some(theirs) = other.children.get(element) {
                ours.subtract(theirs);
            }
            !ours.is_empty()
        });
    }

    /// Removes a field of the root and all paths below it.
    pub(crate) fn without_root(&mut self, name: &str) {
        let element = Element::Field(name.to_owned());
        self.members.remove(&element);
        self.children.remove(&element);
    }

    fn put_child(&mut self, element: &Element, child: Self) {
        if !child.is_empty() {
            self.children.insert(element.clone(), child);
        }
    }

    /// Returns all paths in order, formatted as in messages.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect("", &mut out);
        out
    }

    fn collect(&self, prefix: &str, out: &mut Vec<String>) {
        for member in &self.members {
            let mut path = prefix.to_owned();
            let _ = write!(path, "{}", member.show());
            out.push(path);
        }
        for (element, child) in &self.children {
            child.collect(&format!("{prefix}{}", element.show()), out);
        }
    }

    /// Decodes `fieldsV1`. Invalid keys are left out.
    pub(crate) fn decode(value: &Value) -> Self {
        let mut set = Self::default();
        for (text, below) in value.as_object().into_iter().flatten() {
            let Some(element) = Element::parse(text) else {
                continue;
            };
            let empty = below.as_object().is_none_or(Map::is_empty);
            if empty || below.get(".").is_some() {
                set.members.insert(element.clone());
            }
            if !empty {
                set.put_child(&element, Self::decode(below));
            }
        }
        set
    }

    /// Encodes the set as `fieldsV1`.
    pub(crate) fn encode(&self) -> Value {
        let mut out = Map::new();
        for member in &self.members {
            let mut below = self
                .children
                .get(member)
                .map_or_else(|| Value::Object(Map::new()), Self::encode);
            if let Value::Object(map) = &mut below
                && !map.is_empty()
            {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(member.encode(), below);
        }
        for (element, child) in &self.children {
            if !self.members.contains(element) {
                out.insert(element.encode(), child.encode());
            }
        }
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_survives_its_written_form() {
        let written = json!({"f:status": {"f:checks": {".": {}, "k:{\"name\":\"a\"}": {".": {}, "f:state": {}}}, "f:finalizers": {"v:\"x\"": {}}}});
        let set = FieldSet::decode(&written);
        assert_eq!(set.encode(), written);
        assert_eq!(
            set.paths(),
            [
                ".status.checks",
                ".status.checks[name=\"a\"]",
                ".status.checks[name=\"a\"].state",
                ".status.finalizers[=\"x\"]"
            ]
        );
    }

    #[test]
    fn sets_subtract_member_by_member() {
        let a = FieldSet::decode(&json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}}));
        let b = FieldSet::decode(&json!({"f:a": {".": {}, "f:b": {}}}));
        let mut rest = a.clone();
        rest.subtract(&b);
        assert_eq!(rest.encode(), json!({"f:a": {"f:c": {}}}));
        assert_eq!(
            a.intersection(&b).encode(),
            json!({"f:a": {".": {}, "f:b": {}}})
        );
        let mut both = b;
        both.add(a.clone());
        assert_eq!(both, a);
    }
}
