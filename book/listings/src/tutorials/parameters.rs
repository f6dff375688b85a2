//! Parameters and the Active condition.

/// The program.
///
/// # Errors
/// As [`kueue_check::main()`].
pub fn program() -> kueue_check::Result<()> {
    main()
}

#[test]
fn the_sample_is_accepted() {
    let sample = &super::samples::documents("window-with-policy.yaml")[0];
    let simulation = kueue_check_sim::Simulation::new(|| window).parameters(sample);
    simulation.run(async |cluster| cluster.expect_active("check").await);
}

// ANCHOR: file
// ANCHOR: check
use kueue_check::jiff::{Timestamp, civil, tz::TimeZone};
use kueue_check::prelude::*;
use std::time::Duration;

/// The hours in which jobs may start.
#[kueue_check::parameters(
    group = "example.com",
    version = "v1alpha1",
    kind = "Window",
    shortname = "win",
    validate = WindowSpec::validate
)]
struct WindowSpec {
    /// The first moment of the window, such as `07:00`.
    opens: civil::Time,
    /// Its end.
    closes: civil::Time,
    /// A name of the IANA time zone database, such as `Europe/Berlin`.
    #[schemars(length(min = 1, max = 64))]
    zone: String,
    #[serde(flatten)]
    policy: Policy,
}

impl WindowSpec {
    /// Validates rules that a schema cannot express.
    fn validate(&self) -> Result<(), String> {
        if self.opens >= self.closes {
            let (opens, closes) = (self.opens, self.closes);
            return Err(format!(
                "the window opens at {opens} and closes at {closes}: it must close later than it opens"
            ));
        }
        self.time_zone().map(|_| ())
    }

    fn time_zone(&self) -> Result<TimeZone, String> {
        TimeZone::get(&self.zone).map_err(|error| error.to_string())
    }

    /// Returns the time until jobs may start; `None` while they may.
    fn opens_in(&self, now: Timestamp) -> Result<Option<Duration>, CheckError> {
        let zone = self.time_zone().map_err(CheckError::parameters)?;
        let now = now.to_zoned(zone);
        if (self.opens..self.closes).contains(&now.time()) {
            return Ok(None);
        }
        let today = now.with().time(self.opens).build()?;
        let next = if now < today {
            today
        } else {
            now.tomorrow()?.with().time(self.opens).build()?
        };
        Ok(Some(now.duration_until(&next).unsigned_abs()))
    }
}

/// Jobs start only inside the window.
#[admission_check(controller = "example.com/window")]
async fn window(Params(window): Params<Window>, Now(now): Now) -> Result<Verdict, CheckError> {
    Ok(match window.spec.opens_in(now)? {
        None => Verdict::ready("inside the window")
            .recheck_until_admitted(std::time::Duration::from_secs(60)),
        Some(wait) => Verdict::pending("outside the window")
            .expected_by(now + wait)
            .recheck_in(wait),
    })
}
// ANCHOR_END: check

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(window).await
}

#[cfg(test)]
mod tests {
    use kueue_check::serde_json::{self, json};
    use kueue_check_sim::{Job, Simulation};

    use super::*;

    fn workday(zone: &str, policy: serde_json::Value) -> Window {
        let spec = WindowSpec {
            opens: civil::time(7, 0, 0, 0),
            closes: civil::time(18, 0, 0, 0),
            zone: zone.to_owned(),
            policy: serde_json::from_value(policy).unwrap(),
        };
        Window::new("workday", spec)
    }

    // ANCHOR: active
    #[test]
    fn a_mistake_is_reported_and_corrected() {
        let simulation = Simulation::new(|| window)
            .parameters(&workday("UTC", json!({})))
            .starting_at("2026-11-21T06:50:00Z");
        let explored = simulation.run_with_each_fault(async |cluster| {
            cluster.submit(Job::new("train"));
            let message = "outside the window (expected by 2026-11-21T07:00:00Z)";
            cluster.expect_message("train", message).await;

            cluster.apply(&workday("Mars/Olympus", json!({})));
            cluster.expect_inactive("check", "Mars/Olympus").await;

            cluster.apply(&workday("Europe/Berlin", json!({})));
            cluster.expect_active("check").await;
            cluster.expect_admitted("train").await;
        });
        println!("{explored}");
    }

    #[test]
    fn jobs_in_flight_keep_the_last_valid_parameters() {
        let simulation = Simulation::new(|| window)
            .parameters(&workday("UTC", json!({})))
            .starting_at("2026-11-21T06:50:00Z");
        simulation.run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.expect_message("train", "outside the window").await;
            cluster.apply(&workday("Mars/Olympus", json!({})));
            cluster.expect_inactive("check", "Mars/Olympus").await;
            cluster.advance_to("2026-11-21T07:00:00Z").await;
            cluster.expect_admitted("train").await;
        });
    }
    // ANCHOR_END: active

    // ANCHOR: policy
    #[test]
    fn the_administrator_limits_the_wait() {
        let policy = json!({"pendingTimeout": {"after": "1h", "then": "Reject"}});
        let simulation = Simulation::new(|| window)
            .parameters(&workday("UTC", policy))
            .starting_at("2026-11-21T05:00:00Z");
        let explored = simulation.run_with_each_fault(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.expect_message("train", "outside the window").await;
            cluster.advance_to("2026-11-21T06:00:00Z").await;
            cluster.expect_deactivated("train").await;
        });
        println!("{explored}");
    }
    // ANCHOR_END: policy

    #[test]
    fn what_a_schema_cannot_express_is_validated() {
        let mut workday = workday("UTC", json!({}));
        assert_eq!(workday.spec.validate(), Ok(()));
        workday.spec.closes = civil::time(6, 0, 0, 0);
        let error = workday.spec.validate().unwrap_err();
        assert!(error.contains("must close later than it opens"), "{error}");
    }

    #[test]
    fn the_next_opening_is_tomorrow_after_the_window_has_closed() {
        let workday = workday("UTC", json!({})).spec;
        for (now, hours) in [
            ("2026-11-21T06:00:00Z", Some(1)),
            ("2026-11-21T07:00:00Z", None),
            ("2026-11-21T18:00:00Z", Some(13)),
        ] {
            let wait = workday.opens_in(now.parse().unwrap()).unwrap();
            assert_eq!(wait, hours.map(Duration::from_hours), "{now}");
        }
    }
}
// ANCHOR_END: file
