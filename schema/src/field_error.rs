//! Errors of a field, worded as in the real API server.

use std::fmt;

use serde_json::Value;

/// The error of one field.
///
/// ```
/// use kueue_check_schema::{compile, validate};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {"unit": {"type": "string", "enum": ["pods", "cpus"]}}}));
/// let error = &validate(&json!({"unit": "gpus"}), &schema)[0];
/// assert_eq!((error.field.as_str(), error.reason), ("unit", "FieldValueNotSupported"));
/// assert_eq!(error.to_string(), r#"unit: Unsupported value: "gpus": supported values: "pods", "cpus""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Such as `spec.parallelism`.
    pub field: String,
    /// Such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// Such as `Required value`.
    pub message: String,
}

/// Prints `spec.limit: Required value`; without the field if there is none.
impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" | "<nil>" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

impl FieldError {
    /// Makes the error of a required field that is not set.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self {
            field: field.into(),
            reason: "FieldValueRequired",
            message,
        }
    }

    /// Makes the error of an invalid value.
    pub fn invalid(field: impl Into<String>, value: &Value, why: impl fmt::Display) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    /// Makes the error of an invalid value that is shown as `value`.
    pub fn invalid_with_value(
        field: impl Into<String>,
        shown: &str,
        why: impl fmt::Display,
    ) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {shown}: {why}"),
        }
    }

    /// Makes an error that is reported without a path.
    pub fn invalid_without_path(why: impl fmt::Display) -> Self {
        Self::invalid_with_value("<nil>", "\"\"", why)
    }

    /// Makes the error of a value of the wrong type.
    pub fn type_invalid(field: impl Into<String>, value: &Value, why: impl fmt::Display) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueTypeInvalid",
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    /// Makes the error of a value that appears twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {value}"),
        }
    }

    /// Makes the error of a value that is not among the allowed ones.
    pub fn not_supported(field: impl Into<String>, value: &Value, allowed: &[Value]) -> Self {
        let allowed: Vec<String> = allowed
            .iter()
            .map(|v| {
                v.as_str()
                    .map_or_else(|| format!("\"{v}\""), |s| format!("\"{s}\""))
            })
            .collect();
        Self {
            field: field.into(),
            reason: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: {value}: supported values: {}",
                allowed.join(", ")
            ),
        }
    }

    /// Makes the error of a text that is too long.
    pub fn too_long(field: impl Into<String>, maximum: u64) -> Self {
        let bytes = if maximum == 1 { "byte" } else { "bytes" };
        Self {
            field: field.into(),
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {maximum} {bytes}"),
        }
    }

    /// Makes the error of a list with too many items.
    pub fn too_many(field: impl Into<String>, actual: usize, maximum: u64) -> Self {
        let items = if maximum == 1 { "item" } else { "items" };
        Self {
            field: field.into(),
            reason: "FieldValueTooMany",
            message: format!("Too many: {actual}: must have at most {maximum} {items}"),
        }
    }

    /// Makes the error of a field that must not be set.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {why}"),
        }
    }
}
