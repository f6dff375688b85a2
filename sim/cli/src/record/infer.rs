//! Requests inferred from two consecutive states of an object.
//!
//! A watch does not contain the writer. Kueue's own writes are not requests of a trace, because the
//! model has to make them. They are recognized by `managedFields`, and where these are not enough,
//! by the fields that only Kueue writes.

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::redact::{controller_of, job_of};
use crate::replay::{is_reset, list};

/// A request whose result was observed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Value,
    pub(super) code: u16,
}

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// An object of the cluster and its redacted form.
#[derive(Clone, Copy)]
pub(super) struct Version<'a> {
    pub(super) raw: &'a Value,
    pub(super) redacted: &'a Value,
}

/// Returns the requests that created, changed or deleted an object. The deletion of a Workload by
/// the garbage collector is a request too, because the replay has none.
pub(super) fn calls(
    kind: Kind,
    before: Option<Version<'_>>,
    after: Option<Version<'_>>,
) -> Vec<Call> {
    match (before, after) {
        (None, None) => Vec::new(),
        (None, Some(after)) => created(kind, after),
        (Some(before), after) => {
            let ended = |of: Version<'_>| !of.raw["metadata"]["deletionTimestamp"].is_null();
            let ends = !ended(before) && after.is_none_or(ended);
            let mut calls = match after {
                Some(after) => changed(kind, before, after),
                None => Vec::new(),
            };
            if ends {
                let path = path(kind, before.redacted);
                calls.push(Call {
                    method: "DELETE",
                    path: format!("{path}?propagationPolicy=Background"),
                    content_type: "application/json",
                    body: Value::Null,
                    code: 200,
                });
            }
            calls
        }
    }
}

fn created(kind: Kind, after: Version<'_>) -> Vec<Call> {
    // Kueue creates the Workload of a Job.
    if kind == Kind::Workload && job_of(after.raw).is_some() {
        return Vec::new();
    }
    let mut calls = vec![Call {
        method: "POST",
        path: kind.path(),
        content_type: "application/json",
        body: as_created(after.redacted),
        code: 201,
    }];
    let nothing = json!({"metadata": {}, "status": {}});
    let before = Version {
        raw: after.raw,
        redacted: &nothing,
    };
    calls.extend(statuses(kind, before, after));
    calls
}

/// Returns the object without the fields that the API server and controllers add.
fn as_created(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "finalizers",
        ] {
            metadata.remove(field);
        }
    }
    object
}

fn changed(kind: Kind, before: Version<'_>, after: Version<'_>) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut patch = Map::new();
    for part in ["spec", "value"] {
        let old = &before.redacted[part];
        let new = &after.redacted[part];
        let changed = difference(old, new).map(|change| match change {
            Value::Object(fields) => {
                let by_others = fields
                    .into_iter()
                    .filter(|(field, _)| is_of_others(kind, after.raw, part, field));
                Value::Object(by_others.collect())
            }
            other => other,
        });
        if let Some(change) = changed.filter(|change| *change != json!({})) {
            patch.insert(part.to_owned(), change);
        }
    }
    let labels = difference(
        &before.redacted["metadata"]["labels"],
        &after.redacted["metadata"]["labels"],
    );
    if let Some(labels) = labels
        && kind != Kind::Workload
    {
        patch.insert("metadata".to_owned(), json!({"labels": labels}));
    }
    if !patch.is_empty() {
        calls.push(merge(path(kind, after.redacted), Value::Object(patch)));
    }
    calls.extend(statuses(kind, before, after));
    calls
}

/// Returns true if neither Kueue nor the API server wrote the changed field.
fn is_of_others(kind: Kind, raw: &Value, part: &str, field: &str) -> bool {
    match (kind, field) {
        // Only Kueue suspends and resumes a Job that it manages, and changes its template.
        (Kind::Job, "suspend" | "template") => false,
        (Kind::Job | Kind::Workload, _) => {
            let managers = list(&raw["metadata"]["managedFields"]);
            let names = managers
                .filter(|manager| {
                    let fields = &manager["fieldsV1"][format!("f:{part}")];
                    manager["subresource"].is_null() && !fields[format!("f:{field}")].is_null()
                })
                .filter_map(|manager| manager["manager"].as_str());
            let names: Vec<&str> = names.collect();
            names.is_empty() || !names.iter().all(|name| name.starts_with("kueue"))
        }
        _ => true,
    }
}

/// Returns the requests of other writers than Kueue to the status.
fn statuses(kind: Kind, before: Version<'_>, after: Version<'_>) -> Vec<Call> {
    match kind {
        Kind::AdmissionCheck | Kind::Job => {
            let changed = difference(&before.redacted["status"], &after.redacted["status"]);
            // Kueue removes the start time when it suspends a Job.
            let changed = changed.map(|mut status| {
                if let Some(map) = status.as_object_mut() {
                    map.retain(|field, value| field != "startTime" || !value.is_null());
                }
                json!({"status": status})
            });
            let changed = changed.filter(|body| body["status"] != json!({}));
            let path = || format!("{}/status", path(kind, after.redacted));
            changed
                .map(|body| merge(path(), body))
                .into_iter()
                .collect()
        }
        Kind::Workload => of_checks(before, after)
            .into_iter()
            .chain(of_owner(before, after))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the requests of the checks to their entries.
fn of_checks(before: Version<'_>, after: Version<'_>) -> Vec<Call> {
    let old = &before.redacted["status"]["admissionChecks"];
    let new = &after.redacted["status"]["admissionChecks"];
    let mut calls = Vec::new();
    for mut entry in list(new).cloned() {
        let known = list(old).find(|known| known["name"] == entry["name"]);
        let verdict = |entry: &Value| {
            let fields = ["state", "message", "requeueAfterSeconds", "podSetUpdates"];
            fields.map(|field| entry[field].clone())
        };
        let fresh = json!({"state": "Pending", "message": ""});
        let reset = entry["state"] == "Pending" && entry["message"].as_str().is_some_and(is_reset);
        if verdict(known.unwrap_or(&fresh)) == verdict(&entry) || reset {
            continue;
        }
        let check = entry["name"].as_str().unwrap_or_default().to_owned();
        // Kueue counts the Retries.
        if let Some(map) = entry.as_object_mut() {
            map.remove("retryCount");
        }
        calls.push(apply(after, &check, json!({"admissionChecks": [entry]})));
    }
    calls
}

/// Returns the requests of an owner whose integration the model does not have. These are the end of
/// the Workload, reclaimable Pods and the release of quota.
fn of_owner(before: Version<'_>, after: Version<'_>) -> Vec<Call> {
    if job_of(after.raw).is_some() {
        return Vec::new();
    }
    let (old, new) = (&before.redacted["status"], &after.redacted["status"]);
    let mut calls = Vec::new();
    let finished = |status: &Value| {
        list(&status["conditions"])
            .find(|condition| condition["type"] == "Finished")
            .cloned()
    };
    if let (None, Some(condition)) = (finished(old), finished(new)) {
        calls.push(apply(after, "owner", json!({"conditions": [condition]})));
    }
    if old["reclaimablePods"] != new["reclaimablePods"] && !new["reclaimablePods"].is_null() {
        let done = json!({"reclaimablePods": new["reclaimablePods"]});
        calls.push(apply(after, "owner-pods", done));
    }
    let released = !old["admission"].is_null() && new["admission"].is_null();
    if released && controller_of(after.raw).is_some() {
        let body = json!({"status": {"admission": null, "conditions": new["conditions"]}});
        let path = path(Kind::Workload, after.redacted);
        calls.push(merge(format!("{path}/status"), body));
    }
    calls
}

fn merge(path: String, body: Value) -> Call {
    Call {
        method: "PATCH",
        path,
        content_type: MERGE,
        body,
        code: 200,
    }
}

fn apply(workload: Version<'_>, manager: &str, status: Value) -> Call {
    let metadata = &workload.redacted["metadata"];
    let path = path(Kind::Workload, workload.redacted);
    Call {
        method: "PATCH",
        path: format!("{path}/status?fieldManager={manager}&force=true"),
        content_type: APPLY,
        body: json!({
            "apiVersion": Kind::Workload.api_version(), "kind": "Workload",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "status": status,
        }),
        code: 200,
    }
}

fn path(kind: Kind, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{}/{name}", kind.path())
}

/// Returns the merge patch (RFC 7386) from `old` to `new`, if they differ.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let change = difference(old.get(key).unwrap_or(&Value::Null), value);
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the requests between two states of an object, as `METHOD path body`.
    fn between(kind: Kind, before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
        fn version(object: &Value) -> Version<'_> {
            Version {
                raw: object,
                redacted: object,
            }
        }
        let calls = calls(kind, before.map(version), after.map(version));
        let line = |call: Call| {
            let (_, path) = call.path.rsplit_once("v1").unwrap_or_default();
            format!("{} {path} {}", call.method, call.body)
        };
        calls.into_iter().map(line).collect()
    }

    fn workload(spec: Value, status: Value) -> Value {
        json!({"metadata": {"name": "w", "namespace": "t"}, "spec": spec, "status": status})
    }

    fn entries(entries: Value) -> Value {
        workload(json!({}), json!({"admissionChecks": entries}))
    }

    #[test]
    fn a_verdict_is_a_request_and_what_kueue_does_to_an_entry_is_not() {
        let fresh =
            json!([{"name": "c", "state": "Pending", "message": "", "lastTransitionTime": "then"}]);
        let ready =
            json!([{"name": "c", "state": "Ready", "message": "m", "lastTransitionTime": "now"}]);
        let reset = json!([{
            "name": "c", "state": "Pending", "retryCount": 1,
            "message": "Reset to Pending after eviction. Previously: Retry",
        }]);
        let none = json!([]);
        let requests = |before: &Value, after: &Value| {
            let (before, after) = (entries(before.clone()), entries(after.clone()));
            between(Kind::Workload, Some(&before), Some(&after)).len()
        };
        assert_eq!(requests(&none, &fresh), 0);
        assert_eq!(requests(&fresh, &ready), 1);
        assert_eq!(requests(&ready, &ready), 0);
        assert_eq!(requests(&ready, &reset), 0);
        assert_eq!(requests(&reset, &none), 0);
        assert_eq!(requests(&none, &ready), 1, "a check may write before Kueue");
    }

    #[test]
    fn the_writer_of_a_deactivation_is_read_from_managed_fields() {
        let by = |manager: &str, active: bool| {
            let mut object = workload(json!({"active": active}), json!({}));
            object["metadata"]["managedFields"] =
                json!([{"manager": manager, "fieldsV1": {"f:spec": {"f:active": {}}}}]);
            object
        };
        let before = by("kueue", true);
        let kueue = by("kueue", false);
        let user = by("kubectl-patch", false);
        assert!(between(Kind::Workload, Some(&before), Some(&kueue)).is_empty());
        assert_eq!(
            between(Kind::Workload, Some(&before), Some(&user)),
            [r#"PATCH beta2/namespaces/t/workloads/w {"spec":{"active":false}}"#]
        );
    }

    #[test]
    fn the_workload_of_a_job_is_kueues_and_one_of_another_kind_a_request() {
        let owned = |kind: &str, version: &str| {
            let mut object = workload(json!({"queueName": "q"}), json!({}));
            object["metadata"]["ownerReferences"] =
                json!([{"kind": kind, "apiVersion": version, "name": "o", "controller": true}]);
            object
        };
        let of_job = owned("Job", "batch/v1");
        let of_ray = owned("RayJob", "ray.io/v1");
        assert!(between(Kind::Workload, None, Some(&of_job)).is_empty());
        assert_eq!(between(Kind::Workload, None, Some(&of_ray)).len(), 1);
    }

    #[test]
    fn the_owner_releases_quota_if_there_is_one() {
        let admitted = json!({"admission": {"clusterQueue": "q"}, "conditions": []});
        let released = json!({"conditions": [{"type": "QuotaReserved", "status": "False"}]});
        let mut before = workload(json!({}), admitted);
        let mut after = workload(json!({}), released);
        assert!(between(Kind::Workload, Some(&before), Some(&after)).is_empty());
        for object in [&mut before, &mut after] {
            object["metadata"]["ownerReferences"] = json!([{"kind": "RayJob", "controller": true}]);
        }
        assert_eq!(
            between(Kind::Workload, Some(&before), Some(&after)),
            [concat!(
                "PATCH beta2/namespaces/t/workloads/w/status ",
                r#"{"status":{"admission":null,"conditions":[{"status":"False","type":"QuotaReserved"}]}}"#
            )]
        );
    }

    #[test]
    fn kueue_starts_a_job_and_its_controller_ends_it() {
        let job = |suspend: bool, parallelism: u8, status: Value| {
            json!({
                "metadata": {"name": "j"}, "status": status,
                "spec": {"suspend": suspend, "parallelism": parallelism},
            })
        };
        let waits = job(true, 1, json!({}));
        let starts = job(false, 1, json!({}));
        let runs = job(false, 1, json!({"active": 1, "startTime": "now"}));
        let scaled = job(false, 2, json!({"active": 1, "startTime": "now"}));
        let stopped = job(true, 2, json!({"active": 1}));
        let calls = |before, after| between(Kind::Job, Some(before), Some(after));
        assert!(calls(&waits, &starts).is_empty());
        assert_eq!(
            calls(&starts, &runs),
            [r#"PATCH /namespaces/t/jobs/j/status {"status":{"active":1,"startTime":"now"}}"#]
        );
        assert_eq!(
            calls(&runs, &scaled),
            [r#"PATCH /namespaces/t/jobs/j {"spec":{"parallelism":2}}"#]
        );
        assert!(calls(&scaled, &stopped).is_empty());
        let gone = between(Kind::Job, Some(&stopped), None);
        assert_eq!(
            gone,
            ["DELETE /namespaces/t/jobs/j?propagationPolicy=Background null"]
        );
    }

    #[test]
    fn the_patch_makes_the_new_of_the_old() {
        let old = json!({"a": 1, "b": {"c": [1], "d": 2}, "e": 3});
        let new = json!({"a": 1, "b": {"c": [1, 2]}, "f": 4});
        let patch = json!({"b": {"c": [1, 2], "d": null}, "e": null, "f": 4});
        assert_eq!(difference(&old, &new), Some(patch));
        assert_eq!(difference(&new, &new), None);
    }
}
