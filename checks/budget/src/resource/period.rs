//! `spec.period`: the period of a limit.

use jiff::Timestamp;
use jiff::civil::Weekday;
use kueue_check::HumanDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Invalid, TIME};
use crate::period::{Calendar, Schedule, StartDay, zone};

/// The period for which a limit applies before it resets: exactly one of `calendar`, `cron`,
/// `every` and `term`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "[has(self.calendar), has(self.cron), has(self.every), has(self.term)].exists_one(x, x)", "message": "exactly one of calendar, cron, every and term must be set"},
    {"rule": "!has(self.startDay) || (has(self.calendar) && self.calendar in ['Week', 'Month'])", "message": "startDay goes with calendar Week or Month"},
    {"rule": "!has(self.startDay) || !has(self.calendar) || self.calendar != 'Week' || self.startDay.matches('^[A-Z]')", "message": "a week starts on a weekday, such as Monday"},
    {"rule": "!has(self.startDay) || !has(self.calendar) || self.calendar != 'Month' || self.startDay.matches('^[0-9]')", "message": "a month starts on a day from 1 to 28"},
    {"rule": "has(self.every) == has(self.anchor)", "message": "every and anchor go together"},
    {"rule": "!has(self.timeZone) || has(self.calendar) || has(self.cron)", "message": "timeZone goes with calendar or cron"}
]))]
pub struct PeriodSpec {
    /// A period of the calendar: Day, Week, Month or Quarter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<CalendarUnit>,
    /// The weekday on which a week begins (default Monday), or the day on which a month begins, 1
    /// to 28 (default 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        regex(
            pattern = r"^(Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|[1-9]|1[0-9]|2[0-8])$"
        ),
        length(max = 9)
    )]
    pub start_day: Option<String>,
    /// The IANA time zone, such as Europe/Amsterdam. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-validations" = [
        {"rule": "timestamp('2000-01-01T00:00:00Z').getHours(self) >= 0", "message": "not a time zone of the IANA database"}
    ]))]
    pub time_zone: Option<String>,
    /// A cron expression of five fields. A period begins at each match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 9, max = 128))]
    pub cron: Option<String>,
    /// A fixed length, independent of clock changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<HumanDuration>,
    /// The start of one period of a fixed length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time", "pattern" = TIME))]
    pub anchor: Option<Timestamp>,
    /// One grant, which is not renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<TermSpec>,
}

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CalendarUnit {
    /// A local day.
    Day,
    /// A week.
    Week,
    /// A month.
    Month,
    /// A quarter of a year.
    Quarter,
}

/// One grant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "timestamp(self.from) < timestamp(self.until)", "message": "a term ends after it begins"}
]))]
pub struct TermSpec {
    /// Its first instant.
    #[schemars(with = "String", extend("format" = "date-time", "pattern" = TIME))]
    pub from: Timestamp,
    /// The first instant after it.
    #[schemars(with = "String", extend("format" = "date-time", "pattern" = TIME))]
    pub until: Timestamp,
}

impl PeriodSpec {
    /// Returns the schedule that it describes.
    ///
    /// # Errors
    /// Returns [`Invalid`] with the invalid field.
    pub fn schedule(&self) -> Result<Schedule, Invalid> {
        let at = |field: &'static str| {
            move |error: crate::period::ScheduleError| Invalid::new(field, error.to_string())
        };
        let zone = || zone(self.time_zone.as_deref()).map_err(at("spec.period.timeZone"));
        match (self.calendar, &self.cron, self.every, &self.term) {
            (Some(unit), None, None, None) => Ok(Schedule::Calendar {
                calendar: self.calendar_of(unit)?,
                zone: zone()?,
            }),
            (None, Some(expression), None, None) => cron(expression, zone()?),
            (None, None, Some(every), None) => {
                let anchor = self.anchor.ok_or_else(|| {
                    Invalid::new("spec.period.anchor", "a period of a fixed length needs one")
                })?;
                Schedule::every(every.into(), anchor).map_err(at("spec.period.every"))
            }
            (None, None, None, Some(term)) => {
                Schedule::term(term.from, term.until).map_err(at("spec.period.term"))
            }
            _ => Err(Invalid::new(
                "spec.period",
                "exactly one of calendar, cron, every and term must be set",
            )),
        }
    }

    fn calendar_of(&self, unit: CalendarUnit) -> Result<Calendar, Invalid> {
        let wrong = |problem: &str| Invalid::new("spec.period.startDay", problem);
        let start =
            match &self.start_day {
                None => None,
                Some(text) => Some(text.parse::<StartDay>().map_err(|()| {
                    wrong("expected a weekday such as Monday, or a day from 1 to 28")
                })?),
            };
        match (unit, start) {
            (CalendarUnit::Day, None) => Ok(Calendar::Day),
            (CalendarUnit::Quarter, None) => Ok(Calendar::Quarter),
            (CalendarUnit::Week, None) => Ok(Calendar::Week(Weekday::Monday)),
            (CalendarUnit::Week, Some(StartDay::Weekday(day))) => Ok(Calendar::Week(day)),
            (CalendarUnit::Month, None) => Ok(Calendar::Month(1)),
            (CalendarUnit::Month, Some(StartDay::Day(day))) => Ok(Calendar::Month(day)),
            (CalendarUnit::Week, _) => Err(wrong("a week starts on a weekday, such as Monday")),
            (CalendarUnit::Month, _) => Err(wrong("a month starts on a day from 1 to 28")),
            _ => Err(wrong("it goes with calendar Week or Month")),
        }
    }
}

#[cfg(feature = "cron")]
fn cron(expression: &str, zone: jiff::tz::TimeZone) -> Result<Schedule, Invalid> {
    Schedule::cron(expression, zone)
        .map_err(|error| Invalid::new("spec.period.cron", error.to_string()))
}

#[cfg(not(feature = "cron"))]
fn cron(_: &str, _: jiff::tz::TimeZone) -> Result<Schedule, Invalid> {
    Err(Invalid::new(
        "spec.period.cron",
        "this program was built without the feature `cron`",
    ))
}
