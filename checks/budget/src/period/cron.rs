//! Periods that begin each time a cron expression matches.

use std::str::FromStr;

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Period, ScheduleError};

/// A cron expression in a time zone that matches at least once.
#[derive(Clone, Debug)]
pub struct Expression {
    cron: Cron,
    zone: TimeZone,
}

impl Expression {
    pub(super) fn new(text: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        let refuse = |why: String| ScheduleError::Cron {
            expression: text.to_owned(),
            why,
        };
        if text.split_whitespace().count() != 5 {
            return Err(refuse(
                "it needs five fields: minute, hour, day of the month, month, day of the week"
                    .to_owned(),
            ));
        }
        let cron = Cron::from_str(text).map_err(|error| refuse(error.to_string()))?;
        let expression = Self { cron, zone };
        // A search detects an impossible date, such as 30 February.
        if expression.at(Timestamp::UNIX_EPOCH).is_none() {
            return Err(refuse("it never matches".to_owned()));
        }
        Ok(expression)
    }

    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    pub(super) fn at(&self, at: Timestamp) -> Option<Period> {
        let now = at.to_zoned(self.zone.clone());
        let end = self
            .cron
            .find_next_occurrence(&now, false)
            .ok()?
            .timestamp();
        let start = self
            .cron
            .find_previous_occurrence(&now, true)
            .ok()?
            .timestamp();
        Some(Period { start, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_of_a_cron_expression_tile_time() {
        let zone = TimeZone::get("Europe/Amsterdam").unwrap();
        let expression = Expression::new("0 0 * * 1", zone.clone()).unwrap();
        let mut at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut hours = Vec::new();
        for _ in 0..52 {
            let period = expression.at(at).unwrap();
            assert!(period.contains(at), "{at} in {period:?}");
            hours.push(period.end.duration_since(period.start).as_hours());
            assert_eq!(expression.at(period.end).unwrap().start, period.end);
            at = period.end;
        }
        assert!(hours.contains(&167) && hours.contains(&169), "{hours:?}");
    }

    #[test]
    fn an_invalid_expression_is_rejected() {
        for (text, why) in [
            ("0 0 30 2 *", "never matches"),
            ("* * *", "five fields"),
            ("0 0 * * * *", "five fields"),
            ("61 0 * * *", ""),
        ] {
            let error = Expression::new(text, TimeZone::UTC)
                .unwrap_err()
                .to_string();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
