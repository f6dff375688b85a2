//! Your first check.

/// The program.
///
/// # Errors
/// As [`kueue_check::main()`].
pub fn program() -> kueue_check::Result<()> {
    main()
}

/// Three jobs in one night and morning.
pub(crate) fn picture() -> (kueue_check_sim::Simulation, crate::Scenario) {
    use kueue_check_sim::{Job, Simulation};
    let spec = WindowSpec {
        opens: civil::time(7, 0, 0, 0),
        closes: civil::time(18, 0, 0, 0),
        zone: "UTC".to_owned(),
    };
    let simulation = Simulation::new(|| window)
        .parameters(&Window::new("workday", spec))
        .quota(8)
        .starting_at("2026-11-21T05:00:00Z");
    let scenario: crate::Scenario = |cluster| {
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
    (simulation, scenario)
}

// ANCHOR: file
// ANCHOR: check
use kueue_check::jiff::{civil, tz::TimeZone};
use kueue_check::prelude::*;

/// The hours in which jobs may start.
#[kueue_check::parameters(group = "example.com", version = "v1alpha1", kind = "Window")]
struct WindowSpec {
    opens: civil::Time,
    closes: civil::Time,
    zone: String,
}

/// Jobs start only inside the window.
#[admission_check(controller = "example.com/window")]
async fn window(Params(window): Params<Window>, Now(now): Now) -> Result<Verdict, CheckError> {
    let (spec, minute) = (&window.spec, std::time::Duration::from_secs(60));
    let zone = TimeZone::get(&spec.zone).map_err(CheckError::parameters)?;
    if (spec.opens..spec.closes).contains(&now.to_zoned(zone).time()) {
        return Ok(Verdict::ready("inside the window").recheck_until_admitted(minute));
    }
    let message = format!("jobs start at {}", spec.opens);
    Ok(Verdict::pending(message).recheck_in(minute))
}

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(window).await
}
// ANCHOR_END: check

// ANCHOR: tests
#[test]
fn a_job_starts_when_the_window_opens_with_any_fault() {
    use kueue_check::serde_json::{from_value, json};
    use kueue_check_sim::{Job, Simulation};
    let hours = json!({"opens": "07:00", "closes": "18:00", "zone": "UTC"});
    let workday = Window::new("workday", from_value(hours).unwrap());
    let simulation = Simulation::new(|| window).parameters(&workday);
    let early = simulation.starting_at("2026-11-21T06:55:00Z");
    early.run_with_each_fault(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "jobs start at").await;
        cluster.advance_to("2026-11-21T07:00:00Z").await;
        cluster.expect_admitted("train").await;
    });
}
// ANCHOR_END: tests
// ANCHOR_END: file
