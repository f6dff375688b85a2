//! Your first check.

/// The program.
///
/// # Errors
/// As [`kueue_check::main`].
pub fn program() -> kueue_check::Result<()> {
    main()
}

/// Jobs through a night and a day.
pub(crate) fn picture() -> (kueue_check_sim::Simulation, crate::Scenario) {
    use kueue_check_sim::{Job, Simulation};
    let spec = WindowSpec {
        opens: civil::time(7, 0, 0, 0),
        closes: civil::time(18, 0, 0, 0),
        zone: "UTC".to_owned(),
    };
    let trial = Simulation::new(|| window)
        .parameters(&Window::new("workday", spec))
        .quota(8)
        .starting_at("2026-11-21T05:00:00Z");
    let play: crate::Scenario = |cluster| {
        Box::pin(async move {
            cluster.submit(Job::new("nightly").cpus(4));
            cluster.advance_to("2026-11-21T05:30:00Z").await;
            cluster.submit(Job::new("train").cpus(4));
            cluster.advance_to("2026-11-21T06:00:00Z").await;
            cluster.submit(Job::new("report").cpus(4));
            cluster.advance_to("2026-11-21T08:00:00Z").await;
            cluster.complete("nightly");
            cluster.advance_to("2026-11-21T09:00:00Z").await;
            cluster.complete("train");
            cluster.complete("report");
            cluster.advance_to("2026-11-21T09:30:00Z").await;
        })
    };
    (trial, play)
}

// ANCHOR: file
// ANCHOR: check
use jiff::{civil, tz::TimeZone};
use kueue_check::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The hours in which jobs may start.
#[derive(kube::CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1alpha1", kind = "Window")]
struct WindowSpec {
    opens: civil::Time,
    closes: civil::Time,
    zone: String,
}

/// Jobs start only inside the window.
#[admission_check(controller = "example.com/window")]
async fn window(Params(window): Params<Window>, Now(now): Now) -> Result<Verdict, CheckError> {
    let spec = &window.spec;
    let zone = TimeZone::get(&spec.zone).map_err(CheckError::parameters)?;
    if (spec.opens..spec.closes).contains(&now.to_zoned(zone).time()) {
        return Ok(Verdict::ready("inside the window"));
    }
    let message = format!("jobs start at {}", spec.opens);
    Ok(Verdict::pending(message).recheck_in(std::time::Duration::from_secs(60)))
}

#[tokio::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(window).await
}
// ANCHOR_END: check

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use kueue_check_sim::{Job, Simulation};

    use super::*;

    fn workday() -> Window {
        let spec = WindowSpec {
            opens: civil::time(7, 0, 0, 0),
            closes: civil::time(18, 0, 0, 0),
            zone: "UTC".to_owned(),
        };
        Window::new("workday", spec)
    }

    #[test]
    fn a_job_starts_when_the_window_opens_whatever_goes_wrong() {
        let trial = Simulation::new(|| window)
            .parameters(&workday())
            .starting_at("2026-11-21T06:55:00Z");
        let explored = trial.run_with_each_fault(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.expect_message("train", "jobs start at").await;
            cluster.advance_to("2026-11-21T07:00:00Z").await;
            cluster.expect_admitted("train").await;
        });
        println!("{explored}");
    }
}
// ANCHOR_END: tests
// ANCHOR_END: file
