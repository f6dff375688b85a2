//! The bars of one lane.

use std::fmt::{self, Display};
use std::time::Duration;

use kueue_check::api::CheckState;

use super::Percent;
use super::escape::Escaped;
use crate::timeline::axis::place;
use crate::timeline::format::{clock, duration};
use crate::timeline::phase::TimelineValue;
use crate::timeline::{Phase, Span, Timeline, Track};

/// The smallest plot widths, in pixels: on a desktop and on a phone. A label that does not fit is
/// left out there.
const DESKTOP: f64 = 560.0;
const PHONE: f64 = 320.0;
/// The width of one character, in pixels, estimated generously.
const CHARACTER: f64 = 6.6;

/// One lane of bars, drawn as an SVG of its own.
pub(super) struct Lane {
    height: u8,
    name: String,
    bars: Vec<Bar>,
}

struct Bar {
    from: f64,
    until: f64,
    class: &'static str,
    words: String,
    title: String,
    /// Whether a sign is drawn too, because the bar may be too thin to be visible.
    sign: bool,
    /// The start of the label, in pixels from the bar's start.
    indent: u8,
}

impl Lane {
    /// Returns the lane of a Workload's phases.
    pub(super) fn of_phases(timeline: &Timeline, track: &Track) -> Self {
        let bar = |span| Bar::new(timeline, span, phase_class(span.what), "");
        Self {
            height: 22,
            name: format!("Phases of {}", track.title()),
            bars: beside_signs(track.phases.iter().map(bar)),
        }
    }

    /// Returns the lane of one check's states.
    pub(super) fn of_check(timeline: &Timeline, check: &str, spans: &[Span<CheckState>]) -> Self {
        let bar = |span| Bar::new(timeline, span, state_class(&span.what), check);
        Self {
            height: 17,
            name: format!("States of the check {check}"),
            bars: beside_signs(spans.iter().map(bar)),
        }
    }
}

impl Bar {
    fn new<T: TimelineValue>(
        timeline: &Timeline,
        span: &Span<T>,
        class: &'static str,
        check: &str,
    ) -> Self {
        let (from, until) = (place(timeline, span.from), place(timeline, span.until));
        Self {
            from,
            until,
            class,
            words: words(span.what.label(), span.duration()),
            title: title(timeline, span, check),
            sign: span.what.is_notable() && until - from < 0.02,
            indent: 5,
        }
    }

    /// Returns the class of the label: hidden, visible on a desktop only, or everywhere.
    fn label_class(&self) -> Option<&'static str> {
        let length = u32::try_from(self.words.chars().count()).unwrap_or(u32::MAX);
        let need = f64::from(length) * CHARACTER + f64::from(self.indent) + 5.0;
        match self.until - self.from {
            width if width * PHONE >= need => Some("words"),
            width if width * DESKTOP >= need => Some("words wide"),
            _ => None,
        }
    }

    fn draw(&self, f: &mut fmt::Formatter<'_>, height: u8) -> fmt::Result {
        let (x, width) = (Percent(self.from), Percent(self.until - self.from));
        write!(
            f,
            "<g class=\"{}\"><title>{}</title><rect x=\"{x}\" y=\"2\" width=\"{width}\" height=\"{}\"/>",
            self.class,
            Escaped(&self.title),
            height - 4
        )?;
        if let Some(class) = self.label_class() {
            write!(
                f,
                "<text class=\"{class}\" x=\"{x}\" dx=\"{}\" y=\"{}\">{}</text>",
                self.indent,
                height / 2 + 4,
                Escaped(&self.words)
            )?;
        }
        if self.sign {
            let (middle, reach) = (height / 2, height / 2 - 1);
            write!(
                f,
                "<svg x=\"{x}\" overflow=\"visible\"><path d=\"M0 {}l{reach} {reach}l-{reach} {reach}l-{reach} -{reach}z\"/></svg>",
                middle - reach
            )?;
        }
        f.write_str("</g>")
    }
}

impl Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<svg class=\"plot\" height=\"{}\" role=\"img\" aria-label=\"{}\">",
            self.height,
            Escaped(&self.name)
        )?;
        // Signs come last, so that no later bar hides them.
        let (signs, bars): (Vec<_>, Vec<_>) = self.bars.iter().partition(|bar| bar.sign);
        for bar in bars.into_iter().chain(signs) {
            bar.draw(f, self.height)?;
        }
        f.write_str("</svg>")
    }
}

/// Indents the label of a bar after a sign.
fn beside_signs(bars: impl Iterator<Item = Bar>) -> Vec<Bar> {
    let mut bars: Vec<_> = bars.collect();
    for last in 1..bars.len() {
        if bars[last - 1].sign {
            bars[last].indent = 16;
        }
    }
    bars
}

fn words(label: &str, lasted: Duration) -> String {
    format!("{label} {}", duration(lasted))
}

fn title<T: TimelineValue>(timeline: &Timeline, span: &Span<T>, check: &str) -> String {
    let length = timeline.length();
    let (from, until) = (clock(span.from, length), clock(span.until, length));
    let who = if check.is_empty() {
        String::new()
    } else {
        format!("{check}: ")
    };
    let when = format!("{from} to {until} ({})", duration(span.duration()));
    let first = format!("{who}{}, {when}", span.what.label());
    if span.message.is_empty() {
        first
    } else {
        format!("{first}\n{}", span.message)
    }
}

pub(super) fn phase_class(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::QuotaReserved => "reserved",
        Phase::Running => "running",
        Phase::Evicted => "evicted",
        Phase::Deactivated => "deactivated",
        Phase::Finished => "finished",
    }
}

pub(super) fn state_class(state: &CheckState) -> &'static str {
    match state {
        CheckState::Pending => "pending",
        CheckState::Ready => "ready",
        CheckState::Retry => "retry",
        CheckState::Rejected => "rejected",
        CheckState::PreemptionRequired => "preemption",
        _ => "other",
    }
}
