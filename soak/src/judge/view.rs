//! The fields of objects that the judge reads.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::scene::{CPU_PER_SECOND, GRACE};

/// The provisioning check's annotation with the Workload of a request.
const WORKLOAD_UID: &str = "provisioning.kueue-check.dev/workload-uid";

/// A Workload.
#[expect(
    clippy::struct_excessive_bools,
    reason = "conditions that are True or not"
)]
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    /// Its UID.
    pub(crate) uid: String,
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// The name of its job; empty if it has none.
    pub(crate) owner: String,
    /// When the quota that it holds was reserved.
    pub(crate) reservation: Option<String>,
    /// Whether it is admitted.
    pub(crate) admitted: bool,
    /// Whether it is evicted.
    pub(crate) evicted: bool,
    /// Whether it has finished.
    pub(crate) finished: bool,
    /// Whether it is active (`spec.active`).
    pub(crate) active: bool,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
    /// The states of its checks, by their names.
    pub(crate) checks: BTreeMap<String, CheckState>,
    /// Its estimate: the maximum cost from its start.
    pub(crate) estimate: f64,
}

/// The state of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckState {
    /// `Pending`, `Ready`, `Retry` or `Rejected`.
    pub(crate) state: String,
    /// The check's message.
    pub(crate) message: String,
    /// Since when it has this state.
    pub(crate) since: String,
    /// How long Kueue waits before the next attempt.
    pub(crate) requeue_after: u64,
}

/// Returns since when the condition `kind` of an object is True, if it is.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let is_true = |one: &&Value| one["type"] == kind && one["status"] == "True";
    let found = conditions.find(is_true)?;
    Some(found["lastTransitionTime"].as_str().unwrap_or_default())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Parses a quantity of CPUs.
fn cpus(text: &str) -> f64 {
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().unwrap_or(0.0) / 1000.0,
        None => text.parse().unwrap_or(0.0),
    }
}

impl View {
    /// Returns the view of `object`, a Workload.
    pub(crate) fn of(object: &Value) -> Self {
        let (metadata, status) = (&object["metadata"], &object["status"]);
        let has_quota = status["admission"].is_object();
        let reserved = condition(object, "QuotaReserved").filter(|_| has_quota);
        let checks = status["admissionChecks"].as_array().into_iter().flatten();
        let checks = checks.map(|entry| {
            let state = CheckState {
                state: text(&entry["state"]),
                message: text(&entry["message"]),
                since: text(&entry["lastTransitionTime"]),
                requeue_after: entry["requeueAfterSeconds"].as_u64().unwrap_or(0),
            };
            (text(&entry["name"]), state)
        });
        let assignments = status["admission"]["podSetAssignments"].as_array();
        let used = assignments
            .into_iter()
            .flatten()
            .map(|assigned| cpus(assigned["resourceUsage"]["cpu"].as_str().unwrap_or("0")));
        let longest = object["spec"]["maximumExecutionTimeSeconds"].as_f64();
        let past = status["accumulatedPastExecutionTimeSeconds"].as_f64();
        let seconds = (longest.unwrap_or(0.0) - past.unwrap_or(0.0)).max(0.0) + f64::from(GRACE);
        Self {
            uid: text(&metadata["uid"]),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            owner: text(&metadata["ownerReferences"][0]["name"]),
            reservation: reserved.map(str::to_owned),
            admitted: condition(object, "Admitted").is_some(),
            evicted: condition(object, "Evicted").is_some(),
            finished: condition(object, "Finished").is_some(),
            active: object["spec"]["active"] != false,
            deleting: metadata["deletionTimestamp"].is_string(),
            checks: checks.collect(),
            estimate: used.sum::<f64>() * seconds * CPU_PER_SECOND,
        }
    }

    /// Returns true if the checks have to decide about it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.reservation.is_some() && !self.evicted && !self.finished && self.active
    }

    /// Returns the state of the check `name`.
    pub(crate) fn state(&self, name: &str) -> &str {
        self.checks.get(name).map_or("", |check| &*check.state)
    }
}

/// A `ProvisioningRequest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestView {
    /// The UID of its Workload.
    pub(crate) workload: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether the capacity exists.
    pub(crate) provisioned: bool,
    /// Whether there is no capacity, or none any longer.
    pub(crate) failed: bool,
}

impl RequestView {
    /// Returns the view of `object`, a `ProvisioningRequest`.
    pub(crate) fn of(object: &Value) -> Self {
        let annotations = &object["metadata"]["annotations"];
        let failures = ["Failed", "BookingExpired", "CapacityRevoked"];
        Self {
            workload: text(&annotations[WORKLOAD_UID]),
            name: text(&object["metadata"]["name"]),
            provisioned: condition(object, "Provisioned").is_some(),
            failed: failures
                .iter()
                .any(|kind| condition(object, kind).is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workload_is_read() {
        let object = json!({
            "metadata": {"uid": "u", "namespace": "n", "name": "w"},
            "spec": {"maximumExecutionTimeSeconds": 60},
            "status": {
                "accumulatedPastExecutionTimeSeconds": 5,
                "conditions": [
                    {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "t1"},
                    {"type": "Evicted", "status": "False", "lastTransitionTime": "t0"},
                ],
                "admission": {"podSetAssignments": [{"resourceUsage": {"cpu": "1500m"}}]},
                "admissionChecks": [{"name": "budget", "state": "Ready", "message": "m", "lastTransitionTime": "t2"}],
            },
        });
        let view = View::of(&object);
        assert_eq!(view.reservation.as_deref(), Some("t1"));
        assert!(view.is_awaited() && !view.admitted && view.active);
        assert_eq!((view.state("budget"), view.state("x")), ("Ready", ""));
        assert!((view.estimate - 1.5).abs() < 1e-9, "{}", view.estimate);
        let mut evicted = object.clone();
        evicted["status"]["conditions"][1]["status"] = json!("True");
        assert!(!View::of(&evicted).is_awaited());
        let mut without = object;
        without["status"]["admission"] = Value::Null;
        assert_eq!(View::of(&without).reservation, None);
    }

    #[test]
    fn a_request_is_read() {
        let object = |kind: &str| {
            json!({
                "metadata": {"name": "r", "annotations": {WORKLOAD_UID: "u"}},
                "status": {"conditions": [{"type": kind, "status": "True"}]},
            })
        };
        let read = |kind: &str| RequestView::of(&object(kind));
        assert_eq!(read("Provisioned").workload, "u");
        assert!(read("Provisioned").provisioned && !read("Provisioned").failed);
        assert!(read("CapacityRevoked").failed && read("Failed").failed);
    }
}
