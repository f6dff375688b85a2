//! The same seed gives the same history; virtual time takes no real time.

use std::time::Duration;

use kueue_check_sim::FaultPlan;
use kueue_check_sim::scenarios::{self, Scenario, Scripted};
use kueue_check_sim::{Job, Simulation};

use kueue_check_testenv::processor_time;

fn history(scenario: &Scenario, seed: u64) -> String {
    let run = scenario.run(seed, &FaultPlan::none());
    assert!(!run.failed(), "{run}");
    let lines = run
        .history()
        .into_iter()
        .map(|change| format!("{change:?}\n"));
    lines.collect()
}

#[test]
fn two_runs_of_a_hundred_seeds_are_the_same_to_the_byte() {
    let scenarios = scenarios::all();
    let expensive = ["failover", "led-again", "taken-over"];
    let cheap: Vec<_> = scenarios
        .iter()
        .filter(|s| !expensive.contains(&s.name))
        .collect();
    for seed in 0..100 {
        let scenario = cheap[usize::try_from(seed).unwrap() % cheap.len()];
        let (one, other) = (history(scenario, seed), history(scenario, seed));
        if let Some((one, other)) = one
            .lines()
            .zip(other.lines())
            .find(|(one, other)| one != other)
        {
            panic!(
                "seed {seed} of `{}` gives two histories:\n{one}\n{other}",
                scenario.name
            );
        }
        assert_eq!(one.len(), other.len());
    }
}

#[test]
fn a_week_in_which_nothing_happens_takes_less_than_a_second() {
    use kueue_check::Verdict;
    let simulation = Simulation::new(|| Scripted::new(|_| Ok(Verdict::ready("may start"))));
    let took = std::sync::Mutex::new(Duration::ZERO);
    let run = simulation.run(async |cluster| {
        for number in 0..50 {
            cluster.submit(Job::new(format!("job-{number}")));
        }
        cluster.expect_admitted("job-49").await;
        let before = processor_time();
        cluster.advance(Duration::from_hours(7 * 24)).await;
        *took.lock().unwrap() = processor_time().saturating_sub(before);
    });
    let took = took.into_inner().unwrap();
    println!(
        "a week with 50 running jobs: {took:?}, {} requests",
        run.requests
    );
    // In processor time. Without optimization it is several times as much.
    let limit = if cfg!(debug_assertions) { 10 } else { 1 };
    assert!(took < Duration::from_secs(limit), "{took:?}");
}
