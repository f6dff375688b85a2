//! The schema of a kind: what its objects may hold, and how its lists and maps merge.

mod compile;
mod decode;
mod default;
mod lists;
mod path;
mod prune;
mod validate;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::rules::Rule;

pub(crate) use compile::{Definitions, compile};
pub(crate) use decode::undecodable;
pub(crate) use default::default_fields;
pub(crate) use lists::{duplicates, key_of};
pub(crate) use path::Path;
pub(crate) use prune::drop_nulls;
pub(crate) use prune::prune;
pub(crate) use validate::{blocks_rules, validate, validate_status};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Not given: anything.
    Any,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Any => "",
        }
    }
}

/// How a list merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// As one value.
    Atomic,
    /// Each scalar by itself.
    Set,
    /// Each object by these fields.
    Map(Vec<String>),
}

/// One node of a schema.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are what definitions say, one by one"
)]
pub(crate) struct Schema {
    /// The Go type of a built-in schema, such as `v1.PodSpec`; empty if it has none of its own.
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) nullable: bool,
    pub(crate) properties: BTreeMap<String, Arc<Schema>>,
    pub(crate) additional: Option<Arc<Schema>>,
    pub(crate) items: Option<Arc<Schema>>,
    pub(crate) required: Vec<String>,
    pub(crate) allowed: Vec<Value>,
    pub(crate) limits: Limits,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) format: String,
    pub(crate) default: Option<Value>,
    pub(crate) preserve: bool,
    pub(crate) int_or_string: bool,
    pub(crate) embedded: bool,
    pub(crate) list: ListKind,
    pub(crate) atomic_map: bool,
    /// The key by which a strategic merge patch merges this list; empty text merges scalars.
    pub(crate) merge_key: Option<String>,
    pub(crate) all_of: Vec<Arc<Schema>>,
    pub(crate) any_of: Vec<Arc<Schema>>,
    pub(crate) one_of: Vec<Arc<Schema>>,
    pub(crate) not: Option<Arc<Schema>>,
    /// The rules in CEL.
    pub(crate) rules: Vec<Rule>,
    /// Whether this node or one below has rules.
    pub(crate) has_rules: bool,
    /// Whether every value is valid.
    pub(crate) trivial: bool,
    /// Whether this node or one below has a default.
    pub(crate) has_defaults: bool,
}

/// Bounds on sizes and numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
}

/// A bound on a number.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) text: String,
    pub(crate) exclusive: bool,
}

/// A regular expression, compiled when it is first needed: definitions hold hundreds, a test needs a few.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    compiled: OnceLock<Option<regex::Regex>>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            compiled: OnceLock::new(),
        }
    }

    /// An expression that Rust can't read matches everything: refusing valid objects would be worse.
    pub(crate) fn matches(&self, value: &str) -> bool {
        let compiled = self
            .compiled
            .get_or_init(|| regex::Regex::new(&self.text).ok());
        compiled.as_ref().is_none_or(|regex| regex.is_match(value))
    }
}

impl Schema {
    /// The schema of what is not described: maps merge field by field, lists as one value.
    pub(crate) fn any() -> Arc<Self> {
        static ANY: OnceLock<Arc<Schema>> = OnceLock::new();
        Arc::clone(ANY.get_or_init(|| {
            compile(&serde_json::json!({"x-kubernetes-preserve-unknown-fields": true}))
        }))
    }

    /// The schema of a field of this object, and whether the field is named in it (and not a key of a map).
    pub(crate) fn field(&self, name: &str) -> (Arc<Self>, bool) {
        if let Some(found) = self.properties.get(name) {
            return (Arc::clone(found), true);
        }
        let other = self.additional.as_ref().map_or_else(Self::any, Arc::clone);
        (other, false)
    }

    /// The schema of an item of this list.
    pub(crate) fn item(&self) -> Arc<Self> {
        self.items.as_ref().map_or_else(Self::any, Arc::clone)
    }
}
