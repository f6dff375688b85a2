//! Types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

/// The static type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Anything: JSON without a declared type. It is checked at evaluation.
    Dyn,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Any other number.
    Double,
    /// Text.
    String,
    /// A length of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// An amount of a resource.
    Quantity,
    /// A list, with the type of its elements.
    List(Arc<Type>),
    /// A map, with the type of its values.
    Map(Arc<Type>),
    /// An object with declared fields.
    Object(Arc<ObjectType>),
    /// A value that may be absent.
    Optional(Arc<Type>),
}

/// The type of an object with declared fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectType {
    /// Its name in messages.
    pub name: String,
    /// The types of its fields, by name.
    pub fields: BTreeMap<String, Type>,
}

impl Type {
    /// Returns the type of a list of `element`.
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    /// Returns the type of a map from text to `value`.
    pub fn map(value: Self) -> Self {
        Self::Map(Arc::new(value))
    }

    /// Returns the type of an object.
    pub fn object<N: Into<String>>(
        name: &str,
        fields: impl IntoIterator<Item = (N, Self)>,
    ) -> Self {
        Self::Object(Arc::new(ObjectType {
            name: name.to_owned(),
            fields: fields
                .into_iter()
                .map(|(name, kind)| (name.into(), kind))
                .collect(),
        }))
    }

    /// Returns the type that the JSON Schema `schema` describes. Its references are to
    /// `definitions`.
    pub fn of_schema(schema: &Json, definitions: &Json, name: &str) -> Self {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or_default();
            return Self::of_schema(&definitions[name], definitions, name);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            let mut real = choices.iter().filter(|choice| choice["type"] != "null");
            return match (real.next(), real.next()) {
                (Some(only), None) => Self::of_schema(only, definitions, name),
                _ => Self::Dyn,
            };
        }
        let kind = match &schema["type"] {
            Json::String(kind) => kind.as_str(),
            Json::Array(kinds) => kinds
                .iter()
                .filter_map(Json::as_str)
                .find(|kind| *kind != "null")
                .unwrap_or_default(),
            _ => "",
        };
        let below = |schema: &Json| Self::of_schema(schema, definitions, name);
        match kind {
            "boolean" => Self::Bool,
            "integer" => Self::Int,
            "number" => Self::Double,
            "string" if schema["format"] == "date-time" => Self::Timestamp,
            "string" => Self::String,
            "array" => Self::list(below(&schema["items"])),
            "object" => match (&schema["properties"], &schema["additionalProperties"]) {
                (Json::Object(fields), _) => Self::object(
                    name,
                    fields
                        .iter()
                        .map(|(name, field)| (name.as_str(), below(field))),
                ),
                (_, values @ Json::Object(_)) => Self::map(below(values)),
                _ => Self::map(Self::Dyn),
            },
            _ => Self::Dyn,
        }
    }

    /// Returns true if a value of this type may be used as `wanted`.
    pub(crate) fn fits(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::List(one), Self::List(other))
            | (Self::Map(one), Self::Map(other))
            | (Self::Optional(one), Self::Optional(other)) => one.fits(other),
            (Self::Object(object), Self::Map(value)) => {
                object.fields.values().all(|field| field.fits(value))
            }
            (one, other) => one == other,
        }
    }

    /// Returns true if two values of these types may be equal.
    pub(crate) fn comparable(&self, other: &Self) -> bool {
        let number = |kind: &Self| matches!(kind, Self::Int | Self::Double);
        self.fits(other)
            || other.fits(self)
            || (number(self) && number(other))
            || matches!((self, other), (Self::Null, _) | (_, Self::Null))
    }

    /// Returns the words for a value of this type, for messages: `an int`.
    pub(crate) fn one(&self) -> String {
        let name = self.to_string();
        let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) {
            "an"
        } else {
            "a"
        };
        format!("{article} {name}")
    }

    /// Returns the type of a value that has one of these two types.
    pub(crate) fn or(&self, other: &Self) -> Self {
        if self == other {
            self.clone()
        } else {
            Self::Dyn
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Quantity => f.write_str("quantity"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(value) => write!(f, "map(string, {value})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Optional(value) => write!(f, "optional({value})"),
        }
    }
}
