//! Checks and queues.

use serde_json::{Value, json};

use super::cohorts::cohorts;
use super::features::Feature;
use super::flavors::flavors;
use super::{Draft, Scope};
use crate::bodies::{CPU, GPU, cluster_object, cluster_path, namespaced_object};
use crate::history::Step;
use crate::random::Random;

/// A ClusterQueue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    /// The quota of cpu, by flavor.
    pub(super) quota: Vec<u64>,
    pub(super) memory: bool,
    /// The maximum number of Pods for each flavor, if limited.
    pub(super) pods: Option<u64>,
    /// Whether it has the second resource group.
    pub(super) gpus: bool,
    pub(super) cohort: Option<String>,
    /// The rules of its checks.
    pub(super) checks: Vec<Value>,
    pub(super) stopped: bool,
}

/// Draws the steps before the first Workload.
pub(super) fn setup(random: &mut Random, draft: &mut Draft, scope: &Scope) -> Vec<Step> {
    let mut flavors = flavors(random, draft);
    if flavors.len() > 1 && random.chance(draft.often(Feature::Late, 25, 0)) {
        draft.late.extend(flavors.pop());
    }
    let mut steps = vec![Step::Create(flavors)];
    let mut checks = checks(random, draft);
    if random.chance(draft.often(Feature::Late, 35, 0))
        && let Some(late) = checks.pop()
    {
        let name = late["metadata"]["name"].as_str().unwrap_or_default();
        draft.inactive_checks.push(name.to_owned());
        draft.late.push(late);
    }
    if !checks.is_empty() {
        steps.push(Step::Create(checks));
        let is_late = |check: &String| draft.inactive_checks.contains(check);
        let there: Vec<String> = draft.checks.clone();
        let there: Vec<String> = there.into_iter().filter(|c| !is_late(c)).collect();
        for check in there {
            if random.chance(95) {
                steps.push(Step::Active {
                    check,
                    active: true,
                });
            } else {
                draft.inactive_checks.push(check);
            }
        }
    }
    let deep = draft.has(Feature::DeepCohorts);
    let cohorts = random.chance(scope.cohorts) || deep;
    if cohorts {
        let objects = self::cohorts(random, draft);
        if !objects.is_empty() {
            steps.push(Step::Create(objects));
        }
    }
    let count = if cohorts {
        2 + random.below(2) + usize::from(deep)
    } else if draft.has(Feature::Moves) {
        2
    } else {
        1 + usize::from(random.chance(20))
    };
    for at in 0..count {
        let queue = queue(random, draft, at, cohorts);
        if at > 0 && random.chance(draft.often(Feature::Late, 25, 0)) {
            draft.late.push(queue);
        } else {
            steps.push(Step::Create(vec![queue]));
        }
    }
    let mut locals = local_queues(random, draft, count);
    if random.chance(draft.often(Feature::Late, 25, 0)) {
        draft.late.extend(locals.pop());
    }
    if draft.has(Feature::DefaultQueue) {
        let queue = namespaced_object("LocalQueue", "default", json!({"clusterQueue": "cq@"}));
        if random.chance(40) {
            draft.late.push(queue);
        } else {
            locals.push(queue);
        }
    }
    if !locals.is_empty() {
        steps.push(Step::Create(locals));
    }
    if draft.jobs || draft.has(Feature::Priorities) {
        let class = |(name, value): (&str, i64)| {
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass",
                "metadata": {"name": name}, "value": value,
            })
        };
        let classes = [("p1@", 1), ("p10@", 10), ("p100@", 100)].map(class);
        steps.push(Step::Create(classes.to_vec()));
        if draft.has(Feature::Classes) {
            draft.late.push(class(("late@", 50)));
        }
    }
    if draft.has(Feature::Classes) {
        let class = |(name, value): (&str, i64)| {
            json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value,
            })
        };
        steps.push(Step::Create(
            [("pod5@", 5), ("pod50@", 50)].map(class).to_vec(),
        ));
        draft.late.push(class(("late@", 20)));
    }
    steps
}

fn checks(random: &mut Random, draft: &mut Draft) -> Vec<Value> {
    let weights = if draft.is_crowded() {
        [75, 15, 10, 0]
    } else {
        [12, 45, 33, 10]
    };
    let count = random.weighted(&weights);
    draft.checks = (1..=count).map(|number| format!("c{number}@")).collect();
    let spec = || json!({"controllerName": "example.com/test"});
    let each = draft.checks.iter();
    each.map(|name| cluster_object("AdmissionCheck", name, spec()))
        .collect()
}

fn queue(random: &mut Random, draft: &mut Draft, at: usize, cohorts: bool) -> Value {
    let name = if at == 0 {
        "cq@".to_owned()
    } else {
        format!("cq{}@", at + 1)
    };
    let memory = random.chance(15);
    let pods = random
        .chance(draft.often(Feature::PodSets, 20, 4))
        .then_some(2);
    let gpus = !draft.gpu_flavors.is_empty() && random.chance(85);
    let quota: Vec<u64> = draft
        .flavors
        .iter()
        .map(|_| {
            let some: &[u64] = match (draft.has(Feature::FairSharing), at) {
                (true, 0) => &[4],
                (true, _) => &[0, 0, 0, 1],
                (false, _) if draft.has(Feature::Preemption) => &[4, 5],
                (false, _) => &[1, 2, 2, 3, 4],
            };
            *random.of(some)
        })
        .collect();
    let mut rules: Vec<Value> = Vec::new();
    for check in &draft.checks {
        if random.chance(85) {
            let mut rule = json!({"name": check});
            if let Some(flavors) = on_flavors(random, draft, gpus) {
                rule["onFlavors"] = flavors;
            }
            rules.push(rule);
        }
    }
    let mut queue = Queue {
        name: name.clone(),
        quota,
        memory,
        pods,
        gpus,
        cohort: cohorts.then(|| random.of(&draft.cohorts).clone()),
        checks: rules,
        stopped: false,
    };
    let mut spec = json!({"namespaceSelector": {}});
    if random.chance(draft.often(Feature::Selectors, 30, 1)) {
        spec["namespaceSelector"] = json!({"matchLabels": {"team": "a"}});
    }
    if random.chance(draft.often(Feature::FairSharing, 50, 5)) {
        spec["fairSharing"] = json!({"weight": random.of(&["500m", "2", "0"])});
    }
    spec["resourceGroups"] = groups(random, draft, &queue);
    if !queue.checks.is_empty() {
        spec["admissionChecksStrategy"] = json!({"admissionChecks": queue.checks});
    }
    if random.chance(25) {
        spec["queueingStrategy"] = json!("StrictFIFO");
    }
    let mut preemption = json!({});
    let within = ["Never", "LowerPriority", "LowerOrNewerEqualPriority"];
    if draft.has(Feature::Preemption) {
        preemption["withinClusterQueue"] = json!(random.of(&within[1..]));
    } else if random.chance(60) {
        preemption["withinClusterQueue"] = json!(random.of(&within));
    }
    if let Some(cohort) = &queue.cohort {
        spec["cohortName"] = json!(cohort);
        if random.chance(draft.often(Feature::FairSharing, 90, 60)) {
            let reclaim = if draft.has(Feature::FairSharing) {
                ["Any", "LowerPriority", "Any"]
            } else {
                ["Never", "LowerPriority", "Any"]
            };
            preemption["reclaimWithinCohort"] = json!(random.of(&reclaim));
            if preemption["reclaimWithinCohort"] != "Never" && random.chance(25) {
                let mut borrowing = json!({"policy": "LowerPriority"});
                if random.chance(40) {
                    borrowing["maxPriorityThreshold"] = json!(random.of(&[0, 1, 50]));
                }
                preemption["borrowWithinCohort"] = borrowing;
            }
        }
    }
    if preemption != json!({}) {
        spec["preemption"] = preemption;
    }
    if draft.flavors.len() > 1 && random.chance(30) {
        let mut fungibility = json!({});
        if random.chance(60) {
            fungibility["whenCanPreempt"] = json!(random.of(&["TryNextFlavor", "MayStopSearch"]));
        }
        if random.chance(60) {
            fungibility["whenCanBorrow"] = json!(random.of(&["TryNextFlavor", "MayStopSearch"]));
        }
        if random.chance(25) {
            fungibility = json!({
                "whenCanPreempt": "TryNextFlavor", "whenCanBorrow": "TryNextFlavor",
                "preference":
                    random.of(&["BorrowingOverPreemption", "PreemptionOverBorrowing"]),
            });
        }
        spec["flavorFungibility"] = fungibility;
    }
    queue.stopped = false;
    draft.queues.push(queue);
    cluster_object("ClusterQueue", &name, spec)
}

/// Draws the flavors that a check applies to, or `None` for all.
pub(super) fn on_flavors(random: &mut Random, draft: &Draft, gpus: bool) -> Option<Value> {
    let mut all = draft.flavors.clone();
    if gpus {
        all.extend(draft.gpu_flavors.iter().cloned());
    }
    if all.len() < 2 || !random.chance(40) {
        return None;
    }
    let first = random.of(&all).clone();
    let mut some = vec![first];
    if all.len() > 2 && random.chance(50) {
        let second = random.of(&all).clone();
        if !some.contains(&second) {
            some.push(second);
        }
    }
    Some(json!(some))
}

/// Returns the resource groups of a ClusterQueue, in the format of its spec.
pub(super) fn groups(random: &mut Random, draft: &Draft, queue: &Queue) -> Value {
    let mut covered = vec![CPU];
    if queue.memory {
        covered.push("memory");
    }
    if queue.pods.is_some() {
        covered.push("pods");
    }
    let flavors: Vec<Value> = draft
        .flavors
        .iter()
        .zip(&queue.quota)
        .map(|(flavor, quota)| {
            let mut cpu = json!({"name": CPU, "nominalQuota": quota.to_string()});
            if queue.cohort.is_some() {
                if random.chance(25) {
                    cpu["borrowingLimit"] = json!(random.of(&["0", "1", "2"]));
                }
                if random.chance(20) {
                    let limit = (*random.of(&[0, 1])).min(*quota);
                    cpu["lendingLimit"] = json!(limit.to_string());
                }
            }
            let mut resources = vec![cpu];
            if queue.memory {
                resources.push(json!({"name": "memory", "nominalQuota": "4Gi"}));
            }
            if let Some(pods) = queue.pods {
                resources.push(json!({"name": "pods", "nominalQuota": pods.to_string()}));
            }
            json!({"name": flavor, "resources": resources})
        })
        .collect();
    let mut groups = vec![json!({"coveredResources": covered, "flavors": flavors})];
    if queue.gpus {
        let each = draft.gpu_flavors.iter().map(|flavor| {
            let quota = random.of(&["1", "1", "2", "4"]);
            json!({"name": flavor, "resources": [{"name": GPU, "nominalQuota": quota}]})
        });
        let flavors: Vec<Value> = each.collect();
        groups.push(json!({"coveredResources": [GPU], "flavors": flavors}));
    }
    json!(groups)
}

fn local_queues(random: &mut Random, draft: &mut Draft, count: usize) -> Vec<Value> {
    for at in 0..count {
        let name = if at == 0 {
            "lq@".to_owned()
        } else {
            format!("lq{}@", at + 1)
        };
        draft.local_queues.push((name, at));
    }
    if count == 1 && random.chance(draft.often(Feature::Moves, 90, 10)) {
        draft.local_queues.push(("other@".to_owned(), 0));
    }
    let each = draft.local_queues.iter();
    each.map(|(name, queue)| {
        let spec = json!({"clusterQueue": draft.queues[*queue].name});
        namespaced_object("LocalQueue", name, spec)
    })
    .collect()
}

/// Changes the spec of a ClusterQueue.
pub(super) fn of_queue(name: &str, about: String, spec: Value) -> Step {
    Step::Patch {
        about,
        path: format!("{}/{name}", cluster_path("clusterqueues")),
        body: json!({"spec": spec}),
    }
}
