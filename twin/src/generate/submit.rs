//! Submission of the Workloads of a history.

use serde_json::{Value, json};

use super::features::Feature;
use super::templates::{gates, vary, vary_group};
use super::{Draft, Submitted, pod_sets};
use crate::bodies::{group, job, single_pod, workload};
use crate::history::Step;
use crate::random::Random;

/// Submits a Workload, a Job, a Pod group or a Pod.
pub(super) fn submit(random: &mut Random, draft: &mut Draft) -> Step {
    let name = format!("w{}@", draft.workloads.len() + 1);
    let (queue, _) = random.of(&draft.local_queues).clone();
    let sets = pod_sets(random, draft);
    let limit = random.chance(draft.often(Feature::TimeLimit, 60, 0));
    let limits: &[u64] = if draft.has(Feature::Preemption) {
        &[4, 5, 6]
    } else {
        &[2, 3, 5]
    };
    let limit = limit.then(|| *random.of(limits));
    draft.delay = draft.delay.max(limit.unwrap_or_default());
    let job_now = draft.jobs && !(draft.has(Feature::Mixed) && random.chance(50));
    let gates = gates(random, draft);
    let mut object = if job_now {
        let classes: &[Option<&str>] = if draft.has_preemptors() {
            &[Some("p10@"), Some("p10@"), Some("p100@")]
        } else {
            &[None, None, Some("p1@"), Some("p100@")]
        };
        let class = random.of(classes);
        let class = if draft.has(Feature::Classes) && random.chance(25) {
            Some("late@")
        } else {
            *class
        };
        let mut job = job(&name, &queue, class, &sets[0]);
        if draft.has(Feature::Classes) && random.chance(60) {
            job["spec"]["template"]["spec"]["priorityClassName"] =
                json!(random.of(&["pod5@", "pod50@", "pod50@", "late@"]));
        }
        if let Some(limit) = limit {
            let limit = limit.to_string();
            job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = json!(limit);
        }
        let elastic = sets[0].least.is_none() && draft.has(Feature::Elastic);
        if elastic && random.chance(75) {
            let annotation = json!({"kueue.x-k8s.io/elastic-job": "true"});
            job["metadata"]["annotations"] = annotation;
            job["spec"]["completions"] = json!(100);
        } else if random.chance(draft.often(Feature::Done, 30, 0)) {
            job["spec"]["completions"] = json!(sets[0].count + 1);
        }
        if random.chance(draft.often(Feature::JobActions, 25, 3)) {
            job["spec"]["suspend"] = json!(false);
        }
        if random.chance(draft.often(Feature::JobActions, 15, 0)) {
            job["metadata"]["labels"] = json!({"example.com/queue": "later"});
        }
        without_queue(random, draft, &mut job);
        job
    } else if of_pods(draft) {
        let mut pods = if draft.has(Feature::PodGroups) || draft.has(Feature::Members) {
            group(&name, &queue, &sets)
        } else {
            vec![single_pod(&name, &queue, &sets[0])]
        };
        vary_group(random, draft, &mut pods);
        for pod in &mut pods {
            without_queue(random, draft, pod);
            vary(random, draft, gates, pod);
        }
        draft.workloads.push(Submitted {
            name,
            job: false,
            pods: pods.clone(),
            sets: Vec::new(),
            object: Value::Null,
            active: true,
            gone: false,
        });
        return Step::Create(pods);
    } else {
        let priorities: &[Option<i64>] = if draft.has_preemptors() {
            &[Some(10), Some(10), Some(100)]
        } else {
            &[None, None, Some(1), Some(100)]
        };
        let priority = *random.of(priorities);
        let mut workload = workload(&name, &queue, priority, &sets);
        if draft.has(Feature::Templates) && random.chance(8) {
            with_many_sets(&mut workload, *random.of(&[8, 9, 10, 11]));
        }
        if let Some(limit) = limit {
            workload["spec"]["maximumExecutionTimeSeconds"] = json!(limit);
        }
        if random.chance(draft.often(Feature::Activation, 15, 1)) {
            workload["spec"]["active"] = json!(false);
        }
        workload
    };
    vary(random, draft, gates, &mut object);
    draft.workloads.push(Submitted {
        name,
        job: job_now,
        pods: Vec::new(),
        sets: sets.iter().map(|set| (set.name, set.count)).collect(),
        object: object.clone(),
        active: object["spec"]["active"] != false,
        gone: false,
    });
    Step::Create(vec![object])
}

/// Whether the history has Pods in place of Workloads without a job.
fn of_pods(draft: &Draft) -> bool {
    [Feature::PodGroups, Feature::SinglePods, Feature::Members]
        .into_iter()
        .any(|feature| draft.has(feature))
}

/// Draws the index of a Workload that was neither deleted nor ended.
pub(super) fn living(random: &mut Random, draft: &Draft) -> Option<usize> {
    let all = draft.workloads.iter().enumerate();
    let living: Vec<usize> = all.filter(|(_, w)| !w.gone).map(|(at, _)| at).collect();
    (!living.is_empty()).then(|| *random.of(&living))
}

/// Repeats the first pod set until there are `count`.
fn with_many_sets(workload: &mut Value, count: usize) {
    let first = workload["spec"]["podSets"][0].clone();
    if let Some(sets) = workload["spec"]["podSets"].as_array_mut() {
        for number in sets.len()..count {
            let mut set = first.clone();
            set["name"] = json!(format!("set-{number}"));
            sets.push(set);
        }
    }
}

/// Removes the queue of some jobs, if there is a default one.
fn without_queue(random: &mut Random, draft: &Draft, job: &mut Value) {
    let labels = job["metadata"]["labels"].as_object_mut();
    if let Some(labels) = labels
        && draft.has(Feature::DefaultQueue)
        && random.chance(60)
    {
        labels.remove("kueue.x-k8s.io/queue-name");
    }
}
