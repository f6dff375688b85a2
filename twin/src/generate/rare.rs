//! Actions of rare features.

use serde_json::{Value, json};

use super::Draft;
use super::queues::of_queue;
use super::submit::living;
use super::templates::GATED;
use crate::bodies::{cluster_object, job_path, namespaced_object, namespaced_path};
use crate::history::{StateWrite, Step};
use crate::random::Random;

/// Completes Pods of a Workload while others run.
pub(super) fn done(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft)?;
    if draft.workloads[at].sets.is_empty() {
        return None;
    }
    let (set, count) = *random.of(&draft.workloads[at].sets);
    Some(Step::Done {
        workload: draft.workloads[at].name.clone(),
        set,
        count: 1 + random.next_below(count),
    })
}

/// Starts or ends the Pods of a job.
pub(super) fn run(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft).filter(|at| draft.workloads[*at].job)?;
    Some(Step::Run {
        job: draft.workloads[at].name.clone(),
        running: random.chance(60),
    })
}

/// Changes the number of Pods of a job.
pub(super) fn scale(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft).filter(|at| draft.workloads[*at].job)?;
    let name = &draft.workloads[at].name;
    let pods = 1 + random.next_below(4);
    Some(Step::Patch {
        about: format!("{name} scales to {pods}"),
        path: job_path(name),
        body: json!({"spec": {"parallelism": pods}}),
    })
}

/// Sets `suspend` or the queue of a job, fails it, or deletes its Workload.
pub(super) fn of_job(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft).filter(|at| draft.workloads[*at].job)?;
    let name = draft.workloads[at].name.clone();
    let (queue, _) = random.of(&draft.local_queues).clone();
    Some(match random.weighted(&[30, 20, 20, 30]) {
        0 => {
            let suspend = random.chance(60);
            Step::Patch {
                about: format!("{name} suspend {suspend}"),
                path: job_path(&name),
                body: json!({"spec": {"suspend": suspend}}),
            }
        }
        1 => {
            draft.workloads[at].gone = true;
            Step::Fail(name)
        }
        2 => Step::DeleteWorkload(name),
        _ => Step::Patch {
            about: format!("{name} gets queue {queue}"),
            path: job_path(&name),
            body: json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": queue}}}),
        },
    })
}

/// Moves a Workload to another LocalQueue, or a ClusterQueue to another cohort or to none.
pub(super) fn moved(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    if random.chance(30) && !draft.cohorts.is_empty() {
        let cohorts = [Some(&*draft.cohorts[0]), Some("other@"), None];
        let cohort = random.of(&cohorts).map(str::to_owned);
        let queue = random.of(&draft.queues).name.clone();
        let place = cohort.as_deref().unwrap_or("no cohort");
        let about = format!("{queue} goes to {place}");
        return Some(of_queue(&queue, about, json!({"cohortName": cohort})));
    }
    let at = living(random, draft)?;
    let name = &draft.workloads[at].name;
    let (queue, _) = random.of(&draft.local_queues);
    let about = format!("{name} goes to {queue}");
    if draft.workloads[at].job {
        return Some(Step::Patch {
            about,
            path: job_path(name),
            body: json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": queue}}}),
        });
    }
    Some(Step::Patch {
        about,
        path: format!("{}/{name}", namespaced_path("workloads")),
        body: json!({"spec": {"queueName": queue}}),
    })
}

/// Creates an object that others named before it existed.
pub(super) fn late(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    if draft.late.is_empty() {
        return None;
    }
    let at = random.below(draft.late.len());
    Some(Step::Create(vec![draft.late.remove(at)]))
}

/// Creates a deleted or ended Workload or Job again, with the same name.
pub(super) fn again(draft: &mut Draft) -> Option<Step> {
    let mut all = draft.workloads.iter_mut();
    let gone = all.find(|known| known.gone && !known.object.is_null());
    let known = gone?;
    known.gone = false;
    known.active = true;
    Some(Step::Create(vec![known.object.clone()]))
}

/// Removes the gates of a Workload or Job, or adds one.
pub(super) fn gate(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft).filter(|at| !draft.workloads[*at].object.is_null())?;
    let known = &draft.workloads[at];
    let gates = if random.chance(75) {
        Value::Null
    } else {
        json!("example.com/gate")
    };
    let about = format!("gates of {} become {gates}", known.name);
    let path = if known.job {
        job_path(&known.name)
    } else {
        format!("{}/{}", namespaced_path("workloads"), known.name)
    };
    let body = json!({"metadata": {"annotations": {GATED: gates}}});
    Some(Step::Patch { about, path, body })
}

/// Fails a Pod of a group, or adds a Pod to it.
pub(super) fn member(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    let at = living(random, draft)?;
    let known = &mut draft.workloads[at];
    let pod = random.below(known.pods.len().max(1));
    let pod = known.pods.get(pod)?.clone();
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    if random.chance(55) {
        return Some(Step::Patch {
            about: format!("{name} fails"),
            path: format!("/api/v1/namespaces/t@/pods/{name}/status"),
            body: json!({"status": {"phase": "Failed"}}),
        });
    }
    let mut other = pod.clone();
    let number = known.pods.len();
    other["metadata"]["name"] = json!(format!("{}-r{number}@", name.trim_end_matches('@')));
    known.pods.push(other.clone());
    Some(Step::Create(vec![other]))
}

/// Draws an object that Kueue refuses.
fn refused_object(random: &mut Random) -> Step {
    let spec = json!({"containers": [{"name": "c", "image": "pause"}], "restartPolicy": "Never"});
    let metadata = |labels: Value, annotations: Value| json!({"name": "refused", "namespace": "t@", "labels": labels, "annotations": annotations});
    let pod = |labels: Value, annotations: Value| {
        let metadata = metadata(labels, annotations);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    };
    let job = |queue: &str, annotations: Value, counts: [i64; 2]| {
        let metadata = metadata(json!({"kueue.x-k8s.io/queue-name": queue}), annotations);
        let [parallelism, completions] = counts;
        let spec = json!({
            "suspend": true, "parallelism": parallelism, "completions": completions,
            "template": {"spec": spec},
        });
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    };
    let in_group = json!({"kueue.x-k8s.io/pod-group-name": "group"});
    let same = json!({"kueue.x-k8s.io/job-completions-equal-parallelism": "true"});
    let taint = |value: &str| json!({"key": "a", "value": value, "effect": "NoSchedule"});
    let object = match random.below(10) {
        0 => pod(in_group, json!({})),
        1 => pod(
            json!({}),
            json!({"kueue.x-k8s.io/pod-group-total-count": "2"}),
        ),
        2 => pod(
            in_group,
            json!({"kueue.x-k8s.io/pod-group-total-count": "0"}),
        ),
        3 => pod(json!({"kueue.x-k8s.io/managed": "no"}), json!({})),
        4 => job("Not_A_Name", json!({}), [1, 1]),
        5 => job("lq@", same, [2, 3]),
        6 => job(
            "lq@",
            json!({"kueue.x-k8s.io/job-min-parallelism": "4"}),
            [2, 2],
        ),
        7 => {
            let taints = json!({"nodeTaints": [taint("1"), taint("2")]});
            cluster_object("ResourceFlavor", "refused@", taints)
        }
        8 => {
            let labels = json!({"nodeLabels": {"not a key": "a value of a label, not"}});
            cluster_object("ResourceFlavor", "refused@", labels)
        }
        _ => {
            let sets = json!([{"name": "main", "count": 1, "template": {"spec": spec}}]);
            let spec = json!({"queueName": "lq@", "podSets": sets});
            let mut workload = namespaced_object("Workload", "refused", spec);
            let gate = json!({"kueue.x-k8s.io/admission-gated-by": "no-domain"});
            workload["metadata"]["annotations"] = gate;
            workload
        }
    };
    Step::Create(vec![object])
}

/// Draws a request that Kueue or the API server refuses, at least in some states.
pub(super) fn refused(random: &mut Random, draft: &mut Draft) -> Option<Step> {
    if random.chance(40) {
        return Some(refused_object(random));
    }
    let at = living(random, draft).filter(|at| !draft.workloads[*at].sets.is_empty())?;
    let name = draft.workloads[at].name.clone();
    let has_checks = !draft.checks.is_empty();
    Some(
        match random.below(if draft.workloads[at].job { 5 } else { 9 }) {
            0 if has_checks => write_state(random, draft, &name, &json!({"name": "nobody"})),
            1 if has_checks => write_state(
                random,
                draft,
                &name,
                &json!({"name": "main", "labels": {"l": "not a value"}}),
            ),
            2 if has_checks => write_state(
                random,
                draft,
                &name,
                &json!({"name": "main", "nodeSelector": {"not a key": "1"}}),
            ),
            3 => {
                let rule = json!({"name": "c1@", "onFlavors": ["nowhere@"]});
                let queue = &random.of(&draft.queues).name;
                let about = format!("{queue} gets a check for an unknown flavor");
                let spec = json!({"admissionChecksStrategy": {"admissionChecks": [rule]}});
                of_queue(queue, about, spec)
            }
            5 => workload(&name, json!({"spec": {"maximumExecutionTimeSeconds": 0}})),
            6 => workload(&name, json!({"spec": {"queueName": "elsewhere@"}})),
            7 => {
                let gate = json!({"kueue.x-k8s.io/admission-gated-by": "example.com/gate"});
                workload(&name, json!({"metadata": {"annotations": gate}}))
            }
            8 => {
                let (set, count) = draft.workloads[at].sets[0];
                Step::Done {
                    workload: name,
                    set: if random.chance(70) { set } else { "nobody" },
                    count: count + random.next_below(2),
                }
            }
            _ => Step::Patch {
                about: format!("{name} is unknown"),
                path: format!("{}/nobody@", namespaced_path("workloads")),
                body: json!({"spec": {"active": false}}),
            },
        },
    )
}

fn workload(name: &str, body: Value) -> Step {
    Step::Patch {
        about: format!("{name}: {body}"),
        path: format!("{}/{name}", namespaced_path("workloads")),
        body,
    }
}

fn write_state(random: &mut Random, draft: &Draft, workload: &str, update: &Value) -> Step {
    Step::WriteState(StateWrite {
        workload: workload.to_owned(),
        check: random.of(&draft.checks).clone(),
        state: "Ready",
        message: "ok",
        delay: None,
        updates: vec![update.clone()],
        unlisted: false,
        one_manager: draft.one_manager,
    })
}
