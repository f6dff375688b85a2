//! Quantities: amounts of a resource, as Kubernetes writes them.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Mul};
use std::str::FromStr;

/// A quantity: `500m` CPU, `64Gi` memory, `8` GPUs.
///
/// Exact to a billionth of the unit, which is finer than Kubernetes itself keeps; a sum that no
/// longer fits stays at the largest value. Reads every form of Kubernetes' `resource.Quantity`:
/// decimal (`n u m k M G T P E`), binary (`Ki` to `Ei`) and exponents (`1e3`).
///
/// ```
/// use kueue_check::api::Quantity;
///
/// let memory: Quantity = "1536Mi".parse()?;
/// assert_eq!(memory, "1.5Gi".parse()?);
/// assert_eq!((memory * 4).to_string(), "6442450944");
/// assert_eq!("250m".parse::<Quantity>()?.as_f64(), 0.25);
/// # Ok::<(), kueue_check::api::QuantityError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    // An i128 in two words, so that holders are aligned to 8 bytes.
    high: i64,
    low: u64,
}

/// A text that is not a Kubernetes quantity.
///
/// ```
/// let error = "64 GB".parse::<kueue_check::api::Quantity>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`64 GB` is not a quantity: expected a number with an optional suffix such as `500m`, `2`, `64Gi` or `1e3`"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a quantity: expected a number with an optional suffix such as `500m`, `2`, `64Gi` or `1e3`"
)]
pub struct QuantityError(String);

const NANOS: i128 = 1_000_000_000;

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { high: 0, low: 0 };

    /// Makes a quantity of `units` whole units: cores, bytes, devices.
    pub fn from_units(units: i64) -> Self {
        Self::from_nanos(i128::from(units) * NANOS)
    }

    /// Returns the amount in units, with fractions.
    #[expect(clippy::cast_precision_loss, reason = "the caller requests a float")]
    pub fn as_f64(self) -> f64 {
        self.nanos() as f64 / NANOS as f64
    }

    /// Returns the amount in thousandths, rounded up, as Kueue accounts CPU.
    pub fn millis(self) -> i64 {
        self.rounded_up(NANOS / 1000)
    }

    /// Returns the amount in whole units, rounded up, as Kueue accounts everything but CPU.
    pub fn units(self) -> i64 {
        self.rounded_up(NANOS)
    }

    /// Returns true if the amount is zero.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Returns the part `share` of `whole` of it, rounded up to a billionth: all of it unless
    /// `share` is less than `whole`.
    pub(crate) fn part(self, share: u32, whole: u32) -> Self {
        if share >= whole {
            return self;
        }
        let (share, whole) = (i128::from(share), i128::from(whole));
        let nanos = self.nanos();
        // Divided first where the product would not fit. The error is then less than `whole`
        // billionths of a very large amount.
        let product = nanos.checked_mul(share);
        let part = product.map_or_else(
            || (nanos / whole).saturating_mul(share),
            |product| product.div_euclid(whole) + i128::from(product.rem_euclid(whole) != 0),
        );
        Self::from_nanos(part)
    }

    fn rounded_up(self, step: i128) -> i64 {
        let nanos = self.nanos();
        let up = i128::from(nanos.rem_euclid(step) != 0);
        i64::try_from(nanos.div_euclid(step) + up).unwrap_or(i64::MAX)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the two halves of an i128"
    )]
    fn from_nanos(nanos: i128) -> Self {
        Self {
            high: (nanos >> 64) as i64,
            low: nanos as u64,
        }
    }

    fn nanos(self) -> i128 {
        i128::from(self.high) << 64 | i128::from(self.low)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text)
            .map(Self::from_nanos)
            .ok_or_else(|| QuantityError(text.to_owned()))
    }
}

/// Returns `text` in billionths of a unit, rounded up, at most `i128::MAX`.
fn parse(text: &str) -> Option<i128> {
    let number_end = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(number_end);
    let scale = scale(suffix)?;
    let (negative, digits) = match number.as_bytes().first()? {
        b'-' => (true, &number[1..]),
        b'+' => (false, &number[1..]),
        _ => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty()
        || !fraction
            .bytes()
            .chain(whole.bytes())
            .all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let nanos = in_one_word(whole, fraction, scale)
        .unwrap_or_else(|| digit_by_digit(whole, fraction, scale));
    Some(if negative { -nanos } else { nanos })
}

/// The factor of a suffix.
#[derive(Clone, Copy)]
struct Scale {
    /// A power of 1024,
    binary: u32,
    /// and one of ten.
    decimal: i32,
}

/// Returns the billionths, unless one of the steps does not fit.
fn in_one_word(whole: &str, fraction: &str, scale: Scale) -> Option<i128> {
    let mantissa = match (whole, fraction) {
        (whole, "") => whole.parse::<i128>(),
        (whole, fraction) => [whole, fraction].concat().parse(),
    };
    let mantissa = mantissa.ok()?.checked_mul(1024_i128.pow(scale.binary))?;
    let decimals = i32::try_from(fraction.len()).ok()?;
    let exponent = scale.decimal.checked_add(9)?.checked_sub(decimals)?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 {
        mantissa.checked_mul(power)
    } else {
        Some(mantissa / power + i128::from(mantissa % power != 0))
    }
}

/// Returns the same for any number of digits, which the API does not bound. Slow.
fn digit_by_digit(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|byte| byte - b'0');
    let mut digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
    for _ in 0..scale.binary {
        digits = times_1024(&digits);
    }
    if digits.is_empty() {
        return 0;
    }
    let length = |digits: usize| i64::try_from(digits).unwrap_or(i64::MAX);
    let point = length(digits.len())
        .saturating_sub(length(fraction.len()))
        .saturating_add(i64::from(scale.decimal))
        .saturating_add(9);
    // `i128::MAX` has 39 digits.
    let Ok(point @ ..40) = usize::try_from(point.max(0)) else {
        return i128::MAX;
    };
    let kept = digits
        .iter()
        .copied()
        .chain(std::iter::repeat(0))
        .take(point);
    let nanos = kept.fold(0_i128, |nanos, digit| {
        nanos.saturating_mul(10).saturating_add(digit.into())
    });
    let lost = digits.iter().skip(point).any(|digit| *digit != 0);
    nanos.saturating_add(lost.into())
}

/// Multiplies decimal digits, the first of which is not zero, by 1024.
fn times_1024(digits: &[u8]) -> Vec<u8> {
    let mut product = Vec::with_capacity(digits.len() + 4);
    let mut carry = 0_u32;
    let push = |value: u32, product: &mut Vec<u8>| {
        product.push(u8::try_from(value % 10).unwrap_or_default());
        value / 10
    };
    for digit in digits.iter().rev() {
        carry = push(u32::from(*digit) * 1024 + carry, &mut product);
    }
    while carry > 0 {
        carry = push(carry, &mut product);
    }
    product.reverse();
    product
}

fn scale(suffix: &str) -> Option<Scale> {
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const FRACTION: [&str; 3] = ["m", "u", "n"];
    let place = |table: &[&str]| {
        let at = table.iter().position(|known| *known == suffix)?;
        u32::try_from(at + 1).ok()
    };
    let decimal = |decimal| Scale { binary: 0, decimal };
    if suffix.is_empty() {
        return Some(decimal(0));
    }
    if let Some(binary) = place(&BINARY) {
        return Some(Scale { binary, decimal: 0 });
    }
    if let Some(power) = place(&DECIMAL) {
        return Some(decimal(3 * power.cast_signed()));
    }
    if let Some(power) = place(&FRACTION) {
        return Some(decimal(-3 * power.cast_signed()));
    }
    suffix.strip_prefix(['e', 'E'])?.parse().ok().map(decimal)
}

/// Prints a plain decimal number of units: the form that has one spelling.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.nanos();
        let sign = if nanos < 0 { "-" } else { "" };
        let (whole, fraction) = (
            nanos.unsigned_abs() / NANOS.unsigned_abs(),
            nanos.unsigned_abs() % NANOS.unsigned_abs(),
        );
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let fraction = format!("{fraction:09}");
        write!(f, "{sign}{whole}.{}", fraction.trim_end_matches('0'))
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::from_nanos(self.nanos().saturating_add(other.nanos()))
    }
}

impl Mul<u32> for Quantity {
    type Output = Self;

    fn mul(self, times: u32) -> Self {
        Self::from_nanos(self.nanos().saturating_mul(i128::from(times)))
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// A quantity in one word, as it is stored: in thousandths while they fit, else in whole units,
/// rounded up either way, as Kueue accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Compact(i64);

impl From<Quantity> for Compact {
    fn from(quantity: Quantity) -> Self {
        // The lowest bit selects the unit.
        let in_units = |units: i64| units.clamp(i64::MIN >> 1, i64::MAX >> 1) << 1 | 1;
        Self(
            quantity
                .millis()
                .checked_mul(2)
                .unwrap_or_else(|| in_units(quantity.units())),
        )
    }
}

impl From<Compact> for Quantity {
    fn from(compact: Compact) -> Self {
        let number = i128::from(compact.0 >> 1);
        Self::from_nanos(if compact.0 & 1 == 1 {
            number * NANOS
        } else {
            number * (NANOS / 1000)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rounded_up_and_never_more_than_the_whole() {
        let of = |text: &str| text.parse::<Quantity>().unwrap();
        for (whole, share, parts, expected) in [
            ("8", 2, 4, "4"),
            ("8", 0, 4, "0"),
            ("8", 4, 4, "8"),
            ("8", 5, 4, "8"),
            ("8", 0, 0, "8"),
            ("1", 1, 3, "0.333333334"),
            ("-4", 1, 2, "-2"),
        ] {
            assert_eq!(
                of(whole).part(share, parts),
                of(expected),
                "{whole} × {share}/{parts}"
            );
        }
        let huge = Quantity::from_nanos(i128::MAX);
        assert_eq!(huge.part(2, 4), Quantity::from_nanos(i128::MAX / 4 * 2));
    }

    #[test]
    fn every_form_of_kubernetes_is_read() {
        for (text, expected) in [
            ("0", "0"),
            ("8", "8"),
            ("500m", "0.5"),
            ("100u", "0.0001"),
            ("7n", "0.000000007"),
            ("1.5", "1.5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("2k", "2000"),
            ("1M", "1000000"),
            ("64Gi", "68719476736"),
            ("1Ei", "1152921504606846976"),
            ("9E", "9000000000000000000"),
            ("1e3", "1000"),
            ("12E2", "1200"),
            ("5e-1", "0.5"),
            ("-3", "-3"),
            ("+3", "3"),
            ("0.1n", "0.000000001"),
        ] {
            assert_eq!(
                text.parse::<Quantity>().map(|q| q.to_string()).as_deref(),
                Ok(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn any_number_of_digits_is_read_exactly() {
        let zeros = "0".repeat(60);
        for (text, expected) in [
            (format!("1.{zeros}"), "1"),
            (format!("0.5{zeros}"), "0.5"),
            (format!("{zeros}8"), "8"),
            (format!("0.{}", "9".repeat(60)), "1"),
            (format!("1.{zeros}1"), "1.000000001"),
            (format!("1.5{zeros}Ei"), "1729382256910270464"),
            (format!("0.{zeros}1Ei"), "0.000000001"),
            (format!("1{zeros}e-60"), "1"),
            (format!("-1.{zeros}m"), "-0.001"),
            (format!("0.{zeros}"), "0"),
            ("0e2147483647".to_owned(), "0"),
            ("1e-2147483648".to_owned(), "0.000000001"),
        ] {
            let read = text.parse::<Quantity>().map(|read| read.to_string());
            assert_eq!(read.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in [
            "", "m", "1x", "1 Gi", "1.2.3", "1e", "--1", "1-", "Gi", ".", "1ki",
        ] {
            assert_eq!(
                text.parse::<Quantity>(),
                Err(QuantityError(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn amounts_too_large_stay_at_the_largest_instead_of_wrapping() {
        let huge: Quantity = "9".repeat(60).parse().unwrap();
        assert!(huge + huge >= huge);
        assert!(huge * 7 > Quantity::ZERO);
        assert_eq!(huge.units(), i64::MAX);
        assert!("1e400".parse::<Quantity>().unwrap() > Quantity::from_units(i64::MAX));
    }

    #[test]
    fn rounding_is_up_as_in_kueue() {
        let amount: Quantity = "1.0001".parse().unwrap();
        assert_eq!((amount.millis(), amount.units()), (1001, 2));
        let negative: Quantity = "-1.5".parse().unwrap();
        assert_eq!((negative.millis(), negative.units()), (-1500, -1));
    }

    #[test]
    fn what_is_kept_is_exact_to_a_thousandth_or_a_unit() {
        for (text, kept) in [
            ("0", "0"),
            ("1500m", "1.5"),
            ("1u", "0.001"),
            ("-250m", "-0.25"),
            ("64Ti", "70368744177664"),
            ("4000Pi", "4503599627370496000"),
            ("4611686018427387903", "4611686018427387903"),
            ("9E", "4611686018427387903"),
        ] {
            let compact = Compact::from(text.parse::<Quantity>().unwrap());
            assert_eq!(Quantity::from(compact).to_string(), kept, "{text}");
        }
    }

    #[test]
    fn order_and_sums_are_exact() {
        let parts: Quantity = ["100m", "200m", "700m"]
            .iter()
            .map(|text| text.parse::<Quantity>().unwrap())
            .sum();
        assert_eq!(parts, Quantity::from_units(1));
        assert!(Quantity::from_units(-1) < Quantity::ZERO);
        assert!(Quantity::from_units(2) < "3".parse().unwrap());
        assert_eq!(size_of::<Quantity>(), 16);
    }
}
