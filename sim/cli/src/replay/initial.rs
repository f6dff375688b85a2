//! Objects that existed when a recording began.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kueue_check::Clock;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::NAMESPACE;
use super::object::list;
use super::trace::Trace;
use kueue_check_sim::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};

/// The field manager of most of the status of a Workload.
const KUEUE: &str = "kueue-admission";

/// The time from the start of the model of Kueue to the recording, to reconcile all objects.
const SETTLE: SignedDuration = SignedDuration::from_secs(3);

/// Returns the creation time of an object.
fn created(object: &Value) -> Option<Timestamp> {
    let created = object["metadata"]["creationTimestamp"].as_str();
    created.and_then(|text| text.parse().ok())
}

/// Returns the start time of the model of Kueue, for a recording that began at `start`.
pub(super) fn kueue_starts(trace: &Trace, start: Timestamp) -> Timestamp {
    if trace.objects.is_empty() {
        return start;
    }
    start.saturating_sub(SETTLE).unwrap_or(start)
}

/// Returns the time of the first creation, at the latest the start time of Kueue.
pub(super) fn first_time(trace: &Trace, start: Timestamp) -> Timestamp {
    let all = trace.objects.iter().filter_map(created);
    let start = kueue_starts(trace, start);
    all.min().map_or(start, |first| first.min(start))
}

/// Creates each object at its creation time, and waits until the start time of Kueue.
pub(super) async fn put(trace: &Trace, server: &ApiServer, clock: &Clock, start: Timestamp) {
    let start = kueue_starts(trace, start);
    let mut objects: Vec<&Value> = trace.objects.iter().collect();
    objects.sort_by_key(|object| created(object));
    let mut uids: BTreeMap<String, String> = BTreeMap::new();
    for object in objects {
        wait_for(clock, created(object).unwrap_or(start).min(start)).await;
        let mut text = object.to_string();
        for (then, now) in &uids {
            text = text.replace(then.as_str(), now);
        }
        let object = serde_json::from_str(&text).unwrap_or_default();
        let uid = put_one(&object, server);
        if let (Some(then), Some(now)) = (object["metadata"]["uid"].as_str(), uid) {
            uids.insert(then.to_owned(), now);
        }
    }
    wait_for(clock, start).await;
}

/// Waits until `time`.
pub(super) async fn wait_for(clock: &Clock, time: Timestamp) {
    let left = time.duration_since(clock.now());
    sleep(left.try_into().unwrap_or_default()).await;
}

/// Creates an object with its status and returns its UID.
fn put_one(object: &Value, server: &ApiServer) -> Option<String> {
    let resource = resource_of(object)?;
    let name = object["metadata"]["name"].as_str()?;
    let namespace = object["metadata"]["namespace"].as_str().map(|_| NAMESPACE);
    let call = |verb: Verb| ApiRequest::new(verb, &resource).namespace(namespace.unwrap_or(""));
    let send = |call: ApiRequest| {
        let response = server.call(&call);
        if response.code >= 300 {
            tracing::warn!(code = response.code, body = %response.body, name, "cannot create initial object");
        }
        response
    };
    let mut body = object.clone();
    let status = body["status"].take();
    let made = send(call(Verb::Create).body(body).agent("kueue"));
    for (manager, patch, status) in statuses(object, status) {
        let mut body = json!({"status": status});
        if patch == Patch::Apply {
            for field in ["apiVersion", "kind"] {
                body[field] = object[field].clone();
            }
            body["metadata"] = json!({"name": name, "namespace": namespace});
        }
        let call = call(Verb::Patch(patch)).name(name).subresource("status");
        send(call.query("fieldManager", &manager).body(body));
    }
    if !object["metadata"]["deletionTimestamp"].is_null() {
        send(call(Verb::Delete).name(name));
    }
    made.body["metadata"]["uid"].as_str().map(str::to_owned)
}

/// Returns the parts of a status with their field managers.
fn statuses(object: &Value, status: Value) -> Vec<(String, Patch, Value)> {
    if status.is_null() {
        return Vec::new();
    }
    if object["kind"] != "Workload" {
        return vec![("recording".to_owned(), Patch::Merge, status)];
    }
    let mut of_kueue = status.as_object().cloned().unwrap_or_default();
    let done = of_kueue.remove("reclaimablePods");
    let mut all = vec![(KUEUE.to_owned(), Patch::Apply, Value::Object(of_kueue))];
    if let Some(done) = done {
        let done = Map::from_iter([("reclaimablePods".to_owned(), done)]);
        all.push(("owner-pods".to_owned(), Patch::Apply, Value::Object(done)));
    }
    let verdicts = list(&status["admissionChecks"]).filter(|entry| entry["state"] != "Pending");
    all.extend(verdicts.map(|entry| {
        let check = entry["name"].as_str().unwrap_or_default().to_owned();
        (check, Patch::Apply, json!({"admissionChecks": [entry]}))
    }));
    all
}

fn resource_of(object: &Value) -> Option<Resource> {
    let (group, version) = object["apiVersion"].as_str()?.split_once('/')?;
    let plural = match object["kind"].as_str()? {
        class @ ("PriorityClass" | "WorkloadPriorityClass") => {
            format!("{}es", class.to_lowercase())
        }
        kind => format!("{}s", kind.to_lowercase()),
    };
    Some(Resource::new(group, version, plural))
}
