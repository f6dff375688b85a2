//! A timeline as one SVG file for documents, without scripts, styles or outside resources.
//!
//! It has a fixed size and its own background, so that it is the same in a page of any colour. The
//! legend shows the names for which a bar has no space.

use std::fmt::{self, Display, Write};

use kueue_check::api::CheckState;

use super::axis::{fraction, ticks};
use super::format::{cut, duration};
use super::html::Escaped;
use super::phase::TimelineValue;
use super::spans::between;
use super::{Phase, Span, Timeline, Track};

/// In pixels: the width of the image, the start and end of the bars, and the heights of lanes.
const WIDTH: u32 = 860;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 840.0;
const PHASE: u32 = 26;
const CHECK: u32 = 20;
const TOP: u32 = 44;
const GAP: u32 = 12;
/// The width of one character of bars and labels, in pixels, estimated generously.
const CHARACTER: f64 = 6.9;
/// The maximum number of characters of a label.
const LABEL: usize = 16;
/// The maximum number of ticks without overlap.
const TICKS: usize = 7;

impl Timeline {
    /// Returns the image. `title` is its text alternative.
    pub fn svg(&self, title: &str) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{}",
            Picture {
                timeline: self,
                title
            }
        );
        text
    }
}

struct Picture<'a> {
    timeline: &'a Timeline,
    title: &'a str,
}

impl Display for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes: u32 = self.timeline.tracks.iter().map(height).sum();
        let height = TOP + lanes + 34;
        let title = Escaped(self.title);
        write!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{title}\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#1c2330\">\n<title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"#ffffff\"/>\n"
        )?;
        self.axis(f, height - 34)?;
        let mut top = TOP;
        for track in &self.timeline.tracks {
            self.track(f, track, top)?;
            top += self::height(track);
        }
        legend(f, self.timeline, height - 16)?;
        f.write_str("</svg>\n")
    }
}

impl Picture<'_> {
    fn axis(&self, f: &mut fmt::Formatter<'_>, bottom: u32) -> fmt::Result {
        for tick in ticks(self.timeline, TICKS) {
            let x = LEFT + (RIGHT - LEFT) * tick.at;
            let anchor = if tick.at > 0.95 { "end" } else { "middle" };
            writeln!(
                f,
                "<path d=\"M{x:.1} 30V{bottom}\" stroke=\"#e3e7ed\"/><text x=\"{x:.1}\" y=\"22\" text-anchor=\"{anchor}\" fill=\"#5b6676\">{}</text>",
                Escaped(&tick.clock)
            )?;
        }
        Ok(())
    }

    fn track(&self, f: &mut fmt::Formatter<'_>, track: &Track, top: u32) -> fmt::Result {
        label(f, &track.name, top + PHASE / 2, "font-weight=\"600\"")?;
        self.lane(f, &track.phases, top, PHASE, |phase| phase_colour(*phase))?;
        let mut top = top + PHASE;
        for (check, spans) in &track.checks {
            label(f, check, top + CHECK / 2, "fill=\"#5b6676\"")?;
            self.lane(f, spans, top, CHECK, state_colour)?;
            top += CHECK;
        }
        Ok(())
    }

    fn lane<T: TimelineValue>(
        &self,
        f: &mut fmt::Formatter<'_>,
        spans: &[Span<T>],
        top: u32,
        height: u32,
        colour: impl Fn(&T) -> (&'static str, &'static str),
    ) -> fmt::Result {
        // Spans without duration are drawn last, so that no later bar hides them.
        let (thin, wide): (Vec<_>, Vec<_>) = spans
            .iter()
            .partition(|span| span.what.is_notable() && self.width(span) < 6.0);
        for span in wide.into_iter().chain(thin) {
            let (fill, ink) = colour(&span.what);
            let (x, width) = (self.place(span), self.width(span).max(3.0));
            write!(
                f,
                "<rect x=\"{x:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\" fill=\"{fill}\"/>",
                top + 2,
                height - 4
            )?;
            let full = format!("{} {}", span.what.label(), duration(span.duration()));
            let fits = [full.as_str(), span.what.label()]
                .into_iter()
                .find(|words| text_width(words) <= width);
            if let Some(words) = fits {
                write!(
                    f,
                    "<text x=\"{:.1}\" y=\"{}\" font-size=\"12\" fill=\"{ink}\">{}</text>",
                    x + 6.0,
                    top + height / 2 + 4,
                    Escaped(words)
                )?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }

    fn place<T>(&self, span: &Span<T>) -> f64 {
        let from = between(self.timeline.from, span.from);
        LEFT + (RIGHT - LEFT) * fraction(from, self.timeline.length())
    }

    fn width<T>(&self, span: &Span<T>) -> f64 {
        (RIGHT - LEFT) * fraction(span.duration(), self.timeline.length())
    }
}

/// Returns the height of a Workload's lanes.
fn height(track: &Track) -> u32 {
    let checks = u32::try_from(track.checks.len()).unwrap_or_default();
    PHASE + CHECK * checks + GAP
}

fn text_width(words: &str) -> f64 {
    f64::from(u32::try_from(words.chars().count()).unwrap_or(u32::MAX)) * CHARACTER + 10.0
}

fn label(f: &mut fmt::Formatter<'_>, text: &str, middle: u32, style: &str) -> fmt::Result {
    writeln!(
        f,
        "<text x=\"{:.0}\" y=\"{}\" text-anchor=\"end\" {style}>{}</text>",
        LEFT - 10.0,
        middle + 4,
        Escaped(cut(text, LABEL))
    )
}

/// Writes the legend: the phases and states that occur, each once.
fn legend(f: &mut fmt::Formatter<'_>, timeline: &Timeline, bottom: u32) -> fmt::Result {
    let tracks = &timeline.tracks;
    let phases = Phase::ALL.into_iter().filter(|phase| {
        let mut spans = tracks.iter().flat_map(|track| &track.phases);
        spans.any(|span| span.what == *phase)
    });
    let states = STATES.into_iter().filter(|state| {
        let mut spans = tracks
            .iter()
            .flat_map(|track| track.checks.values().flatten());
        spans.any(|span| span.what == *state)
    });
    let mut entries: Vec<(String, &str)> = phases
        .map(|phase| (phase.to_string(), phase_colour(phase).0))
        .collect();
    entries.extend(states.map(|state| (format!("check {state}"), state_colour(&state).0)));
    let mut x = 14.0;
    for (words, fill) in entries {
        writeln!(
            f,
            "<rect x=\"{x:.0}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{fill}\"/><text x=\"{:.0}\" y=\"{bottom}\" font-size=\"12\" fill=\"#5b6676\">{}</text>",
            bottom - 10,
            x + 17.0,
            Escaped(&words)
        )?;
        x += text_width(&words) + 16.0;
    }
    Ok(())
}

const STATES: [CheckState; 5] = [
    CheckState::Pending,
    CheckState::Ready,
    CheckState::Retry,
    CheckState::Rejected,
    CheckState::PreemptionRequired,
];

/// Returns the colours of the bar and of its text.
fn phase_colour(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Waiting => ("#c3cad5", "#1c2330"),
        Phase::QuotaReserved => ("#f2b134", "#1c2330"),
        Phase::Running => ("#2f7bcb", "#ffffff"),
        Phase::Evicted => ("#d4483b", "#ffffff"),
        Phase::Deactivated => ("#7b3340", "#ffffff"),
        Phase::Finished => ("#d5dce6", "#1c2330"),
    }
}

fn state_colour(state: &CheckState) -> (&'static str, &'static str) {
    match state {
        CheckState::Pending => ("#f7d68d", "#1c2330"),
        CheckState::Ready => ("#23855a", "#ffffff"),
        CheckState::Retry => ("#9160cf", "#ffffff"),
        CheckState::Rejected => ("#d4483b", "#ffffff"),
        CheckState::PreemptionRequired => ("#1a9aa6", "#ffffff"),
        _ => ("#8a8f98", "#ffffff"),
    }
}
