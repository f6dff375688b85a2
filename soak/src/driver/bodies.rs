//! The objects that Kueue writes into the status of a Workload. Pure.

use serde_json::{Map, Value, json};

use crate::plan::JobPlan;
use crate::scene::{GRACE, KUEUE, NAME};

/// The field manager of Kueue's applies.
pub(crate) const ADMISSION: &str = "kueue-admission";

/// Returns the Workload as it is submitted.
pub(crate) fn workload(plan: &JobPlan) -> Value {
    let requests = json!({"cpu": plan.cpus.to_string()});
    let container = json!({"name": "main", "image": "registry.example.com/job:1", "resources": {"requests": requests}});
    let template = json!({"spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE, "containers": [container],
    }});
    json!({
        "apiVersion": KUEUE, "kind": "Workload",
        "metadata": {"namespace": plan.namespace, "name": plan.name},
        "spec": {
            "active": true, "queueName": plan.queue.name, "priority": plan.priority,
            "maximumExecutionTimeSeconds": plan.longest,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    })
}

/// Returns the states of its checks, none of which has decided.
pub(crate) fn checks(plan: &JobPlan, now: &str) -> Value {
    let names = plan.queue.checks.iter();
    names
        .map(|name| {
            json!({"name": name, "state": "Pending", "message": "", "lastTransitionTime": now})
        })
        .collect()
}

/// Returns Kueue's apply: all fields of the status that it owns, copied from `object` with its
/// `resourceVersion`, to be changed.
fn copied(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut status = Map::new();
    for field in [
        "conditions",
        "admission",
        "admissionChecks",
        "accumulatedPastExecutionTimeSeconds",
    ] {
        if let Some(value) = object["status"].get(field) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        // It has another field manager.
        conditions.retain(|condition| condition["type"] != "Finished");
    }
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {
            "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "status": status,
    })
}

fn set_condition(body: &mut Value, (kind, status, reason): (&str, &str, &str), now: &str) {
    let conditions = &mut body["status"]["conditions"];
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Some(all) = conditions.as_array_mut() else {
        return;
    };
    all.retain(|condition| condition["type"] != kind);
    all.push(json!({
        "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now,
    }));
}

fn has_condition(body: &Value, kind: &str) -> bool {
    let conditions = body["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|one| one["type"] == kind)
}

/// Returns the status with reserved quota.
pub(crate) fn reserved(object: &Value, plan: &JobPlan, now: &str) -> Value {
    let mut body = copied(object);
    let assignment = json!({
        "name": "main", "count": 1, "flavors": {"cpu": NAME},
        "resourceUsage": {"cpu": plan.cpus.to_string()},
    });
    let admission = json!({"clusterQueue": plan.queue.name, "podSetAssignments": [assignment]});
    body["status"]["admission"] = admission;
    set_condition(&mut body, ("QuotaReserved", "True", "QuotaReserved"), now);
    if has_condition(&body, "Evicted") {
        set_condition(&mut body, ("Evicted", "False", "QuotaReserved"), now);
    }
    body
}

/// Returns the status of an admitted Workload.
pub(crate) fn admitted(object: &Value, now: &str) -> Value {
    let mut body = copied(object);
    set_condition(&mut body, ("Admitted", "True", "Admitted"), now);
    body
}

/// Returns the status of an evicted Workload, whose checks are reset.
pub(crate) fn evicted(object: &Value, reason: &str, now: &str) -> Value {
    let mut body = copied(object);
    set_condition(&mut body, ("Evicted", "True", reason), now);
    let entries = body["status"]["admissionChecks"].as_array_mut();
    for entry in entries.into_iter().flatten() {
        let state = entry["state"].as_str().unwrap_or_default().to_owned();
        if state == "Pending" {
            continue;
        }
        let retries = entry["retryCount"].as_u64().unwrap_or(0);
        entry["state"] = json!("Pending");
        entry["lastTransitionTime"] = json!(now);
        entry["message"] = json!(format!(
            "Reset to Pending after eviction. Previously: {state}"
        ));
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("podSetUpdates");
            entry.remove("retryCount");
            if state == "Retry" {
                entry.insert("retryCount".to_owned(), json!(retries + 1));
            }
        }
    }
    body
}

/// Returns the status with released quota; the Workload ran for `ran` seconds.
pub(crate) fn released(object: &Value, ran: u64, now: &str) -> Value {
    let mut body = copied(object);
    if let Some(status) = body["status"].as_object_mut() {
        status.remove("admission");
    }
    set_condition(&mut body, ("QuotaReserved", "False", "Pending"), now);
    if has_condition(&body, "Admitted") {
        set_condition(&mut body, ("Admitted", "False", "NoReservation"), now);
    }
    let past = object["status"]["accumulatedPastExecutionTimeSeconds"].as_u64();
    if past.unwrap_or(0) + ran > 0 {
        let past = json!(past.unwrap_or(0) + ran);
        body["status"]["accumulatedPastExecutionTimeSeconds"] = past;
    }
    body
}

/// Returns the status of a finished Workload.
pub(crate) fn finished(object: &Value, now: &str) -> Value {
    let metadata = &object["metadata"];
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {
            "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "status": {"conditions": [{
            "type": "Finished", "status": "True", "reason": "Succeeded", "message": "",
            "lastTransitionTime": now,
        }]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{View, condition};

    fn object(plan: &JobPlan) -> Value {
        let mut object = workload(plan);
        object["status"] = json!({"admissionChecks": checks(plan, "t0")});
        object
    }

    #[test]
    fn the_writes_of_a_life_make_the_states_of_a_life() {
        let plan = JobPlan::draw(1, 1);
        let queued = object(&plan);
        let mut held = queued.clone();
        held["status"] = reserved(&queued, &plan, "t1")["status"].clone();
        assert_eq!(View::of(&held).reservation.as_deref(), Some("t1"));
        held["status"]["admissionChecks"][0]["state"] = json!("Retry");
        held["status"]["admissionChecks"][0]["podSetUpdates"] = json!([{"name": "main"}]);
        held["status"]["admissionChecks"][0]["requeueAfterSeconds"] = json!(7);
        let mut running = held.clone();
        running["status"] = admitted(&held, "t2")["status"].clone();
        assert_eq!(condition(&running, "Admitted"), Some("t2"));
        let mut stopping = running.clone();
        stopping["status"] = evicted(&running, "AdmissionCheck", "t3")["status"].clone();
        let view = View::of(&stopping);
        assert!(view.evicted && view.reservation.is_some());
        let entry = &stopping["status"]["admissionChecks"][0];
        assert_eq!(
            (
                &entry["state"],
                &entry["retryCount"],
                &entry["requeueAfterSeconds"]
            ),
            (&json!("Pending"), &json!(1), &json!(7))
        );
        assert!(entry["podSetUpdates"].is_null());
        let mut waiting = stopping.clone();
        waiting["status"] = released(&stopping, 12, "t4")["status"].clone();
        let view = View::of(&waiting);
        assert!(view.reservation.is_none() && !view.admitted && view.evicted);
        assert_eq!(waiting["status"]["accumulatedPastExecutionTimeSeconds"], 12);
        let mut again = waiting.clone();
        again["status"] = reserved(&waiting, &plan, "t5")["status"].clone();
        let view = View::of(&again);
        assert!(view.is_awaited(), "{again}");
        assert_eq!(
            condition(
                &json!({"status": finished(&again, "t6")["status"]}),
                "Finished"
            ),
            Some("t6")
        );
    }
}
