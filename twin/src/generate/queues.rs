//! Flavors, checks, queues and cohorts.

use serde_json::{Value, json};

use super::{Scope, World};
use crate::bodies::{CPU, cluster_object, namespaced_object};
use crate::history::Step;
use crate::random::Random;

/// A ClusterQueue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    /// By flavor, of cpu.
    pub(super) quota: Vec<u64>,
    pub(super) memory: bool,
    pub(super) cohort: Option<String>,
    /// The rules of its checks.
    pub(super) checks: Vec<Value>,
    pub(super) stopped: bool,
}

/// Everything that is there before the first Workload.
pub(super) fn setup(random: &mut Random, world: &mut World, scope: Scope) -> Vec<Step> {
    let mut steps = vec![Step::Create(flavors(random, world))];
    let checks = checks(random, world);
    if !checks.is_empty() {
        steps.push(Step::Create(checks));
        for check in world.checks.clone() {
            if random.chance(95) {
                steps.push(Step::Active {
                    check,
                    active: true,
                });
            } else {
                world.inactive_checks.push(check);
            }
        }
    }
    let cohorts = random.chance(scope.cohorts);
    if cohorts && random.chance(30) {
        steps.push(Step::Create(cohort_objects(random)));
    }
    let count = if cohorts {
        2 + random.below(2)
    } else {
        1 + usize::from(random.chance(20))
    };
    for at in 0..count {
        let queue = queue(random, world, at, cohorts);
        steps.push(Step::Create(vec![queue]));
    }
    steps.push(Step::Create(local_queues(random, world, count)));
    if world.jobs {
        let class = |(name, value): (&str, i64)| {
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass",
                "metadata": {"name": name}, "value": value,
            })
        };
        let classes = [("p1@", 1), ("p100@", 100)].map(class);
        steps.push(Step::Create(classes.to_vec()));
    }
    steps
}

fn flavors(random: &mut Random, world: &mut World) -> Vec<Value> {
    if random.chance(55) {
        world.flavors = vec!["default@".to_owned()];
        return vec![cluster_object("ResourceFlavor", "default@", json!({}))];
    }
    world.flavors = vec!["fa@".to_owned(), "fb@".to_owned()];
    let taint = json!([{"key": "spot", "value": "true", "effect": "NoSchedule"}]);
    ["a", "b"]
        .into_iter()
        .map(|pool| {
            let mut spec = json!({});
            if random.chance(60) {
                spec["nodeLabels"] = json!({"pool": pool});
            }
            if random.chance(25) {
                spec["nodeTaints"] = taint.clone();
            }
            cluster_object("ResourceFlavor", &format!("f{pool}@"), spec)
        })
        .collect()
}

fn checks(random: &mut Random, world: &mut World) -> Vec<Value> {
    let count = random.weighted(&[12, 45, 33, 10]);
    world.checks = (1..=count).map(|number| format!("c{number}@")).collect();
    let spec = || json!({"controllerName": "example.com/test"});
    let each = world.checks.iter();
    each.map(|name| cluster_object("AdmissionCheck", name, spec()))
        .collect()
}

fn cohort_objects(random: &mut Random) -> Vec<Value> {
    let mut objects = Vec::new();
    if random.chance(50) {
        objects.push(cluster_object("Cohort", "top@", json!({})));
        objects.push(cluster_object(
            "Cohort",
            "co@",
            json!({"parentName": "top@"}),
        ));
    } else {
        objects.push(cluster_object("Cohort", "co@", json!({})));
    }
    objects
}

fn queue(random: &mut Random, world: &mut World, at: usize, cohorts: bool) -> Value {
    let name = if at == 0 {
        "cq@".to_owned()
    } else {
        format!("cq{}@", at + 1)
    };
    let memory = random.chance(15);
    let quota: Vec<u64> = world
        .flavors
        .iter()
        .map(|_| *random.of(&[1, 2, 2, 3, 4]))
        .collect();
    let mut rules: Vec<Value> = Vec::new();
    for check in &world.checks {
        if random.chance(85) {
            let mut rule = json!({"name": check});
            if world.flavors.len() > 1 && random.chance(40) {
                rule["onFlavors"] = json!([random.of(&world.flavors)]);
            }
            rules.push(rule);
        }
    }
    let mut queue = Queue {
        name: name.clone(),
        quota,
        memory,
        cohort: cohorts.then(|| "co@".to_owned()),
        checks: rules,
        stopped: false,
    };
    let mut spec = json!({"namespaceSelector": {}});
    spec["resourceGroups"] = groups(random, world, &queue);
    if !queue.checks.is_empty() {
        spec["admissionChecksStrategy"] = json!({"admissionChecks": queue.checks});
    }
    if random.chance(25) {
        spec["queueingStrategy"] = json!("StrictFIFO");
    }
    let mut preemption = json!({});
    let within = ["Never", "LowerPriority", "LowerOrNewerEqualPriority"];
    if random.chance(60) {
        preemption["withinClusterQueue"] = json!(random.of(&within));
    }
    if let Some(cohort) = &queue.cohort {
        spec["cohortName"] = json!(cohort);
        if random.chance(60) {
            let reclaim = ["Never", "LowerPriority", "Any"];
            preemption["reclaimWithinCohort"] = json!(random.of(&reclaim));
            if preemption["reclaimWithinCohort"] != "Never" && random.chance(25) {
                preemption["borrowWithinCohort"] = json!({"policy": "LowerPriority"});
            }
        }
    }
    if preemption != json!({}) {
        spec["preemption"] = preemption;
    }
    if world.flavors.len() > 1 && random.chance(30) {
        let mut fungibility = json!({});
        if random.chance(60) {
            fungibility["whenCanPreempt"] = json!(random.of(&["TryNextFlavor", "MayStopSearch"]));
        }
        if random.chance(60) {
            fungibility["whenCanBorrow"] = json!(random.of(&["TryNextFlavor", "MayStopSearch"]));
        }
        spec["flavorFungibility"] = fungibility;
    }
    queue.stopped = false;
    world.queues.push(queue);
    cluster_object("ClusterQueue", &name, spec)
}

/// The quota of a ClusterQueue, as its spec has it.
pub(super) fn groups(random: &mut Random, world: &World, queue: &Queue) -> Value {
    let mut covered = vec![CPU];
    if queue.memory {
        covered.push("memory");
    }
    let flavors: Vec<Value> = world
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
            json!({"name": flavor, "resources": resources})
        })
        .collect();
    json!([{"coveredResources": covered, "flavors": flavors}])
}

fn local_queues(random: &mut Random, world: &mut World, count: usize) -> Vec<Value> {
    for at in 0..count {
        let name = if at == 0 {
            "lq@".to_owned()
        } else {
            format!("lq{}@", at + 1)
        };
        world.local_queues.push((name, at));
    }
    if count == 1 && random.chance(10) {
        world.local_queues.push(("other@".to_owned(), 0));
    }
    let each = world.local_queues.iter();
    each.map(|(name, queue)| {
        let spec = json!({"clusterQueue": world.queues[*queue].name});
        namespaced_object("LocalQueue", name, spec)
    })
    .collect()
}
