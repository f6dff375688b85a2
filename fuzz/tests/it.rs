//! The corpus, and a short run of each target with a fixed seed.

use kueue_check_fuzz::{Bound, Campaign, MemoryMeter, TARGETS, corpus, execution};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The executions of each target, besides its corpus. `cargo xtask fuzz` runs more.
const EXECUTIONS: u64 = 400;

/// One test, because memory is counted for the whole process.
#[test]
fn no_foreign_input_breaks_a_reader() {
    let memory = MemoryMeter {
        reset: || ALLOCATOR.reset_peak_usage(),
        peak: || ALLOCATOR.peak_usage(),
    };
    let mut found = Vec::new();
    for target in TARGETS {
        for (path, input) in corpus::read(target.name).unwrap() {
            if let Err(failure) = execution::execute(target, &input, Some(memory)) {
                found.push(format!("{}: {failure:?}", path.display()));
            }
        }
        let campaign = Campaign {
            target,
            seed: 1,
            bound: Bound::Executions(EXECUTIONS),
            memory: Some(memory),
            current: None,
        };
        let report = campaign.run().unwrap();
        assert!(report.executions >= EXECUTIONS, "{}", target.name);
        assert!(
            report.outcomes > 3,
            "{}: {} outcomes: no property is reached beyond the first read",
            target.name,
            report.outcomes
        );
        for (failure, input) in report.found.into_values() {
            let input = String::from_utf8_lossy(&input).into_owned();
            found.push(format!("{}: {failure:?}: {input:?}", target.name));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
