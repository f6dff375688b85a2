//! Periods: the stretches of time for which a limit holds.
//!
//! Boundaries are half-open instants. A calendar period begins at the first instant of a local day,
//! found by date arithmetic: a week with a change to summer time has 167 hours, and a day on which
//! midnight is skipped begins at one o'clock.

mod calendar;
#[cfg(feature = "cron")]
mod cron;

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

pub use calendar::{Calendar, StartDay};

/// One period: from `start`, which belongs to it, to `end`, which belongs to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Period {
    /// Its first instant.
    pub start: Timestamp,
    /// The first instant after it.
    pub end: Timestamp,
}

impl Period {
    /// Whether `at` lies in it.
    pub fn contains(&self, at: Timestamp) -> bool {
        (self.start..self.end).contains(&at)
    }

    /// From its start to `at`, in whole seconds; nothing before it.
    pub fn elapsed(&self, at: Timestamp) -> u64 {
        u64::try_from(at.as_second() - self.start.as_second()).unwrap_or(0)
    }
}

/// How periods follow each other.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// By the calendar of a time zone.
    Calendar {
        /// Which.
        calendar: Calendar,
        /// Whose days.
        zone: TimeZone,
    },
    /// Each time a cron expression of five fields matches.
    #[cfg(feature = "cron")]
    Cron(Box<cron::Expression>),
    /// Of a fixed length, whatever clocks do.
    Every {
        /// The length, at least a second.
        length: Duration,
        /// Where one begins.
        anchor: Timestamp,
    },
    /// One grant with an end, which is not renewed.
    Term(Period),
}

/// A period that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The zone database does not know the zone.
    #[error("`{0}` is no time zone of the IANA database that this program has")]
    Zone(String),
    /// A cron expression that matches never, or is invalid.
    #[error("the cron expression `{expression}` cannot be used: {why}")]
    Cron {
        /// The expression.
        expression: String,
        /// What is wrong.
        why: String,
    },
    /// It ends before it begins.
    #[error("a term ends after it begins")]
    Term,
    /// Shorter than a second.
    #[error("a period has at least one second")]
    TooShort,
}

/// The time zone `name`, or UTC without one.
///
/// # Errors
/// If the database does not know it.
pub fn zone(name: Option<&str>) -> Result<TimeZone, ScheduleError> {
    let Some(name) = name else {
        return Ok(TimeZone::UTC);
    };
    TimeZone::get(name).map_err(|_| ScheduleError::Zone(name.to_owned()))
}

impl Schedule {
    /// By a cron expression of five fields.
    ///
    /// # Errors
    /// If it is invalid, or never matches.
    #[cfg(feature = "cron")]
    pub fn cron(expression: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        Ok(Self::Cron(Box::new(cron::Expression::new(
            expression, zone,
        )?)))
    }

    /// Of a fixed length.
    ///
    /// # Errors
    /// If it is shorter than a second.
    pub fn every(length: Duration, anchor: Timestamp) -> Result<Self, ScheduleError> {
        if length < Duration::from_secs(1) {
            return Err(ScheduleError::TooShort);
        }
        Ok(Self::Every { length, anchor })
    }

    /// A grant from `from` to `until`.
    ///
    /// # Errors
    /// If it ends before it begins.
    pub fn term(from: Timestamp, until: Timestamp) -> Result<Self, ScheduleError> {
        if until <= from {
            return Err(ScheduleError::Term);
        }
        Ok(Self::Term(Period {
            start: from,
            end: until,
        }))
    }

    /// The period in which `at` lies; `None` outside a term.
    pub fn at(&self, at: Timestamp) -> Option<Period> {
        match self {
            Self::Calendar { calendar, zone } => calendar.at(at, zone),
            #[cfg(feature = "cron")]
            Self::Cron(expression) => expression.at(at),
            Self::Every { length, anchor } => every(*length, *anchor, at),
            Self::Term(term) => term.contains(at).then_some(*term),
        }
    }

    /// The zone in which its times are shown.
    pub fn zone(&self) -> TimeZone {
        match self {
            Self::Calendar { zone, .. } => zone.clone(),
            #[cfg(feature = "cron")]
            Self::Cron(expression) => expression.zone().clone(),
            Self::Every { .. } | Self::Term(_) => TimeZone::UTC,
        }
    }

    /// The period in a word: `week`, `term`.
    pub fn unit_name(&self) -> &'static str {
        match self {
            Self::Calendar { calendar, .. } => calendar.word(),
            Self::Term(_) => "term",
            _ => "period",
        }
    }
}

fn every(length: Duration, anchor: Timestamp, at: Timestamp) -> Option<Period> {
    let length = i64::try_from(length.as_secs()).ok()?;
    let number = (at.as_second() - anchor.as_second()).div_euclid(length);
    let start = anchor
        .checked_add(SignedDuration::from_secs(number.checked_mul(length)?))
        .ok()?;
    // An anchor with a fraction of a second: `at` may lie before it in the same second.
    let start = if start > at {
        start.checked_sub(SignedDuration::from_secs(length)).ok()?
    } else {
        start
    };
    let end = start.checked_add(SignedDuration::from_secs(length)).ok()?;
    Some(Period { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_fixed_length_knows_no_clock_changes() {
        let schedule = Schedule::every(
            Duration::from_secs(7 * 86_400),
            time("2026-03-23T00:00:00.5Z"),
        )
        .unwrap();
        for (at, start) in [
            ("2026-03-23T00:00:00.5Z", "2026-03-23T00:00:00.5Z"),
            ("2026-03-23T00:00:00.4Z", "2026-03-16T00:00:00.5Z"),
            ("2026-03-29T23:59:59Z", "2026-03-23T00:00:00.5Z"),
            ("2020-01-01T00:00:00Z", "2019-12-30T00:00:00.5Z"),
        ] {
            let period = schedule.at(time(at)).unwrap();
            assert_eq!(period.start, time(start), "{at}");
            assert!(period.contains(time(at)));
            assert_eq!(period.end.duration_since(period.start).as_hours(), 168);
        }
        assert_eq!(
            Schedule::every(Duration::from_millis(10), time("2026-03-23T00:00:00Z")).unwrap_err(),
            ScheduleError::TooShort
        );
    }

    #[test]
    fn a_term_has_an_end_and_no_successor() {
        let term =
            Schedule::term(time("2026-01-01T00:00:00Z"), time("2026-07-01T00:00:00Z")).unwrap();
        assert!(term.at(time("2025-12-31T23:59:59Z")).is_none());
        assert!(term.at(time("2026-06-30T23:59:59Z")).is_some());
        assert!(term.at(time("2026-07-01T00:00:00Z")).is_none());
        let now = time("2026-01-01T00:00:00Z");
        assert_eq!(Schedule::term(now, now).unwrap_err(), ScheduleError::Term);
    }

    #[test]
    fn a_zone_must_be_known() {
        assert!(zone(Some("Europe/Amsterdam")).is_ok() && zone(None).is_ok());
        assert_eq!(
            zone(Some("Europe/Amsterdan")).unwrap_err(),
            ScheduleError::Zone("Europe/Amsterdan".to_owned())
        );
    }
}
