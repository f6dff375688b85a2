//! Formats of times and messages for people.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a duration in its two largest units: `350ms`, `45s`, `1h 30m`, `2d 3h`. From 10 s on,
/// milliseconds are dropped.
pub(super) fn duration(length: Duration) -> String {
    let millis = match length.as_millis() {
        long @ 10_000.. => long - long % 1000,
        short => short,
    };
    if millis < 1000 && millis > 0 {
        return format!("{millis}ms");
    }
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1000, "s"),
        (1, "ms"),
    ];
    let Some(first) = units.iter().position(|(size, _)| millis >= *size) else {
        return "0s".to_owned();
    };
    let mut rest = millis;
    let mut words = Vec::new();
    for (size, name) in units.iter().skip(first).take(2) {
        if rest >= *size {
            words.push(format!("{}{name}", rest / size));
        }
        rest %= size;
    }
    words.join(" ")
}

/// Formats the wall clock (UTC) for a timeline of `length`. It includes the date from 1 d on, and
/// milliseconds below 10 s.
pub(super) fn clock(at: Timestamp, length: Duration) -> String {
    let format = match length.as_secs() {
        0..10 => "%H:%M:%S%.3f",
        10..86_400 => "%H:%M:%S",
        _ => "%-d %b %H:%M",
    };
    at.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

/// Formats the wall clock (UTC) as short as ticks with a distance of `step` allow.
pub(super) fn tick_clock(at: Timestamp, step: Duration) -> String {
    let format = match step.as_secs() {
        0 => "%M:%S%.3f",
        step if step % 86_400 == 0 => "%-d %b",
        1..21_600 => "%H:%M:%S",
        _ => "%a %H:%M",
    };
    at.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

/// Formats the wall clock (UTC) to the second, with the date.
pub(super) fn date_and_clock(at: Timestamp) -> String {
    let format = "%-d %b %Y %H:%M:%S UTC";
    at.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

/// Returns `text` on one line, without control characters of a terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(
            word.chars()
                .map(|c| if c.is_control() { '\u{fffd}' } else { c }),
        );
    }
    line
}

/// Returns `text` cut to `width` characters, with an ellipsis where it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Returns `text` with a capital at its beginning, for a heading.
pub(super) fn heading(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next();
    first
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}

/// Formats a count of things: `1 eviction`, `3 evictions`.
pub(super) fn count(count: usize, thing: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_shown_in_its_two_largest_units() {
        let table = [
            (0, "0s"),
            (350, "350ms"),
            (1_000, "1s"),
            (1_250, "1s 250ms"),
            (9_050, "9s 50ms"),
            (30_050, "30s"),
            (45_000, "45s"),
            (90_000, "1m 30s"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (5_400_000, "1h 30m"),
            (97_200_000, "1d 3h"),
            (604_800_000, "7d"),
        ];
        for (millis, expected) in table {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_message_can_neither_break_a_line_nor_colour_a_terminal() {
        assert_eq!(
            one_line("no\nquota \u{1b}[31mleft\t."),
            "no quota \u{fffd}[31mleft ."
        );
    }

    #[test]
    fn a_heading_begins_with_a_capital() {
        for (text, expected) in [
            ("a job waits", "A job waits"),
            ("ähnlich", "Ähnlich"),
            ("", ""),
        ] {
            assert_eq!(heading(text), expected);
        }
    }

    #[test]
    fn a_cut_text_ends_with_an_ellipsis() {
        assert_eq!(cut("quota", 5), "quota");
        assert_eq!(cut("quotas", 5), "quot…");
    }
}
