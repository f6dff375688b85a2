//! Actions on the Workloads of a history, and on the objects around them.

use serde_json::{Value, json};

use super::features::Feature;
use super::queues::{groups, on_flavors};
use super::submit::{living, submit};
use super::{World, objects, rare};
use crate::bodies::{cluster_path, job_path, namespaced_path};
use crate::history::{StateWrite, Step};
use crate::random::Random;

/// Draws one action. States written by checks and the history's features are the most frequent.
pub(super) fn one(random: &mut Random, world: &mut World) -> Step {
    let weights = [
        if world.is_crowded() { 60 } else { 20 },
        44,
        world.often(Feature::Activation, 22, 7),
        3,
        6,
        world.often(Feature::Stops, 22, 5),
        world.often(Feature::Quota, 20, 4),
        world.often(Feature::Checks, 16, 4),
        world.often(Feature::Checks, 14, 3),
        world.often(Feature::Stops, 14, 2),
        if world.has(Feature::Priorities) || world.has(Feature::Classes) {
            20
        } else {
            1
        },
        world.often(Feature::Done, 25, 0),
        world.often(Feature::Running, 30, 0),
        world.often(Feature::Moves, 20, 0),
        if world.has(Feature::Late) || !world.late.is_empty() {
            25
        } else {
            0
        },
        world.often(Feature::Refused, 30, 0),
        world.often(Feature::Again, 18, 0),
        world.often(Feature::Elastic, 35, 0),
        world.often(Feature::Removal, 22, 0),
        world.often(Feature::JobActions, 40, 1),
        world.often(Feature::Selectors, 25, 0),
        4,
    ];
    match random.weighted(&weights) {
        0 => submit(random, world),
        1 => write_state(random, world),
        2 => activate(random, world),
        3 => delete(random, world),
        4 => finish(random, world),
        5 => stop(random, world),
        6 => quota(random, world),
        7 => check_active(random, world),
        8 => checks(random, world),
        9 => stop_local(random, world),
        10 => priority(random, world),
        11 => rare::done(random, world),
        12 => rare::run(random, world),
        13 => rare::moved(random, world),
        14 => rare::late(random, world),
        15 => rare::refused(random, world),
        16 => rare::again(random, world),
        17 => rare::scale(random, world),
        18 => objects::remove(random, world),
        19 => rare::of_job(random, world),
        20 => objects::change(random, world),
        _ => Step::Wait(*random.of(&[1.0, 2.0, 3.0])),
    }
}

fn write_state(random: &mut Random, world: &mut World) -> Step {
    let Some(at) = living(random, world) else {
        return submit(random, world);
    };
    if world.checks.is_empty() {
        return if world.has(Feature::Preemption) && random.chance(70) {
            activate(random, world)
        } else {
            finish(random, world)
        };
    }
    let state = ["Ready", "Retry", "Rejected", "Pending"][random.weighted(&[52, 30, 8, 10])];
    let message = match state {
        "Ready" => *random.of(&["ok", ""]),
        "Pending" => "not yet",
        _ => *random.of(&["no room", "no room", ""]),
    };
    let delay = (state == "Retry" && random.chance(40)).then(|| *random.of(&[2, 3, 5]));
    world.delay = world.delay.max(delay.unwrap_or_default());
    let some = world.often(Feature::Updates, 60, 15);
    let mut given = Vec::new();
    if state == "Ready" && random.chance(some) {
        for (set, _) in &world.workloads[at].sets {
            if given.is_empty() || random.chance(50) {
                given.push(updates(random, set));
            }
        }
    }
    Step::WriteState(StateWrite {
        workload: world.workloads[at].name.clone(),
        check: random.of(&world.checks).clone(),
        state,
        message,
        delay,
        updates: given,
        unlisted: world.has(Feature::Checks) && random.chance(15),
        one_manager: world.one_manager,
    })
}

fn updates(random: &mut Random, set: &str) -> Value {
    let mut update = json!({"name": set});
    let values = ["1", "2"];
    if random.chance(60) {
        update["labels"] = json!({"l": random.of(&values)});
    }
    if random.chance(40) {
        update["nodeSelector"] = json!({"n": random.of(&values)});
    }
    if random.chance(15) {
        update["annotations"] = json!({"example.com/a": random.of(&values)});
    }
    if random.chance(30) {
        update["tolerations"] = json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]);
    }
    update
}

fn activate(random: &mut Random, world: &mut World) -> Step {
    let inactive = world.workloads.iter().position(|w| !w.active && !w.gone);
    let at = match inactive {
        Some(at) if random.chance(70) => Some(at),
        _ => living(random, world),
    };
    let Some(at) = at else {
        return submit(random, world);
    };
    let known = &mut world.workloads[at];
    known.active = !known.active;
    Step::Activate {
        workload: known.name.clone(),
        active: known.active,
    }
}

fn delete(random: &mut Random, world: &mut World) -> Step {
    let Some(at) = living(random, world) else {
        return submit(random, world);
    };
    world.workloads[at].gone = true;
    Step::Delete(world.workloads[at].name.clone())
}

fn finish(random: &mut Random, world: &mut World) -> Step {
    let Some(at) = living(random, world) else {
        return submit(random, world);
    };
    world.workloads[at].gone = true;
    Step::Finish(world.workloads[at].name.clone())
}

fn stop(random: &mut Random, world: &mut World) -> Step {
    let at = random.below(world.queues.len());
    let queue = &mut world.queues[at];
    queue.stopped = !queue.stopped;
    let policy = if queue.stopped {
        *random.of(&["Hold", "HoldAndDrain"])
    } else {
        "None"
    };
    Step::Patch {
        about: format!("{} stopPolicy {policy}", queue.name),
        path: format!("{}/{}", cluster_path("clusterqueues"), queue.name),
        body: json!({"spec": {"stopPolicy": policy}}),
    }
}

fn stop_local(random: &mut Random, world: &mut World) -> Step {
    let (name, _) = random.of(&world.local_queues).clone();
    let policy = *random.of(&["None", "Hold", "HoldAndDrain"]);
    Step::Patch {
        about: format!("{name} stopPolicy {policy}"),
        path: format!("{}/{name}", namespaced_path("localqueues")),
        body: json!({"spec": {"stopPolicy": policy}}),
    }
}

fn quota(random: &mut Random, world: &mut World) -> Step {
    let at = random.below(world.queues.len());
    let mut queue = world.queues[at].clone();
    for quota in &mut queue.quota {
        *quota = *random.of(&[0, 1, 2, 3, 5]);
    }
    world.queues[at] = queue.clone();
    Step::Patch {
        about: format!("{} quota {:?}", queue.name, queue.quota),
        path: format!("{}/{}", cluster_path("clusterqueues"), queue.name),
        body: json!({"spec": {"resourceGroups": groups(random, world, &queue)}}),
    }
}

fn check_active(random: &mut Random, world: &mut World) -> Step {
    if world.checks.is_empty() {
        return submit(random, world);
    }
    if let Some(check) = world.inactive_checks.pop() {
        return Step::Active {
            check,
            active: true,
        };
    }
    let check = random.of(&world.checks).clone();
    world.inactive_checks.push(check.clone());
    Step::Active {
        check,
        active: false,
    }
}

/// Removes a check from a ClusterQueue, or adds it.
fn checks(random: &mut Random, world: &mut World) -> Step {
    if world.checks.is_empty() {
        return submit(random, world);
    }
    let at = random.below(world.queues.len());
    let check = random.of(&world.checks).clone();
    let narrow = on_flavors(random, world, world.queues[at].gpus);
    let queue = &mut world.queues[at];
    let before = queue.checks.len();
    queue.checks.retain(|rule| rule["name"] != check.as_str());
    if queue.checks.len() == before {
        let mut rule = json!({"name": check});
        if let Some(flavors) = narrow {
            rule["onFlavors"] = flavors;
        }
        queue.checks.push(rule);
    }
    let strategy = if queue.checks.is_empty() {
        Value::Null
    } else {
        json!({"admissionChecks": queue.checks})
    };
    Step::Patch {
        about: format!("{} checks change: {check}", queue.name),
        path: format!("{}/{}", cluster_path("clusterqueues"), queue.name),
        body: json!({"spec": {"admissionChecksStrategy": strategy}}),
    }
}

fn priority(random: &mut Random, world: &mut World) -> Step {
    let Some(at) = living(random, world) else {
        return submit(random, world);
    };
    if world.has(Feature::Priorities) && random.chance(25) {
        let class = *random.of(&["p1@", "p100@"]);
        let value = *random.of(&[0, 5, 50, 200]);
        return Step::Patch {
            about: format!("{class} becomes {value}"),
            path: format!("{}/{class}", cluster_path("workloadpriorityclasses")),
            body: json!({"value": value}),
        };
    }
    let name = &world.workloads[at].name;
    if world.jobs {
        let class = if world.has(Feature::Classes) && random.chance(40) {
            "late@"
        } else {
            *random.of(&["p1@", "p10@", "p100@"])
        };
        return Step::Patch {
            about: format!("{name} is of class {class}"),
            path: job_path(name),
            body: json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": class}}}),
        };
    }
    let priority = *random.of(&[1, 50, 200]);
    Step::Patch {
        about: format!("{name} priority {priority}"),
        path: format!("{}/{name}", namespaced_path("workloads")),
        body: json!({"spec": {"priority": priority}}),
    }
}
