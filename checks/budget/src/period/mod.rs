//! Periods: the time spans for which a limit applies.
//!
//! Boundaries are half-open instants. A calendar period begins at the first instant of a local day,
//! found by date arithmetic. A week with a change to summer time has 167 hours. A day on which
//! midnight is skipped begins at one o'clock.

mod calendar;
#[cfg(feature = "cron")]
mod cron;

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

pub use calendar::{Calendar, StartDay};

/// A half-open period: `start` belongs to it, `end` belongs to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Period {
    /// Its first instant.
    pub start: Timestamp,
    /// The first instant after it.
    pub end: Timestamp,
}

impl Period {
    /// Returns true if `at` is in the period.
    pub fn contains(&self, at: Timestamp) -> bool {
        (self.start..self.end).contains(&at)
    }

    /// Returns the whole seconds from the start to `at`; zero before the start.
    pub fn elapsed(&self, at: Timestamp) -> u64 {
        u64::try_from(at.as_second() - self.start.as_second()).unwrap_or(0)
    }
}

/// A schedule of periods.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// By the calendar of a time zone.
    Calendar {
        /// The unit.
        calendar: Calendar,
        /// The time zone of its days.
        zone: TimeZone,
    },
    /// Each time a cron expression of five fields matches.
    #[cfg(feature = "cron")]
    Cron(Box<cron::Expression>),
    /// Periods of a fixed length, independent of clock changes.
    Every {
        /// The length, at least 1 s.
        length: Duration,
        /// The start of one period.
        anchor: Timestamp,
    },
    /// One grant with an end, which is not renewed.
    Term(Period),
}

/// The error of an invalid period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The time zone database has no such zone.
    #[error("`{0}` is no time zone of the IANA database that this program has")]
    Zone(String),
    /// A cron expression that never matches, or is invalid.
    #[error("the cron expression `{expression}` cannot be used: {why}")]
    Cron {
        /// The expression.
        expression: String,
        /// The problem.
        why: String,
    },
    /// A term that does not end after it begins.
    #[error("a term ends after it begins")]
    Term,
    /// A period shorter than a second.
    #[error("a period has at least one second")]
    TooShort,
}

/// Returns the time zone `name`; UTC without a name.
///
/// # Errors
/// If the database has no such zone.
pub fn zone(name: Option<&str>) -> Result<TimeZone, ScheduleError> {
    let Some(name) = name else {
        return Ok(TimeZone::UTC);
    };
    TimeZone::get(name).map_err(|_| ScheduleError::Zone(name.to_owned()))
}

impl Schedule {
    /// Creates a schedule from a cron expression of five fields.
    ///
    /// # Errors
    /// If it is invalid, or never matches.
    #[cfg(feature = "cron")]
    pub fn cron(expression: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        Ok(Self::Cron(Box::new(cron::Expression::new(
            expression, zone,
        )?)))
    }

    /// Creates a schedule of periods of a fixed length.
    ///
    /// # Errors
    /// If it is shorter than a second.
    pub fn every(length: Duration, anchor: Timestamp) -> Result<Self, ScheduleError> {
        if length < Duration::from_secs(1) {
            return Err(ScheduleError::TooShort);
        }
        Ok(Self::Every { length, anchor })
    }

    /// Creates a schedule of one term, from `from` to `until`.
    ///
    /// # Errors
    /// If it does not end after it begins.
    pub fn term(from: Timestamp, until: Timestamp) -> Result<Self, ScheduleError> {
        if until <= from {
            return Err(ScheduleError::Term);
        }
        Ok(Self::Term(Period {
            start: from,
            end: until,
        }))
    }

    /// Returns the period that contains `at`; `None` outside a term.
    pub fn at(&self, at: Timestamp) -> Option<Period> {
        match self {
            Self::Calendar { calendar, zone } => calendar.at(at, zone),
            #[cfg(feature = "cron")]
            Self::Cron(expression) => expression.at(at),
            Self::Every { length, anchor } => every(*length, *anchor, at),
            Self::Term(term) => term.contains(at).then_some(*term),
        }
    }

    /// Returns the time zone in which times are shown.
    pub fn zone(&self) -> TimeZone {
        match self {
            Self::Calendar { zone, .. } => zone.clone(),
            #[cfg(feature = "cron")]
            Self::Cron(expression) => expression.zone().clone(),
            Self::Every { .. } | Self::Term(_) => TimeZone::UTC,
        }
    }

    /// Returns the name of the unit: `week`, `term`.
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
    // If the anchor has a fraction of a second, `at` may be before it in the same second.
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
