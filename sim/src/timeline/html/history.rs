//! All changes as a table: tooltips are not readable on a phone or by a screen reader.

use std::fmt::{self, Display};

use super::escape::Escaped;
use crate::timeline::format::{clock, count};
use crate::timeline::{Timeline, Track};

/// One folded table for each Workload.
pub(super) struct History<'a>(pub(super) &'a Timeline);

impl Display for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.tracks.is_empty() {
            return Ok(());
        }
        f.write_str("<h2>Every change, with its message</h2>\n")?;
        self.0
            .tracks
            .iter()
            .try_for_each(|track| self.track(f, track))
    }
}

impl History<'_> {
    fn track(&self, f: &mut fmt::Formatter<'_>, track: &Track) -> fmt::Result {
        let changes = self.0.changes(track);
        write!(
            f,
            "<details><summary>{} <small>{}</small></summary>\n<div class=\"scroll\"><table>\n\
             <tr><th>since the start</th><th>clock (UTC)</th><th>what</th><th>for</th><th>message</th></tr>\n",
            Escaped(track.title()),
            count(changes.len(), "change")
        )?;
        for change in changes {
            writeln!(
                f,
                "<tr><td>{}</td><td>{}</td><td class=\"what\">{}</td><td>{}</td><td class=\"why\">{}</td></tr>",
                Escaped(change.offset(self.0)),
                Escaped(clock(change.at, self.0.length())),
                Escaped(change.what()),
                Escaped(change.duration_text()),
                Escaped(&change.message)
            )?;
        }
        f.write_str("</table></div>\n</details>\n")
    }
}
