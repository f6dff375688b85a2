//! The API client of the model's controllers, and their event recorder.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kueue_check::Clock;
use serde_json::{Value, json};

use super::KueueVersion;
use super::event_series::EventSeriesCache;
use super::note::note_of;
use super::objects::Metadata;
use super::reconcile::{EventKind, EventRecord};
use kueue_check_apiserver::{ApiRequest, ApiResponse, ApiServer, Patch, Resource, Verb};

const KUEUE: &str = "kueue.x-k8s.io";

/// Returns a kind of Kueue's own API, such as `workloads`, in the stored version.
pub fn kueue(plural: &str) -> Resource {
    Resource::new(KUEUE, "v1beta2", plural)
}

/// Returns the resource of `batch/v1` Jobs.
pub(crate) fn jobs() -> Resource {
    Resource::new("batch", "v1", "jobs")
}

/// An API client of one controller.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    server: ApiServer,
    clock: Clock,
    agent: &'static str,
}

impl Api {
    pub(crate) fn new(server: &ApiServer, clock: &Clock, agent: &'static str) -> Self {
        Self {
            server: server.clone(),
            clock: clock.clone(),
            agent,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn call(&self, call: ApiRequest) -> ApiResponse {
        self.server.call(&call.agent(self.agent))
    }

    /// Replaces an object, or its status.
    pub(crate) fn update(
        &self,
        resource: &Resource,
        object: Value,
        subresource: &str,
    ) -> ApiResponse {
        let call = on(Verb::Update, resource, &object).body(object);
        self.call(with_subresource(call, subresource))
    }

    pub(crate) fn create(&self, resource: &Resource, object: Value) -> ApiResponse {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let call = ApiRequest::new(Verb::Create, resource).namespace(namespace);
        self.call(call.body(object))
    }

    pub(crate) fn delete(&self, resource: &Resource, namespace: &str, name: &str) -> ApiResponse {
        self.call(
            ApiRequest::new(Verb::Delete, resource)
                .namespace(namespace)
                .name(name),
        )
    }

    /// Changes an object, or its status, by a merge patch.
    pub(crate) fn merge(
        &self,
        resource: &Resource,
        (namespace, name): (&str, &str),
        subresource: &str,
        patch: Value,
    ) -> ApiResponse {
        let call = ApiRequest::new(Verb::Patch(Patch::Merge), resource);
        let call = call.namespace(namespace).name(name).body(patch);
        self.call(with_subresource(call, subresource))
    }

    /// Applies an object, or its status, by a forced server-side apply.
    pub(crate) fn apply(
        &self,
        resource: &Resource,
        object: Value,
        subresource: &str,
        manager: &str,
    ) -> ApiResponse {
        let call = on(Verb::Patch(Patch::Apply), resource, &object)
            .query("fieldManager", manager)
            .query("force", "true")
            .body(object);
        self.call(with_subresource(call, subresource))
    }

    pub(crate) fn list(&self, resource: &Resource, namespace: &str) -> Vec<Arc<Value>> {
        self.server.objects(resource, namespace)
    }

    pub(crate) fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Value>> {
        self.server.object(resource, namespace, name)
    }
}

fn on(verb: Verb, resource: &Resource, object: &Value) -> ApiRequest {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ApiRequest::new(verb, resource)
        .namespace(text("namespace"))
        .name(text("name"))
}

fn with_subresource(call: ApiRequest, subresource: &str) -> ApiRequest {
    if subresource.is_empty() {
        call
    } else {
        call.subresource(subresource)
    }
}

/// The object that an event is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regarding<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) metadata: &'a Metadata,
}

impl<'a> Regarding<'a> {
    pub(crate) fn workload(metadata: &'a Metadata) -> Self {
        Self {
            api_version: "kueue.x-k8s.io/v1beta2",
            kind: "Workload",
            metadata,
        }
    }
}

/// An event recorder that works as client-go's does. A repeat for the same version of an object
/// within 6 min joins the series of the first event. With `counts_messages` an event of the same
/// text does, whatever the version, and of more than 25 warnings about an object the rest is
/// dropped, but for one in 5 min (client-go 0.34, `tools/record/events_cache.go`).
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    counts_messages: bool,
    /// The times of the last floods of warnings, by the uid of the object.
    floods: BTreeMap<String, Timestamp>,
    series: EventSeriesCache,
    count: u64,
}

impl Recorder {
    pub(crate) fn new(version: KueueVersion) -> Self {
        Self {
            counts_messages: version.counts_messages,
            floods: BTreeMap::new(),
            series: EventSeriesCache::new(!version.counts_messages),
            count: 0,
        }
    }

    /// Records that there are very many warnings about an object. The next ones are dropped.
    pub(crate) fn flooded(&mut self, uid: &str, now: Timestamp) {
        if self.counts_messages {
            self.floods.insert(uid.to_owned(), now);
        }
    }

    fn drops(&self, note: &EventRecord, uid: &str, now: Timestamp) -> bool {
        const REFILL: SignedDuration = SignedDuration::from_mins(5);
        let last = self.floods.get(uid);
        note.kind == EventKind::Warning
            && last.is_some_and(|last| now.duration_since(*last) < REFILL)
    }

    pub(crate) fn record_event(&mut self, api: &Api, note: &EventRecord, regarding: Regarding<'_>) {
        let metadata = regarding.metadata;
        let now = api.now();
        if self.drops(note, &metadata.uid, now) {
            return;
        }
        // Without it, an event joins its series whatever its note.
        let counted = if self.counts_messages {
            match note_of(note, true) {
                None => return,
                text => text,
            }
        } else {
            None
        };
        let key = format!(
            "{}/{}/{}/{}/{}",
            note.kind.as_str(),
            note.reason,
            note.reporter,
            metadata.uid,
            counted.as_ref().unwrap_or(&metadata.resource_version)
        );
        let events = Resource::new("events.k8s.io", "v1", "events");
        let namespace = if metadata.namespace.is_empty() {
            "default"
        } else {
            &metadata.namespace
        };
        if let Some((name, count)) = self.series.again(&key, now) {
            if count == 2 {
                let series = json!({"series": {"count": 2, "lastObservedTime": micros(now)}});
                api.merge(&events, (namespace, name), "", series);
            }
            return;
        }
        let Some(text) = counted.or_else(|| note_of(note, self.counts_messages)) else {
            return;
        };
        self.count += 1;
        let name = format!(
            "{}.{:x}.{}",
            metadata.name,
            now.as_microsecond(),
            self.count
        );
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": name},
            "eventTime": micros(now),
            "reportingController": note.reporter,
            "reportingInstance": format!("{}-0", note.reporter.replace('/', "-")),
            "type": note.kind.as_str(),
            "reason": note.reason,
            "action": note.reason,
            "note": text,
            "regarding": {
                "apiVersion": regarding.api_version,
                "kind": regarding.kind,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
        });
        api.create(&events, event);
        self.series.insert(key, name, now);
    }
}

fn micros(at: Timestamp) -> String {
    format!("{at:.6}")
}
