//! The README's check on the simulated cluster.

use std::time::Duration;

use jiff::{civil, tz::TimeZone};
use kueue_check::prelude::*;
use kueue_check_sim::{Job, Simulation};

/// The hours in which jobs may start.
#[derive(
    kube::CustomResource,
    Parameters,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
    Clone,
    Debug,
)]
#[kube(group = "example.com", version = "v1alpha1", kind = "Window")]
#[serde(rename_all = "camelCase")]
struct WindowSpec {
    opens: civil::Time,
    closes: civil::Time,
    time_zone: String,
}

/// Jobs start only inside the window.
#[admission_check(controller = "example.com/window")]
async fn window(Params(window): Params<Window>, Now(now): Now) -> Result<Verdict, CheckError> {
    let WindowSpec {
        opens,
        closes,
        time_zone,
    } = &window.spec;
    let zone = TimeZone::get(time_zone).map_err(CheckError::parameters)?;
    if (*opens..*closes).contains(&now.to_zoned(zone).time()) {
        let verdict = Verdict::ready("inside the window");
        return Ok(verdict.recheck_until_admitted(Duration::from_secs(60)));
    }
    Ok(Verdict::pending(format!("jobs start at {opens}")).recheck_in(Duration::from_secs(60)))
}

fn workday(time_zone: &str) -> Window {
    let spec = WindowSpec {
        opens: civil::time(7, 0, 0, 0),
        closes: civil::time(18, 0, 0, 0),
        time_zone: time_zone.to_owned(),
    };
    Window::new("workday", spec)
}

#[test]
fn a_window_opens_with_any_fault() {
    let simulation = Simulation::new(|| window)
        .parameters(&workday("UTC"))
        .starting_at("2026-11-21T06:55:00Z");
    let explored = simulation.run_with_each_fault(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "jobs start at").await;
        cluster.advance_to("2026-11-21T07:00:00Z").await;
        cluster.expect_admitted("train").await;
    });
    println!("{explored}");
}

#[test]
fn invalid_parameters_are_reported_and_can_be_corrected() {
    let simulation = Simulation::new(|| window)
        .parameters(&workday("Mars/Olympus"))
        .starting_at("2026-11-21T08:00:00Z");
    let run = simulation.run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_inactive("check", "Mars/Olympus").await;
        cluster.apply(&workday("UTC"));
        cluster.expect_active("check").await;
        cluster.expect_admitted("train").await;
    });
    assert!(run.requests > 0);
}
