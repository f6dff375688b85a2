//! Jobs start only inside a daily window.
//!
//! `cargo xtask try maintenance_window` runs it on a simulated cluster;
//! `-- manifests --image IMAGE` prints what to apply to a real one.

use kueue_check::jiff::{self, SignedDuration, Timestamp, civil, tz::TimeZone};
use kueue_check::prelude::*;

/// The hours in which jobs may start. A window that closes before it opens is open over midnight.
#[kueue_check::parameters(group = "example.com", version = "v1alpha1", kind = "Window")]
#[serde(rename_all = "camelCase")]
pub(crate) struct WindowSpec {
    opens: civil::Time,
    closes: civil::Time,
    time_zone: String,
}

/// Jobs start only inside the window.
#[admission_check(controller = "example.com/window")]
pub(crate) async fn window(
    Params(window): Params<Window>,
    Now(now): Now,
) -> Result<Verdict, CheckError> {
    let local =
        now.to_zoned(TimeZone::get(&window.spec.time_zone).map_err(CheckError::parameters)?);
    if window.spec.is_open(local.time()) {
        let verdict = Verdict::ready("inside the window");
        return Ok(verdict.recheck_until_admitted(std::time::Duration::from_secs(60)));
    }
    let opens = window.spec.next_opening(&local)?;
    let wait = opens
        .duration_since(now)
        .max(SignedDuration::ZERO)
        .unsigned_abs();
    Ok(Verdict::pending(format!("outside the window, which opens at {opens:.0}")).recheck_in(wait))
}

impl WindowSpec {
    fn is_open(&self, time: civil::Time) -> bool {
        if self.opens <= self.closes {
            self.opens <= time && time < self.closes
        } else {
            time < self.closes || self.opens <= time
        }
    }

    /// Returns the first moment after `now` at which the clock shows `opens`, whatever daylight
    /// saving changes that day.
    fn next_opening(&self, now: &jiff::Zoned) -> Result<Timestamp, jiff::Error> {
        let today = now.with().time(self.opens).build()?;
        let next = if today > *now {
            today
        } else {
            now.tomorrow()?.with().time(self.opens).build()?
        };
        Ok(next.timestamp())
    }
}

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(window).await
}
