//! Each rule of the ledger is needed: a ledger without it passes a limit in some history.

use super::properties::{Mutant, Plan, play};

/// The first history in which `mutant` passes a limit, of the first ten thousand.
fn caught(mutant: Mutant) -> Option<(u64, i128)> {
    (0..10_000).find_map(|seed| {
        let (over, _) = play(&Plan::random(seed), mutant);
        (over > 0).then_some((seed, over))
    })
}

#[test]
fn each_mutant_passes_a_limit() {
    for mutant in [
        Mutant::CommitLater,
        Mutant::NoTombstones,
        Mutant::NoWait,
        Mutant::OverWhenEvicted,
        Mutant::LastFigure,
        Mutant::NoParking,
        Mutant::OverWhenReplaced,
        Mutant::SetOffAnyway,
        Mutant::OverWithoutQuota,
        Mutant::AlwaysAsSmall,
        Mutant::VariantsStartAtOnce,
        Mutant::VariantsEndAtOnce,
        Mutant::GoneWithTheirWorkload,
    ] {
        let found = caught(mutant);
        println!("{mutant:?}: {found:?}");
        assert!(
            found.is_some(),
            "{mutant:?} passes no limit: the histories don't test it"
        );
    }
}
