//! The scenarios that come with the crate: the runtime under every single fault.

use kueue_check_sim::scenarios;

#[test]
fn every_scenario_survives_every_single_fault() {
    let only = std::env::var("KUEUE_CHECK_SCENARIO").ok();
    let mut failed = 0;
    for scenario in scenarios::all() {
        if only.as_ref().is_some_and(|only| only != scenario.name) {
            continue;
        }
        let explored = scenario.explore(0);
        println!("{:<12} {explored}", scenario.name);
        for run in explored.failed.iter().take(20) {
            println!("{run}");
        }
        failed += explored.failed.len();
    }
    assert_eq!(failed, 0);
}
