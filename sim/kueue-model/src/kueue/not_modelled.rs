//! Features of Kueue that the model does not have, and the objects that use them.

use serde_json::Value;

use crate::json::list;

const TOPOLOGIES: &str = "topology-aware scheduling";
const DRA: &str = "dynamic resource allocation";
const PREBUILT: &str = "prebuilt Workloads";

/// Requests of a topology by a pod set of a Workload. Kueue sets the other fields of
/// `topologyRequest` for every pod set (0.19.2, `apis/kueue/v1beta2/workload_types.go`).
const OF_POD_SET: [&str; 6] = [
    "required",
    "preferred",
    "unconstrained",
    "podSetGroupName",
    "podSetSliceRequiredTopology",
    "podsetSliceRequiredTopologyConstraints",
];
/// Requests of a topology by the Pods of a job, in annotations (0.19.2,
/// `apis/kueue/v1beta2/topology_types.go`).
const OF_PODS: [&str; 6] = [
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-unconstrained-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-required-topology-constraints",
    "kueue.x-k8s.io/podset-group-name",
];
/// The label, since 0.18 also the annotation, with which a job uses a Workload that a user made.
const PREBUILT_NAME: &str = "kueue.x-k8s.io/prebuilt-workload-name";

/// Returns the feature that an object of a resource uses and the model does not have, with the
/// field, or `None`. For a flavor with a topology, the model does what Kueue does without that
/// Topology.
#[must_use]
pub fn not_modelled(plural: &str, object: &Value) -> Option<(&'static str, String)> {
    let spec = &object["spec"];
    match plural {
        "topologies" => Some((TOPOLOGIES, "kind".to_owned())),
        "workloads" => list(&spec["podSets"]).enumerate().find_map(|(at, set)| {
            let field = format!("spec.podSets[{at}]");
            let uses = |key: &&str| !set["topologyRequest"][*key].is_null();
            let key = OF_POD_SET.into_iter().find(uses);
            let requests = key.map(|key| (TOPOLOGIES, format!("{field}.topologyRequest.{key}")));
            let pods = &set["template"]["spec"];
            requests.or_else(|| claims(pods, &format!("{field}.template.")))
        }),
        "jobs" => {
            let template = &spec["template"];
            prebuilt(object)
                .or_else(|| topology(template, "spec.template."))
                .or_else(|| claims(&template["spec"], "spec.template."))
        }
        "pods" => prebuilt(object)
            .or_else(|| topology(object, ""))
            .or_else(|| claims(spec, "")),
        _ => None,
    }
}

/// Returns why the simulation refuses an object: it uses a feature that the model does not have.
#[must_use]
pub fn refusal(plural: &str, object: &Value) -> Option<String> {
    let (feature, field) = not_modelled(plural, object)?;
    let kind = object["kind"].as_str().unwrap_or(plural);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Some(format!(
        "the simulated Kueue has no {feature}, which {kind} {name} uses: {field}"
    ))
}

fn prebuilt(job: &Value) -> Option<(&'static str, String)> {
    let fields = ["labels", "annotations"].into_iter();
    let mut fields = fields.filter(|field| !job["metadata"][*field][PREBUILT_NAME].is_null());
    let field = fields.next()?;
    Some((PREBUILT, format!("metadata.{field}[{PREBUILT_NAME}]")))
}

fn topology(pods: &Value, path: &str) -> Option<(&'static str, String)> {
    let annotations = &pods["metadata"]["annotations"];
    let mut keys = OF_PODS
        .into_iter()
        .filter(|key| !annotations[*key].is_null());
    let key = keys.next()?;
    Some((TOPOLOGIES, format!("{path}metadata.annotations[{key}]")))
}

fn claims(pods: &Value, path: &str) -> Option<(&'static str, String)> {
    let any = list(&pods["resourceClaims"]).next().is_some();
    any.then(|| (DRA, format!("{path}spec.resourceClaims")))
}
