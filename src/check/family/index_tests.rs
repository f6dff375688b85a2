use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::recordings::{Change, recordings};
use super::*;

/// Makes a slice with quota for `pods` pods that replaces `replaces`.
fn slice(
    name: &str,
    replaces: Option<&str>,
    pods: u32,
    conditions: &[(&str, &str, &str)],
) -> Value {
    let mut annotations = json!({"kueue.x-k8s.io/workload-slice-name": "el-1"});
    if let Some(replaces) = replaces {
        annotations["kueue.x-k8s.io/workload-slice-replacement-for"] =
            json!(format!("t/{replaces}"));
    }
    let conditions = conditions
        .iter()
        .chain(&[("QuotaReserved", "True", "QuotaReserved")]);
    let conditions: Vec<Value> = conditions
        .map(|(kind, status, reason)| json!({"type": kind, "status": status, "reason": reason}))
        .collect();
    json!({
        "metadata": {"namespace": "t", "name": name, "uid": name, "annotations": annotations,
                     "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "el", "uid": "el", "controller": true}]},
        "spec": {"podSets": [{"name": "main", "count": pods}]},
        "status": {
            "conditions": conditions,
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": pods}]},
        },
    })
}

#[expect(
    clippy::option_option,
    reason = "no growth, and a growth of which nothing is known"
)]
/// Returns the running pods of the job that `workload` grows; `Some(None)` if they are unknown.
fn running_pods_of_growth(families: &Families, workload: &Workload) -> Option<Option<u32>> {
    let family = families.of(workload);
    (*family.role() == FamilyRole::Growth).then(|| family.all_running_pods())
}

fn workload(object: &Value) -> Workload {
    Workload::from_json(object.clone()).unwrap()
}

const ADMITTED: (&str, &str, &str) = ("Admitted", "True", "Admitted");
const REPLACED: (&str, &str, &str) = ("Finished", "True", "WorkloadSliceReplaced");
const OUT_OF_SYNC: (&str, &str, &str) = ("Finished", "True", "OutOfSync");
const SUCCEEDED: (&str, &str, &str) = ("Finished", "True", "Succeeded");
const EVICTED: (&str, &str, &str) = ("Evicted", "True", "AdmissionCheck");
const EVICTED_BEFORE: (&str, &str, &str) = ("Evicted", "False", "QuotaReserved");

#[test]
fn what_runs_is_the_last_slice_that_was_admitted() {
    let runs = |pods| Some(Some(pods));
    let unknown = Some(None);
    let first = |conditions: &[_]| slice("el-1", None, 2, conditions);
    let growth = |conditions: &[_]| slice("el-2", Some("el-1"), 4, conditions);
    let third = |conditions: &[_]| slice("el-3", Some("el-2"), 6, conditions);
    let mut shrunk = first(&[ADMITTED]);
    shrunk["spec"]["podSets"][0]["count"] = json!(1);
    let without_quota = |mut slice: Value| {
        let status = slice["status"].as_object_mut().unwrap();
        status.remove("admission");
        let conditions = status["conditions"].as_array_mut().unwrap();
        conditions.last_mut().unwrap()["status"] = json!("False");
        slice
    };
    let in_queue = |queue: &str, mut slice: Value| {
        slice["status"]["admission"]["clusterQueue"] = json!(queue);
        slice
    };
    let in_namespace = |namespace: &str, mut slice: Value| {
        slice["metadata"]["namespace"] = json!(namespace);
        slice
    };
    let not_admitted = ("Admitted", "False", "Finished");
    for (case, known, of, expected) in [
        (
            "replaced by the growth",
            vec![first(&[ADMITTED, REPLACED])],
            growth(&[]),
            runs(2),
        ),
        (
            "not replaced yet",
            vec![first(&[ADMITTED])],
            growth(&[]),
            runs(2),
        ),
        (
            "it shrank before it grew",
            vec![shrunk],
            growth(&[]),
            runs(1),
        ),
        ("it is not known", vec![], growth(&[]), unknown),
        (
            "Kueue 0.18 calls the replaced one out of sync",
            vec![first(&[ADMITTED, OUT_OF_SYNC])],
            growth(&[]),
            runs(2),
        ),
        (
            "Kueue 0.15 takes the quota of the replaced one",
            vec![without_quota(first(&[not_admitted, REPLACED]))],
            growth(&[]),
            runs(2),
        ),
        (
            "Kueue 0.15, grown again while the growth waited",
            vec![
                without_quota(first(&[not_admitted, REPLACED])),
                without_quota(growth(&[REPLACED])),
            ],
            third(&[]),
            runs(2),
        ),
        (
            "grown again while the growth waited",
            vec![first(&[ADMITTED, REPLACED]), growth(&[REPLACED])],
            third(&[]),
            runs(2),
        ),
        (
            "the growth was admitted, and grows again",
            vec![first(&[ADMITTED, REPLACED]), growth(&[ADMITTED, REPLACED])],
            third(&[]),
            runs(4),
        ),
        (
            "only the growth in between is known",
            vec![growth(&[REPLACED])],
            third(&[]),
            unknown,
        ),
        (
            "the first was never admitted",
            vec![first(&[REPLACED])],
            growth(&[]),
            None,
        ),
        (
            "the job has finished",
            vec![first(&[ADMITTED, SUCCEEDED])],
            growth(&[]),
            None,
        ),
        (
            "an eviction of the growth has stopped the job",
            vec![first(&[ADMITTED, REPLACED])],
            growth(&[EVICTED_BEFORE]),
            None,
        ),
        (
            "and then it grew again",
            vec![
                first(&[ADMITTED, REPLACED]),
                growth(&[EVICTED_BEFORE, REPLACED]),
            ],
            third(&[]),
            None,
        ),
        (
            "it runs again after that, and grows",
            vec![
                first(&[ADMITTED, REPLACED]),
                growth(&[EVICTED_BEFORE, ADMITTED, REPLACED]),
            ],
            third(&[]),
            runs(4),
        ),
        (
            "Kueue evicts the slice that runs and finishes it as replaced: the pods run on",
            vec![first(&[ADMITTED, EVICTED, REPLACED])],
            growth(&[]),
            runs(2),
        ),
        (
            "what it claims to replace is in another ClusterQueue",
            vec![in_queue("other", first(&[ADMITTED]))],
            growth(&[]),
            unknown,
        ),
        (
            "what it claims to replace is in another namespace",
            vec![in_namespace("other", first(&[ADMITTED]))],
            growth(&[]),
            unknown,
        ),
        (
            "it is admitted itself",
            vec![first(&[ADMITTED, REPLACED])],
            growth(&[ADMITTED]),
            None,
        ),
        ("it replaces none", vec![], first(&[]), None),
        (
            "it replaces itself",
            vec![slice("el-2", Some("el-2"), 4, &[])],
            slice("el-2", Some("el-2"), 4, &[]),
            unknown,
        ),
    ] {
        let mut families = Families::default();
        for object in &known {
            families.take(&Event::Apply(workload(object)));
        }
        assert_eq!(
            running_pods_of_growth(&families, &workload(&of)),
            expected,
            "{case}"
        );
        assert_eq!(
            running_pods_of_growth(&families, &workload(&of)),
            expected,
            "{case}, and nothing is remembered"
        );
    }
}

/// Kueue before 0.18 takes the quota of a replaced slice. Whether the slice ran when it was replaced
/// shows in the order of its conditions, if it had been evicted before.
#[test]
fn a_replaced_slice_ran_if_it_was_admitted_again_after_an_eviction() {
    let of = |evicted: &str, since: u32, admitted: u32| {
        let mut slice = slice(
            "el-1",
            None,
            2,
            &[
                ("Evicted", evicted, "QuotaReserved"),
                ("Admitted", "False", "NoReservation"),
                REPLACED,
            ],
        );
        slice["status"]["admission"] = Value::Null;
        let time = |second: u32| json!(format!("1970-01-01T00:00:0{second}Z"));
        let conditions = &mut slice["status"]["conditions"];
        conditions[0]["lastTransitionTime"] = time(since);
        conditions[1]["lastTransitionTime"] = time(admitted);
        conditions[3]["status"] = json!("False");
        let mut families = Families::default();
        families.apply(&workload(&slice));
        running_pods_of_growth(
            &families,
            &workload(&self::slice("el-2", Some("el-1"), 4, &[])),
        )
    };
    for (evicted, since, admitted, expected) in [
        ("False", 3, 5, Some(Some(2))),
        ("False", 3, 2, None),
        ("False", 3, 3, None),
        ("True", 3, 4, None),
    ] {
        assert_eq!(
            of(evicted, since, admitted),
            expected,
            "{evicted} {since} {admitted}"
        );
    }
}

/// Kueue 0.18 reports a slice that it drops without a successor in the same way as a replaced one.
#[test]
fn a_slice_that_is_out_of_sync_has_ended_unless_another_one_replaces_it() {
    let dropped = workload(&slice("el-1", None, 2, &[ADMITTED, OUT_OF_SYNC]));
    let mut families = Families::default();
    families.apply(&dropped);
    assert_eq!(families.pods_state(&dropped), Some(PodsState::Finished));
    families.apply(&workload(&slice("el-2", Some("el-1"), 4, &[])));
    assert_eq!(families.pods_state(&dropped), Some(PodsState::Runs));
}

#[test]
fn other_workloads_are_not_indexed_and_deleted_ones_are_removed() {
    let names = |families: &Families| {
        let known = families.all();
        known.iter().map(Uid::to_string).collect::<Vec<_>>()
    };
    let mut families = Families::default();
    families.take(&Event::Apply(workload(
        &json!({"metadata": {"namespace": "t", "name": "el-1"}}),
    )));
    assert!(families.known.is_empty());
    let first = workload(&slice("el-1", None, 2, &[ADMITTED]));
    let other = workload(&slice("other", None, 2, &[ADMITTED]));
    families.take(&Event::Apply(first.clone()));
    families.take(&Event::Apply(other.clone()));
    families.take(&Event::Delete(other.clone()));
    assert_eq!(names(&families), ["el-1"]);
    for event in [Event::Init, Event::InitApply(other), Event::InitDone] {
        families.take(&event);
    }
    assert_eq!(names(&families), ["other"]);
    for event in [Event::Init, Event::InitApply(first), Event::InitDone] {
        families.take(&event);
    }
    assert_eq!(names(&families), ["el-1"]);
}

#[test]
fn what_a_growth_requests_is_counted_by_pod_set() {
    let pod_sets = |object: &mut Value, counts: [u32; 2]| {
        let set = |name, count| json!({"name": name, "count": count});
        let both = json!([set("driver", counts[0]), set("workers", counts[1])]);
        object["status"]["admission"]["podSetAssignments"] = both.clone();
        object["spec"]["podSets"] = both;
    };
    let mut first = slice("el-1", None, 0, &[ADMITTED, REPLACED]);
    pod_sets(&mut first, [1, 6]);
    // It shrank before it grew: of 6 assigned pods 2 run.
    first["spec"]["podSets"][1]["count"] = json!(2);
    let mut growth = slice("el-2", Some("el-1"), 0, &[]);
    pod_sets(&mut growth, [1, 5]);
    let increases = |growth: &Value, others: &[&Value]| {
        let others: Vec<Workload> = others.iter().map(|other| workload(other)).collect();
        let growth = workload(growth);
        let family = Family::of(&growth, &others);
        let pod_sets = growth.pod_sets().iter();
        let increases: Vec<u32> = pod_sets.map(|pod_set| family.increase(pod_set)).collect();
        (increases, family.needs_nothing_more(&growth))
    };
    assert_eq!(increases(&growth, &[&first]), (vec![0, 3], false));
    assert_eq!(increases(&growth, &[]), (vec![1, 5], false), "not known");
    let mut back = growth.clone();
    back["spec"]["podSets"][1]["count"] = json!(2);
    assert_eq!(increases(&back, &[&first]), (vec![0, 0], true));
    assert_eq!(increases(&back, &[]), (vec![1, 2], false), "not known");
    pod_sets(&mut growth, [2, 1]);
    let (both, nothing) = increases(&growth, &[&first]);
    assert_eq!((both, nothing), (vec![1, 0], false), "one more, one less");
    assert_eq!(
        increases(&slice("el-1", None, 2, &[]), &[]),
        (vec![2], false),
        "no growth"
    );
}

#[test]
fn the_key_is_that_of_the_job_for_each_of_its_workloads() {
    let key = |owners: Value, labels: Value| {
        let workload = workload(&json!({"metadata": {
            "namespace": "t", "name": "w", "uid": "own", "ownerReferences": owners, "labels": labels,
        }}));
        workload.family_key().to_string()
    };
    let owner = |kind: &str, controller: bool| {
        let group = if kind == "Workload" {
            "kueue.x-k8s.io/v1beta2"
        } else {
            "batch/v1"
        };
        json!([{"apiVersion": group, "kind": kind, "name": "o", "uid": "owner", "controller": controller}])
    };
    let job = json!({"kueue.x-k8s.io/job-uid": "job"});
    for (case, owners, labels, expected) in [
        ("a job's", owner("Job", true), json!({}), "owner"),
        ("a bare one", json!([]), json!({}), "own"),
        // Each replica of a LeaderWorkerSet has a Workload of its own, and all run at once.
        (
            "one of several",
            owner("LeaderWorkerSet", false),
            json!({}),
            "own",
        ),
        ("a variant", owner("Workload", true), job.clone(), "job"),
        (
            "a variant without a job",
            owner("Workload", true),
            json!({}),
            "owner",
        ),
        (
            "another's label",
            owner("LeaderWorkerSet", false),
            job,
            "own",
        ),
    ] {
        assert_eq!(key(owners, labels), expected, "{case}");
    }
}

/// Returns true if `workload` is the growth of a job, holds quota and waits for its checks.
fn is_waiting_growth(workload: &Workload) -> bool {
    let waits = workload.holds_quota() && !workload.is_admitted() && workload.is_active();
    let is_growth = matches!(workload.slice(), Slice::Replaces(_));
    waits && is_growth && !workload.conditions().finished().is_true()
}

/// Where a step of a recording has settled, the reported pods are the running ones. In between, the
/// two differ for as long as pods take to appear and to vanish.
#[test]
fn what_runs_in_the_recordings_is_what_is_reported_to_run() {
    let recordings = recordings("elastic-");
    let mut compared = 0;
    let (mut wrong, mut waited) = (0.0, 0.0);
    for recording in &recordings {
        let (mut families, mut states) = (Families::default(), BTreeMap::<_, &Workload>::new());
        let mut now = 0.0;
        let mut running: BTreeSet<&str> = BTreeSet::new();
        for (step, changes) in &recording.steps {
            for (at, change) in changes {
                let seconds = (at - std::mem::replace(&mut now, *at)).max(0.0);
                let growths = states
                    .values()
                    .filter(|workload| is_waiting_growth(workload));
                for workload in growths {
                    let claimed = f64::from(
                        running_pods_of_growth(&families, workload).map_or(0, Option::unwrap),
                    );
                    wrong += (claimed - f64::from(u32::try_from(running.len()).unwrap())).abs()
                        * seconds;
                    waited += seconds;
                }
                match change {
                    Change::Workload(alias, Some(workload)) => {
                        families.take(&Event::Apply(workload.clone()));
                        states.insert(alias, workload);
                    }
                    Change::Workload(alias, None) => {
                        if let Some(gone) = states.remove(alias) {
                            families.take(&Event::Delete(gone.clone()));
                        }
                    }
                    Change::Pod(name, true) => drop(running.insert(name)),
                    Change::Pod(name, false) => drop(running.remove(name.as_str())),
                }
            }
            for (alias, workload) in &states {
                if !is_waiting_growth(workload) {
                    continue;
                }
                let claimed = running_pods_of_growth(&families, workload).map_or(0, Option::unwrap);
                let place = format!("{}: {alias} after {step}", recording.name);
                assert_eq!(claimed as usize, running.len(), "{place}");
                compared += 1;
            }
        }
    }
    println!(
        "{wrong:.1} pod-seconds of error in {waited:.0} s in which growths waited, in {} recordings",
        recordings.len()
    );
    assert!(wrong <= 1.0, "{wrong} pod-seconds");
    assert!(
        compared >= 10 || recordings.is_empty(),
        "{compared} moments in {} recordings",
        recordings.len()
    );
}

/// Each variant of a job has the others that hold quota beside it, and the admitted one runs.
/// Their Parent is not among them.
#[test]
fn variants_in_the_recordings_belong_to_one_job() {
    for recording in recordings("ca-retain-first") {
        let mut families = Families::default();
        let mut states: BTreeMap<&str, &Workload> = BTreeMap::new();
        let mut settled = Vec::new();
        for (_, changes) in &recording.steps {
            for (_, change) in changes {
                if let Change::Workload(alias, Some(workload)) = change {
                    families.take(&Event::Apply(workload.clone()));
                    states.insert(alias, workload);
                }
            }
            let [Some(parent), Some(spot), Some(ondemand)] =
                ["j", "j@spot", "j@ondemand"].map(|name| states.get(name))
            else {
                continue;
            };
            assert_eq!(families.of(parent).role(), &FamilyRole::Parent);
            assert_eq!(spot.family_key(), ondemand.family_key());
            let family = families.of(spot);
            let flavor = "spot".to_owned();
            assert_eq!(family.role(), &FamilyRole::Variant { flavor });
            let others = family.other_variants("c1");
            let runs = family
                .running("c1")
                .map(|runs| runs.name() == ondemand.name());
            settled.push((others.len(), runs));
        }
        settled.dedup();
        assert_eq!(
            settled,
            [(1, None), (1, Some(true)), (0, None)],
            "both hold quota, one is admitted, the job finishes"
        );
    }
}
