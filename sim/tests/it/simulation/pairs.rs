//! Two faults in one run.

use kueue_check_sim::scenarios::Scenario;

/// The number of pairs of each scenario.
const SAMPLE: usize = 120;

#[test]
fn a_sample_of_pairs_of_faults_is_survived() {
    let mut failed = 0;
    for name in ["approve", "passed-on", "hold"] {
        let scenario = Scenario::named(name).unwrap();
        let explored = scenario
            .simulation()
            .explore_pairs(SAMPLE, |_| {}, scenario.steps());
        println!("{name:<14} {explored}");
        assert_eq!(explored.runs, SAMPLE + 1);
        for run in explored.failed.iter().take(20) {
            println!("{run}");
        }
        failed += explored.failed.len();
    }
    assert_eq!(failed, 0);
}
