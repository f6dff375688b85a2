//! Groups of plain Pods, which share one Workload with one pod set for each role.
//!
//! The rules are those of Kueue 0.19.2: `pkg/controller/jobs/pod/pod_controller.go`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decide::JobView;
use super::labels::{QUEUE, annotation, label, labeled};
use super::pod::{has_ended, has_finalizer, has_gate, is_ready, is_suspended, name, phase};
use super::role::role;
use crate::json::list;
use crate::kueue::KueueVersion;
use crate::kueue::objects::{Condition, LACKS_PODS, PodSet, True, Workload};

/// The annotation or label with the name of a group.
pub(crate) const NAME: &str = "kueue.x-k8s.io/pod-group-name";
pub(crate) const TOTAL: &str = "kueue.x-k8s.io/pod-group-total-count";
const FAST: &str = "kueue.x-k8s.io/pod-group-fast-admission";
const SERVING: &str = "kueue.x-k8s.io/pod-group-serving";
pub(crate) const RETRIABLE: &str = "kueue.x-k8s.io/retriable-in-group";
/// The annotation of a group's Workload.
const OF_A_GROUP: &str = "kueue.x-k8s.io/is-group-workload";

/// Returns the kind of metadata that names the group of a Pod, `annotations` or `labels`, and the
/// name, which is empty for a Pod without a group.
pub(crate) fn group_name(pod: &Value, version: KueueVersion) -> (&'static str, &str) {
    let annotated = annotation(pod, NAME).filter(|name| !name.is_empty());
    match annotated.filter(|_| version.reads_group_annotation) {
        Some(name) => ("annotations", name),
        None => ("labels", label(pod, NAME).unwrap_or_default()),
    }
}

/// Returns the group of a Pod.
pub(super) fn group_of(pod: &Value, version: KueueVersion) -> Option<&str> {
    let (_, name) = group_name(pod, version);
    (!name.is_empty()).then_some(name)
}

/// Returns true if the Workload is that of a group.
pub(super) fn is_of_a_group(workload: &Value) -> bool {
    annotation(workload, OF_A_GROUP) == Some("true")
}

fn is_deleted(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Returns true if the Pod can run, runs, or has succeeded.
pub(super) fn is_usable(pod: &Value) -> bool {
    let placed = pod["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    (placed || !is_deleted(pod)) && phase(pod) != "Failed"
}

fn total(pod: &Value) -> Option<usize> {
    let total = annotation(pod, TOTAL)?.parse().ok()?;
    (total > 0).then_some(total)
}

fn is_set(pod: &Value, key: &str) -> bool {
    annotation(pod, key) == Some("true")
}

/// Returns true if the group is admitted before all its Pods exist.
fn is_fast(pod: &Value, version: KueueVersion) -> bool {
    match annotation(pod, FAST) {
        Some(value) => !version.revised_fast_admission || value == "true",
        None => false,
    }
}

fn created(pod: &Value) -> &str {
    pod["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap_or_default()
}

/// Sorts Pods by priority to be kept: with the finalizer first, then without the gate, then older.
fn sort_usable(pods: &mut [&Value]) {
    pods.sort_by_key(|pod| {
        (
            !has_finalizer(pod),
            has_gate(pod),
            created(pod).to_owned(),
            name(pod).to_owned(),
        )
    });
}

/// Sorts Pods by priority to be kept: with the finalizer first, then last to end, then older.
fn sort_ended(pods: &mut [&Value]) {
    let ended = |pod: &Value| {
        let failed = list(&pod["status"]["conditions"]);
        let mut failed = failed
            .filter(|c| c["type"] == "ContainersReady" && c["reason"] == "PodFailed")
            .filter_map(|c| c["lastTransitionTime"].as_str());
        let deleted = pod["metadata"]["deletionTimestamp"].as_str();
        failed
            .next()
            .into_iter()
            .chain(deleted)
            .min()
            .map(str::to_owned)
    };
    pods.sort_by_key(|pod| {
        // A Pod without such a time counts as active until now.
        let ended = ended(pod).unwrap_or_else(|| "9".to_owned());
        (!has_finalizer(pod), Reverse(ended), created(pod).to_owned())
    });
}

/// The Pods of a group, sorted by their place in its Workload.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    /// Pods that belong to the Workload.
    pub(super) kept: Vec<&'a Value>,
    /// Pods beyond the counts of its pod sets.
    pub(super) excess: Vec<&'a Value>,
    /// Pods that ended and were replaced by others.
    pub(super) replaced: Vec<&'a Value>,
    /// The number of missing Pods.
    pub(super) absent: i64,
}

/// Returns the members of a group with this Workload, or `None` if it is another group's Workload.
pub(super) fn members<'a>(
    workload: &Workload,
    pods: &[&'a Value],
    version: KueueVersion,
) -> Option<Members<'a>> {
    let (usable, ended): (Vec<_>, Vec<_>) = pods.iter().copied().partition(|pod| is_usable(pod));
    let first = pods.first().filter(|_| version.revised_fast_admission);
    let fast = first.is_some_and(|pod| is_fast(pod, version));
    let mut members = Members::default();
    for set in &workload.spec.pod_sets {
        let of_role = |pods: &[&'a Value]| -> Vec<&'a Value> {
            let own = pods.iter().filter(|pod| role(pod) == set.name);
            own.copied().collect()
        };
        let (mut usable, mut ended) = (of_role(&usable), of_role(&ended));
        let count = usize::try_from(set.count).unwrap_or_default();
        let missing = count.saturating_sub(usable.len());
        members.absent += if fast {
            i64::from(count > 0 && usable.is_empty())
        } else {
            i64::try_from(missing).unwrap_or_default()
        };
        let replaced = ended
            .len()
            .min((ended.len() + usable.len()).saturating_sub(count));
        sort_usable(&mut usable);
        sort_ended(&mut ended);
        members
            .excess
            .extend(usable.split_off(count.min(usable.len())));
        members
            .replaced
            .extend(ended.split_off(ended.len() - replaced));
        members.kept.extend(usable);
        members.kept.extend(ended);
    }
    let own = !members.kept.is_empty() && fits(workload, &pod_sets(&members.kept));
    own.then_some(members)
}

/// Returns true if these roles fit into the pod sets of the Workload.
fn fits(workload: &Workload, roles: &BTreeMap<String, (i64, &Value)>) -> bool {
    let fits = |role: &String, count: i64| {
        let mut sets = workload.spec.pod_sets.iter();
        let set: Option<&PodSet> = sets.find(|set| set.name == *role);
        set.is_some_and(|set| workload.is_finished() || set.count >= count)
    };
    roles.iter().all(|(role, (count, _))| fits(role, *count))
}

/// Returns the roles of the usable Pods by name: the number of Pods, and one of them.
fn pod_sets<'a>(pods: &[&'a Value]) -> BTreeMap<String, (i64, &'a Value)> {
    let mut roles: BTreeMap<String, (i64, &Value)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_usable(pod)) {
        roles.entry(role(pod)).or_insert((0, pod)).0 += 1;
    }
    roles
}

/// The Pods of a group that has no Workload yet.
#[derive(Debug, PartialEq)]
pub(super) enum Assembled<'a> {
    /// The group is complete and can have a Workload.
    Complete {
        /// The Pods of the Workload.
        kept: Vec<&'a Value>,
        /// Pods beyond the group's total count.
        excess: Vec<&'a Value>,
    },
    /// More Pods are required.
    Incomplete,
    /// The Pods contradict each other, or are not a group.
    Wrong,
}

/// Checks whether the Pods are a complete group.
pub(super) fn assemble<'a>(pods: &[&'a Value], version: KueueVersion) -> Assembled<'a> {
    let Some((first, total)) = pods.first().and_then(|first| Some((*first, total(first)?))) else {
        return Assembled::Wrong;
    };
    let usable = pods.iter().filter(|pod| is_usable(pod));
    let mut kept: Vec<&Value> = usable.copied().collect();
    if kept.len() < total && !is_fast(first, version) {
        return Assembled::Incomplete;
    }
    let agrees =
        |pod: &&&Value| label(pod, QUEUE) == label(first, QUEUE) && self::total(pod) == Some(total);
    let mut present = pods.iter().filter(|pod| phase(pod) != "Failed");
    if !present.all(|pod| agrees(&pod)) {
        return Assembled::Wrong;
    }
    sort_usable(&mut kept);
    let excess = kept.split_off(total.min(kept.len()));
    Assembled::Complete { kept, excess }
}

/// Returns the pod sets of a new Workload. With fast admission, the group is admitted before all
/// its Pods exist; its first pod set then has the total count.
pub(super) fn new_pod_sets(pods: &[&Value], version: KueueVersion) -> Value {
    let roles = pod_sets(pods);
    let fast = pods.first().filter(|pod| is_fast(pod, version));
    let fast = fast.and_then(|pod| Some((role(pod), total(pod)?)));
    let set = |name: &str, count: Value, pod: &Value| json!({"name": name, "count": count, "template": {"metadata": {}, "spec": pod["spec"]}});
    match fast {
        Some((first, total)) => {
            let pod = roles.get(&first).map_or(&Value::Null, |(_, pod)| pod);
            json!([set(&first, json!(total), pod)])
        }
        None => roles
            .iter()
            .map(|(role, (count, pod))| set(role, json!(count), pod))
            .collect(),
    }
}

/// Marks a Workload as that of a group.
pub(super) fn mark(workload: &mut Value) {
    workload["metadata"]["annotations"][OF_A_GROUP] = json!("true");
}

/// Returns the state of the group that the next action depends on.
pub(super) fn view(pods: &[&Value], now: Timestamp, version: KueueVersion) -> JobView {
    let first = pods.first().copied().unwrap_or(&Value::Null);
    let succeeded = pods.iter().filter(|pod| phase(pod) == "Succeeded");
    let roles: Vec<String> = succeeded.map(|pod| role(pod)).collect();
    let total = total(first);
    let serving = is_set(first, SERVING);
    let unretriable = pods
        .iter()
        .any(|pod| annotation(pod, RETRIABLE) == Some("false"));
    let over = total.is_some_and(|total| {
        let all_over = unretriable && pods.iter().all(|pod| has_ended(pod));
        !serving && (roles.len() == total || all_over)
    });
    let message = format!(
        "Pods succeeded: {}/{}.",
        roles.len(),
        total.unwrap_or_default()
    );
    let mut reclaimable = BTreeMap::new();
    for role in roles.into_iter().filter(|_| !serving) {
        *reclaimable.entry(role).or_default() += 1;
    }
    let complete = total.is_some_and(|total| pods.len() >= total);
    let view = JobView {
        suspended: pods.iter().any(|pod| is_suspended(pod)),
        active: pods.iter().any(|pod| is_active(pod, now)),
        finished: over.then_some((true, message)),
        reclaimable,
        pods_ready: (complete || !version.counts_ready_pods)
            && pods.iter().all(|pod| is_ready(pod)),
        keeps_queue: serving && version.keeps_serving_queues,
        held: pods.iter().any(|pod| has_finalizer(pod)),
        ..JobView::default()
    };
    labeled(first, view)
}

/// Returns true if the Pod runs and its deletion grace period has not passed.
fn is_active(pod: &Value, now: Timestamp) -> bool {
    let metadata = &pod["metadata"];
    let time = metadata["deletionTimestamp"].as_str();
    let deleted = time.and_then(|time| time.parse::<Timestamp>().ok());
    let grace = metadata["deletionGracePeriodSeconds"].as_i64();
    let stuck = deleted.zip(grace).is_some_and(|(deleted, grace)| {
        let grace = SignedDuration::from_secs(grace);
        deleted.saturating_add(grace).is_ok_and(|end| now > end)
    });
    phase(pod) == "Running" && !stuck
}

/// Returns true if the Pod is to be stopped. When the Workload is deleted, Pods that do not run are
/// stopped too.
pub(super) fn stops(pod: &Value, workload_is_deleted: bool) -> bool {
    !is_deleted(pod) && (workload_is_deleted || !is_suspended(pod))
}

/// Returns the owners of a Workload with these Pods added and the number added, or `None` if none
/// was missing.
pub(super) fn with_owners(workload: &Value, pods: &[&Value]) -> Option<(Value, usize)> {
    let mut owners: Vec<Value> = list(&workload["metadata"]["ownerReferences"])
        .cloned()
        .collect();
    let known = owners.len();
    for pod in pods {
        let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        // Kueue identifies owners by name.
        match owners.iter_mut().find(|owner| owner["name"] == *name) {
            Some(known) => *known = owner,
            None => owners.push(owner),
        }
    }
    let added = owners.len() - known;
    (added > 0).then(|| (owners.into(), added))
}

/// Returns the condition of a Workload that lacks Pods, or `None` if it is up to date.
pub(super) fn lacks_pods(workload: &Workload, absent: i64, now: Timestamp) -> Option<Condition> {
    let known = workload.status.conditions.get(LACKS_PODS);
    let eviction = workload.eviction();
    let (lacks, reason, message) = match (absent > 0, eviction, known) {
        (false, _, None) => return None,
        (false, _, Some(_)) => (false, "PodsReady", "No pods need replacement"),
        (true, Some(evicted), _) => (true, evicted.reason.as_str(), evicted.message.as_str()),
        (true, None, Some(known)) if known.is_true() => return None,
        (true, None, _) => (true, "PodsFailed", "Some Failed pods need replacement"),
    };
    let same = known.is_some_and(|known| {
        known.is_true() == lacks && (!lacks || known.reason == reason && known.message == message)
    });
    (!same).then(|| Condition::new(LACKS_PODS, True(lacks), reason, message, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::role::ROLE;

    fn pod(name: &str, role: &str, phase: &str, extra: &Value) -> Value {
        let mut pod = json!({
            "metadata": {
                "name": name, "uid": name, "creationTimestamp": format!("2026-11-21T09:00:0{}Z", &name[1..]),
                "labels": {"kueue.x-k8s.io/queue-name": "queue"},
                "annotations": {NAME: "group", TOTAL: "3", ROLE: role},
                "finalizers": ["kueue.x-k8s.io/managed"],
            },
            "spec": {}, "status": {"phase": phase},
        });
        if let Some(extra) = extra.as_object() {
            for (key, value) in extra {
                pod[key] = value.clone();
            }
        }
        pod
    }

    fn workload(sets: &[(&str, i64)]) -> Workload {
        let sets: Vec<Value> = sets
            .iter()
            .map(|(name, count)| json!({"name": name, "count": count, "template": {}}))
            .collect();
        serde_json::from_value(json!({"metadata": {"name": "group"}, "spec": {"podSets": sets}}))
            .unwrap()
    }

    fn names(pods: &[&Value]) -> Vec<String> {
        pods.iter().map(|pod| name(pod).to_owned()).collect()
    }

    #[test]
    fn a_failed_pod_stays_until_another_replaces_it() {
        let (ran, failed) = (
            pod("p1", "a", "Running", &json!({})),
            pod("p2", "a", "Failed", &json!({})),
        );
        let next = pod("p3", "a", "Pending", &json!({}));
        let own = workload(&[("a", 2)]);
        let alone = members(&own, &[&ran, &failed], KueueVersion::V0_19).unwrap();
        assert_eq!(
            (names(&alone.kept), alone.absent),
            (vec!["p1".into(), "p2".into()], 1)
        );
        let replaced = members(&own, &[&ran, &failed, &next], KueueVersion::V0_19).unwrap();
        assert_eq!(names(&replaced.kept), ["p1", "p3"]);
        assert_eq!(
            (names(&replaced.replaced), replaced.absent),
            (vec!["p2".into()], 0)
        );
    }

    #[test]
    fn the_newest_that_wait_are_too_many() {
        let gates = json!({"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}});
        let pods = [
            pod("p1", "a", "Pending", &gates),
            pod("p2", "a", "Running", &json!({})),
            pod("p3", "a", "Pending", &gates),
        ];
        let pods: Vec<&Value> = pods.iter().collect();
        let found = members(&workload(&[("a", 2)]), &pods, KueueVersion::V0_19).unwrap();
        assert_eq!(
            (names(&found.kept), names(&found.excess)),
            (vec!["p2".into(), "p1".into()], vec!["p3".into()])
        );
    }

    #[test]
    fn a_workload_of_other_roles_is_another_groups() {
        let one = pod("p1", "a", "Pending", &json!({}));
        assert!(members(&workload(&[("b", 1)]), &[&one], KueueVersion::V0_19).is_none());
    }

    #[test]
    fn a_group_is_whole_when_all_are_there_and_agree() {
        let pods = [1, 2, 3, 4].map(|n| pod(&format!("p{n}"), "a", "Pending", &json!({})));
        let all: Vec<&Value> = pods.iter().collect();
        assert_eq!(
            assemble(&all[..2], KueueVersion::V0_19),
            Assembled::Incomplete
        );
        let Assembled::Complete { kept, excess } = assemble(&all, KueueVersion::V0_19) else {
            panic!("four Pods are a group of three and one more");
        };
        assert_eq!(
            (names(&kept), names(&excess)),
            (
                vec!["p1".into(), "p2".into(), "p3".into()],
                vec!["p4".into()]
            )
        );
        let mut other = pods[2].clone();
        other["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = json!("another");
        assert_eq!(
            assemble(&[all[0], all[1], &other], KueueVersion::V0_19),
            Assembled::Wrong
        );
    }

    #[test]
    fn a_group_is_over_when_all_have_succeeded_or_none_may_be_replaced() {
        let now: Timestamp = "2026-11-21T09:00:00Z".parse().unwrap();
        let ended = |phase: &str, extra: &Value| {
            [1, 2, 3].map(|n| pod(&format!("p{n}"), "a", phase, extra))
        };
        let over = |pods: &[Value]| {
            let pods: Vec<&Value> = pods.iter().collect();
            view(&pods, now, KueueVersion::V0_19).finished
        };
        assert_eq!(
            over(&ended("Succeeded", &json!({}))),
            Some((true, "Pods succeeded: 3/3.".to_owned()))
        );
        assert_eq!(over(&ended("Failed", &json!({}))), None);
        let mut last = ended("Failed", &json!({}));
        last[0]["metadata"]["annotations"][RETRIABLE] = json!("false");
        assert_eq!(over(&last), Some((true, "Pods succeeded: 0/3.".to_owned())));
    }

    #[test]
    fn a_workload_that_lacks_pods_reports_the_reason() {
        let now: Timestamp = "2026-11-21T09:00:00Z".parse().unwrap();
        let mut own = workload(&[("a", 2)]);
        assert_eq!(lacks_pods(&own, 0, now), None);
        let lacking = lacks_pods(&own, 1, now).unwrap();
        assert_eq!(
            (lacking.is_true(), lacking.reason.as_str()),
            (true, "PodsFailed")
        );
        own.status.conditions.set(lacking);
        assert_eq!(lacks_pods(&own, 1, now), None);
        let whole = lacks_pods(&own, 0, now).unwrap();
        assert_eq!(
            (whole.is_true(), whole.message.as_str()),
            (false, "No pods need replacement")
        );
    }

    #[test]
    fn fast_admission_depends_on_the_version() {
        let mut one = pod("p1", "a", "Pending", &json!({}));
        let mut outcomes = |value: &str, version: KueueVersion| {
            one["metadata"]["annotations"][FAST] = json!(value);
            let complete = assemble(&[&one], version) != Assembled::Incomplete;
            let counts: Vec<i64> = list(&new_pod_sets(&[&one], version))
                .filter_map(|set| set["count"].as_i64())
                .collect();
            let absent = members(&workload(&[("a", 3)]), &[&one], version).unwrap();
            (complete, counts, absent.absent)
        };
        for (value, version, expected) in [
            ("true", KueueVersion::V0_18, (true, vec![3], 0)),
            ("yes", KueueVersion::V0_18, (false, vec![1], 2)),
            ("true", KueueVersion::V0_17, (true, vec![3], 2)),
            ("yes", KueueVersion::V0_17, (true, vec![3], 2)),
        ] {
            assert_eq!(outcomes(value, version), expected, "{value}");
        }
    }

    #[test]
    fn the_annotation_names_a_group_before_the_label() {
        let named = |labeled: &str, annotated: &str| json!({"metadata": {"labels": {NAME: labeled}, "annotations": {NAME: annotated}}});
        let rows = [
            (named("l", "a"), Some("a"), Some("l")),
            (named("l", ""), Some("l"), Some("l")),
            (named("", "a"), Some("a"), None),
            (named("", ""), None, None),
        ];
        for (pod, since, before) in rows {
            assert_eq!(group_of(&pod, KueueVersion::V0_18), since, "{pod}");
            assert_eq!(group_of(&pod, KueueVersion::V0_17), before, "{pod}");
        }
    }
}
