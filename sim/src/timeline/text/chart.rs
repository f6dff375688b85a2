//! A chart with one row a lane and one column a time interval.

use std::time::Duration;

use kueue_check::api::CheckState;

use crate::timeline::axis::{place, ticks};
use crate::timeline::format::{cut, date_and_clock, duration, one_line};
use crate::timeline::phase::TimelineValue;
use crate::timeline::{Phase, Span, Timeline};

/// The minimum width of a readable chart.
const NARROWEST: usize = 50;
const LONGEST_LABEL: usize = 28;

impl Timeline {
    /// Returns a chart of `width` columns (at least 50) with a legend, for a terminal. Each
    /// Workload is one row, and its checks are the indented rows below it.
    pub fn chart(&self, width: usize) -> String {
        let width = width.max(NARROWEST);
        let label = self.label_width().min(width / 3);
        let columns = width - label - 2;
        let mut lines = self.head(Duration::div_f64(self.length(), to_f64(columns)));
        lines.extend(self.scale(label, columns));
        for track in &self.tracks {
            let phases = cells(self, &track.phases, columns);
            lines.push(row(&track.title(), label, &phases));
            for (check, spans) in &track.checks {
                let states = cells(self, spans, columns);
                lines.push(row(&format!("  {check}"), label, &states));
            }
        }
        finish(&lines)
    }

    fn head(&self, column: Duration) -> Vec<String> {
        let phases = Phase::ALL.map(|phase| format!("{} {phase}", phase.glyph()));
        let states = [
            CheckState::Pending,
            CheckState::Ready,
            CheckState::Retry,
            CheckState::Rejected,
            CheckState::PreemptionRequired,
        ];
        let states = states.map(|state| format!("{} {state}", state.glyph()));
        vec![
            format!(
                "{} to {}: {}, one column is {}",
                date_and_clock(self.from),
                date_and_clock(self.until),
                duration(self.length()),
                duration(column)
            ),
            format!("Workloads   {}", phases.join("   ")),
            format!("  checks    {}", states.join("   ")),
            String::new(),
        ]
    }

    fn label_width(&self) -> usize {
        let titles = self
            .tracks
            .iter()
            .map(|track| track.title().chars().count());
        let checks = self
            .tracks
            .iter()
            .flat_map(|track| track.checks.keys())
            .map(|check| check.chars().count() + 2);
        titles.chain(checks).max().unwrap_or(0).min(LONGEST_LABEL)
    }

    /// Returns three lines: offsets, clocks, marks.
    fn scale(&self, label: usize, columns: usize) -> [String; 3] {
        let ticks = ticks(self, columns / 16);
        let column = |at| index(at, columns);
        let offsets = ticks
            .iter()
            .map(|tick| (column(tick.at), format!("+{}", tick.offset)));
        let clocks = ticks
            .iter()
            .map(|tick| (column(tick.at), tick.clock.clone()));
        let marks = ticks.iter().map(|tick| (column(tick.at), "|".to_owned()));
        [
            row("", label, &spread(offsets, columns)),
            row("", label, &spread(clocks, columns)),
            row("", label, &spread(marks, columns)),
        ]
    }
}

/// Puts texts at their columns. A text that does not fit before the end moves left, or is left out
/// if another text is there.
fn spread(texts: impl Iterator<Item = (usize, String)>, columns: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (at, text) in texts {
        let length = text.chars().count();
        let at = at.min(columns.saturating_sub(length));
        if at < used || length > columns {
            continue;
        }
        line.extend(std::iter::repeat_n(' ', at - used));
        line.push_str(&text);
        used = at + length;
        if used < columns && length > 1 {
            line.push(' ');
            used += 1;
        }
    }
    line
}

fn row(label: &str, width: usize, cells: &str) -> String {
    let label = cut(&one_line_keeping_indent(label), width);
    format!("{label:width$}  {cells}")
}

fn one_line_keeping_indent(label: &str) -> String {
    let indent = label.len() - label.trim_start_matches(' ').len();
    format!("{:indent$}{}", "", one_line(label))
}

/// Returns one character a column. It is that of the notable span that touches it, else of the span
/// that begins last before its middle.
fn cells<T: TimelineValue>(timeline: &Timeline, spans: &[Span<T>], columns: usize) -> String {
    let mut cells = vec![' '; columns];
    let ordered = spans
        .iter()
        .filter(|span| !span.what.is_notable())
        .chain(spans.iter().filter(|span| span.what.is_notable()));
    for span in ordered {
        let first = index(place(timeline, span.from), columns);
        let last = index(place(timeline, span.until), columns);
        // The end belongs to the next span, but each span has at least one column.
        let end = if last == columns - 1 {
            columns
        } else {
            last.max(first + 1)
        };
        let end = if span.what.is_over() { first + 1 } else { end };
        cells[first..end].fill(span.what.glyph());
    }
    cells.into_iter().collect::<String>().trim_end().to_owned()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`at` is between 0 and 1"
)]
fn index(at: f64, columns: usize) -> usize {
    ((at * to_f64(columns)) as usize).min(columns - 1)
}

fn to_f64(columns: usize) -> f64 {
    u32::try_from(columns).map_or(f64::from(u32::MAX), f64::from)
}

fn finish(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}
