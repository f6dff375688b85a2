//! Days and hours of a point in time, in a time zone.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::run::Failure;
use super::value::Value;

/// Returns `time` in the time zone `zone`: an IANA name such as `Europe/Berlin`, an offset such as
/// `+02:00`, or UTC if there is none.
fn zoned(time: Timestamp, zone: Option<&Value>) -> Result<Zoned, Failure> {
    let Some(Value::String(name)) = zone else {
        return Ok(time.to_zoned(TimeZone::UTC));
    };
    let unknown = || {
        Failure::new(format!(
            "`{name}` is no time zone: expected a name such as `Europe/Berlin`, or an offset such as `+02:00`"
        ))
    };
    let zone = match offset(name) {
        Some(seconds) => {
            TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).map_err(|_| unknown())?)
        }
        None => TimeZone::get(name).map_err(|_| unknown())?,
    };
    Ok(time.to_zoned(zone))
}

/// Returns the seconds of an offset such as `-05:30`.
fn offset(name: &str) -> Option<i32> {
    let (sign, rest) = match name.as_bytes().first()? {
        b'-' => (-1, &name[1..]),
        b'+' => (1, &name[1..]),
        b'0'..=b'9' => (1, name),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |text: &str, most: i32| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: i32 = digits.then(|| text.parse().ok())??;
        (number <= most).then_some(number)
    };
    Some(sign * (two(hours, 23)? * 3600 + two(minutes, 59)? * 60))
}

/// A part of a point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Year,
    /// From 0.
    Month,
    /// Of the month, from 1.
    Date,
    /// Of the month, from 0.
    DayOfMonth,
    /// From Sunday, 0.
    DayOfWeek,
    /// From 0.
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
    /// `2026-11-23`.
    IsoDate,
    /// `20:15:00`.
    IsoTime,
}

/// Returns the `part` of the first argument, in the time zone that is the second argument.
pub(crate) fn part(part: Part, arguments: &[Value]) -> Result<Value, Failure> {
    let Some(Value::Timestamp(time)) = arguments.first() else {
        return Err(Failure::new("no point in time"));
    };
    let at = zoned(*time, arguments.get(1))?;
    let number = match part {
        Part::Year => i64::from(at.year()),
        Part::Month => i64::from(at.month()) - 1,
        Part::Date => i64::from(at.day()),
        Part::DayOfMonth => i64::from(at.day()) - 1,
        Part::DayOfWeek => i64::from(at.weekday().to_sunday_zero_offset()),
        Part::DayOfYear => i64::from(at.day_of_year()) - 1,
        Part::Hours => i64::from(at.hour()),
        Part::Minutes => i64::from(at.minute()),
        Part::Seconds => i64::from(at.second()),
        Part::Milliseconds => i64::from(at.millisecond()),
        Part::IsoDate => return Ok(Value::text(at.date().to_string())),
        Part::IsoTime => return Ok(Value::text(at.strftime("%H:%M:%S").to_string())),
    };
    Ok(Value::Int(number))
}
