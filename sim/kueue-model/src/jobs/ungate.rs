//! Selection of the Pods of an elastic job whose gates are removed.
//!
//! The rules are those of Kueue 0.19.2: `pkg/controller/elasticjobs/elastic_job_ungater.go`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::slices::{GATE, SLICE_NAME};
use crate::kueue::KueueVersion;
use crate::kueue::objects::Workload;

/// The label of a Pod with the name of its pod set.
const POD_SET: &str = "kueue.x-k8s.io/podset";
/// The annotation of a Pod with the name of its Workload.
const WORKLOAD: &str = "kueue.x-k8s.io/workload";
/// The only annotations of a check's pod set updates that reach the Pods of a later slice.
const PASSED_ON: [&str; 2] = [
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "autoscaling.x-k8s.io/provisioning-class-name",
];

/// The values that a Pod of a later slice receives.
#[derive(Clone, Debug, Default, PartialEq)]
struct Update {
    annotations: BTreeMap<String, String>,
    node_selector: BTreeMap<String, String>,
}

/// Returns the name of the first slice of the Pod's job.
pub(super) fn slice_name(pod: &Value) -> Option<&str> {
    let annotations = &pod["metadata"]["annotations"];
    let name = annotations[SLICE_NAME].as_str();
    name.or_else(|| annotations[WORKLOAD].as_str())
}

/// Returns true if the Pod has the gate.
pub(super) fn is_gated(pod: &Value) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates.is_some_and(|gates| gates.iter().any(|gate| gate["name"] == GATE))
}

/// Returns the Pods to update, without their gate, as many as the slice may run, by name. `pods`:
/// the Pods of the slice's job.
///
/// A Pod whose values contradict the checks' updates keeps its gate permanently. Before
/// `revised_slices` Pods get no updates, and Pods that have ended count.
pub(super) fn ungated<'a>(
    slice: &Workload,
    pods: impl Iterator<Item = &'a Value>,
    version: KueueVersion,
) -> Vec<Value> {
    let mut gated: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    let over = |pod: &Value| {
        matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        )
    };
    for pod in pods.filter(|pod| !version.revised_slices || !over(pod)) {
        let set = pod["metadata"]["labels"][POD_SET]
            .as_str()
            .unwrap_or_default();
        if is_gated(pod) {
            gated.entry(set).or_default().push(pod);
        } else {
            *running.entry(set).or_default() += 1;
        }
    }
    let mut found = Vec::new();
    for (set, mut pods) in gated {
        let update = if version.revised_slices {
            update_for(slice, set)
        } else {
            Some(Update::default())
        };
        let Some(update) = update else {
            continue;
        };
        let wanted = slice.spec.pod_sets.iter().find(|known| known.name == set);
        let wanted = usize::try_from(wanted.map_or(0, |set| set.count)).unwrap_or_default();
        let remaining = wanted.saturating_sub(running.get(set).copied().unwrap_or_default());
        pods.retain(|pod| agrees(pod, &update));
        pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().unwrap_or_default());
        found.extend(
            pods.into_iter()
                .take(remaining)
                .map(|pod| with(pod, &update)),
        );
    }
    found
}

/// Returns the update of a slice's checks for a pod set, or `None` if they contradict each other.
fn update_for(slice: &Workload, set: &str) -> Option<Update> {
    let checks = slice.status.admission_checks.iter();
    let updates = checks.flat_map(|check| &check.pod_set_updates);
    let mut all = Update::default();
    for update in updates.filter(|update| update["name"] == set) {
        for (key, value) in entries(&update["annotations"]) {
            if PASSED_ON.contains(&key.as_str()) {
                keep(&mut all.annotations, key, value)?;
            }
        }
        for (key, value) in entries(&update["nodeSelector"]) {
            keep(&mut all.node_selector, key, value)?;
        }
    }
    Some(all)
}

fn entries(map: &Value) -> impl Iterator<Item = (String, String)> {
    let entries = map.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
}

fn keep(into: &mut BTreeMap<String, String>, key: String, value: String) -> Option<()> {
    let known = into.entry(key).or_insert_with(|| value.clone());
    (*known == value).then_some(())
}

fn agrees(pod: &Value, update: &Update) -> bool {
    let same = |known: &Value, map: &BTreeMap<String, String>| {
        let mut pairs = map.iter();
        pairs.all(|(key, value)| known[key].as_str().is_none_or(|known| known == value))
    };
    same(&pod["metadata"]["annotations"], &update.annotations)
        && same(&pod["spec"]["nodeSelector"], &update.node_selector)
}

fn with(pod: &Value, update: &Update) -> Value {
    let mut pod = pod.clone();
    for (key, value) in &update.annotations {
        pod["metadata"]["annotations"][key] = json!(value);
    }
    for (key, value) in &update.node_selector {
        pod["spec"]["nodeSelector"][key] = json!(value);
    }
    if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
        gates.retain(|gate| gate["name"] != GATE);
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(count: i64, updates: &Value) -> Workload {
        serde_json::from_value(json!({
            "metadata": {"name": "b"},
            "spec": {"podSets": [{"name": "main", "count": count}]},
            "status": {"admissionChecks": [{"name": "c", "state": "Ready", "podSetUpdates": updates}]},
        }))
        .unwrap()
    }

    fn pod(name: &str, gated: bool, phase: &str, selector: &Value) -> Value {
        let gates = if gated {
            json!([{"name": GATE}])
        } else {
            json!([])
        };
        json!({
            "metadata": {"name": name, "labels": {POD_SET: "main"}, "annotations": {"a": "b"}},
            "spec": {"schedulingGates": gates, "nodeSelector": selector},
            "status": {"phase": phase},
        })
    }

    fn names(slice: &Workload, pods: &[Value]) -> Vec<String> {
        let found = ungated(slice, pods.iter(), KueueVersion::V0_19).into_iter();
        found
            .map(|pod| {
                pod["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn as_many_pods_run_as_the_slice_has_and_the_first_by_name() {
        let none = json!([]);
        let pods = [
            pod("p-1", false, "Running", &json!({})),
            pod("p-0", false, "Succeeded", &json!({})),
            pod("p-3", true, "Pending", &json!({})),
            pod("p-2", true, "Pending", &json!({})),
            pod("p-4", true, "Pending", &json!({})),
        ];
        let table: [(i64, &[&str]); 4] = [
            (1, &[]),
            (2, &["p-2"]),
            (3, &["p-2", "p-3"]),
            (9, &["p-2", "p-3", "p-4"]),
        ];
        for (count, expected) in table {
            assert_eq!(names(&slice(count, &none), &pods), expected, "{count}");
        }
    }

    #[test]
    fn of_a_later_slice_s_updates_few_arrive_and_what_contradicts_keeps_pods_gated() {
        let consume = PASSED_ON[0];
        let updates = |request: &str, pool: &str| {
            json!([{
                "name": "main", "labels": {"l": "1"}, "tolerations": [{"key": "t"}],
                "annotations": {"a": "c", consume: request}, "nodeSelector": {"pool": pool},
            }])
        };
        let free = pod("p-1", true, "Pending", &json!({"zone": "z"}));
        let found = ungated(
            &slice(1, &updates("r", "p")),
            [&free].into_iter(),
            KueueVersion::V0_19,
        );
        assert_eq!(
            found[0]["metadata"]["annotations"],
            json!({"a": "b", consume: "r"})
        );
        assert_eq!(
            found[0]["spec"]["nodeSelector"],
            json!({"zone": "z", "pool": "p"})
        );
        assert_eq!(found[0]["spec"].get("tolerations"), None);
        let other = pod("p-2", true, "Pending", &json!({"pool": "q"}));
        assert_eq!(names(&slice(1, &updates("r", "p")), &[other]), [""; 0]);
        let mut consumes = free;
        consumes["metadata"]["annotations"][consume] = json!("s");
        assert_eq!(names(&slice(1, &updates("r", "p")), &[consumes]), [""; 0]);
    }
}
