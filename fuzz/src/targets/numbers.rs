//! Numbers as people write them: quantities, durations, money.

use std::sync::LazyLock;
use std::time::Duration;

use kueue_check::HumanDuration;
use kueue_check::api::Quantity;
use kueue_check::schemars::{JsonSchema, SchemaGenerator};
use kueue_check_budget::money::Amount;
use kueue_check_schema::{Schema, compile, validate};
use serde_json::Value;

use super::{Form, KEPT, Outcome, Target, magnitude, outcome};
use crate::target::DictionaryWords::{Of, One};

pub(super) const QUANTITY: Target = Target {
    name: "quantity",
    about: "quantities: compared with arithmetic on decimal text",
    form: Form::Bytes,
    dictionary: &[Of("
        n u m k M G T P E Ki Mi Gi Ti Pi Ei e E e- e+ e30 e-30 . - + 000000000000 999999999999
        0000000000000000000000000000000000000000
    ")],
    memory: KEPT,
    run: quantity,
};

fn quantity(input: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(input) else {
        return 0;
    };
    let parsed = text.parse::<Quantity>();
    let exact = exact_nanos(text);
    let Ok(quantity) = parsed else {
        assert_eq!(exact, None, "{text} is a quantity");
        return outcome(text.is_empty());
    };
    let Some((negative, nanos)) = exact else {
        panic!("{text} is no quantity, and is read as {quantity}");
    };
    // 38 digits always fit; more digits are read as the largest value.
    if nanos.len() <= 38 {
        let sign = if negative && nanos != "0" { "-" } else { "" };
        assert_eq!(shown_nanos(quantity), format!("{sign}{nanos}"), "{text}");
    } else {
        let largest = if negative { i64::MIN + 1 } else { i64::MAX };
        assert!(
            quantity.units().unsigned_abs() >= largest.unsigned_abs(),
            "{text} is huge, and is read as {quantity}"
        );
    }
    let printed = quantity.to_string();
    assert_eq!(printed.parse::<Quantity>(), Ok(quantity), "{text}");
    assert_eq!(quantity + Quantity::ZERO, quantity);
    assert_eq!(quantity * 2, quantity + quantity, "{text}");
    assert!(quantity.as_f64().is_finite());
    assert!(negative || quantity.millis() >= quantity.units());
    outcome((
        magnitude(nanos.len()),
        negative,
        text.trim_start_matches(|c: char| c.is_ascii_digit())
            .get(..2),
        text.contains('.'),
    ))
}

/// Returns a quantity in billionths, from its decimal text.
fn shown_nanos(quantity: Quantity) -> String {
    let text = quantity.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, whole) = whole
        .strip_prefix('-')
        .map_or(("", whole), |whole| ("-", whole));
    let digits = format!("{whole}{fraction:0<9}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        "0".to_owned()
    } else {
        format!("{sign}{digits}")
    }
}

/// Returns the sign of a quantity and its billionths, rounded up, by arithmetic on its text.
fn exact_nanos(text: &str) -> Option<(bool, String)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let negative = number.starts_with('-');
    let number = number.strip_prefix(['+', '-']).unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (binary, exponent) = match suffix {
        "" => (0, 0),
        "Ki" => (1, 0),
        "Mi" => (2, 0),
        "Gi" => (3, 0),
        "Ti" => (4, 0),
        "Pi" => (5, 0),
        "Ei" => (6, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        _ => (0, suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    };
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some((negative, "0".to_owned()));
    }
    let digits = (0..binary).fold(digits.to_owned(), |digits, _| times(&digits, 1024));
    // The position of the decimal point, in billionths.
    let point = i64::try_from(digits.len()).ok()? - i64::try_from(fraction.len()).ok()?
        + i64::from(exponent)
        + 9;
    if point > 100 {
        return Some((negative, "9".repeat(100)));
    }
    let kept = usize::try_from(point.max(0)).ok()?;
    let whole: String = digits
        .chars()
        .chain(std::iter::repeat('0'))
        .take(kept)
        .collect();
    let lost = digits.get(kept..).unwrap_or_default();
    let up = lost.bytes().any(|byte| byte != b'0');
    Some((negative, plus(&whole, u32::from(up))))
}

fn times(digits: &str, factor: u32) -> String {
    multiply_add(digits, factor, 0)
}

fn plus(digits: &str, more: u32) -> String {
    let sum = multiply_add(digits, 1, more);
    let plain = sum.trim_start_matches('0');
    if plain.is_empty() {
        "0".to_owned()
    } else {
        plain.to_owned()
    }
}

fn multiply_add(digits: &str, factor: u32, more: u32) -> String {
    let mut carry = more;
    let mut out: Vec<char> = Vec::new();
    for digit in digits.chars().rev() {
        let value = digit.to_digit(10).unwrap_or_default() * factor + carry;
        out.extend(char::from_digit(value % 10, 10));
        carry = value / 10;
    }
    while carry > 0 {
        out.extend(char::from_digit(carry % 10, 10));
        carry /= 10;
    }
    out.iter().rev().collect()
}

pub(super) const DURATION: Target = Target {
    name: "duration",
    about: "durations: what the schema takes is read, and printed so that it reads the same",
    form: Form::Bytes,
    dictionary: &[Of("ms s m h d . 0 0.0 0.5 1h30m 99999999 0.0001ms")],
    memory: KEPT,
    run: duration,
};

fn duration(input: &[u8]) -> Outcome {
    static SCHEMA: LazyLock<std::sync::Arc<Schema>> = LazyLock::new(|| {
        let schema = HumanDuration::json_schema(&mut SchemaGenerator::default());
        compile(&Value::from(schema))
    });
    let Ok(text) = std::str::from_utf8(input) else {
        return 0;
    };
    let parsed = text.parse::<HumanDuration>();
    let errors = validate(&Value::String(text.to_owned()), &SCHEMA);
    let valid = errors.is_empty();
    let Ok(duration) = parsed else {
        // The schema cannot express that a duration is too long.
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        assert!(!valid || digits > 14, "{text} is valid, and cannot be read");
        return outcome(valid);
    };
    let long = text.chars().count() > 32;
    assert!(
        valid || long,
        "{text} is read, and is not valid: {errors:?}"
    );
    let printed = duration.to_string();
    assert_eq!(
        printed.parse(),
        Ok(duration),
        "{text} is printed as {printed}"
    );
    let json = serde_json::to_value(duration).unwrap_or_default();
    assert_eq!(
        serde_json::from_value::<HumanDuration>(json).ok(),
        Some(duration)
    );
    let length = Duration::from(duration);
    outcome((
        length.as_secs().checked_ilog10(),
        length.subsec_nanos() == 0,
        printed.len(),
    ))
}

pub(super) const AMOUNT: Target = Target {
    name: "amount",
    about: "amounts of money: exact, and printed so that they read the same",
    form: Form::Bytes,
    dictionary: &[Of("0.000001 999999999999 . - + e3 0.0000001"), One(" ")],
    memory: KEPT,
    run: amount,
};

fn amount(input: &[u8]) -> Outcome {
    static SCHEMA: LazyLock<std::sync::Arc<Schema>> = LazyLock::new(|| {
        let schema = Amount::json_schema(&mut SchemaGenerator::default());
        compile(&Value::from(schema))
    });
    let Ok(text) = std::str::from_utf8(input) else {
        return 0;
    };
    let valid = validate(&Value::String(text.to_owned()), &SCHEMA).is_empty();
    let parsed = text.parse::<Amount>();
    assert_eq!(parsed.is_ok(), valid, "{text}: {parsed:?}");
    // A source's value: any text that is a float.
    let measured = text.parse::<f64>().ok().and_then(Amount::measured);
    if let Some(measured) = measured {
        let again = measured.to_string().parse::<Amount>();
        assert_eq!(
            again.as_ref(),
            Ok(&measured),
            "{text} is measured, and cannot be written"
        );
    }
    let Ok(amount) = parsed else {
        return outcome((valid, measured.is_some()));
    };
    let printed = amount.to_string();
    assert_eq!(printed.parse::<Amount>().as_ref(), Ok(&amount), "{text}");
    assert_eq!(amount.less(amount), Amount::default());
    assert!(amount.percent_of(amount) <= 100);
    outcome((printed.len(), amount.cents().len()))
}
