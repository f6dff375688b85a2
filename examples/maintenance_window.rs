//! Jobs start only inside a daily window.

use jiff::{Timestamp, civil, tz::TimeZone};
use kube::CustomResource;
use kueue_check::handler::{Now, Params};
use kueue_check::{Parameters, Verdict, admission_check};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A time of day at which jobs may start.
#[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1alpha1", kind = "Window")]
struct WindowSpec {
    opens: civil::Time,
    closes: civil::Time,
    time_zone: String,
}

impl WindowSpec {
    fn opens_in(&self, now: Timestamp) -> Option<Duration> {
        let zone = TimeZone::get(&self.time_zone).ok()?;
        let local = now.to_zoned(zone);
        let time = local.time();
        if self.opens <= time && time < self.closes {
            return None;
        }
        let day = if time < self.opens {
            local.date()
        } else {
            local.date().tomorrow().ok()?
        };
        let opens = day
            .to_datetime(self.opens)
            .to_zoned(local.time_zone().clone())
            .ok()?;
        opens.timestamp().duration_since(now).try_into().ok()
    }
}

/// Jobs start only inside the window.
#[admission_check(controller = "example.com/window")]
async fn window(Params(window): Params<Window>, Now(now): Now) -> Verdict {
    match window.spec.opens_in(now) {
        None => Verdict::ready("inside the window"),
        Some(wait) => Verdict::pending("outside the window").recheck_in(wait),
    }
}

#[tokio::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(window).await
}
