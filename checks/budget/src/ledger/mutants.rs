//! Mutation tests: without any one of its rules the ledger exceeds a limit in some history.

use super::properties::{Mutant, Plan, run};

/// Returns true if `mutant` exceeds a limit in this history.
fn is_caught(mutant: Mutant, history: u64) -> bool {
    run(&Plan::random(history), mutant).0 > 0
}

/// Each mutant with the first history in which it exceeds a limit. Histories have other numbers
/// after a change of how they are drawn.
#[test]
fn each_mutant_passes_a_limit() {
    for (mutant, history) in [
        (Mutant::CommitLater, 2),
        (Mutant::NoTombstones, 11),
        (Mutant::NoWait, 353),
        (Mutant::OverWhenEvicted, 2485),
        (Mutant::LastFigure, 36),
        (Mutant::NoParking, 1973),
        (Mutant::OverWhenReplaced, 6),
        (Mutant::SetOffAnyway, 2143),
        (Mutant::OverWithoutQuota, 795),
        (Mutant::AlwaysAsSmall, 41),
        (Mutant::VariantsStartAtOnce, 5710),
        (Mutant::VariantsEndAtOnce, 268),
        (Mutant::GoneWithTheirWorkload, 35),
    ] {
        if !is_caught(mutant, history) {
            let first = (0..10_000).find(|history| is_caught(mutant, *history));
            panic!("{mutant:?} exceeds no limit in history {history}; the first is {first:?}");
        }
    }
}
