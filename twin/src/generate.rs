//! Generation of histories from a seed.

mod actions;
mod cohorts;
mod features;
mod flavors;
mod objects;
mod queues;
mod rare;
mod submit;
mod templates;

pub(crate) use self::features::Feature;
use crate::bodies::{GPU, Pods};
use crate::history::{History, Step};
use crate::random::Random;

/// What histories have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The percentage of histories with ClusterQueues in cohorts.
    pub(crate) cohorts: usize,
    /// The percentage of histories in which rare features are frequent.
    pub(crate) rare: usize,
    /// Whether Kueue waits for Pods for seconds only: most histories then have Pods that run.
    pub(crate) short_timeouts: bool,
    /// The features that are frequent in all histories.
    pub(crate) often: Vec<Feature>,
}

/// The features and objects of a history so far.
#[derive(Debug, Default)]
struct Draft {
    features: Vec<Feature>,
    jobs: bool,
    one_manager: bool,
    /// The flavors of the first resource group.
    flavors: Vec<String>,
    /// The flavors of the second resource group; most histories have none.
    gpu_flavors: Vec<String>,
    cohorts: Vec<String>,
    checks: Vec<String>,
    queues: Vec<queues::Queue>,
    local_queues: Vec<(String, usize)>,
    workloads: Vec<Submitted>,
    inactive_checks: Vec<String>,
    /// Objects that others name and that do not exist yet.
    late: Vec<serde_json::Value>,
    delay: u64,
}

impl Draft {
    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Returns `many` if the history has the feature, else `few`.
    fn often(&self, feature: Feature, many: usize, few: usize) -> usize {
        if self.has(feature) { many } else { few }
    }

    /// Whether much is submitted and few checks delay it.
    fn is_crowded(&self) -> bool {
        self.has(Feature::FairSharing) || self.has(Feature::Preemption)
    }

    /// Whether the next Workloads are to preempt the first ones.
    fn has_preemptors(&self) -> bool {
        self.has(Feature::Preemption) && self.workloads.len() > 3
    }
}

/// A Workload that was submitted.
#[derive(Clone, Debug)]
struct Submitted {
    name: String,
    /// Whether it is a Job.
    job: bool,
    /// The Pods of a group.
    pods: Vec<serde_json::Value>,
    /// Its pod sets, with the number of Pods of each.
    sets: Vec<(&'static str, u64)>,
    object: serde_json::Value,
    active: bool,
    gone: bool,
}

/// Generates the history with this number.
pub(crate) fn history(seed: u64, number: u64, scope: &Scope) -> History {
    let mut random = Random::new(seed, number);
    let mut features = features::draw(&mut random, scope.rare, &scope.often);
    if scope.short_timeouts && random.chance(70) {
        features.push(Feature::Running);
    }
    // With fair sharing, because the quota of an evicted Workload without a job is not released.
    let of_jobs = [
        Feature::Running,
        Feature::Elastic,
        Feature::JobActions,
        Feature::FairSharing,
        Feature::Indexed,
        Feature::Mixed,
    ]
    .iter()
    .any(|feature| features.contains(feature));
    let of_pods = [Feature::PodGroups, Feature::SinglePods, Feature::Members]
        .iter()
        .any(|feature| features.contains(feature));
    let mut draft = Draft {
        jobs: random.chance(if of_jobs { 90 } else { 45 }) && !of_pods,
        features,
        one_manager: random.chance(20),
        ..Draft::default()
    };
    let mut steps = queues::setup(&mut random, &mut draft, scope);
    let count = 4 + random.below(9) + if draft.is_crowded() { 6 } else { 0 };
    steps.push(submit::submit(&mut random, &mut draft));
    for at in 0..count {
        let step = actions::one(&mut random, &mut draft);
        let hasty = at + 1 < count && random.chance(draft.often(Feature::Hasty, 45, 3));
        steps.push(if hasty && !matches!(step, Step::Wait(_)) {
            Step::Hasty(Box::new(step))
        } else {
            step
        });
    }
    if scope.short_timeouts {
        steps.push(Step::Wait(10.0));
    } else if draft.delay > 0 {
        let seconds = u32::try_from(draft.delay).unwrap_or(1);
        steps.push(Step::Wait(f64::from(seconds) + 1.5));
    }
    History {
        name: format!("{seed}-{number}"),
        full: random.chance(50) || of_pods,
        steps,
    }
}

/// The names of pod sets, in order.
const SETS: [&str; 3] = ["main", "more", "last"];

/// Draws the pod sets of a Workload; a Job has only one.
fn pod_sets(random: &mut Random, draft: &Draft) -> Vec<Pods> {
    let large = draft.has(Feature::Partial) || draft.has(Feature::Done);
    let counts: &[u64] = if large { &[2, 3, 3, 4] } else { &[1, 1, 1, 2] };
    let count = *random.of(counts);
    let mut sets = vec![pods(random, draft, SETS[0], count)];
    if draft.jobs {
        return sets;
    }
    let more = random.chance(draft.often(Feature::PodSets, 75, 10));
    let more = usize::from(more) + usize::from(more && random.chance(30));
    for name in &SETS[1..=more] {
        let count = *random.of(&[1, 1, 1, 2]);
        sets.push(pods(random, draft, name, count));
    }
    sets
}

fn pods(random: &mut Random, draft: &Draft, name: &'static str, count: u64) -> Pods {
    let amounts = if draft.has(Feature::FairSharing) {
        ["1", "1", "1", "1", "2", "500m"]
    } else if draft.has(Feature::Preemption) {
        if draft.has_preemptors() {
            ["2", "2", "3", "3", "4", "1"]
        } else {
            ["1", "1", "1", "2", "3", "500m"]
        }
    } else {
        ["1", "1", "2", "2", "3", "500m"]
    };
    let cpu = *random.of(&amounts);
    let mut requests = serde_json::json!({"cpu": cpu});
    if draft.queues.iter().any(|queue| queue.memory) && random.chance(60) {
        requests["memory"] = (*random.of(&["1Gi", "2Gi"])).into();
    }
    if !draft.gpu_flavors.is_empty() && random.chance(50) {
        requests[GPU] = (*random.of(&["1", "1", "2"])).into();
    }
    let several = draft.flavors.len() > 1;
    let selector = (several && random.chance(20))
        .then(|| serde_json::json!({"pool": random.of(&["a", "b"]).to_owned()}));
    let tolerations = (several && random.chance(35)).then(
        || serde_json::json!([{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]),
    );
    let partial = count > 1 && random.chance(draft.often(Feature::Partial, 60, 3));
    let least = (partial && name == SETS[0]).then(|| 1 + random.next_below(count - 1));
    if random.chance(draft.often(Feature::Refused, 20, 1)) {
        requests["example.com/unknown"] = "1".into();
    }
    let init = random.chance(draft.often(Feature::PodSets, 15, 1));
    let init = init.then(|| *random.of(&["1", "2", "500m"]));
    Pods {
        name,
        count,
        least,
        requests,
        selector,
        init,
        tolerations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(cohorts: usize, rare: usize, often: Vec<Feature>) -> Scope {
        Scope {
            cohorts,
            rare,
            short_timeouts: false,
            often,
        }
    }

    /// Returns the number of the first `histories` that contain `what`.
    fn with(what: &str, histories: u64, scope: &Scope) -> usize {
        let all = (0..histories).map(|number| format!("{:?}", history(1, number, scope)));
        all.filter(|text| text.contains(what)).count()
    }

    #[test]
    fn a_seed_determines_a_history() {
        let scope = scope(50, 70, Vec::new());
        assert_eq!(history(3, 4, &scope), history(3, 4, &scope));
        assert_ne!(history(3, 4, &scope).steps, history(3, 5, &scope).steps);
    }

    #[test]
    fn cohorts_are_drawn_only_if_requested() {
        let has_cohorts = |percent| with("cohortName", 100, &scope(percent, 0, Vec::new()));
        assert_eq!(has_cohorts(0), 0);
        assert!(has_cohorts(50) > 20);
    }

    #[test]
    fn a_feature_may_be_frequent_in_all_histories() {
        let limits = |often| with("maximumExecutionTimeSeconds", 100, &scope(40, 0, often));
        assert!(limits(Vec::new()) < 10);
        assert!(limits(vec![Feature::TimeLimit]) > 30);
    }

    #[test]
    fn what_is_rare_is_drawn_only_if_requested() {
        let has = |percent, what: &str| with(what, 300, &scope(40, percent, Vec::new()));
        for what in [GPU, "parentName\": String(\"mid@", "fd@"] {
            assert_eq!(has(0, what), 0, "{what}");
        }
        for what in [
            GPU,
            "minCount",
            "job-min-parallelism",
            "maximumExecutionTimeSeconds",
            "max-exec-time-seconds",
            "\"last\"",
            "parentName\": String(\"mid@",
            "fd@",
            "Done {",
            "Run {",
            "Remove {",
            "Fail(",
            "DeleteWorkload(",
            " gets queue ",
            "maxPriorityThreshold",
            "namespaceSelector\": Object {\"matchLabels",
            "initContainers",
        ] {
            assert!(has(90, what) > 2, "{what}");
        }
    }

    #[test]
    fn features_that_are_not_drawn_are_frequent_where_they_are_named() {
        for (feature, what) in [
            (Feature::Templates, "nodeAffinity"),
            (Feature::Templates, "tolerationSeconds"),
            (Feature::Templates, "not a value"),
            (Feature::Templates, "set-8"),
            (Feature::Gates, "admission-gated-by\": Null"),
            (Feature::Indexed, "backoffLimitPerIndex"),
            (Feature::Members, "pod-group-fast-admission"),
            (Feature::Members, " fails"),
            (Feature::CohortEdits, "co@ changes"),
        ] {
            let with = |often| with(what, 100, &scope(50, 0, often));
            assert!(with(vec![feature]) > 2, "{what}");
            assert!(with(vec![feature]) > with(Vec::new()) + 2, "{what}");
        }
        let mixed = scope(50, 0, vec![Feature::Mixed]);
        let all = (0..100).map(|number| format!("{:?}", history(1, number, &mixed)));
        let kinds = ["Job", "Workload"].map(|kind| format!("\"kind\": String({kind:?})"));
        assert!(
            all.filter(|text| kinds.iter().all(|kind| text.contains(kind)))
                .count()
                > 20
        );
    }
}
