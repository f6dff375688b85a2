//! The chart and the table for a terminal.

use super::fixtures::{morning, seconds, week};

/// Asserts the text for the reader. On a difference it prints the whole text, so that it can be
/// read and copied.
fn assert_reads(text: &str, expected: &str, file: &str) {
    assert!(text == expected, "{file} should read:\n{text}");
}

#[test]
fn a_morning_as_a_chart() {
    assert_reads(
        &morning().chart(100),
        include_str!("morning-chart.txt"),
        "morning-chart.txt",
    );
}

#[test]
fn a_morning_as_a_table() {
    assert_reads(
        &morning().table(100),
        include_str!("morning-table.txt"),
        "morning-table.txt",
    );
}

#[test]
fn seconds_as_a_narrow_chart() {
    assert_reads(
        &seconds().chart(64),
        include_str!("seconds-chart.txt"),
        "seconds-chart.txt",
    );
}

#[test]
fn no_row_is_wider_than_requested() {
    for timeline in [morning(), week(), seconds()] {
        for width in [50, 72, 100, 200] {
            // The head is not cut.
            for line in timeline.chart(width).lines().skip(3) {
                assert!(line.chars().count() <= width, "{line}");
            }
            for line in timeline.table(width).lines() {
                assert!(line.chars().count() <= width, "{line}");
            }
        }
    }
}
