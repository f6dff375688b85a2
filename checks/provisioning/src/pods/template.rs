//! The PodTemplate of a pod set: its pods as Kueue would start them.

use std::collections::{BTreeMap, BTreeSet};

use kueue_check::api::ResourceFlavor;
use serde_json::{Map, Value, json};

use super::RequestedPodSet;

/// The annotation that Kueue adds to pods that are placed by topology and request none.
const UNCONSTRAINED: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
/// The gate with which a pod that is placed by topology waits for its assignment.
const TOPOLOGY_GATE: &str = "kueue.x-k8s.io/topology";

/// The reason why a template can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A flavor that does not exist.
    #[error("resourceflavors.kueue.x-k8s.io \"{0}\" not found")]
    NoFlavor(String),
    /// The template and the flavor have different values.
    #[error(
        "invalid admission check PodSetUpdate: conflict for {place}: conflict for key={key}, value1={template}, value2={flavor}"
    )]
    Conflict {
        /// The kind of field.
        place: &'static str,
        /// The key.
        key: String,
        /// The template's value.
        template: String,
        /// The flavor's value.
        flavor: String,
    },
}

/// Returns the template for the PodTemplate of `pods`, with the additions of the assigned flavors.
/// A missing request is set to the limit.
///
/// # Errors
/// See [`TemplateError`].
pub fn pod_template(
    pods: &RequestedPodSet<'_>,
    flavors: &BTreeMap<String, ResourceFlavor>,
) -> Result<Value, TemplateError> {
    let mut template = pods.template.clone();
    let (node_labels, tolerations) = of_flavors(pods.assignment, flavors)?;
    if let Some(spec) = object_at(&mut template, "spec") {
        add_all(spec, "nodeSelector", &node_labels)?;
        add_tolerations(spec, &tolerations);
        for field in ["containers", "initContainers"] {
            let containers = spec.get_mut(field).and_then(Value::as_array_mut);
            containers
                .into_iter()
                .flatten()
                .filter_map(Value::as_object_mut)
                .for_each(requests_from_limits);
        }
        requests_from_limits(spec);
    }
    if !pods.assignment["topologyAssignment"].is_null() {
        by_topology(&mut template, pods.topology_request)?;
    }
    Ok(template)
}

type Labels = BTreeMap<String, String>;

/// Returns the node labels and tolerations of the assigned flavors, each flavor once. Of several
/// values for one key the first counts.
fn of_flavors(
    assignment: &Value,
    flavors: &BTreeMap<String, ResourceFlavor>,
) -> Result<(Labels, Vec<Value>), TemplateError> {
    let assigned = assignment["flavors"].as_object().into_iter().flatten();
    let names: BTreeSet<&str> = assigned.filter_map(|(_, name)| name.as_str()).collect();
    let (mut labels, mut tolerations) = (Labels::new(), Vec::new());
    for name in names {
        let flavor = flavors
            .get(name)
            .ok_or_else(|| TemplateError::NoFlavor(name.to_owned()))?;
        for (key, value) in flavor.node_labels() {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
        tolerations.extend(
            flavor
                .tolerations()
                .iter()
                .map(|toleration| json!(toleration)),
        );
    }
    Ok((labels, tolerations))
}

fn add_all(
    parent: &mut Map<String, Value>,
    place: &'static str,
    wanted: &Labels,
) -> Result<(), TemplateError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let present = parent.entry(place).or_insert(Value::Null);
    if present.is_null() {
        *present = json!({});
    }
    for (key, value) in wanted {
        match present[key].as_str() {
            Some(own) if own != value => {
                return Err(TemplateError::Conflict {
                    place,
                    key: key.clone(),
                    template: own.to_owned(),
                    flavor: value.clone(),
                });
            }
            Some(_) => {}
            None => present[key] = json!(value),
        }
    }
    Ok(())
}

fn add_tolerations(spec: &mut Map<String, Value>, wanted: &[Value]) {
    if wanted.is_empty() {
        return;
    }
    let present = spec.entry("tolerations").or_insert(Value::Null);
    if present.is_null() {
        *present = json!([]);
    }
    if let Some(present) = present.as_array_mut() {
        for toleration in wanted {
            if !present.contains(toleration) {
                present.push(toleration.clone());
            }
        }
    }
}

/// Sets missing requests in the `resources` of a container or pod to the limits, as the API server
/// does for a pod.
fn requests_from_limits(spec: &mut Map<String, Value>) {
    let resources = spec.get_mut("resources").and_then(Value::as_object_mut);
    let Some(resources) = resources else {
        return;
    };
    let limits = resources.get("limits").and_then(Value::as_object).cloned();
    let Some(limits) = limits.filter(|limits| !limits.is_empty()) else {
        return;
    };
    let requests = resources.entry("requests").or_insert(Value::Null);
    if requests.is_null() {
        *requests = json!({});
    }
    for (name, amount) in limits {
        if requests[&name].is_null() {
            requests[&name] = amount;
        }
    }
}

fn by_topology(template: &mut Value, request: &Value) -> Result<(), TemplateError> {
    let fields = ["required", "preferred", "unconstrained"];
    if fields.iter().all(|field| request[*field].is_null()) {
        if template["metadata"].is_null() {
            template["metadata"] = json!({});
        }
        let annotation = Labels::from([(UNCONSTRAINED.to_owned(), "true".to_owned())]);
        if let Some(metadata) = object_at(template, "metadata") {
            add_all(metadata, "annotations", &annotation)?;
        }
    }
    let gate = json!({"name": TOPOLOGY_GATE});
    if let Some(spec) = object_at(template, "spec") {
        let gates = spec.entry("schedulingGates").or_insert(Value::Null);
        if gates.is_null() {
            *gates = json!([]);
        }
        if let Some(gates) = gates.as_array_mut().filter(|gates| !gates.contains(&gate)) {
            gates.push(gate);
        }
    }
    Ok(())
}

fn object_at<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    value.get_mut(field).and_then(Value::as_object_mut)
}
