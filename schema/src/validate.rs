//! Validation of a value against a schema, with the messages of the real server.

use serde_json::Value;

use super::lists::counterpart;
use super::{Path, Schema, Type};
use crate::FieldError;

/// Returns the errors of an object, without its [rules](crate::violated_rules) and
/// [duplicates](crate::duplicates). Its `metadata` is skipped: that has rules of its own.
///
/// ```
/// use kueue_check_schema::{compile, validate};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "required": ["spec"], "properties": {
///     "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}},
///     "spec": {"type": "object", "properties": {"limit": {"type": "integer"}}},
/// }}));
/// let errors = validate(&json!({"metadata": {"name": "too-long"}, "spec": {"limit": "ten"}}), &schema);
/// assert_eq!(errors.len(), 1);
/// assert_eq!(errors[0].to_string(), r#"spec.limit: Invalid value: "string": spec.limit in body must be of type integer: "string""#);
/// ```
pub fn validate(value: &Value, schema: &Schema) -> Vec<FieldError> {
    validate_at(value, None, schema, &Path::root(""))
}

/// Returns the errors of an object that was `old` before, like [`validate`]. What did not change is
/// not reported, so that an object can still be written after its definition has become stricter.
/// Items of a list are compared by their keys (Kubernetes 1.36.3,
/// `apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go`).
///
/// ```
/// use kueue_check_schema::{compile, validate_change};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {
///     "limit": {"type": "integer", "maximum": 5}, "unit": {"type": "string", "maxLength": 4},
/// }}));
/// let old = json!({"limit": 9, "unit": "pods"});
/// assert_eq!(validate_change(&json!({"limit": 9, "unit": "gpus"}), &old, &schema), []);
/// assert_eq!(validate_change(&json!({"limit": 8, "unit": "gpus"}), &old, &schema).len(), 1);
/// ```
pub fn validate_change(new: &Value, old: &Value, schema: &Schema) -> Vec<FieldError> {
    validate_at(new, Some(old), schema, &Path::root(""))
}

fn validate_at(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(value, old, schema, path, &mut errors);
    errors
}

/// Returns the errors of a status that is written by itself, without those of what did not change,
/// like [`validate_change`]. Fields are named in full, sentences start at the status.
///
/// ```
/// use kueue_check_schema::{compile, validate_status_change};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "properties": {
///     "status": {"type": "object", "properties": {"used": {"type": "integer", "minimum": 0}}},
/// }}));
/// let old = json!({"status": {"used": -1}});
/// assert_eq!(validate_status_change(&json!({"status": {"used": -1, "phase": "Ready"}}), &old, &schema), []);
/// let errors = validate_status_change(&json!({"spec": "not validated", "status": {"used": -2}}), &old, &schema);
/// assert_eq!(errors[0].to_string(), "status.used: Invalid value: -2: used in body should be greater than or equal to 0");
/// ```
pub fn validate_status_change(new: &Value, old: &Value, schema: &Schema) -> Vec<FieldError> {
    let (Some(status), Some(schema)) = (new.get("status"), schema.properties.get("status")) else {
        return Vec::new();
    };
    let mut errors = validate_at(status, old.get("status"), schema, &Path::root(""));
    for error in errors.iter_mut().filter(|e| e.field != "<nil>") {
        error.field = if error.field.is_empty() {
            "status".to_owned()
        } else {
            format!("status.{}", error.field)
        };
    }
    errors
}

/// Returns true if these errors are of the kind after which rules in CEL are not evaluated.
///
/// ```
/// use kueue_check_schema::{blocks_rules, compile, validate};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "required": ["limit"], "properties": {"limit": {"type": "integer", "minimum": 1}}}));
/// assert!(blocks_rules(&validate(&json!({}), &schema))); // a rule could not read what is not there
/// assert!(!blocks_rules(&validate(&json!({"limit": 0}), &schema)));
/// ```
pub fn blocks_rules(errors: &[FieldError]) -> bool {
    errors.iter().any(|error| {
        matches!(
            error.reason,
            "FieldValueNotSupported"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    })
}

/// Checks a value that was `old` before; nothing if it is the same.
fn check(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if old == Some(value) {
        return;
    }
    if value.is_null() {
        check_null(schema, path, errors);
        return;
    }
    if let Some((wanted, found)) = misfit(value, schema) {
        errors.push(wrong_type(wanted, found, path));
    }
    junctors(value, old, schema, path, errors);
    match value {
        Value::String(text) => check_text(value, text, schema, path, errors),
        Value::Number(_) => check_number(value, schema, path, errors),
        Value::Array(list) => check_list(list, old, schema, path, errors),
        _ => {}
    }
    if !schema.allowed.is_empty() && !schema.allowed.contains(value) {
        errors.push(FieldError::not_supported(path, value, &schema.allowed));
    }
    if let Value::Object(map) = value {
        check_object((value, map), old, schema, path, errors);
    }
}

fn check_null(schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if schema.nullable || (schema.kind == Type::Any && !schema.int_or_string) {
        return;
    }
    errors.push(wrong_type(type_names(schema), "null", path));
}

fn type_names(schema: &Schema) -> &str {
    if schema.int_or_string {
        "integer,string"
    } else {
        schema.kind.name()
    }
}

/// Returns the expected and the found type, if the type is wrong. For a value that could have the
/// format, the format is the expected type.
fn misfit<'a>(value: &Value, schema: &'a Schema) -> Option<(&'a str, &'static str)> {
    if fits(value, schema) {
        return None;
    }
    if schema.format.is_empty() || value.is_string() || value.is_array() {
        return Some((type_names(schema), type_name(value)));
    }
    let found = match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        _ => "",
    };
    Some((&schema.format, found))
}

fn fits(value: &Value, schema: &Schema) -> bool {
    if schema.int_or_string {
        return value.is_string() || is_integer(value);
    }
    match schema.kind {
        Type::Any => true,
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number => value.is_number(),
        Type::Integer => is_integer(value),
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong_type(wanted: &str, found: &str, path: &Path<'_>) -> FieldError {
    let why = format!("{path} in body must be of type {wanted}: \"{found}\"");
    FieldError::type_invalid(path, &Value::from(found), why)
}

/// Checks a text. Reports only its first error.
fn check_text(
    value: &Value,
    text: &str,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(error) = text_fault(value, text, schema, path) {
        errors.push(error);
    }
    if schema.format == "date-time" && !is_date_time(text) {
        let why = format!("{path} in body must be of type date-time: {value}");
        errors.push(FieldError::type_invalid(path, value, why));
    }
}

fn text_fault(value: &Value, text: &str, schema: &Schema, path: &Path<'_>) -> Option<FieldError> {
    let limits = &schema.limits;
    if limits.max_length.is_some() || limits.min_length.is_some() {
        let length = text.chars().count() as u64;
        if let Some(maximum) = limits.max_length.filter(|max| length > *max) {
            return Some(FieldError::too_long(path, maximum));
        }
        if let Some(minimum) = limits.min_length.filter(|min| length < *min) {
            let why = format!("{path} in body should be at least {minimum} chars long");
            return Some(FieldError::invalid(path, value, why));
        }
    }
    let pattern = schema.pattern.as_ref().filter(|p| !p.matches(text))?;
    let why = format!("{path} in body should match '{}'", pattern.text);
    Some(FieldError::invalid(path, value, why))
}

/// Returns true for RFC 3339 with a zone; a space is not a `T`.
fn is_date_time(text: &str) -> bool {
    text.as_bytes()
        .get(10)
        .is_some_and(|byte| byte.eq_ignore_ascii_case(&b't'))
        && text.parse::<jiff::Timestamp>().is_ok()
}

fn check_number(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(number) = value.as_f64() else { return };
    check_range(value, schema, path, errors);
    if let Some(minimum) = &schema.limits.minimum {
        let wrong = if minimum.exclusive {
            number <= minimum.value
        } else {
            number < minimum.value
        };
        if wrong {
            let than = if minimum.exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            let why = format!("{path} in body should be {than} {}", minimum.text);
            errors.push(FieldError::invalid(path, value, why));
        }
    }
    if let Some(maximum) = &schema.limits.maximum {
        let wrong = if maximum.exclusive {
            number >= maximum.value
        } else {
            number > maximum.value
        };
        if wrong {
            let than = if maximum.exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            let why = format!("{path} in body should be {than} {}", maximum.text);
            errors.push(FieldError::invalid(path, value, why));
        }
    }
    if let Some(factor) = schema
        .limits
        .multiple_of
        .filter(|factor| (number / factor).fract() != 0.0)
    {
        let why = format!("{path} in body should be a multiple of {factor}");
        errors.push(FieldError::invalid(path, value, why));
    }
}

/// Checks that a number fits into its format; the real server reports this without a path.
fn check_range(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if schema.kind != Type::Integer && !schema.int_or_string {
        return;
    }
    let format = schema.format.as_str();
    let fits = match (value.as_i64(), format) {
        (Some(number), "int32") => i32::try_from(number).is_ok(),
        (Some(_), _) => true,
        (None, _) => is_integer(value) && !value.is_u64(),
    };
    if !fits {
        let form = if format.is_empty() || schema.int_or_string {
            "(default format)".to_owned()
        } else {
            format!("with format {format}")
        };
        errors.push(FieldError::invalid_without_path(format!(
            "Checked value must be of type integer {form} in {path}"
        )));
    }
}

fn check_list(
    list: &[Value],
    old: Option<&Value>,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(item) = &schema.items {
        for (index, child) in list.iter().enumerate() {
            let before = counterpart((index, child), old, schema, item);
            check(child, before, item, &path.index(index), errors);
        }
    }
    let length = list.len() as u64;
    if let Some(minimum) = schema.limits.min_items.filter(|min| length < *min) {
        let why = format!("{path} in body should have at least {minimum} items");
        errors.push(FieldError::invalid(path, &Value::from(length), why));
    }
    if let Some(maximum) = schema.limits.max_items.filter(|max| length > *max) {
        errors.push(FieldError::too_many(path, list.len(), maximum));
    }
}

fn check_object(
    (value, map): (&Value, &serde_json::Map<String, Value>),
    old: Option<&Value>,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let length = map.len() as u64;
    if let Some(minimum) = schema.limits.min_properties.filter(|min| length < *min) {
        let why = format!("{path} in body should have at least {minimum} properties");
        errors.push(FieldError::invalid(path, value, why));
    }
    if let Some(maximum) = schema.limits.max_properties.filter(|max| length > *max) {
        errors.push(FieldError::too_many(path, map.len(), maximum));
    }
    for name in schema.required.iter().filter(|n| !map.contains_key(*n)) {
        errors.push(FieldError::required(&path.field(name), ""));
    }
    for (key, child) in map {
        if let Some(below) = schema.properties.get(key).or(schema.additional.as_ref())
            && !below.trivial
            // Metadata has rules of its own.
            && !(path.is_root() && key == "metadata")
        {
            let before = old.and_then(|old| old.get(key));
            check(child, before, below, &path.field(key), errors);
        }
    }
}

fn junctors(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let of = |part: &Schema| validate_at(value, old, part, path);
    if !schema.any_of.is_empty() {
        let failures: Vec<_> = schema.any_of.iter().map(|part| of(part)).collect();
        if failures.iter().all(|f| !f.is_empty()) {
            errors.push(FieldError::invalid_without_path(format!(
                "\"{path}\" must validate at least one schema (anyOf)"
            )));
            errors.extend(failures.into_iter().next().into_iter().flatten());
        }
    }
    if !schema.one_of.is_empty() {
        let failures: Vec<_> = schema.one_of.iter().map(|part| of(part)).collect();
        let valid = failures.iter().filter(|f| f.is_empty()).count();
        let only = format!("\"{path}\" must validate one and only one schema (oneOf)");
        if valid == 0 {
            errors.push(FieldError::invalid_without_path(format!(
                "{only}. Found none valid"
            )));
            errors.extend(failures.into_iter().next().into_iter().flatten());
        } else if valid > 1 {
            let why = format!("{only}. Found {valid} valid alternatives");
            errors.push(FieldError::invalid_without_path(why));
        }
    }
    if !schema.all_of.is_empty() {
        let failures: Vec<_> = schema.all_of.iter().map(|part| of(part)).collect();
        let valid = failures.iter().filter(|f| f.is_empty()).count();
        if valid < failures.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let all = format!("\"{path}\" must validate all the schemas (allOf){none}");
            errors.extend(failures.into_iter().flatten());
            errors.push(FieldError::invalid_without_path(all));
        }
    }
    if schema.not.as_ref().is_some_and(|part| of(part).is_empty()) {
        let why = format!("\"{path}\" must not validate the schema (not)");
        errors.push(FieldError::invalid_without_path(why));
    }
}
