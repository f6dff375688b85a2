//! A table of all changes with their times and messages.

use jiff::Timestamp;

use crate::timeline::format::{clock, cut, duration, one_line};
use crate::timeline::phase::TimelineValue;
use crate::timeline::spans::between;
use crate::timeline::{Span, Timeline, Track};

impl Timeline {
    /// Returns all changes as text, one Workload after the other; lines are cut at `width` columns.
    ///
    /// The columns: time since the start of the timeline, wall clock (UTC), value, duration and
    /// message.
    pub fn table(&self, width: usize) -> String {
        let rows: Vec<Vec<_>> = self.tracks.iter().map(|track| self.rows(track)).collect();
        let widths = widths(rows.iter().flatten());
        let mut text = String::new();
        for (track, rows) in self.tracks.iter().zip(&rows) {
            let lines = rows.iter().map(|row| line(row, widths));
            for line in std::iter::once(heading(track)).chain(lines) {
                text.push_str(cut(&line, width).trim_end());
                text.push('\n');
            }
        }
        text
    }

    fn rows(&self, track: &Track) -> Vec<Row> {
        let changes = self.changes(track);
        let row = |change: Change| {
            [
                change.offset(self),
                clock(change.at, self.length()),
                change.what(),
                change.duration_text(),
                change.message,
            ]
        };
        changes.into_iter().map(row).collect()
    }

    /// Returns the spans of all lanes in order of time; at one moment the phase comes first.
    pub(in crate::timeline) fn changes(&self, track: &Track) -> Vec<Change> {
        let phases = track.phases.iter().map(|span| Change::new(span, ""));
        let checks = track
            .checks
            .iter()
            .flat_map(|(check, spans)| spans.iter().map(|span| Change::new(span, check)));
        let mut changes: Vec<_> = phases.chain(checks).collect();
        if let Some(at) = track.deleted {
            changes.push(Change::deleted(at));
        }
        changes.sort_by_key(|change| change.at);
        for change in &mut changes {
            change.open = change.open && track.deleted.is_none() && change.until == self.until;
        }
        changes
    }
}

type Row = [String; 5];

fn widths<'a>(rows: impl Iterator<Item = &'a Row>) -> [usize; 5] {
    rows.fold([0; 5], |mut widths, row| {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
        widths
    })
}

fn line([offset, clock, what, lasted, message]: &Row, widths: [usize; 5]) -> String {
    let [first, second, third, fourth, _] = widths;
    format!("  {offset:>first$}  {clock:<second$}  {what:<third$}  {lasted:<fourth$}  {message}")
}

fn heading(track: &Track) -> String {
    let title = one_line(&track.title());
    if track.queue.is_empty() {
        title
    } else {
        format!("{title}  (queue {})", one_line(&track.queue))
    }
}

/// One line of the table.
pub(in crate::timeline) struct Change {
    pub(in crate::timeline) at: Timestamp,
    until: Timestamp,
    /// Empty for a phase.
    check: String,
    what: String,
    pub(in crate::timeline) message: String,
    /// Whether it may last beyond the end of the timeline.
    open: bool,
}

impl Change {
    fn new<T: TimelineValue>(span: &Span<T>, check: &str) -> Self {
        Self {
            at: span.from,
            until: span.until,
            check: one_line(check),
            what: one_line(span.what.label()),
            message: one_line(&span.message),
            open: true,
        }
    }

    fn deleted(at: Timestamp) -> Self {
        Self {
            at,
            until: at,
            check: String::new(),
            what: "deleted".to_owned(),
            message: String::new(),
            open: false,
        }
    }

    /// Returns the time since the start of the timeline.
    pub(in crate::timeline) fn offset(&self, timeline: &Timeline) -> String {
        format!("+{}", duration(between(timeline.from, self.at)))
    }

    /// Returns the phase, or the check and its state.
    pub(in crate::timeline) fn what(&self) -> String {
        if self.check.is_empty() {
            self.what.clone()
        } else {
            format!("  {} {}", self.check, self.what)
        }
    }

    /// Returns its duration; empty for an instant, “so far” if it lasts on.
    pub(in crate::timeline) fn duration_text(&self) -> String {
        if self.open {
            "so far".to_owned()
        } else if self.until == self.at {
            String::new()
        } else {
            duration(between(self.at, self.until))
        }
    }
}
