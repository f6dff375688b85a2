//! Features that are frequent in some histories.

use clap::ValueEnum;

use crate::random::Random;

/// A feature that is rare in most histories and frequent in some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Feature {
    /// Workloads with several pod sets.
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
    /// Checks that ClusterQueues gain and lose, and that become inactive.
    Checks,
    /// Workloads that are deactivated and activated.
    Activation,
    /// Workloads and ClusterQueues that move: to another queue, to another cohort.
    Moves,
    /// Objects that are missing at first and created later.
    Late,
    /// Requests that are refused.
    Refused,
    /// Pods that run, and still exist after an eviction.
    Running,
    /// Names that are reused.
    Again,
    /// Checks that return pod set updates.
    Updates,
    /// Jobs that change their size, most of them elastic.
    Elastic,
    /// Pod groups instead of Workloads without a job.
    PodGroups,
    /// Pods without a job and without a group.
    SinglePods,
    /// Actions that the next one follows after 10 ms.
    Hasty,
    /// Queues, checks, flavors and cohorts that are deleted.
    Removal,
    /// Jobs that fail, are suspended or submitted without a queue, or lose their Workload.
    JobActions,
    /// Flavors and ClusterQueues whose selectors and preferences change.
    Selectors,
    /// Weights, little quota, and much that is submitted. Not drawn: it needs a setting of Kueue.
    FairSharing,
    /// Queues that preempt, small Workloads, then large ones of higher priorities. Not drawn, so
    /// that the histories of earlier seeds stay the same.
    Preemption,
    /// Priority classes of Pods, and priority classes that are missing or created later. Not drawn.
    Classes,
    /// A LocalQueue `default`, and jobs that name no queue. Not drawn.
    DefaultQueue,
    /// Pod templates with limits, requests of the Pod itself, sidecars, affinity, other tolerations
    /// and invalid values; Workloads of many pod sets. Not drawn.
    Templates,
    /// The annotation that keeps a Workload from being tried. Not drawn.
    Gates,
    /// Jobs and Workloads without a job in one history. Not drawn.
    Mixed,
    /// Jobs of indexes, some of which are done or failed. Not drawn.
    Indexed,
    /// Pod groups with the annotations of newer versions, and Pods that fail and are replaced. Not
    /// drawn.
    Members,
    /// Cohorts whose quota, weight and parent change. Not drawn.
    CohortEdits,
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

/// Draws up to three features besides those `of_all`, in `percent` of 100 histories.
pub(super) fn draw(random: &mut Random, percent: usize, of_all: &[Feature]) -> Vec<Feature> {
    let mut drawn = of_all.to_vec();
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
