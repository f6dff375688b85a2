//! The same seed gives the same history, byte for byte.

use std::fmt::Write as _;

use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::json;

use super::cluster::{Cluster, in_virtual_time};

/// A generator of numbers from a seed (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Returns all changes on the server during 20 random actions on six jobs and their queue.
fn history(seed: u64) -> String {
    in_virtual_time(async {
        let mut numbers = Numbers(seed);
        let cluster = Cluster::new(KueueVersion::V0_19).with_nodes();
        cluster.queue(
            "2",
            &["c", "d"],
            &json!({"preemption": {"withinClusterQueue": "LowerPriority"}}),
        );
        for number in 0..6 {
            cluster.job(&format!("job-{number}"), "1", None);
        }
        for _ in 0..20 {
            act(&cluster, &mut numbers);
            #[expect(clippy::cast_precision_loss, reason = "below a hundred")]
            cluster.pass(numbers.below(50) as f64 / 10.0).await;
        }
        let mut text = String::new();
        for change in cluster.server.history() {
            let (at, by, verb) = (change.at, &change.agent, change.verb);
            writeln!(text, "{at} {by} {verb:?} {}", change.object).unwrap();
        }
        text
    })
}

fn act(cluster: &Cluster, numbers: &mut Numbers) {
    let job = format!("job-{}", numbers.below(6));
    let check = ["c", "d"][usize::try_from(numbers.below(2)).unwrap()];
    match numbers.below(8) {
        0 => cluster.finish(&job),
        1 => {
            cluster.delete("jobs", &job);
        }
        2 => {
            let policy =
                ["None", "Hold", "HoldAndDrain"][usize::try_from(numbers.below(3)).unwrap()];
            cluster.merge(
                "clusterqueues",
                "",
                "cq",
                "",
                &json!({"spec": {"stopPolicy": policy}}),
            );
        }
        3 => {
            let change =
                json!({"spec": {"active": numbers.below(2) == 0, "priority": numbers.below(3)}});
            cluster.merge("workloads", "t", &cluster.name_of(&job), "", &change);
        }
        4 => {
            cluster.verdict(
                &job,
                check,
                "Retry",
                i64::try_from(numbers.below(8)).unwrap(),
            );
        }
        5 => {
            cluster.verdict(&job, check, "Rejected", 0);
        }
        _ => {
            cluster.verdict(&job, check, "Ready", 0);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let mut different = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let first = history(seed);
        let changes = first.lines().count();
        assert!(changes > 50, "seed {seed}: only {changes} changes");
        assert!(first == history(seed), "seed {seed}");
        different.insert(first);
    }
    assert_eq!(different.len(), 20, "seeds make no difference");
}
