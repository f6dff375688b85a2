//! The writes of a loop, as API server requests.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::{Action, Condition, Mode, RequestKey, Write};
use kueue_check_apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};

const GROUP: &str = "autoscaling.x-k8s.io";
const FIELD_MANAGER: &str = "cluster-autoscaler";

pub(super) static REQUESTS: LazyLock<Resource> =
    LazyLock::new(|| Resource::new(GROUP, "v1", "provisioningrequests"));

/// Writes to ProvisioningRequests as they were read. Each write starts from the object that the
/// previous one returned.
pub(super) struct Writer<'a> {
    pub(super) server: &'a ApiServer,
    pub(super) agent: &'a str,
    pub(super) read: BTreeMap<RequestKey, Arc<Value>>,
}

impl Writer<'_> {
    /// Carries out `write`; returns true if the API server accepted it.
    pub(super) fn write(&mut self, write: &Write) -> bool {
        let Some(object) = self.read.get(&write.request).cloned() else {
            return false;
        };
        match &write.action {
            Action::Delete => self.delete(write),
            Action::Write {
                mode: Mode::Apply,
                conditions,
                ..
            } => self.apply(write, conditions),
            Action::Write {
                conditions,
                details,
                conflict,
                ..
            } => {
                let mut object = Value::clone(&object);
                merge(&mut object, conditions, details);
                if *conflict {
                    // Older than any stored version.
                    object["metadata"]["resourceVersion"] = "1".into();
                }
                self.update(write, object)
            }
        }
    }

    fn update(&mut self, write: &Write, object: Value) -> bool {
        let call = self.call(Verb::Update, write, object);
        self.send(write, &call)
    }

    fn apply(&mut self, write: &Write, conditions: &[Condition]) -> bool {
        let conditions: Vec<_> = conditions.iter().map(|c| c.to_value(None)).collect();
        let body = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ProvisioningRequest",
            "metadata": {"namespace": write.request.namespace, "name": write.request.name},
            "status": {"conditions": conditions},
        });
        let mut call = self.call(Verb::Patch(Patch::Apply), write, body);
        call.query = vec![
            ("fieldManager".to_owned(), FIELD_MANAGER.to_owned()),
            ("force".to_owned(), "true".to_owned()),
        ];
        self.send(write, &call)
    }

    fn delete(&mut self, write: &Write) -> bool {
        let mut call = self.call(Verb::Delete, write, Value::Null);
        call.subresource = None;
        let response = self.server.call(&call);
        // An object that is already gone counts as deleted.
        response.code < 300 || response.code == 404
    }

    fn send(&mut self, write: &Write, call: &ApiRequest) -> bool {
        let response = self.server.call(call);
        let taken = response.code < 300;
        if taken {
            self.read.insert(write.request.clone(), response.body);
        } else {
            tracing::debug!(request = %write.request.name, code = response.code, "a status write was refused");
        }
        taken
    }

    fn call(&self, verb: Verb, write: &Write, body: Value) -> ApiRequest {
        ApiRequest {
            verb,
            resource: REQUESTS.clone(),
            namespace: Some(write.request.namespace.clone()),
            name: Some(write.request.name.clone()),
            subresource: Some("status".to_owned()),
            query: Vec::new(),
            body,
            agent: self.agent.to_owned(),
        }
    }
}

/// Merges conditions and details into the status of `object`, in place.
fn merge(object: &mut Value, conditions: &[Condition], details: &[(String, String)]) {
    let generation = object["metadata"]["generation"].as_i64();
    let status = &mut object["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    if let Some(written) = status["conditions"].as_array_mut() {
        for condition in conditions {
            let value = condition.to_value(generation);
            match written.iter_mut().find(|old| old["type"] == value["type"]) {
                Some(old) => *old = value,
                None => written.push(value),
            }
        }
    }
    for (key, value) in details {
        status["provisioningClassDetails"][key] = value.as_str().into();
    }
}
