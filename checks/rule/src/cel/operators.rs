//! The operators of expressions.

use std::cmp::Ordering;

use super::run::{Failure, Run, order};
use super::value::Value;

/// Returns the indexes of `all` in the order of their values.
pub(super) fn sorted(run: &mut Run<'_>, all: &[Value]) -> Result<Vec<usize>, Failure> {
    let levels = usize::try_from(all.len().max(1).ilog2()).unwrap_or(usize::MAX);
    let levels = levels.saturating_add(1);
    run.spend(all.len().saturating_mul(levels))?;
    // Values that are comparable with the first one are comparable with each other.
    for value in all {
        compare(run, value, &all[0])?;
        if let Value::String(text) = value {
            run.spend_text(text.len().saturating_mul(levels))?;
        }
    }
    let mut places: Vec<usize> = (0..all.len()).collect();
    places.sort_by(|one, other| order(&all[*one], &all[*other]).unwrap_or(Ordering::Equal));
    Ok(places)
}

/// Returns the order of two values.
pub(super) fn compare(run: &mut Run<'_>, one: &Value, other: &Value) -> Result<Ordering, Failure> {
    if let (Value::String(one), Value::String(other)) = (one, other) {
        run.spend_text(one.len().min(other.len()))?;
    }
    order(one, other).ok_or_else(|| {
        Failure::new(format!(
            "{} and {} have no order",
            one.kind().one(),
            other.kind().one()
        ))
    })
}

/// Returns `one + other`.
pub(super) fn add(run: &mut Run<'_>, one: &Value, other: &Value) -> Result<Value, Failure> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => one
            .checked_add(*other)
            .map(Value::Int)
            .ok_or_else(too_large),
        (Value::Int(_) | Value::Double(_), Value::Int(_) | Value::Double(_)) => {
            Ok(Value::Double(number(one)? + number(other)?))
        }
        (Value::String(one), Value::String(other)) => {
            run.spend_text(one.len() + other.len())?;
            Ok(Value::text(format!("{one}{other}")))
        }
        (Value::List(one), Value::List(other)) => {
            run.spend(one.len() + other.len())?;
            Ok(Value::list(one.iter().chain(other.iter()).cloned()))
        }
        (Value::Quantity(one), Value::Quantity(other)) => Ok(Value::Quantity(*one + *other)),
        (Value::Duration(one), Value::Duration(other)) => {
            let sum = one.checked_add(*other);
            sum.map(Value::Duration).ok_or_else(too_far)
        }
        (Value::Timestamp(time), Value::Duration(length))
        | (Value::Duration(length), Value::Timestamp(time)) => {
            let sum = time.checked_add(*length).map_err(|_| too_far())?;
            Ok(Value::Timestamp(sum))
        }
        (one, other) => Err(unsupported("+", one, other)),
    }
}

/// Returns `one - other`.
pub(super) fn subtract(one: &Value, other: &Value) -> Result<Value, Failure> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => one
            .checked_sub(*other)
            .map(Value::Int)
            .ok_or_else(too_large),
        (Value::Int(_) | Value::Double(_), Value::Int(_) | Value::Double(_)) => {
            Ok(Value::Double(number(one)? - number(other)?))
        }
        (Value::Duration(one), Value::Duration(other)) => {
            let rest = one.checked_sub(*other);
            rest.map(Value::Duration).ok_or_else(too_far)
        }
        (Value::Timestamp(time), Value::Duration(length)) => {
            let earlier = time.checked_sub(*length).map_err(|_| too_far())?;
            Ok(Value::Timestamp(earlier))
        }
        (Value::Timestamp(one), Value::Timestamp(other)) => {
            Ok(Value::Duration(one.duration_since(*other)))
        }
        (one, other) => Err(unsupported("-", one, other)),
    }
}

/// Returns `one * other`, `one / other`, or `one % other`.
pub(super) fn multiply(sign: &str, one: &Value, other: &Value) -> Result<Value, Failure> {
    match (one, other) {
        (Value::Int(_), Value::Int(0)) if sign != "*" => {
            Err(Failure::new("a whole number is divided by zero"))
        }
        (Value::Int(one), Value::Int(other)) => {
            let result = match sign {
                "*" => one.checked_mul(*other),
                "/" => one.checked_div(*other),
                _ => one.checked_rem(*other),
            };
            result.map(Value::Int).ok_or_else(too_large)
        }
        (Value::Int(_) | Value::Double(_), Value::Int(_) | Value::Double(_)) if sign != "%" => {
            let (one, other) = (number(one)?, number(other)?);
            let result = if sign == "*" {
                one * other
            } else {
                one / other
            };
            Ok(Value::Double(result))
        }
        (one, other) => Err(unsupported(sign, one, other)),
    }
}

pub(super) fn unsupported(sign: &str, one: &Value, other: &Value) -> Failure {
    Failure::new(format!(
        "there is no {} {sign} {}",
        one.kind(),
        other.kind()
    ))
}

#[expect(clippy::cast_precision_loss, reason = "a float is the requested type")]
pub(super) fn number(value: &Value) -> Result<f64, Failure> {
    match value {
        Value::Int(whole) => Ok(*whole as f64),
        Value::Double(number) => Ok(*number),
        _ => Err(unexpected()),
    }
}

pub(super) fn unexpected() -> Failure {
    Failure::new("an argument has another type")
}

pub(super) fn too_large() -> Failure {
    Failure::new("the number is too large")
}

pub(super) fn too_far() -> Failure {
    Failure::new("the time is too far away")
}
