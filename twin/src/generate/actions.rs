//! Actions on the Workloads of a history, and on the objects around them.

use serde_json::{Value, json};

use super::features::Feature;
use super::queues::{groups, of_queue, on_flavors};
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
    let drawn = match random.weighted(&weights) {
        0 => None,
        1 => write_state(random, world),
        2 => activate(random, world),
        3 => delete(random, world),
        4 => finish(random, world),
        5 => Some(stop(random, world)),
        6 => Some(quota(random, world)),
        7 => check_active(random, world),
        8 => checks(random, world),
        9 => Some(stop_local(random, world)),
        10 => priority(random, world),
        11 => rare::done(random, world),
        12 => rare::run(random, world),
        13 => rare::moved(random, world),
        14 => rare::late(random, world),
        15 => rare::refused(random, world),
        16 => rare::again(world),
        17 => rare::scale(random, world),
        18 => objects::remove(random, world),
        19 => rare::of_job(random, world),
        20 => Some(objects::change(random, world)),
        _ => Some(Step::Wait(*random.of(&[1.0, 2.0, 3.0]))),
    };
    drawn.unwrap_or_else(|| submit(random, world))
}

fn write_state(random: &mut Random, world: &mut World) -> Option<Step> {
    let at = living(random, world)?;
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
    Some(Step::WriteState(StateWrite {
        workload: world.workloads[at].name.clone(),
        check: random.of(&world.checks).clone(),
        state,
        message,
        delay,
        updates: given,
        unlisted: world.has(Feature::Checks) && random.chance(15),
        one_manager: world.one_manager,
    }))
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

fn activate(random: &mut Random, world: &mut World) -> Option<Step> {
    let inactive = world.workloads.iter().position(|w| !w.active && !w.gone);
    let at = match inactive {
        Some(at) if random.chance(70) => Some(at),
        _ => living(random, world),
    };
    let at = at?;
    let known = &mut world.workloads[at];
    known.active = !known.active;
    Some(Step::Activate {
        workload: known.name.clone(),
        active: known.active,
    })
}

fn delete(random: &mut Random, world: &mut World) -> Option<Step> {
    let at = living(random, world)?;
    world.workloads[at].gone = true;
    Some(Step::Delete(world.workloads[at].name.clone()))
}

fn finish(random: &mut Random, world: &mut World) -> Option<Step> {
    let at = living(random, world)?;
    world.workloads[at].gone = true;
    Some(Step::Finish(world.workloads[at].name.clone()))
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
    let about = format!("{} stopPolicy {policy}", queue.name);
    of_queue(&queue.name, about, json!({"stopPolicy": policy}))
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
    let about = format!("{} quota {:?}", queue.name, queue.quota);
    let groups = groups(random, world, &queue);
    of_queue(&queue.name, about, json!({"resourceGroups": groups}))
}

fn check_active(random: &mut Random, world: &mut World) -> Option<Step> {
    if world.checks.is_empty() {
        return None;
    }
    if let Some(check) = world.inactive_checks.pop() {
        return Some(Step::Active {
            check,
            active: true,
        });
    }
    let check = random.of(&world.checks).clone();
    world.inactive_checks.push(check.clone());
    Some(Step::Active {
        check,
        active: false,
    })
}

/// Removes a check from a ClusterQueue, or adds it.
fn checks(random: &mut Random, world: &mut World) -> Option<Step> {
    if world.checks.is_empty() {
        return None;
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
    let about = format!("{} checks change: {check}", queue.name);
    let spec = json!({"admissionChecksStrategy": strategy});
    Some(of_queue(&queue.name, about, spec))
}

fn priority(random: &mut Random, world: &mut World) -> Option<Step> {
    let at = living(random, world)?;
    if world.has(Feature::Priorities) && random.chance(25) {
        let class = *random.of(&["p1@", "p100@"]);
        let value = *random.of(&[0, 5, 50, 200]);
        return Some(Step::Patch {
            about: format!("{class} becomes {value}"),
            path: format!("{}/{class}", cluster_path("workloadpriorityclasses")),
            body: json!({"value": value}),
        });
    }
    let name = &world.workloads[at].name;
    if world.jobs {
        let class = if world.has(Feature::Classes) && random.chance(40) {
            "late@"
        } else {
            *random.of(&["p1@", "p10@", "p100@"])
        };
        return Some(Step::Patch {
            about: format!("{name} is of class {class}"),
            path: job_path(name),
            body: json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": class}}}),
        });
    }
    let priority = *random.of(&[1, 50, 200]);
    Some(Step::Patch {
        about: format!("{name} priority {priority}"),
        path: format!("{}/{name}", namespaced_path("workloads")),
        body: json!({"spec": {"priority": priority}}),
    })
}
