//! What is done with the Workloads of a history, and around them.

use serde_json::{Value, json};

use super::queues::groups;
use super::{Submitted, World, pods};
use crate::bodies::{cluster_path, job, namespaced_path, workload};
use crate::history::{Answer, Step};
use crate::random::Random;

/// The kinds of actions; most of what happens is answers of checks.
const WEIGHTS: [usize; 12] = [20, 44, 7, 3, 6, 5, 4, 4, 3, 2, 1, 4];

/// One action.
pub(super) fn one(random: &mut Random, world: &mut World) -> Step {
    match random.weighted(&WEIGHTS) {
        0 => submit(random, world),
        1 => answer(random, world),
        2 => activate(random, world),
        3 => delete(random, world),
        4 => finish(random, world),
        5 => stop(random, world),
        6 => quota(random, world),
        7 => check_active(random, world),
        8 => checks(random, world),
        9 => stop_local(random, world),
        10 => priority(random, world),
        _ => Step::Wait(*random.of(&[1.0, 2.0, 3.0])),
    }
}

/// A Workload is submitted.
pub(super) fn submit(random: &mut Random, world: &mut World) -> Step {
    let name = format!("w{}@", world.workloads.len() + 1);
    let (queue, _) = random.of(&world.local_queues).clone();
    let object = if world.jobs {
        let count = *random.of(&[1, 1, 1, 2]);
        let class = random.of(&[None, None, Some("p1@"), Some("p100@")]);
        let pods = pods(random, world, count);
        job(&name, &queue, *class, &pods)
    } else {
        let count = *random.of(&[1, 1, 1, 2]);
        let mut sets = vec![pods(random, world, count)];
        if random.chance(10) {
            sets.push(pods(random, world, 1));
        }
        let priority = *random.of(&[None, None, Some(1), Some(100)]);
        workload(&name, &queue, priority, &sets)
    };
    world.workloads.push(Submitted {
        name,
        active: true,
        gone: false,
    });
    Step::Create(vec![object])
}

/// The place of a Workload that is there; rather a late one.
fn living(random: &mut Random, world: &World) -> Option<usize> {
    let all = world.workloads.iter().enumerate();
    let living: Vec<usize> = all.filter(|(_, w)| !w.gone).map(|(at, _)| at).collect();
    (!living.is_empty()).then(|| *random.of(&living))
}

fn answer(random: &mut Random, world: &mut World) -> Step {
    let Some(at) = living(random, world) else {
        return submit(random, world);
    };
    if world.checks.is_empty() {
        return finish(random, world);
    }
    let state = ["Ready", "Retry", "Rejected", "Pending"][random.weighted(&[52, 30, 8, 10])];
    let message = match state {
        "Ready" => *random.of(&["ok", ""]),
        "Pending" => "not yet",
        _ => *random.of(&["no room", "no room", ""]),
    };
    let delay = (state == "Retry" && random.chance(40)).then(|| *random.of(&[2, 3, 5]));
    world.delay = world.delay.max(delay.unwrap_or_default());
    let updates = (state == "Ready" && random.chance(15)).then(|| updates(random));
    Step::Answer(Answer {
        workload: world.workloads[at].name.clone(),
        check: random.of(&world.checks).clone(),
        state,
        message,
        delay,
        updates,
        one_manager: world.one_manager,
    })
}

fn updates(random: &mut Random) -> Value {
    let mut update = json!({"name": "main"});
    let values = ["1", "2"];
    if random.chance(60) {
        update["labels"] = json!({"l": random.of(&values)});
    }
    if random.chance(40) {
        update["nodeSelector"] = json!({"n": random.of(&values)});
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

/// A check is taken from a ClusterQueue, or given to it.
fn checks(random: &mut Random, world: &mut World) -> Step {
    if world.checks.is_empty() {
        return submit(random, world);
    }
    let at = random.below(world.queues.len());
    let check = random.of(&world.checks).clone();
    let flavor = random.of(&world.flavors).clone();
    let narrow = world.flavors.len() > 1 && random.chance(40);
    let queue = &mut world.queues[at];
    let before = queue.checks.len();
    queue.checks.retain(|rule| rule["name"] != check.as_str());
    if queue.checks.len() == before {
        let mut rule = json!({"name": check});
        if narrow {
            rule["onFlavors"] = json!([flavor]);
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
    if world.jobs {
        return submit(random, world);
    }
    let Some(at) = living(random, world) else {
        return submit(random, world);
    };
    let name = &world.workloads[at].name;
    let priority = *random.of(&[1, 50, 200]);
    Step::Patch {
        about: format!("{name} priority {priority}"),
        path: format!("{}/{name}", namespaced_path("workloads")),
        body: json!({"spec": {"priority": priority}}),
    }
}
