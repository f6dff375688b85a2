//! Money, or any other unit that is spent: exact decimals, never floats.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount of a budget's unit, in millionths, never negative. Sums saturate at the largest value.
///
/// Serialized as a string of up to 12 digits and 6 decimals: a Kubernetes quantity would accept
/// `1500m`, and a JSON number would be a float.
///
/// ```
/// use kueue_check_budget::money::Amount;
///
/// let price: Amount = "2.90".parse()?;
/// assert_eq!((price.to_string().as_str(), price.cents().as_str()), ("2.9", "2.90"));
/// assert!("-1".parse::<Amount>().is_err() && "1e3".parse::<Amount>().is_err());
/// # Ok::<(), kueue_check_budget::money::AmountError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

/// The error for text that is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an amount: expected up to 12 digits and up to 6 decimals, such as `500` or `0.012`"
)]
pub struct AmountError(String);

/// The pattern of an amount, also in the definitions.
pub(crate) const PATTERN: &str = r"^[0-9]{1,12}(\.[0-9]{1,6})?$";
const MILLION: i128 = 1_000_000;
/// The exclusive upper bound of a value from a source.
const MAX_RESULT: f64 = 1e12;
/// The largest amount that the schema allows, with twelve digits before the point: larger sums are
/// written as this one.
const LARGEST: i128 = 999_999_999_999_999_999;
/// The lowest value from a source that counts as zero: a rounding error.
const NEGATIVE_ZERO: f64 = -0.01;

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The largest amount.
    pub const MAX: Self = Self(i128::MAX);

    /// Returns an amount of whole units.
    pub fn units(units: u32) -> Self {
        Self(i128::from(units) * MILLION)
    }

    /// Returns an amount of millionths; a negative number becomes zero.
    pub(crate) fn millionths(millionths: i128) -> Self {
        Self(millionths.max(0))
    }

    /// Returns the amount in millionths.
    pub(crate) fn in_millionths(self) -> i128 {
        self.0
    }

    /// Returns the amount that a source has measured, rounded up.
    ///
    /// Returns `None` if `value` is not finite, is below zero by more than a rounding error, or is
    /// 10^12 or more, which cannot be written.
    pub fn measured(value: f64) -> Option<Self> {
        if !value.is_finite() || !(NEGATIVE_ZERO..MAX_RESULT).contains(&value) {
            return None;
        }
        // Floats carry noise in the last places: 25.000000000000004 is 25.
        let millionths = value * 1e6;
        let rounded = millionths.round();
        let noise = (millionths.abs() * 1e-12).max(1e-6);
        let up = if (millionths - rounded).abs() <= noise {
            rounded
        } else {
            millionths.ceil()
        };
        #[expect(clippy::cast_possible_truncation, reason = "at most 10^18")]
        Some(Self::millionths(up as i128))
    }

    /// Subtracts `other`; returns zero if `other` is larger.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self::millionths(self.0.saturating_sub(other.0))
    }

    /// Returns the percentage of `whole`, rounded down; `u32::MAX` if only `whole` is zero.
    pub fn percent_of(self, whole: Self) -> u32 {
        match whole.0 {
            0 if self.0 == 0 => 0,
            0 => u32::MAX,
            whole => u32::try_from(self.0.saturating_mul(100) / whole).unwrap_or(u32::MAX),
        }
    }

    /// Formats the amount with two decimals, rounded: for messages.
    pub fn cents(self) -> String {
        let cents = self.0.saturating_add(MILLION / 200) / (MILLION / 100);
        format!("{}.{:02}", cents / 100, cents % 100)
    }

    /// Formats the amount with two decimals, rounded down.
    ///
    /// For remaining amounts: a job that does not fit never appears to fit.
    pub fn cents_down(self) -> String {
        Self(self.0 - self.0.rem_euclid(MILLION / 100)).cents()
    }

    /// Returns the amount as a float, for metrics.
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / MILLION as f64
    }

    /// Multiplies by a factor such as 1.1, rounded up.
    #[must_use]
    pub fn times(self, factor: Self) -> Self {
        Self(div_up(self.0.saturating_mul(factor.0), MILLION))
    }
}

fn div_up(number: i128, divisor: i128) -> i128 {
    number / divisor + i128::from(number % divisor > 0)
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let refuse = || AmountError(text.to_owned());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, 12) || !digits(fraction, 6) {
            return Err(refuse());
        }
        let whole: i128 = whole.parse().map_err(|_| refuse())?;
        let fraction: i128 = format!("{fraction:0<6}").parse().map_err(|_| refuse())?;
        Ok(Self(whole * MILLION + fraction))
    }
}

/// The shortest exact form.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / MILLION, self.0 % MILLION);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        write!(
            f,
            "{whole}.{}",
            format!("{fraction:06}").trim_end_matches('0')
        )
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Self(self.0.min(LARGEST)))
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": PATTERN, "maxLength": 19})
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// A rate of spending, in billionths of the unit per hour.
///
/// At most 18,000 million units per hour. It fits in one machine word, because each job has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Returns the rate of `thousandths` of a resource, rounded up.
    ///
    /// `price` is that of `divisor` of the resource (the bytes of a GiB) for an hour.
    pub fn of(thousandths: i128, price: Amount, divisor: u64) -> Self {
        // 10^-3 × 10^-6 = 10^-9.
        Self::clamped(div_up(
            thousandths.max(0).saturating_mul(price.0),
            i128::from(divisor.max(1)),
        ))
    }

    fn clamped(billionths: i128) -> Self {
        Self(u64::try_from(billionths).unwrap_or(u64::MAX))
    }

    /// Multiplies by a factor such as 1.1, rounded up.
    #[must_use]
    pub fn times(self, factor: Amount) -> Self {
        Self::clamped(div_up(i128::from(self.0).saturating_mul(factor.0), MILLION))
    }

    /// Subtracts `other`; returns zero if `other` is larger.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the cost of `seconds`.
    pub fn cost(self, seconds: i64) -> Amount {
        Spending::default().and(self, seconds).total()
    }

    /// Returns the cost of an hour.
    pub fn per_hour(self) -> Amount {
        self.cost(3600)
    }

    /// Returns the number of seconds until `amount` is spent; `None` if the rate is zero.
    pub fn seconds_until(self, amount: Amount) -> Option<i64> {
        (self.0 > 0).then(|| {
            i64::try_from(amount.0.saturating_mul(3_600_000) / i128::from(self.0))
                .unwrap_or(i64::MAX)
        })
    }
}

impl Add for Rate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// A sum of costs that is rounded once, at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending(i128);

impl Spending {
    /// Adds the cost of `rate` for `seconds`; a negative time counts as zero.
    #[must_use]
    pub fn and(self, rate: Rate, seconds: i64) -> Self {
        Self(
            self.0
                .saturating_add(i128::from(rate.0) * i128::from(seconds.max(0))),
        )
    }

    /// Returns the sum, rounded up to a millionth.
    pub fn total(self) -> Amount {
        Amount(div_up(self.0, 3_600_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().unwrap()
    }

    #[test]
    fn only_plain_decimals_are_amounts() {
        for (text, shown) in [
            ("0", "0"),
            ("500", "500"),
            ("007.50", "7.5"),
            ("0.000001", "0.000001"),
            ("999999999999.999999", "999999999999.999999"),
        ] {
            assert_eq!(amount(text).to_string(), shown);
        }
        for text in [
            "",
            ".5",
            "5.",
            "-1",
            "+1",
            "1e3",
            "1500m",
            "1,5",
            " 1",
            "1234567890123",
            "0.1234567",
            "NaN",
            "١",
        ] {
            assert_eq!(text.parse::<Amount>(), Err(AmountError(text.to_owned())));
        }
    }

    #[test]
    fn what_a_source_measures_is_money_or_nothing() {
        for (value, expected) in [
            (0.0, Some("0")),
            (25.000_000_000_000_004, Some("25")),
            (0.1 + 0.2, Some("0.3")),
            (1.000_000_4, Some("1.000001")),
            (-0.004, Some("0")),
            (5e11, Some("500000000000")),
            (1e12, None),
            (-0.02, None),
            (1.1e12, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
        ] {
            assert_eq!(
                Amount::measured(value)
                    .map(|amount| amount.to_string())
                    .as_deref(),
                expected,
                "{value}"
            );
        }
    }

    #[test]
    fn costs_are_rounded_up_once() {
        let cpu = Rate::of(500, amount("0.031"), 1);
        assert_eq!(cpu.per_hour(), amount("0.0155"));
        let tiny = Rate::of(1, amount("0.000001"), 1);
        assert_eq!(
            (tiny.cost(1), tiny.cost(3600 * 1000)),
            (amount("0.000001"), amount("0.000001"))
        );
        let sum = (0..1000).fold(Spending::default(), |sum, _| sum.and(tiny, 3600));
        assert_eq!(sum.total(), amount("0.000001"));
        assert_eq!(cpu.cost(-5), Amount::ZERO);
    }

    #[test]
    fn nothing_overflows_or_is_negative() {
        let huge = Rate::of(i128::MAX, Amount::MAX, 1);
        assert_eq!(huge.times(Amount::MAX), huge);
        assert!(huge.cost(i64::MAX) > Amount::units(u32::MAX));
        assert_eq!(Amount::MAX + Amount::MAX, Amount::MAX);
        assert_eq!(amount("1").less(amount("2")), Amount::ZERO);
        assert_eq!(
            (
                amount("1").percent_of(Amount::ZERO),
                Amount::ZERO.percent_of(Amount::ZERO)
            ),
            (u32::MAX, 0)
        );
    }

    #[test]
    fn messages_show_hundredths() {
        for (text, shown) in [
            ("88", "88.00"),
            ("12.404", "12.40"),
            ("12.405", "12.41"),
            ("0.001", "0.00"),
        ] {
            assert_eq!(amount(text).cents(), shown);
        }
        assert_eq!(amount("1.1").times(amount("1.1")), amount("1.21"));
        assert_eq!(
            Rate::of(1000, amount("2"), 1).seconds_until(amount("1")),
            Some(1800)
        );
    }

    /// With a real Kueue a job that needed 1.00 waited with 0.996 remaining, and its message showed
    /// 1.00 as remaining.
    /// The schema of the status has twelve digits before the point.
    #[test]
    fn sums_of_any_size_can_be_written() {
        let most: Amount = "999999999999".parse().unwrap();
        for sum in [most, most + most, Amount::MAX] {
            let text = serde_json::to_value(sum).unwrap();
            let read = serde_json::from_value::<Amount>(text.clone());
            assert!(read.is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_left_is_never_more_than_is_left() {
        for (text, shown) in [("0.996", "0.99"), ("1", "1.00"), ("0.009999", "0.00")] {
            assert_eq!(amount(text).cents_down(), shown);
        }
    }
}
