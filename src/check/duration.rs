//! Durations as people write them in a resource.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration, written as in Kubernetes, with days: `90s`, `1h30m`, `0.5h`, `2d`.
///
/// ```
/// use kueue_check::HumanDuration;
///
/// let day: HumanDuration = "1d".parse()?;
/// assert_eq!(std::time::Duration::from(day).as_secs(), 86_400);
/// assert_eq!("90m".parse::<HumanDuration>()?.to_string(), "1h30m");
/// # Ok::<(), kueue_check::HumanDurationError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(Duration);

/// A text that is not a duration.
///
/// ```
/// let error = "90".parse::<kueue_check::HumanDuration>().unwrap_err();
/// assert!(error.to_string().starts_with("`90` is not a duration: expected numbers with the units `d`, `h`, `m`, `s` or `ms`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a duration: expected numbers with the units `d`, `h`, `m`, `s` or `ms`, such as `90s`, `1h30m` or `2d`"
)]
pub struct HumanDurationError(String);

/// Longest unit first: the order in which a duration is printed.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
const PATTERN: &str = r"^(0|([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+)$";

impl From<Duration> for HumanDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl FromStr for HumanDuration {
    type Err = HumanDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text)
            .map(Self)
            .ok_or_else(|| HumanDurationError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit = UNITS.iter().find(|(known, _)| *known == unit)?.1;
        total = total.checked_add(times(number, unit)?)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

/// Returns `number` units of `millis` milliseconds.
fn times(number: &str, millis: u64) -> Option<Duration> {
    let Some((whole, fraction)) = number.split_once('.') else {
        // A float cannot represent all digits of a whole number.
        let number: u64 = number.parse().ok()?;
        let millis = u128::from(number) * u128::from(millis);
        let seconds = u64::try_from(millis / 1000).ok()?;
        let millis = u64::try_from(millis % 1000).ok()?;
        return Duration::from_secs(seconds).checked_add(Duration::from_millis(millis));
    };
    if whole.is_empty() || fraction.is_empty() {
        return None;
    }
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(Duration::from_millis(millis).as_secs_f64() * number).ok()
}

/// Prints the shortest form that parses to the same duration.
impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            return f.write_str("0s");
        }
        let mut rest = self.0.as_millis();
        let nanos = self.0.subsec_nanos() % 1_000_000;
        for (unit, millis) in UNITS {
            let count = rest / u128::from(millis);
            rest %= u128::from(millis);
            if unit == "ms" && nanos > 0 {
                let fraction = format!("{nanos:06}");
                write!(f, "{count}.{}{unit}", fraction.trim_end_matches('0'))?;
            } else if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'_, str>::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for HumanDuration {
    fn schema_name() -> Cow<'static, str> {
        "HumanDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": PATTERN, "maxLength": 32})
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed() {
        for (text, seconds, printed) in [
            ("90s", 90.0, "1m30s"),
            ("1h30m", 5400.0, "1h30m"),
            ("2d", 172_800.0, "2d"),
            ("0.5h", 1800.0, "30m"),
            ("250ms", 0.25, "250ms"),
            ("1d2h3m4s5ms", 93_784.005, "1d2h3m4s5ms"),
            ("0", 0.0, "0s"),
            ("0s", 0.0, "0s"),
            ("0.25ms", 0.000_25, "0.25ms"),
            ("1s0.000001ms", 1.000_000_001, "1s0.000001ms"),
        ] {
            let duration: HumanDuration = text.parse().unwrap();
            assert!((duration.0.as_secs_f64() - seconds).abs() < 1e-9, "{text}");
            assert_eq!(duration.to_string(), printed);
            assert_eq!(printed.parse::<HumanDuration>(), Ok(duration));
        }
    }

    #[test]
    fn a_duration_of_any_length_is_printed_as_it_reads() {
        for duration in [
            Duration::MAX,
            Duration::from_secs(u64::MAX - 1),
            Duration::from_nanos(1),
            Duration::from_secs(86_400 * 123_456_789_012_345),
        ] {
            let duration = HumanDuration(duration);
            assert_eq!(duration.to_string().parse(), Ok(duration), "{duration}");
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in [
            "",
            "5",
            "s",
            "5x",
            "-5s",
            "1h-3m",
            "5 s",
            "1.2.3s",
            "1.s",
            ".5s",
            ".s",
            "1h30",
            "99999999999999999999999d",
        ] {
            assert_eq!(
                text.parse::<HumanDuration>(),
                Err(HumanDurationError(text.to_owned()))
            );
        }
    }
}
