//! Redaction of objects: the fields that Kueue reads, with pseudonyms for names.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::pseudonyms::Pseudonyms;
use super::public;
use crate::replay::{MULTI_KUEUE, NAMESPACE, list, only};

/// Returns the redacted object.
pub(super) fn redacted(kind: Kind, object: &Value, names: &mut Pseudonyms) -> Value {
    let mut redactor = Redactor {
        namespace: object["metadata"]["namespace"].as_str().unwrap_or_default(),
        names,
    };
    let mut out = json!({
        "apiVersion": kind.api_version(), "kind": kind.name(),
        "metadata": redactor.metadata(kind, object),
    });
    let (spec, status) = (&object["spec"], &object["status"]);
    let parts = match kind {
        Kind::ResourceFlavor => vec![("spec", redactor.flavor(spec))],
        Kind::Cohort => vec![("spec", redactor.cohort(spec))],
        Kind::PriorityClass => vec![
            ("value", object["value"].clone()),
            ("globalDefault", object["globalDefault"].clone()),
        ],
        Kind::WorkloadPriorityClass => vec![("value", object["value"].clone())],
        Kind::AdmissionCheck => vec![
            ("spec", redactor.check(spec)),
            ("status", redactor.foreign_conditions(status)),
        ],
        Kind::ClusterQueue => vec![
            ("spec", redactor.cluster_queue(spec)),
            ("status", redactor.conditions(status)),
        ],
        Kind::LocalQueue => vec![("spec", redactor.local_queue(spec))],
        Kind::Workload => vec![
            ("spec", redactor.workload(spec)),
            (
                "status",
                redactor.workload_status(status, job_of(object).is_some()),
            ),
        ],
        Kind::Job => vec![
            ("spec", redactor.job(spec)),
            ("status", redactor.job_status(status)),
        ],
    };
    for (field, value) in parts {
        if !value.is_null() {
            out[field] = value;
        }
    }
    out
}

/// Returns the redacted event, for the replay's projection.
pub(super) fn redacted_event(event: &Value, names: &mut Pseudonyms) -> Value {
    let regarding = &event["regarding"];
    let namespace = regarding["namespace"].as_str().unwrap_or_default();
    let name = regarding["name"].as_str().unwrap_or_default();
    let kind = if regarding["kind"] == "Job" {
        Kind::Job
    } else {
        Kind::Workload
    };
    let name = names.name(kind.pseudonym(), namespace, name);
    let note = event["note"].as_str().unwrap_or_default();
    let mut out = only(event, &["type", "reason", "action", "reportingController"]);
    out["note"] = json!(if event["reason"] == "UpdatedAdmissionCheck" {
        names.of_checks(note)
    } else {
        names.text(namespace, note)
    });
    out["regarding"] = json!({
        "kind": regarding["kind"], "name": name, "namespace": NAMESPACE,
    });
    out
}

/// The pointer to a flavor in the spec of a ClusterQueue.
const LAST_ACCEPTABLE: &str =
    "/concurrentAdmissionPolicy/migration/constraints/lastAcceptableFlavorName";
/// The default of `terminationMessagePath`.
const TERMINATION_LOG: &str = "/dev/termination-log";

struct Redactor<'a> {
    namespace: &'a str,
    names: &'a mut Pseudonyms,
}

impl Redactor<'_> {
    fn metadata(&mut self, kind: Kind, object: &Value) -> Value {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let mut out = only(metadata, &["uid", "creationTimestamp", "deletionTimestamp"]);
        out["name"] = json!(self.names.name(kind.pseudonym(), self.namespace, name));
        if kind.is_namespaced() {
            out["namespace"] = json!(NAMESPACE);
        }
        for field in ["labels", "annotations"] {
            let kept = of_kueue(&metadata[field]);
            if kept.as_object().is_some_and(|kept| !kept.is_empty()) {
                out[field] = self.names.labels(self.namespace, &kept);
            }
        }
        let finalizers = list(&metadata["finalizers"]);
        let finalizers: Vec<&Value> = finalizers.filter(|f| is_of_kueue(f.as_str())).collect();
        if !finalizers.is_empty() {
            out["finalizers"] = json!(finalizers);
        }
        if let Some(owner) = job_of(object) {
            let job = owner["name"].as_str().unwrap_or_default();
            let mut owner = only(
                owner,
                &[
                    "apiVersion",
                    "kind",
                    "uid",
                    "controller",
                    "blockOwnerDeletion",
                ],
            );
            owner["name"] = json!(self.names.name("job", self.namespace, job));
            out["ownerReferences"] = json!([owner]);
        }
        out
    }

    fn flavor(&mut self, spec: &Value) -> Value {
        let mut out = only(spec, &["topologyName"]);
        out["nodeLabels"] = self.names.labels("", &spec["nodeLabels"]);
        for field in ["nodeTaints", "tolerations"] {
            out[field] = self.taints(&spec[field]);
        }
        self.rename(&mut out, "/topologyName", "topology");
        without_nulls(out)
    }

    fn cohort(&mut self, spec: &Value) -> Value {
        let mut out = only(spec, &["parentName", "resourceGroups", "fairSharing"]);
        self.rename(&mut out, "/parentName", "cohort");
        self.flavors_of_groups(&mut out);
        out
    }

    fn check(&mut self, spec: &Value) -> Value {
        let mut out = json!({});
        let controller = spec["controllerName"].as_str().unwrap_or_default();
        // Kueue's own checks are recorded as any other check: their writes are requests. `replay`
        // refuses those of MultiKueue.
        out["controllerName"] = json!(if controller == MULTI_KUEUE {
            controller.to_owned()
        } else {
            let controller = self.names.name("controller", "", controller);
            format!("example.com/{controller}")
        });
        if let Some(name) = spec["parameters"]["name"].as_str() {
            let name = self.names.name("parameters", "", name);
            out["parameters"] =
                json!({"apiGroup": "example.com", "kind": "Parameters", "name": name});
        }
        out
    }

    fn cluster_queue(&mut self, spec: &Value) -> Value {
        let fields = [
            "resourceGroups",
            "cohortName",
            "queueingStrategy",
            "namespaceSelector",
            "flavorFungibility",
            "preemption",
            "admissionChecksStrategy",
            "admissionChecks",
            "stopPolicy",
            "fairSharing",
            "admissionScope",
            "concurrentAdmissionPolicy",
        ];
        let mut out = only(spec, &fields);
        self.rename(&mut out, "/cohortName", "cohort");
        self.flavors_of_groups(&mut out);
        // Every ClusterQueue selects the only namespace of a trace.
        if !out["namespaceSelector"].is_null() {
            out["namespaceSelector"] = json!({});
        }
        let strategy = out.pointer_mut("/admissionChecksStrategy/admissionChecks");
        for check in strategy.and_then(Value::as_array_mut).into_iter().flatten() {
            self.rename(check, "/name", "check");
            self.rename_all(check.get_mut("onFlavors"), "flavor");
        }
        self.rename_all(out.get_mut("admissionChecks"), "check");
        self.rename(&mut out, LAST_ACCEPTABLE, "flavor");
        out
    }

    fn flavors_of_groups(&mut self, spec: &mut Value) {
        for group in list_mut(spec.get_mut("resourceGroups")) {
            for name in list_mut(group.get_mut("coveredResources")) {
                self.resource(name);
            }
            for flavor in list_mut(group.get_mut("flavors")) {
                self.rename(flavor, "/name", "flavor");
                let resources = list_mut(flavor.get_mut("resources"));
                for name in resources.filter_map(|resource| resource.get_mut("name")) {
                    self.resource(name);
                }
            }
        }
    }

    fn resource(&mut self, name: &mut Value) {
        if let Some(known) = name.as_str() {
            *name = json!(self.names.resource(known));
        }
    }

    /// Renames the resources that are the keys of a map at a JSON pointer, if it exists.
    fn resources(&mut self, value: &mut Value, pointer: &str) {
        if let Some(map) = value.pointer_mut(pointer).and_then(Value::as_object_mut) {
            let all = std::mem::take(map).into_iter();
            map.extend(all.map(|(name, amount)| (self.names.resource(&name), amount)));
        }
    }

    fn local_queue(&mut self, spec: &Value) -> Value {
        let mut out = only(spec, &["clusterQueue", "stopPolicy", "fairSharing"]);
        self.rename(&mut out, "/clusterQueue", "cluster-queue");
        out
    }

    fn workload(&mut self, spec: &Value) -> Value {
        let fields = [
            "priority",
            "active",
            "maximumExecutionTimeSeconds",
            "preemptionGates",
            "priorityClassName",
            "priorityClassSource",
            "priorityClassRef",
        ];
        let mut out = only(spec, &fields);
        self.gates(out.get_mut("preemptionGates"));
        self.rename(&mut out, "/priorityClassName", "class");
        let class = if out["priorityClassRef"]["kind"] == "PriorityClass" {
            Kind::PriorityClass
        } else {
            Kind::WorkloadPriorityClass
        };
        self.rename(&mut out, "/priorityClassRef/name", class.pseudonym());
        if let Some(queue) = spec["queueName"].as_str() {
            out["queueName"] = json!(self.names.name("queue", self.namespace, queue));
        }
        let sets = list(&spec["podSets"]).map(|set| {
            let mut out = only(set, &["count", "minCount"]);
            // Kueue sets the other fields for every pod set.
            let levels = ["required", "preferred", "podSetSliceRequiredTopology"];
            let fields = [levels.as_slice(), &["unconstrained"]].concat();
            let mut requested = only(&set["topologyRequest"], &fields);
            for field in levels {
                if let Some(level) = requested[field].as_str() {
                    requested[field] = json!(self.names.key(level));
                }
            }
            if requested
                .as_object()
                .is_some_and(|requested| !requested.is_empty())
            {
                out["topologyRequest"] = requested;
            }
            out["name"] = self.pod_set(&set["name"]);
            out["template"] = self.template(&set["template"]);
            out
        });
        out["podSets"] = sets.collect();
        out
    }

    fn pod_set(&mut self, name: &Value) -> Value {
        match name.as_str() {
            Some(name) => json!(self.names.pod_set(name)),
            None => Value::Null,
        }
    }

    fn template(&mut self, template: &Value) -> Value {
        let mut metadata = json!({});
        for field in ["labels", "annotations"] {
            metadata[field] = self
                .names
                .labels(self.namespace, &template["metadata"][field]);
        }
        let spec = &template["spec"];
        let fields = [
            "overhead",
            "priorityClassName",
            "resources",
            "restartPolicy",
        ];
        let mut out = only(spec, &fields);
        let class = Kind::PriorityClass.pseudonym();
        self.rename(&mut out, "/priorityClassName", class);
        self.resources(&mut out, "/overhead");
        self.requirements(&mut out);
        for (field, short) in [("containers", "c"), ("initContainers", "i")] {
            let all = list(&spec[field]).enumerate().map(|(at, container)| {
                // Kueue compares the containers of a Job with those of its Workload, defaults of
                // the API server and all.
                let fields = [
                    "resources",
                    "restartPolicy",
                    "imagePullPolicy",
                    "terminationMessagePath",
                    "terminationMessagePolicy",
                ];
                let mut out = only(container, &fields);
                self.requirements(&mut out);
                if out["terminationMessagePath"] != TERMINATION_LOG {
                    self.rename(&mut out, "/terminationMessagePath", "path");
                }
                out["name"] = json!(format!("{short}{at}"));
                out["image"] = json!("image");
                out
            });
            let all: Vec<Value> = all.collect();
            if !all.is_empty() {
                out[field] = json!(all);
            }
        }
        let selector = self.names.labels("", &spec["nodeSelector"]);
        out["nodeSelector"] = selector;
        out["tolerations"] = self.taints(&spec["tolerations"]);
        // The model has no claims of devices, and `replay` refuses a trace with them.
        let claims = list(&spec["resourceClaims"]).enumerate();
        let claims = claims.map(|(at, _)| json!({"name": format!("claim{at}")}));
        let claims: Vec<Value> = claims.collect();
        if !claims.is_empty() {
            out["resourceClaims"] = json!(claims);
        }
        let gates = list(&spec["schedulingGates"]).map(|gate| {
            let name = gate["name"].as_str().unwrap_or_default();
            json!({"name": self.names.gate(name)})
        });
        let gates: Vec<Value> = gates.collect();
        if !gates.is_empty() {
            out["schedulingGates"] = json!(gates);
        }
        json!({"metadata": without_nulls(metadata), "spec": without_nulls(out)})
    }

    /// Redacts the field `resources` of a container or Pod. The claims of a container name those of
    /// its Pod.
    fn requirements(&mut self, of: &mut Value) {
        for field in ["requests", "limits"] {
            self.resources(of, &format!("/resources/{field}"));
        }
        if let Some(resources) = of.get_mut("resources").and_then(Value::as_object_mut) {
            resources.remove("claims");
        }
    }

    /// Redacts preemption gates.
    fn gates(&mut self, all: Option<&mut Value>) {
        for name in list_mut(all).filter_map(|gate| gate.get_mut("name")) {
            if let Some(known) = name.as_str() {
                *name = json!(self.names.gate(known));
            }
        }
    }

    /// Redacts taints or tolerations.
    fn taints(&mut self, all: &Value) -> Value {
        if all.is_null() {
            return Value::Null;
        }
        let each = list(all).map(|taint| {
            let mut out = only(taint, &["effect", "operator", "tolerationSeconds"]);
            let key = taint["key"].as_str().unwrap_or_default();
            if !taint["value"].is_null() {
                let value = taint["value"].as_str().unwrap_or_default();
                out["value"] = self.names.value("", key, value);
            }
            if !taint["key"].is_null() {
                out["key"] = json!(self.names.key(key));
            }
            out
        });
        each.collect()
    }

    /// Redacts the status of a Workload. The message of its end is that of its owner. Kueue copies
    /// it from a Job, whose conditions are recorded.
    fn workload_status(&mut self, status: &Value, has_job: bool) -> Value {
        let mut conditions = self.conditions(status);
        let copied = conditions
            .get_mut("conditions")
            .and_then(Value::as_array_mut);
        for (copy, condition) in copied
            .into_iter()
            .flatten()
            .zip(list(&public::conditions(status)))
        {
            if condition["type"] == "Finished" && !has_job {
                let text = |field: &str| condition[field].as_str().unwrap_or_default();
                copy["message"] = json!(self.names.foreign(text("message")));
                copy["reason"] = json!(self.names.reason(text("reason")));
            }
        }
        let mut out = only(status, &["requeueState", "preemptionGates"]);
        self.gates(out.get_mut("preemptionGates"));
        let entries: Vec<Value> = list(&status["admissionChecks"])
            .map(|entry| self.entry(entry))
            .collect();
        if !entries.is_empty() {
            out["admissionChecks"] = json!(entries);
        }
        let mut done = status["reclaimablePods"].clone();
        for set in done.as_array_mut().into_iter().flatten() {
            set["name"] = self.pod_set(&set["name"]);
        }
        out["reclaimablePods"] = done;
        out["admission"] = self.admission(&status["admission"]);
        out["conditions"] = conditions["conditions"].clone();
        without_nulls(out)
    }

    /// Redacts an admission. The assignment of a topology contains names of nodes.
    fn admission(&mut self, admission: &Value) -> Value {
        if admission.is_null() {
            return Value::Null;
        }
        let mut out = only(admission, &["clusterQueue"]);
        self.rename(&mut out, "/clusterQueue", "cluster-queue");
        let sets = list(&admission["podSetAssignments"]).map(|set| {
            let mut out = only(set, &["flavors", "count", "resourceUsage"]);
            out["name"] = self.pod_set(&set["name"]);
            for field in ["/flavors", "/resourceUsage"] {
                self.resources(&mut out, field);
            }
            let flavors = out.get_mut("flavors").and_then(Value::as_object_mut);
            for (_, flavor) in flavors.into_iter().flatten() {
                self.rename(flavor, "", "flavor");
            }
            out
        });
        out["podSetAssignments"] = sets.collect();
        out
    }

    /// Redacts an admission check state.
    fn entry(&mut self, entry: &Value) -> Value {
        let fields = [
            "state",
            "lastTransitionTime",
            "requeueAfterSeconds",
            "retryCount",
        ];
        let mut out = only(entry, &fields);
        let name = entry["name"].as_str().unwrap_or_default();
        out["name"] = json!(self.names.name("check", "", name));
        let message = entry["message"].as_str().unwrap_or_default();
        out["message"] = json!(self.names.foreign(message));
        let updates: Vec<Value> = list(&entry["podSetUpdates"])
            .map(|update| {
                let mut out = json!({"name": self.pod_set(&update["name"])});
                for field in ["labels", "annotations", "nodeSelector"] {
                    out[field] = self.names.labels(self.namespace, &update[field]);
                }
                out["tolerations"] = self.taints(&update["tolerations"]);
                without_nulls(out)
            })
            .collect();
        if !updates.is_empty() {
            out["podSetUpdates"] = json!(updates);
        }
        out
    }

    /// Redacts conditions of Kueue.
    fn conditions(&mut self, status: &Value) -> Value {
        let mut all = public::conditions(status);
        for condition in all.as_array_mut().into_iter().flatten() {
            let text = condition["message"].as_str().unwrap_or_default();
            condition["message"] = json!(self.names.text(self.namespace, text));
        }
        without_nulls(json!({"conditions": all}))
    }

    /// Redacts conditions of a check or of the Job controller.
    fn foreign_conditions(&mut self, status: &Value) -> Value {
        let mut all = public::conditions(status);
        for condition in list_mut(Some(&mut all)) {
            if let Some(text) = condition["message"].as_str() {
                condition["message"] = json!(self.names.foreign(text));
            }
            if let Some(reason) = condition["reason"].as_str() {
                condition["reason"] = json!(self.names.reason(reason));
            }
        }
        without_nulls(json!({"conditions": all}))
    }

    fn job(&mut self, spec: &Value) -> Value {
        let fields = [
            "parallelism",
            "completions",
            "completionMode",
            "suspend",
            "backoffLimit",
        ];
        let mut out = only(spec, &fields);
        out["template"] = self.template(&spec["template"]);
        out
    }

    fn job_status(&mut self, status: &Value) -> Value {
        let fields = [
            "active",
            "ready",
            "succeeded",
            "failed",
            "startTime",
            "completionTime",
        ];
        let mut out = only(status, &fields);
        let conditions = self.foreign_conditions(status);
        out["conditions"] = conditions["conditions"].clone();
        without_nulls(out)
    }

    /// Replaces the name at a JSON pointer, if it exists.
    fn rename(&mut self, value: &mut Value, pointer: &str, kind: &'static str) {
        if let Some(name) = value.pointer_mut(pointer)
            && let Some(text) = name.as_str()
        {
            *name = json!(self.names.name(kind, "", text));
        }
    }

    fn rename_all(&mut self, list: Option<&mut Value>, kind: &'static str) {
        for name in list_mut(list) {
            self.rename(name, "", kind);
        }
    }
}

/// Returns the owner reference to the batch/v1 Job of a Workload.
pub(super) fn job_of(workload: &Value) -> Option<&Value> {
    controller_of(workload).filter(|o| o["kind"] == "Job" && o["apiVersion"] == "batch/v1")
}

/// Returns the owner reference to the controller.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    list(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true)
}

/// Returns the elements of a list, or none if there is no list.
fn list_mut(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

fn is_of_kueue(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.starts_with("kueue.x-k8s.io/"))
}

fn of_kueue(map: &Value) -> Value {
    let entries = map.as_object().into_iter().flatten();
    let own = entries.filter(|(key, _)| is_of_kueue(Some(key)));
    Value::Object(own.map(|(k, v)| (k.clone(), v.clone())).collect())
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields have `secret` where the cluster's owner or a check has chosen a text.
    #[test]
    fn chosen_texts_are_replaced_in_all_fields() {
        let topology = json!({
            "levels": ["kubernetes.io/hostname"],
            "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "secret-node"}]}],
        });
        let amounts = json!({"secret.example/gpu": "1", "cpu": "1"});
        let requests = json!({"requests": amounts, "limits": amounts});
        let container = json!({
            "name": "secret", "terminationMessagePath": "/secret", "resources": requests,
        });
        let spec = json!({
            "containers": [container], "resources": requests, "overhead": amounts,
            "resourceClaims": [{"name": "secret", "resourceClaimName": "secret"}],
            "nodeSelector": {"secret": "4711"}, "schedulingGates": [{"name": "secret.example/g"}],
            "tolerations": [{"key": "secret", "value": "4711"}],
        });
        let foreign = json!({
            "type": "SecretThing", "status": "True", "reason": "secret", "message": "secret",
        });
        let of = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "SecretReason", "message": "secret",
            })
        };
        let gate = json!([{"name": "secret.example/gate"}]);
        let table = [
            (
                Kind::Workload,
                json!({
                    "spec": {"podSets": [{
                        "name": "secret", "count": 1,
                        "topologyRequest": {"required": "secret.example/rack"},
                        "template": {"spec": spec},
                    }], "preemptionGates": gate},
                    "status": {
                        "preemptionGates": gate,
                        "admission": {"clusterQueue": "secret", "podSetAssignments": [{
                            "name": "secret", "count": 1,
                            "flavors": {"cpu": "secret", "secret.example/gpu": "secret"},
                            "resourceUsage": amounts, "topologyAssignment": topology,
                        }]},
                        "conditions": [foreign, of("Finished")],
                    },
                }),
            ),
            (
                Kind::ClusterQueue,
                json!({"spec": {"concurrentAdmissionPolicy": {"migration": {
                    "constraints": {"lastAcceptableFlavorName": "secret"},
                }}, "resourceGroups": [{
                    "coveredResources": ["secret.example/gpu"],
                    "flavors": [{"name": "secret", "resources": [
                        {"name": "secret.example/gpu", "nominalQuota": "4711"},
                    ]}],
                }]}}),
            ),
            (
                Kind::AdmissionCheck,
                json!({
                    "spec": {"controllerName": MULTI_KUEUE, "parameters": {"name": "secret"}},
                    "status": {"conditions": [foreign, of("Active")]},
                }),
            ),
            (
                Kind::Job,
                json!({"status": {"conditions": [foreign, of("Failed")]}}),
            ),
            (
                Kind::ResourceFlavor,
                json!({"spec": {
                    "topologyName": "secret",
                    "nodeLabels": {"node-role.kubernetes.io/secret": "secret"},
                }}),
            ),
        ];
        for (kind, mut object) in table {
            object["metadata"] = json!({"name": "secret", "namespace": "secret"});
            let text = redacted(kind, &object, &mut Pseudonyms::default()).to_string();
            assert!(!text.to_lowercase().contains("secret"), "{text}");
            assert!(
                !text.contains("4711") || text.contains("nominalQuota"),
                "{text}"
            );
            for kept in [
                "lastAcceptableFlavorName",
                "resourceUsage",
                "required",
                "resourceClaims",
                "overhead",
                "limits",
                "Finished",
                MULTI_KUEUE,
                "Active",
            ] {
                assert_eq!(
                    text.contains(kept),
                    object.to_string().contains(kept),
                    "{text}"
                );
            }
        }
    }
}
