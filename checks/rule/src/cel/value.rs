//! Values of expressions. Copies are cheap: large parts are shared.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kueue_check::api::Quantity;
use serde_json::Value as Json;

use super::types::Type;

/// A value. `PartialEq` compares types too: see `Run::equal` for the operator `==`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// Any other number.
    Double(f64),
    /// Text.
    String(Arc<str>),
    /// A length of time.
    Duration(SignedDuration),
    /// A point in time.
    Timestamp(Timestamp),
    /// An amount of a resource.
    Quantity(Quantity),
    /// A list.
    List(Arc<[Value]>),
    /// A map, or an object.
    Map(Arc<BTreeMap<Key, Value>>),
    /// A value that may be absent: the result of `a.?b` and `a[?b]`.
    Optional(Option<Arc<Value>>),
}

/// The key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Text.
    String(Arc<str>),
}

impl Value {
    /// Returns the sum of no values of `kind`, if it is not the number 0.
    pub(crate) fn zero(kind: &Type) -> Option<Self> {
        match kind {
            Type::Double => Some(Self::Double(0.0)),
            Type::String => Some(Self::text("")),
            Type::List(_) => Some(Self::list([])),
            Type::Duration => Some(Self::Duration(SignedDuration::ZERO)),
            Type::Quantity => Some(Self::Quantity(Quantity::ZERO)),
            _ => None,
        }
    }

    /// Returns `text` as a value.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::String(text.as_ref().into())
    }

    /// Returns a list.
    pub fn list(values: impl IntoIterator<Item = Self>) -> Self {
        Self::List(values.into_iter().collect())
    }

    /// Returns an object with these fields.
    pub fn object<K: AsRef<str>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        let fields = fields.into_iter();
        let fields = fields.map(|(name, value)| (Key::String(name.as_ref().into()), value));
        Self::Map(Arc::new(fields.collect()))
    }

    /// Returns `json` as a value; whole numbers become integers.
    pub fn of(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::text(text),
            Json::Array(list) => Self::list(list.iter().map(Self::of)),
            Json::Object(fields) => {
                Self::object(fields.iter().map(|(name, value)| (name, Self::of(value))))
            }
        }
    }

    /// Returns `json` as a value, with times where `kind` has them. Parts that do not fit are read
    /// as by [`of`](Self::of).
    pub fn of_type(json: &Json, kind: &Type) -> Self {
        match (json, kind) {
            (Json::String(text), Type::Timestamp) => text
                .parse()
                .map_or_else(|_| Self::text(text), Self::Timestamp),
            (Json::Array(list), Type::List(element)) => {
                Self::list(list.iter().map(|item| Self::of_type(item, element)))
            }
            (Json::Object(fields), Type::Map(value)) => Self::object(
                fields
                    .iter()
                    .map(|(name, field)| (name, Self::of_type(field, value))),
            ),
            (Json::Object(fields), Type::Object(object)) => {
                Self::object(fields.iter().map(|(name, field)| {
                    let kind = object.fields.get(name.as_str()).unwrap_or(&Type::Dyn);
                    (name, Self::of_type(field, kind))
                }))
            }
            _ => Self::of(json),
        }
    }

    /// Returns the type, as far as it follows from the value alone.
    pub fn kind(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Duration(_) => Type::Duration,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Quantity(_) => Type::Quantity,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn),
            Self::Optional(_) => Type::Optional(Arc::new(Type::Dyn)),
        }
    }

    /// Returns the value as a key, if it can be one.
    pub(crate) fn as_key(&self) -> Option<Key> {
        match self {
            Self::Bool(flag) => Some(Key::Bool(*flag)),
            Self::Int(whole) => Some(Key::Int(*whole)),
            Self::String(text) => Some(Key::String(Arc::clone(text))),
            _ => None,
        }
    }

    /// Returns the value of the field `name` of an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.field(&name.into())
    }

    /// Returns the value of the field `name`.
    pub(crate) fn field(&self, name: &Arc<str>) -> Option<&Self> {
        match self {
            Self::Map(map) => map.get(&Key::String(Arc::clone(name))),
            _ => None,
        }
    }

    /// Returns the approximate size in bytes. Shared parts count each time, so it is meant for
    /// JSON.
    pub(crate) fn size(&self) -> usize {
        let below = match self {
            Self::String(text) => text.len(),
            Self::List(list) => list.iter().map(Self::size).sum(),
            Self::Map(map) => map
                .iter()
                .map(|(key, value)| key.size() + value.size())
                .sum(),
            Self::Optional(Some(value)) => value.size(),
            _ => 0,
        };
        size_of::<Self>() + below
    }
}

impl Key {
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(whole) => Value::Int(*whole),
            Self::String(text) => Value::String(Arc::clone(text)),
        }
    }

    fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::String(text) => text.len(),
                Self::Bool(_) | Self::Int(_) => 0,
            }
    }
}

/// Writes the value as JSON, for people. Types that JSON does not have become text.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => flag.fmt(f),
            Self::Int(whole) => whole.fmt(f),
            Self::Double(number) => number.fmt(f),
            Self::String(text) => Json::from(&**text).fmt(f),
            Self::Duration(length) => write!(f, "\"{}\"", duration_text(*length)),
            Self::Timestamp(time) => write!(f, "\"{time}\""),
            Self::Quantity(quantity) => write!(f, "\"{quantity}\""),
            Self::List(list) => {
                f.write_str("[")?;
                for (number, value) in list.iter().enumerate() {
                    f.write_str(if number == 0 { "" } else { "," })?;
                    value.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Map(map) => {
                f.write_str("{")?;
                for (number, (key, value)) in map.iter().enumerate() {
                    f.write_str(if number == 0 { "" } else { "," })?;
                    match key {
                        Key::String(text) => Json::from(&**text).fmt(f)?,
                        other => write!(f, "\"{}\"", other.to_value())?,
                    }
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
            Self::Optional(None) => f.write_str("(absent)"),
            Self::Optional(Some(value)) => value.fmt(f),
        }
    }
}

/// Returns a duration as Go writes it, in seconds: `90s`, `1.5s`. CEL's `string()` has this format.
pub(crate) fn duration_text(length: SignedDuration) -> String {
    let (seconds, nanos) = (length.as_secs(), length.subsec_nanos());
    let sign = if length.is_negative() { "-" } else { "" };
    let fraction = format!("{:09}", nanos.unsigned_abs());
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}s", seconds.unsigned_abs())
}
