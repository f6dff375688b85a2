//! Checking a value against a schema, in the words of the real server.

use serde_json::Value;

use super::{Schema, Type};
use crate::apiserver::status::FieldError;

/// What is wrong with `value`, whose place in the object is `path`.
pub(crate) fn validate(value: &Value, schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(value, schema, path, &mut errors);
    errors
}

/// Whether these errors are of the sort after which rules in CEL are not even tried.
pub(crate) fn blocks_rules(errors: &[FieldError]) -> bool {
    errors.iter().any(|error| {
        matches!(
            error.reason,
            "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    })
}

fn check(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if value.is_null() {
        check_null(schema, path, errors);
        return;
    }
    if !fits(value, schema) {
        errors.push(wrong_type(value, schema, path));
    }
    junctors(value, schema, path, errors);
    match value {
        Value::String(text) => check_text(value, text, schema, path, errors),
        Value::Number(_) => check_number(value, schema, path, errors),
        Value::Array(list) => check_list(list, schema, path, errors),
        _ => {}
    }
    if !schema.allowed.is_empty() && !schema.allowed.contains(value) {
        errors.push(FieldError::not_supported(path, value, &schema.allowed));
    }
    if let Value::Object(map) = value {
        check_object(value, map, schema, path, errors);
    }
}

fn check_null(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if schema.nullable || (schema.kind == Type::Any && !schema.int_or_string) {
        return;
    }
    errors.push(wrong_type(&Value::Null, schema, path));
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

fn wrong_type(value: &Value, schema: &Schema, path: &str) -> FieldError {
    let found = type_name(value);
    let wanted = if schema.int_or_string {
        "integer,string"
    } else {
        schema.kind.name()
    };
    let why = format!("{path} in body must be of type {wanted}: \"{found}\"");
    FieldError::type_invalid(path, &Value::from(found), why)
}

fn check_text(
    value: &Value,
    text: &str,
    schema: &Schema,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let length = text.chars().count() as u64;
    if let Some(maximum) = schema.limits.max_length.filter(|max| length > *max) {
        errors.push(FieldError::too_long(path, maximum));
    }
    if let Some(minimum) = schema.limits.min_length.filter(|min| length < *min) {
        let why = format!("{path} in body should be at least {minimum} chars long");
        errors.push(FieldError::invalid(path, value, why));
    }
    if let Some(pattern) = schema.pattern.as_ref().filter(|p| !p.matches(text)) {
        let why = format!("{path} in body should match '{}'", pattern.text);
        errors.push(FieldError::invalid(path, value, why));
    }
    if schema.format == "date-time" && !is_date_time(text) {
        let why = format!("{path} in body must be of type date-time: {value}");
        errors.push(FieldError::type_invalid(path, value, why));
    }
}

/// RFC 3339 with a zone; a space is not a `T`.
fn is_date_time(text: &str) -> bool {
    text.as_bytes()
        .get(10)
        .is_some_and(|byte| byte.eq_ignore_ascii_case(&b't'))
        && text.parse::<jiff::Timestamp>().is_ok()
}

fn check_number(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let Some(number) = value.as_f64() else { return };
    if let Some(minimum) = &schema.limits.minimum {
        let low = number < minimum.value;
        #[expect(
            clippy::float_cmp,
            reason = "an exclusive bound is a number as it stands in JSON"
        )]
        let at = minimum.exclusive && number == minimum.value;
        if low || at {
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
        let high = number > maximum.value;
        #[expect(
            clippy::float_cmp,
            reason = "an exclusive bound is a number as it stands in JSON"
        )]
        let at = maximum.exclusive && number == maximum.value;
        if high || at {
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
    let (low, high) = match schema.format.as_str() {
        "int32" => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => return,
    };
    if value.as_i64().is_none_or(|n| n < low || n > high) {
        let why = format!("{path} in body must be of type int32: \"{value}\"");
        errors.push(FieldError::invalid(path, value, why));
    }
}

fn check_list(list: &[Value], schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(item) = &schema.items {
        for (index, child) in list.iter().enumerate() {
            check(child, item, &format!("{path}[{index}]"), errors);
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
    value: &Value,
    map: &serde_json::Map<String, Value>,
    schema: &Schema,
    path: &str,
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
        errors.push(FieldError::required(join(path, name), ""));
    }
    for (key, child) in map {
        if let Some(below) = schema.properties.get(key).or(schema.additional.as_ref()) {
            check(child, below, &join(path, key), errors);
        }
    }
}

fn junctors(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let matches = |s: &Schema| validate(value, s, path).is_empty();
    for part in &schema.all_of {
        check(value, part, path, errors);
    }
    let said = |why: &str| FieldError::invalid(path, value, format!("{path} in body {why}"));
    // An int-or-string says its two types once more with `anyOf`.
    if !schema.int_or_string
        && !schema.any_of.is_empty()
        && !schema.any_of.iter().any(|s| matches(s))
    {
        errors.push(said("must validate at least one schema (anyOf)"));
    }
    if !schema.one_of.is_empty() && schema.one_of.iter().filter(|s| matches(s)).count() != 1 {
        errors.push(said("must validate one and only one schema (oneOf)"));
    }
    if schema.not.as_ref().is_some_and(|s| matches(s)) {
        errors.push(said("must not validate the schema (not)"));
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
