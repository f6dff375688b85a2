//! Days, weeks, months and quarters of a time zone.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

use super::Period;

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calendar {
    /// Local days.
    Day,
    /// Weeks, from the weekday on which they begin.
    Week(Weekday),
    /// Months, from the day on which they begin, 1 to 28 so that no month lacks it.
    Month(i8),
    /// Quarters, from January, April, July and October.
    Quarter,
}

/// The first day of a week or a month, as a Budget names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartDay {
    /// A weekday.
    Weekday(Weekday),
    /// A day of the month.
    Day(i8),
}

impl std::str::FromStr for StartDay {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let weekday = match text {
            "Monday" => Weekday::Monday,
            "Tuesday" => Weekday::Tuesday,
            "Wednesday" => Weekday::Wednesday,
            "Thursday" => Weekday::Thursday,
            "Friday" => Weekday::Friday,
            "Saturday" => Weekday::Saturday,
            "Sunday" => Weekday::Sunday,
            number => {
                return number
                    .parse()
                    .ok()
                    .filter(|day| (1..=28).contains(day))
                    .map(Self::Day)
                    .ok_or(());
            }
        };
        Ok(Self::Weekday(weekday))
    }
}

impl Calendar {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week(_) => "week",
            Self::Month(_) => "month",
            Self::Quarter => "quarter",
        }
    }

    /// Returns the period that contains `at`; `None` only at the limits of representable time.
    pub(super) fn at(self, at: Timestamp, zone: &TimeZone) -> Option<Period> {
        let local = at.to_zoned(zone.clone()).date();
        let mut first = self.first_day(local)?;
        let mut start = begin(first, zone)?;
        // If clocks go back over midnight, a date occurs twice. If a date is skipped, two days
        // begin at the same instant. So instants are compared, not dates.
        while start > at {
            first = first.checked_sub(self.length()).ok()?;
            start = begin(first, zone)?;
        }
        loop {
            first = first.checked_add(self.length()).ok()?;
            let end = begin(first, zone)?;
            if at < end {
                return Some(Period { start, end });
            }
            start = end;
        }
    }

    fn first_day(self, date: Date) -> Option<Date> {
        match self {
            Self::Day => Some(date),
            Self::Week(first) => date
                .checked_sub(i64::from(date.weekday().since(first)).days())
                .ok(),
            Self::Month(day) if date.day() < day => Date::new(date.year(), date.month(), day)
                .ok()?
                .checked_sub(1.month())
                .ok(),
            Self::Month(day) => Date::new(date.year(), date.month(), day).ok(),
            Self::Quarter => Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1).ok(),
        }
    }

    fn length(self) -> Span {
        match self {
            Self::Day => 1.day(),
            Self::Week(_) => 1.week(),
            Self::Month(_) => 1.month(),
            Self::Quarter => 3.months(),
        }
    }
}

/// Returns the first instant of a local day, which is not always midnight.
fn begin(date: Date, zone: &TimeZone) -> Option<Timestamp> {
    Some(
        date.to_zoned(zone.clone())
            .ok()?
            .start_of_day()
            .ok()?
            .timestamp(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(calendar: Calendar, zone: &str, at: &str) -> (String, String, i64) {
        let zone = TimeZone::get(zone).unwrap();
        let period = calendar.at(at.parse().unwrap(), &zone).unwrap();
        let local = |time: Timestamp| time.to_zoned(zone.clone()).strftime("%F %H:%M").to_string();
        (
            local(period.start),
            local(period.end),
            period.end.duration_since(period.start).as_hours(),
        )
    }

    #[test]
    fn a_week_with_a_clock_change_has_an_hour_less_or_more() {
        let week = Calendar::Week(Weekday::Monday);
        let span = |from: &str, to: &str, hours| (from.to_owned(), to.to_owned(), hours);
        assert_eq!(
            at(week, "Europe/Amsterdam", "2026-03-25T12:00:00Z"),
            span("2026-03-23 00:00", "2026-03-30 00:00", 167)
        );
        assert_eq!(
            at(week, "Europe/Amsterdam", "2026-10-25T12:00:00Z"),
            span("2026-10-19 00:00", "2026-10-26 00:00", 169)
        );
        assert_eq!(
            at(week, "Europe/Amsterdam", "2026-11-15T22:59:59Z"),
            span("2026-11-09 00:00", "2026-11-16 00:00", 168)
        );
        assert_eq!(
            at(week, "Europe/Amsterdam", "2026-11-15T23:00:00Z"),
            span("2026-11-16 00:00", "2026-11-23 00:00", 168)
        );
    }

    #[test]
    fn a_day_without_midnight_begins_at_its_first_instant() {
        assert_eq!(
            at(Calendar::Day, "Africa/Cairo", "2026-04-24T12:00:00Z").0,
            "2026-04-24 01:00"
        );
        assert_eq!(
            at(Calendar::Day, "Africa/Cairo", "2026-04-23T12:00:00Z").1,
            "2026-04-24 01:00"
        );
        assert_eq!(
            at(Calendar::Day, "Africa/Cairo", "2026-04-24T12:00:00Z").2,
            23
        );
    }

    #[test]
    fn a_date_that_comes_twice_or_never_leaves_no_gap() {
        // Havana goes back from 01:00 to 00:00: the hour after midnight comes twice, in one day.
        assert_eq!(
            at(Calendar::Day, "America/Havana", "2026-11-01T05:30:00Z").2,
            25
        );
        // Samoa skipped 2011-12-30.
        assert_eq!(
            at(Calendar::Day, "Pacific/Apia", "2011-12-30T09:59:59Z").1,
            "2011-12-31 00:00"
        );
        assert_eq!(
            at(Calendar::Day, "Pacific/Apia", "2011-12-30T10:00:00Z").0,
            "2011-12-31 00:00"
        );
    }

    #[test]
    fn months_and_quarters_begin_where_they_should() {
        for (calendar, now, start, end) in [
            (
                Calendar::Month(1),
                "2026-02-28T23:59:59Z",
                "2026-02-01 00:00",
                "2026-03-01 00:00",
            ),
            (
                Calendar::Month(28),
                "2026-03-01T00:00:00Z",
                "2026-02-28 00:00",
                "2026-03-28 00:00",
            ),
            (
                Calendar::Month(15),
                "2026-01-14T00:00:00Z",
                "2025-12-15 00:00",
                "2026-01-15 00:00",
            ),
            (
                Calendar::Quarter,
                "2026-11-21T00:00:00Z",
                "2026-10-01 00:00",
                "2027-01-01 00:00",
            ),
            (
                Calendar::Week(Weekday::Sunday),
                "2026-11-21T00:00:00Z",
                "2026-11-15 00:00",
                "2026-11-22 00:00",
            ),
        ] {
            let (found_start, found_end, _) = at(calendar, "UTC", now);
            assert_eq!(
                (found_start.as_str(), found_end.as_str()),
                (start, end),
                "{calendar:?} {now}"
            );
        }
    }

    #[test]
    fn all_zones_tile_time_from_2000_to_2040() {
        let from: Timestamp = "2000-01-01T00:00:00Z".parse().unwrap();
        let until: Timestamp = "2040-01-01T00:00:00Z".parse().unwrap();
        let mut zones = 0;
        for name in jiff::tz::db().available() {
            let zone = jiff::tz::db().get(name.as_str()).unwrap();
            zones += 1;
            for calendar in [Calendar::Week(Weekday::Monday), Calendar::Month(1)] {
                let mut at = from;
                while at < until {
                    let period = calendar.at(at, &zone).unwrap();
                    assert!(period.contains(at), "{name} {at}");
                    let before = calendar
                        .at(period.end - jiff::SignedDuration::from_nanos(1), &zone)
                        .unwrap();
                    assert_eq!(
                        before, period,
                        "{name} {at}: the last instant belongs to it"
                    );
                    if let Calendar::Week(_) = calendar {
                        let hours = period.end.duration_since(period.start).as_secs_f64() / 3600.0;
                        // Samoa and Tokelau skipped a day; Casey in Antarctica has moved by three
                        // hours.
                        assert!((143.0..=171.0).contains(&hours), "{name} {at}: {hours}");
                    }
                    assert!(at == from || period.start == at, "{name} {at}: no gap");
                    at = period.end;
                }
            }
        }
        assert!(zones > 400, "{zones}");
    }

    #[test]
    fn days_tile_in_the_zones_with_the_oddest_clocks() {
        for name in [
            "Africa/Cairo",
            "America/Havana",
            "America/Sao_Paulo",
            "Asia/Beirut",
            "Pacific/Apia",
            "Australia/Lord_Howe",
            "America/Godthab",
            "Asia/Gaza",
            "America/Asuncion",
            "Antarctica/Troll",
        ] {
            let zone = TimeZone::get(name).unwrap();
            let mut at: Timestamp = "2000-01-01T00:00:00Z".parse().unwrap();
            let until: Timestamp = "2040-01-01T00:00:00Z".parse().unwrap();
            while at < until {
                let period = Calendar::Day.at(at, &zone).unwrap();
                let middle = Calendar::Day
                    .at(
                        period.start + period.end.duration_since(period.start) / 2,
                        &zone,
                    )
                    .unwrap();
                assert!(period.contains(at) && middle == period, "{name} {at}");
                let minutes = period.end.duration_since(period.start).as_mins();
                assert!(
                    (22 * 60..=26 * 60).contains(&minutes),
                    "{name} {at}: {minutes} minutes"
                );
                at = period.end;
            }
        }
    }
}
