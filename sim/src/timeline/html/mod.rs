//! A timeline as one HTML file, without scripts or outside resources.
//!
//! Labels are HTML, so they wrap on a phone. Bars are SVG with horizontal places in percent, so
//! they stretch while their text does not.

mod bars;
mod escape;
mod history;
mod legend;

use std::fmt::{self, Display};

use self::bars::Lane;
pub(super) use self::escape::Escaped;
use self::history::History;
use self::legend::Legend;
use super::axis::{Tick, ticks};
use super::format::{count, date_and_clock, duration, heading};
use super::{Phase, Timeline, Track};

const STYLE: &str = include_str!("style.css");

/// The maximum number of ticks without overlap on a desktop; a phone hides every second one.
const TICKS: usize = 8;

impl Timeline {
    /// Returns the whole page, headed by `title`. All values from the cluster are escaped.
    pub fn html(&self, title: &str) -> String {
        Page {
            timeline: self,
            title,
            ticks: ticks(self, TICKS),
        }
        .to_string()
    }
}

struct Page<'a> {
    timeline: &'a Timeline,
    title: &'a str,
    ticks: Vec<Tick>,
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = heading(self.title);
        let title = Escaped(&title);
        write!(
            f,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta name=\"color-scheme\" content=\"light dark\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
             <p class=\"lead\">Each row is one Workload: a job that Kueue queues. It waits for quota, then holds quota while admission checks decide, and runs once \
             every check is Ready.</p>\n<p class=\"facts\">{facts}</p>\n{legend}",
            facts = Escaped(facts(self.timeline)),
            legend = Legend(self.timeline),
        )?;
        self.chart(f)?;
        write!(f, "{}</main>\n</body>\n</html>\n", History(self.timeline))
    }
}

impl Page<'_> {
    fn chart(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<div class=\"chart\">\n")?;
        self.grid(f)?;
        self.axis(f)?;
        if self.timeline.tracks.is_empty() {
            f.write_str("<p class=\"none\">No Workload was seen.</p>\n")?;
        }
        for track in &self.timeline.tracks {
            self.track(f, track)?;
        }
        f.write_str("</div>\n")
    }

    fn grid(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<svg class=\"grid\" aria-hidden=\"true\">")?;
        for tick in &self.ticks {
            let x = Percent(tick.at);
            write!(f, "<line x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"100%\"/>")?;
        }
        f.write_str("</svg>\n")
    }

    fn axis(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "<div class=\"lane axis\"><span class=\"label\">since the start<br/>clock (UTC)</span>\
             <svg class=\"plot\" height=\"34\" aria-hidden=\"true\">",
        )?;
        for (number, tick) in self.ticks.iter().enumerate() {
            let x = Percent(tick.at);
            let (anchor, odd) = (anchor(tick.at), if number % 2 == 1 { " odd" } else { "" });
            write!(
                f,
                "<g class=\"{anchor}{odd}\"><text x=\"{x}\" y=\"12\">+{}</text><text class=\"clock\" x=\"{x}\" y=\"28\">{}</text></g>",
                Escaped(&tick.offset),
                Escaped(&tick.clock)
            )?;
        }
        f.write_str("</svg></div>\n")
    }

    fn track(&self, f: &mut fmt::Formatter<'_>, track: &Track) -> fmt::Result {
        write!(
            f,
            "<section>\n<div class=\"lane\"><h2 class=\"label\">{}<small>{}</small></h2>{}</div>\n",
            Escaped(track.title()),
            Escaped(summary(track)),
            Lane::of_phases(self.timeline, track)
        )?;
        for (check, spans) in &track.checks {
            writeln!(
                f,
                "<div class=\"lane check\"><span class=\"label\">{}</span>{}</div>",
                Escaped(check),
                Lane::of_check(self.timeline, check, spans)
            )?;
        }
        f.write_str("</section>\n")
    }
}

/// A place along the axis, formatted for SVG.
struct Percent(f64);

impl Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}%", self.0 * 100.0)
    }
}

/// Returns the text anchor that keeps a label inside of the axis.
fn anchor(at: f64) -> &'static str {
    match at {
        at if at < 0.04 => "start",
        at if at > 0.94 => "end",
        _ => "middle",
    }
}

fn facts(timeline: &Timeline) -> String {
    let tracks = &timeline.tracks;
    let total = |phase| {
        tracks
            .iter()
            .map(|track| track.times_in(phase))
            .sum::<usize>()
    };
    let now_in = |phase| {
        let with = tracks
            .iter()
            .filter(|track| track.last_phase() == Some(phase));
        with.count()
    };
    let mut facts = vec![
        count(tracks.len(), "Workload"),
        format!(
            "{} from {}",
            duration(timeline.length()),
            date_and_clock(timeline.from)
        ),
    ];
    let phases: Vec<_> = Phase::ALL
        .into_iter()
        .map(|phase| (now_in(phase), phase))
        .filter(|(number, _)| *number > 0)
        .map(|(number, phase)| format!("{number} {phase}"))
        .collect();
    facts.push(count(total(Phase::Evicted), "eviction"));
    if !phases.is_empty() {
        facts.push(format!("at the end: {}", phases.join(", ")));
    }
    facts.join(" · ")
}

fn summary(track: &Track) -> String {
    let mut words: Vec<_> = [Phase::Waiting, Phase::QuotaReserved, Phase::Running]
        .into_iter()
        .zip(["waited", "held quota", "ran"])
        .map(|(phase, word)| (word, track.time_in(phase)))
        .filter(|(_, time)| !time.is_zero())
        .map(|(word, time)| format!("{word} {}", duration(time)))
        .collect();
    if track.times_in(Phase::Evicted) > 0 {
        words.push(count(track.times_in(Phase::Evicted), "eviction"));
    }
    words.join(", ")
}
