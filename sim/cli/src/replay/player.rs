//! Conversion of recorded writes to requests to this server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::NAMESPACE;
use kueue_check_sim::apiserver::{ApiRequest, ApiResponse, ApiServer, Patch, Resource, Verb};
use kueue_check_sim::kueue;

/// The controller name of the built-in check.
pub(super) const CONTROLLER: &str = "kueue.x-k8s.io/provisioning-request";
/// The reporting controller of its events.
pub(super) const REPORTER: &str = "kueue-provisioning-request-controller";

/// A recorded write of the check.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recorded {
    /// When its effect was observed, in seconds from the start.
    pub(super) t: f64,
    /// The object's name, as recorded.
    pub(super) name: String,
    /// The write.
    pub(super) write: Write,
}

/// A write of the check; values are the trace's projections.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// The condition Active of an AdmissionCheck.
    Active(Value),
    /// One entry of a Workload, before and after the write.
    Entry { before: Value, after: Value },
    /// The creation of a ProvisioningRequest or PodTemplate.
    Create { kind: String, state: Value },
    /// A new owner of a PodTemplate.
    Own { state: Value },
    /// The deletion of a ProvisioningRequest or PodTemplate.
    Delete { kind: String },
    /// An event.
    Event(Value),
}

/// A player of recorded writes, under the names of this server.
pub(super) struct Player<'a> {
    pub(super) server: &'a ApiServer,
    /// Recorded generated names of Workloads, with those of this server.
    pub(super) names: &'a BTreeMap<String, String>,
    /// Recorded generated names, with the short ones that stand for them in a trace.
    pub(super) recorded: &'a BTreeMap<String, String>,
}

impl Player<'_> {
    /// Returns true if the state that the write changed exists.
    pub(super) fn is_due(&self, recorded: &Recorded) -> bool {
        match &recorded.write {
            Write::Entry { before, .. } => self
                .entries(&recorded.name)
                .iter()
                .any(|entry| without_time(entry) == self.present(before)),
            Write::Create { state, .. } | Write::Own { state } => self.owner(state).is_some(),
            _ => true,
        }
    }

    pub(super) fn write(&self, recorded: &Recorded) {
        let name = self.text(&recorded.name);
        let response = match &recorded.write {
            Write::Active(condition) => self.active(&name, condition),
            Write::Entry { after, .. } => self.entry(&recorded.name, &self.present(after)),
            Write::Create { kind, state } => self.create(kind, &name, &self.present(state)),
            Write::Own { state } => self.own(&name, &self.present(state)),
            Write::Delete { kind } => {
                let call = ApiRequest::new(Verb::Delete, &resource(kind));
                Some(self.call(call.namespace(NAMESPACE).name(&name)))
            }
            Write::Event(event) => self.event(&self.present(event)),
        };
        if let Some(response) = response.filter(|response| response.code >= 300) {
            tracing::warn!(code = response.code, body = %response.body, name, "what was recorded is refused here");
        }
    }

    fn call(&self, call: ApiRequest) -> ApiResponse {
        self.server.call(&call.agent(CONTROLLER))
    }

    /// Replaces recorded names by those of this server.
    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (then, now) in self.names {
            text = text.replace(then.as_str(), now);
        }
        text
    }

    fn present(&self, value: &Value) -> Value {
        let text = self.text(&value.to_string());
        serde_json::from_str(&text).unwrap_or_else(|_| value.clone())
    }

    /// Returns the Workload with this short name in a trace.
    fn workload(&self, short: &str) -> Option<std::sync::Arc<Value>> {
        let generated = self.recorded.iter().find(|(_, s)| *s == short);
        let name = generated.and_then(|(then, _)| self.names.get(then));
        let name = name.map_or(short, String::as_str);
        self.server
            .object(&kueue::resource("workloads"), NAMESPACE, name)
    }

    fn entries(&self, short: &str) -> Vec<Value> {
        let workload = self.workload(short);
        let list = workload.and_then(|w| w["status"]["admissionChecks"].as_array().cloned());
        list.unwrap_or_default()
    }

    fn active(&self, check: &str, condition: &Value) -> Option<ApiResponse> {
        let object = self
            .server
            .object(&kueue::resource("admissionchecks"), "", check)?;
        let mut condition = condition.clone();
        condition["observedGeneration"] = object["metadata"]["generation"].clone();
        condition["lastTransitionTime"] = json!(self.now());
        let patch = json!({"status": {"conditions": [condition]}});
        let call = ApiRequest::new(
            Verb::Patch(Patch::Merge),
            &kueue::resource("admissionchecks"),
        );
        Some(self.call(call.name(check).subresource("status").body(patch)))
    }

    /// Writes an entry as the check does: all entries, by force. The entry keeps its transition
    /// time, whatever its new state is.
    fn entry(&self, short: &str, after: &Value) -> Option<ApiResponse> {
        let workload = self.workload(short)?;
        let mut entries = self.entries(short);
        let entry = entries
            .iter_mut()
            .find(|entry| entry["name"] == after["name"])?;
        let since = entry["lastTransitionTime"].take();
        *entry = after.clone();
        entry["lastTransitionTime"] = since;
        let metadata = &workload["metadata"];
        let body = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"name": metadata["name"], "namespace": NAMESPACE, "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"admissionChecks": entries},
        });
        let call = ApiRequest::new(Verb::Patch(Patch::Apply), &kueue::resource("workloads"))
            .namespace(NAMESPACE)
            .name(metadata["name"].as_str()?)
            .subresource("status")
            .query("fieldManager", CONTROLLER)
            .query("force", "true");
        Some(self.call(call.body(body)))
    }

    /// Returns the reference to the first owner in a projection.
    fn owner(&self, state: &Value) -> Option<Value> {
        let state = self.present(state);
        let (kind, name) = state["owners"][0].as_str()?.split_once('/')?;
        let resource = resource(kind);
        let owner = self.server.object(&resource, NAMESPACE, name)?;
        Some(json!({
            "apiVersion": resource.api_version(), "kind": kind, "name": name, "uid": owner["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }))
    }

    fn create(&self, kind: &str, name: &str, state: &Value) -> Option<ApiResponse> {
        let resource = resource(kind);
        let mut object = json!({
            "apiVersion": resource.api_version(), "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": state["labels"], "ownerReferences": [self.owner(state)?]},
        });
        let field = if kind == "PodTemplate" {
            "template"
        } else {
            "spec"
        };
        object[field] = state[field].clone();
        let call = ApiRequest::new(Verb::Create, &resource).namespace(NAMESPACE);
        Some(self.call(call.body(object)))
    }

    fn own(&self, name: &str, state: &Value) -> Option<ApiResponse> {
        let patch = json!({"metadata": {"ownerReferences": [self.owner(state)?]}});
        let call = ApiRequest::new(Verb::Patch(Patch::Merge), &resource("PodTemplate"));
        Some(self.call(call.namespace(NAMESPACE).name(name).body(patch)))
    }

    fn event(&self, event: &Value) -> Option<ApiResponse> {
        let (kind, name) = event["regarding"].as_str()?.split_once('/')?;
        let number = self.server.resource_version();
        let resource = resource(kind);
        let object = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"namespace": NAMESPACE, "name": format!("{name}.{number}")},
            "eventTime": format!("{:.6}", self.server.now()),
            "reportingController": REPORTER, "reportingInstance": format!("{REPORTER}-0"),
            "type": event["type"], "reason": event["reason"], "action": event["action"], "note": event["note"],
            "regarding": {"apiVersion": resource.api_version(), "kind": kind, "namespace": NAMESPACE, "name": name},
        });
        let events = Resource::new("events.k8s.io", "v1", "events");
        let call = ApiRequest::new(Verb::Create, &events).namespace(NAMESPACE);
        Some(self.call(call.body(object)))
    }

    fn now(&self) -> String {
        format!("{:.0}", self.server.now())
    }
}

fn resource(kind: &str) -> Resource {
    match kind {
        "ProvisioningRequest" => {
            Resource::new("autoscaling.x-k8s.io", "v1", "provisioningrequests")
        }
        "PodTemplate" => Resource::new("", "v1", "podtemplates"),
        "AdmissionCheck" => kueue::resource("admissionchecks"),
        _ => kueue::resource("workloads"),
    }
}

fn without_time(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(map) = entry.as_object_mut() {
        map.remove("lastTransitionTime");
    }
    entry
}
