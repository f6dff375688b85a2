//! What a history has more of than others.

use crate::random::Random;

/// A kind of things that is rare in most histories, and frequent in some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    /// Workloads of several pod sets.
    PodSets,
    /// Workloads that may start with fewer Pods.
    Partial,
    /// Pods that are done while others run.
    Done,
    /// `maximumExecutionTimeSeconds`.
    TimeLimit,
    /// Priorities that change.
    Priorities,
    /// A second resource group.
    Groups,
    /// Three or four flavors.
    Flavors,
    /// Cohorts with quota of their own, in three levels.
    DeepCohorts,
    /// Quota that changes.
    Quota,
    /// Queues that are stopped and started.
    Stops,
    /// Checks that come, go, and become inactive.
    Checks,
    /// Workloads that are deactivated and activated.
    Activation,
    /// Workloads and ClusterQueues that move: to another queue, to another cohort.
    Moves,
    /// Objects that are missing, and come later.
    Late,
    /// Requests that are refused.
    Refused,
    /// Pods that run, and are still there after an eviction.
    Running,
    /// Names that are used again.
    Again,
    /// Checks that return pod set updates.
    Updates,
    /// Jobs that change their size, most of them elastic.
    Elastic,
    /// Groups of Pods in the place of Workloads without a job.
    PodGroups,
    /// Pods without a job and without a group.
    SinglePods,
    /// Actions of which the next follows 10 ms later.
    Hasty,
    /// Queues, checks, flavors and cohorts that are deleted.
    Removal,
    /// Jobs that users suspend, fail, or submit without a queue; their Workloads deleted.
    JobActions,
    /// Flavors and ClusterQueues whose selectors and preferences change.
    Selectors,
}

const ALL: [Feature; 25] = [
    Feature::PodSets,
    Feature::Partial,
    Feature::Done,
    Feature::TimeLimit,
    Feature::Priorities,
    Feature::Groups,
    Feature::Flavors,
    Feature::DeepCohorts,
    Feature::Quota,
    Feature::Stops,
    Feature::Checks,
    Feature::Activation,
    Feature::Moves,
    Feature::Late,
    Feature::Refused,
    Feature::Running,
    Feature::Again,
    Feature::Updates,
    Feature::Elastic,
    Feature::PodGroups,
    Feature::SinglePods,
    Feature::Hasty,
    Feature::Removal,
    Feature::JobActions,
    Feature::Selectors,
];

/// Draws up to three of them, in `percent` of 100 histories.
pub(super) fn draw(random: &mut Random, percent: usize) -> Vec<Feature> {
    let mut drawn = Vec::new();
    if random.chance(percent) {
        for _ in 0..=random.below(3) {
            let feature = *random.of(&ALL);
            if !drawn.contains(&feature) {
                drawn.push(feature);
            }
        }
    }
    drawn
}
