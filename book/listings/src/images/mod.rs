//! Timelines of the simulated cluster, each as an SVG image and as an HTML page of its own.

mod scenarios;

use kueue_check_sim::{Cluster, FaultPlan, Simulation};

use crate::Scenario;
use crate::tutorials::{first_check, licence_server};

/// A picture: the name of its file, its title, and the function that returns its scenario.
type Picture = (&'static str, &'static str, fn() -> (Simulation, Scenario));

const PICTURES: [Picture; 5] = [
    (
        "window",
        "Three jobs and a maintenance window that opens at seven",
        first_check::picture,
    ),
    (
        "licences",
        "Three jobs share two licences",
        licence_server::picture,
    ),
    (
        "verdicts",
        "What each verdict costs: five jobs, five verdicts",
        scenarios::verdicts,
    ),
    (
        "lost-quota",
        "Quota lost without an eviction: a verdict belongs to a reservation",
        scenarios::lost_quota,
    ),
    (
        "preempted",
        "A job is preempted while a check evaluates",
        scenarios::preempted,
    ),
];

/// Returns all pictures: the files below `book/src` and their text.
///
/// # Panics
/// If a run fails. The message contains its timeline.
pub fn all() -> Vec<(String, String)> {
    let drawn = PICTURES.iter().flat_map(|(name, title, make)| {
        let (simulation, scenario) = make();
        let scenario = async |cluster: &Cluster| scenario(cluster).await;
        let run = simulation.run_with(&scenario, &FaultPlan::none());
        assert!(!run.failed(), "{name}: {run}");
        let timeline = run.timeline();
        [
            (format!("images/{name}.svg"), timeline.svg(title)),
            (format!("images/{name}.html"), timeline.html(title)),
        ]
    });
    drawn.collect()
}
