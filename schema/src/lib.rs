//! Schemas of custom resources as kube-apiserver 1.36 applies them: types, limits, defaults,
//! unknown fields, lists that are sets or maps, and rules in CEL.
//!
//! Written for two programs that must not differ: the API server of `kueue-check-sim`, whose
//! responses are compared with a real server's, and the command `validate` of check binaries. An
//! invalid object gets the same messages as from the real server.
//!
//! ```
//! use kueue_check_schema::{compile, default_fields, prune, validate};
//! use serde_json::json;
//!
//! let schema = compile(&json!({"type": "object", "properties": {
//!     "limit": {"type": "integer", "minimum": 1},
//!     "unit": {"type": "string", "default": "pods"},
//! }}));
//! let mut object = json!({"limit": 0, "typo": true});
//! assert_eq!(prune(&mut object, &schema), ["typo"]);
//! default_fields(&mut object, &schema);
//! assert_eq!(object, json!({"limit": 0, "unit": "pods"}));
//! let errors = validate(&object, &schema);
//! assert_eq!(errors[0].to_string(), "limit: Invalid value: 0: limit in body should be greater than or equal to 1");
//! ```
//!
//! # Features
//!
//! `cel` runs rules in CEL (`x-kubernetes-validations`), with the crate `cel`. Without it they
//! count as held; [`CEL_ENABLED`] is the setting of the build.

mod changes;
mod compile;
mod default;
mod field_error;
mod lists;
mod path;
mod prune;
#[cfg(feature = "cel")]
mod rules;
#[cfg(not(feature = "cel"))]
#[path = "rules_disabled.rs"]
mod rules;
mod validate;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use changes::{BreakingChange, breaking_changes, breaking_changes_of_definition};
pub use compile::{Definitions, compile};
pub use default::default_fields;
pub use field_error::FieldError;
pub use lists::{duplicates, key_of};
pub use path::Path;
pub use prune::{drop_nulls, prune};
pub use rules::{Rule, violated_rules};
pub use validate::{blocks_rules, validate, validate_change, validate_status_change};

/// Whether this build runs rules in CEL: the feature `cel`.
pub const CEL_ENABLED: bool = cfg!(feature = "cel");

/// The type of a value.
///
/// ```
/// use kueue_check_schema::{Type, compile};
/// use serde_json::json;
///
/// assert_eq!(compile(&json!({"type": "integer"})).kind.name(), "integer");
/// // A quantity is an integer or a text: its definition gives no type.
/// let quantity = compile(&json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}));
/// assert_eq!((quantity.kind, quantity.int_or_string), (Type::Any, true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `object`.
    Object,
    /// `array`.
    Array,
    /// `string`.
    String,
    /// `integer`.
    Integer,
    /// `number`.
    Number,
    /// `boolean`.
    Boolean,
    /// Not given: anything.
    Any,
}

impl Type {
    /// Returns the name in schemas; empty where no type is given.
    pub fn name(self) -> &'static str {
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
///
/// ```
/// use kueue_check_schema::{ListKind, compile};
/// use serde_json::json;
///
/// let conditions = compile(&json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}));
/// assert_eq!(conditions.list, ListKind::Map(vec!["type".to_owned()]));
/// // A list without a list type belongs to one writer as a whole.
/// assert_eq!(compile(&json!({"type": "array"})).list, ListKind::Atomic);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// As one value.
    Atomic,
    /// Each scalar by itself.
    Set,
    /// Each object by these fields.
    Map(Vec<String>),
}

/// One node of a schema.
///
/// ```
/// use kueue_check_schema::{Type, compile};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {
///     "nodeLabels": {"type": "object", "additionalProperties": {"type": "string"}},
/// }}));
/// let (labels, named) = schema.field("nodeLabels");
/// assert!(named);
/// let (value, named) = labels.field("zone"); // a key of a map, which no schema names
/// assert_eq!((value.kind, named), (Type::String, false));
/// ```
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are what definitions say, one by one"
)]
pub struct Schema {
    /// The Go type of a built-in schema, such as `v1.PodSpec`; empty if it has none of its own.
    pub name: String,
    /// The type of the value.
    pub kind: Type,
    /// Whether null is a value.
    pub nullable: bool,
    /// The fields that are named.
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// The schema of any other field: that of a map's values.
    pub additional: Option<Arc<Schema>>,
    /// The schema of each item of a list.
    pub items: Option<Arc<Schema>>,
    /// The required fields.
    pub required: Vec<String>,
    /// The allowed values; empty for any.
    pub allowed: Vec<Value>,
    /// Bounds on sizes and numbers.
    pub limits: Limits,
    /// The pattern that a text must match.
    pub pattern: Option<Pattern>,
    /// Such as `int32` or `date-time`; may be empty.
    pub format: String,
    /// The value if none is given.
    pub default: Option<Value>,
    /// Whether fields that are not named are kept.
    pub preserve: bool,
    /// Whether the value is an integer or a text.
    pub int_or_string: bool,
    /// Whether the value is a whole object, with `metadata`.
    pub embedded: bool,
    /// How a list merges.
    pub list: ListKind,
    /// Whether a map merges as one value.
    pub atomic_map: bool,
    /// The key by which a strategic merge patch merges this list; empty text merges scalars.
    pub merge_key: Option<String>,
    /// The schemas that must all hold too.
    pub all_of: Vec<Arc<Schema>>,
    /// The schemas of which at least one must hold.
    pub any_of: Vec<Arc<Schema>>,
    /// The schemas of which exactly one must hold.
    pub one_of: Vec<Arc<Schema>>,
    /// The schema that must not hold.
    pub not: Option<Arc<Schema>>,
    /// The rules in CEL.
    pub rules: Vec<Rule>,
    /// Whether this node or one below has rules.
    pub has_rules: bool,
    /// Whether every value is valid.
    pub trivial: bool,
    /// Whether this node or one below has a default.
    pub has_defaults: bool,
}

/// Bounds on sizes and numbers.
///
/// ```
/// use kueue_check_schema::{compile, validate};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {"licences": {"type": "array", "maxItems": 2}}}));
/// assert_eq!(schema.properties["licences"].limits.max_items, Some(2));
/// let errors = validate(&json!({"licences": ["a", "b", "c"]}), &schema);
/// assert_eq!(errors[0].to_string(), "licences: Too many: 3: must have at most 2 items");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The least number.
    pub minimum: Option<Bound>,
    /// The greatest number.
    pub maximum: Option<Bound>,
    /// The number that a value must be a multiple of.
    pub multiple_of: Option<f64>,
    /// The fewest characters.
    pub min_length: Option<u64>,
    /// The most characters.
    pub max_length: Option<u64>,
    /// The fewest items.
    pub min_items: Option<u64>,
    /// The most items.
    pub max_items: Option<u64>,
    /// The fewest fields of a map.
    pub min_properties: Option<u64>,
    /// The most fields of a map.
    pub max_properties: Option<u64>,
}

/// A bound on a number.
///
/// ```
/// use kueue_check_schema::{compile, validate};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {
///     "share": {"type": "number", "minimum": 0.0, "exclusiveMinimum": true},
/// }}));
/// let minimum = schema.properties["share"].limits.minimum.clone().expect("it is given");
/// assert_eq!((minimum.text.as_str(), minimum.exclusive), ("0", true));
/// let errors = validate(&json!({"share": 0}), &schema);
/// assert_eq!(errors[0].message, "Invalid value: 0: share in body should be greater than 0");
/// ```
#[derive(Clone, Debug)]
pub struct Bound {
    /// The bound.
    pub value: f64,
    /// The bound as messages show it.
    pub text: String,
    /// Whether the bound itself is excluded.
    pub exclusive: bool,
}

/// A regular expression, compiled when it is first needed: definitions have hundreds, a test needs
/// a few.
///
/// ```
/// use kueue_check_schema::{compile, validate};
/// use serde_json::json;
///
/// let zone = compile(&json!({"type": "string", "pattern": "^[a-z]+-[0-9]$"}));
/// let pattern = zone.pattern.as_ref().expect("it is given");
/// assert!(pattern.matches("eu-1") && !pattern.matches("EU-1"));
/// // `\Q` is known to Go and not to Rust: such a pattern refuses nothing.
/// let quoted = compile(&json!({"type": "string", "pattern": r"^\Qeu-1\E$"}));
/// assert_eq!(validate(&json!("us-2"), &quoted), []);
/// ```
#[derive(Debug)]
pub struct Pattern {
    /// The expression.
    pub text: String,
    compiled: OnceLock<Option<regex::Regex>>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            compiled: OnceLock::new(),
        }
    }

    /// Returns true if `value` matches. An expression that Rust cannot parse matches everything:
    /// rejecting valid objects would be worse.
    pub fn matches(&self, value: &str) -> bool {
        let compiled = self
            .compiled
            .get_or_init(|| regex::Regex::new(&self.text).ok());
        compiled.as_ref().is_none_or(|regex| regex.is_match(value))
    }
}

impl Schema {
    /// Returns the schema of undescribed values: maps merge field by field, lists as one value.
    pub fn any() -> Arc<Self> {
        static ANY: OnceLock<Arc<Schema>> = OnceLock::new();
        Arc::clone(ANY.get_or_init(|| {
            compile(&serde_json::json!({"x-kubernetes-preserve-unknown-fields": true}))
        }))
    }

    /// Returns the schema of a field of this object, and whether the field is named in it (and not
    /// a key of a map).
    pub fn field(&self, name: &str) -> (Arc<Self>, bool) {
        if let Some(found) = self.properties.get(name) {
            return (Arc::clone(found), true);
        }
        let other = self.additional.as_ref().map_or_else(Self::any, Arc::clone);
        (other, false)
    }

    /// Returns the schema of an item of this list.
    pub fn item(&self) -> Arc<Self> {
        self.items.as_ref().map_or_else(Self::any, Arc::clone)
    }
}
