//! Actions on the Workloads of a history, and on the objects around them.

use serde_json::{Value, json};

use super::features::Feature;
use super::queues::{groups, of_queue, on_flavors};
use super::submit::{living, submit};
use super::{Draft, cohorts, objects, rare, templates};
use crate::bodies::{cluster_path, job_path, namespaced_path};
use crate::history::{StateWrite, Step};
use crate::random::Random;

/// Draws one action. States written by checks and the history's features are the most frequent.
pub(super) fn one(random: &mut Random, draft: &mut Draft) -> Step {
    let weights = [
        if draft.is_crowded() { 60 } else { 20 },
        44,
        draft.often(Feature::Activation, 22, 7),
        3,
        6,
        draft.often(Feature::Stops, 22, 5),
        draft.often(Feature::Quota, 20, 4),
        draft.often(Feature::Checks, 16, 4),
        draft.often(Feature::Checks, 14, 3),
        draft.often(Feature::Stops, 14, 2),
        if draft.has(Feature::Priorities) || draft.has(Feature::Classes) {
            20
        } else {
            1
        },
        draft.often(Feature::Done, 25, 0),
        draft.often(Feature::Running, 30, 0),
        draft.often(Feature::Moves, 20, 0),
        if draft.has(Feature::Late) || !draft.late.is_empty() {
            25
        } else {
            0
        },
        draft.often(Feature::Refused, 30, 0),
        draft.often(Feature::Again, 18, 0),
        draft.often(Feature::Elastic, 35, 0),
        draft.often(Feature::Removal, 22, 0),
        draft.often(Feature::JobActions, 40, 1),
        draft.often(Feature::Selectors, 25, 0),
        draft.often(Feature::Gates, 30, 0),
        draft.often(Feature::Members, 40, 0),
        draft.often(Feature::CohortEdits, 30, 0),
        4,
    ];
    let drawn = match random.weighted(&weights) {
        0 => None,
        1 => write_state(random, draft),
        2 => activate(random, draft),
        3 => delete(random, draft),
        4 => finish(random, draft),
        5 => Some(stop(random, draft)),
        6 => Some(quota(random, draft)),
        7 => check_active(random, draft),
        8 => checks(random, draft),
        9 => Some(stop_local(random, draft)),
        10 => priority(random, draft),
        11 => rare::done(random, draft),
        12 => rare::run(random, draft),
        13 => rare::moved(random, draft),
        14 => rare::late(random, draft),
        15 => rare::refused(random, draft),
        16 => rare::again(draft),
        17 => rare::scale(random, draft),
        18 => objects::remove(random, draft),
        19 => rare::of_job(random, draft),
        20 => Some(objects::change(random, draft)),
        21 => rare::gate(random, draft),
        22 => rare::member(random, draft),
        23 => cohorts::change(random, draft),
        _ => Some(Step::Wait(*random.of(&[1.0, 2.0, 3.0]))),
    };
    drawn.unwrap_or_else(|| submit(random, draft))
}

fn write_state(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft)?;
    if draft.checks.is_empty() {
        return if draft.has(Feature::Preemption) && random.chance(70) {
            activate(random, draft)
        } else {
            finish(random, draft)
        };
    }
    let state = ["Ready", "Retry", "Rejected", "Pending"][random.weighted(&[52, 30, 8, 10])];
    let message = match state {
        "Ready" => *random.of(&["ok", ""]),
        "Pending" => "not yet",
        _ => *random.of(&["no room", "no room", ""]),
    };
    let delay = (state == "Retry" && random.chance(40)).then(|| *random.of(&[2, 3, 5]));
    draft.delay = draft.delay.max(delay.unwrap_or_default());
    let some = draft.often(Feature::Updates, 60, 15);
    let mut given = Vec::new();
    if state == "Ready" && random.chance(some) {
        for (set, _) in &draft.workloads[at].sets {
            if given.is_empty() || random.chance(50) {
                given.push(updates(random, draft, set));
            }
        }
    }
    Some(Step::WriteState(StateWrite {
        workload: draft.workloads[at].name.clone(),
        check: random.of(&draft.checks).clone(),
        state,
        message,
        delay,
        updates: given,
        unlisted: draft.has(Feature::Checks) && random.chance(15),
        one_manager: draft.one_manager,
    }))
}

fn updates(random: &mut Random, draft: &Draft, set: &str) -> Value {
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
    if draft.has(Feature::Templates) && random.chance(50) {
        update["tolerations"] = json!([templates::toleration(random)]);
    }
    update
}

fn activate(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let inactive = draft.workloads.iter().position(|w| !w.active && !w.gone);
    let at = match inactive {
        Some(at) if random.chance(70) => Some(at),
        _ => living(random, draft),
    };
    let at = at?;
    let known = &mut draft.workloads[at];
    known.active = !known.active;
    Some(Step::Activate {
        workload: known.name.clone(),
        active: known.active,
    })
}

fn delete(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft)?;
    draft.workloads[at].gone = true;
    Some(Step::Delete(draft.workloads[at].name.clone()))
}

fn finish(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft)?;
    draft.workloads[at].gone = true;
    Some(Step::Finish(draft.workloads[at].name.clone()))
}

fn stop(random: &mut Random, draft: &mut Draft) -> Step {
    let at = random.below(draft.queues.len());
    let queue = &mut draft.queues[at];
    queue.stopped = !queue.stopped;
    let policy = if queue.stopped {
        *random.of(&["Hold", "HoldAndDrain"])
    } else {
        "None"
    };
    let about = format!("{} stopPolicy {policy}", queue.name);
    of_queue(&queue.name, about, json!({"stopPolicy": policy}))
}

fn stop_local(random: &mut Random, draft: &mut Draft) -> Step {
    let (name, _) = random.of(&draft.local_queues).clone();
    let policy = *random.of(&["None", "Hold", "HoldAndDrain"]);
    Step::Patch {
        about: format!("{name} stopPolicy {policy}"),
        path: format!("{}/{name}", namespaced_path("localqueues")),
        body: json!({"spec": {"stopPolicy": policy}}),
    }
}

fn quota(random: &mut Random, draft: &mut Draft) -> Step {
    let at = random.below(draft.queues.len());
    let mut queue = draft.queues[at].clone();
    for quota in &mut queue.quota {
        *quota = *random.of(&[0, 1, 2, 3, 5]);
    }
    draft.queues[at] = queue.clone();
    let about = format!("{} quota {:?}", queue.name, queue.quota);
    let groups = groups(random, draft, &queue);
    of_queue(&queue.name, about, json!({"resourceGroups": groups}))
}

fn check_active(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    if draft.checks.is_empty() {
        return None;
    }
    if let Some(check) = draft.inactive_checks.pop() {
        return Some(Step::Active {
            check,
            active: true,
        });
    }
    let check = random.of(&draft.checks).clone();
    draft.inactive_checks.push(check.clone());
    Some(Step::Active {
        check,
        active: false,
    })
}

/// Removes a check from a ClusterQueue, or adds it.
fn checks(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    if draft.checks.is_empty() {
        return None;
    }
    let at = random.below(draft.queues.len());
    let check = random.of(&draft.checks).clone();
    let narrow = on_flavors(random, draft, draft.queues[at].gpus);
    let queue = &mut draft.queues[at];
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

fn priority(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft)?;
    if draft.has(Feature::Priorities) && random.chance(25) {
        let class = *random.of(&["p1@", "p100@"]);
        let value = *random.of(&[0, 5, 50, 200]);
        return Some(Step::Patch {
            about: format!("{class} becomes {value}"),
            path: format!("{}/{class}", cluster_path("workloadpriorityclasses")),
            body: json!({"value": value}),
        });
    }
    let name = &draft.workloads[at].name;
    if draft.workloads[at].job {
        let class = if draft.has(Feature::Classes) && random.chance(40) {
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
