//! The limits of what a trace may contain.

use kueue_check_sim::kueue::not_modelled;
use serde_json::Value;

use super::ReplayError;
use super::trace::Trace;

/// The controller name of Kueue's `MultiKueue`.
pub(crate) const MULTI_KUEUE: &str = "kueue.x-k8s.io/multikueue";

/// Rejects a trace that uses a feature that the model does not have.
pub(super) fn check(trace: &Trace) -> Result<(), ReplayError> {
    let found = trace.bodies().find_map(|(path, body)| missing(path, body));
    found.map_or(Ok(()), |what| Err(ReplayError::NotModelled(what)))
}

/// Returns the feature that the object of a request, or an initial object, uses and the model does
/// not have.
fn missing(path: &str, body: &Value) -> Option<String> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let of_kind = || format!("{}s", text("/kind").unwrap_or_default().to_lowercase());
    let plural = plural(path).map_or_else(of_kind, str::to_owned);
    let (feature, field) = if text("/spec/controllerName") == Some(MULTI_KUEUE) {
        ("MultiKueue", "spec.controllerName".to_owned())
    } else if plural.starts_with("multikueue") {
        ("MultiKueue", "kind".to_owned())
    } else if plural == "resourceflavors" && text("/spec/topologyName").is_some() {
        // A recording has no Topologies.
        ("topology-aware scheduling", "spec.topologyName".to_owned())
    } else {
        not_modelled(&plural, body)?
    };
    let name = text("/metadata/name").unwrap_or(path);
    Some(format!(
        "{feature}, which {plural}/{name} of the trace uses: {field}"
    ))
}

/// Returns the resource of a path.
fn plural(path: &str) -> Option<&str> {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts = path.trim_matches('/').split('/');
    match parts.next()? {
        "apis" => parts.nth(1)?,
        "api" => parts.next()?,
        _ => return None,
    };
    match parts.next()? {
        "namespaces" => parts.nth(1).or(Some("namespaces")),
        plural => Some(plural),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_modelled_is_named() {
        let api = "/apis/kueue.x-k8s.io/v1beta2";
        let (topologies, claims, prebuilt, multi) = (
            "topology-aware scheduling",
            "dynamic resource allocation",
            "prebuilt Workloads",
            "MultiKueue",
        );
        let sets = |second: Value| json!({"spec": {"podSets": [{"topologyRequest": {"podIndexLabel": "i"}}, second]}});
        let annotated = json!({"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}});
        let named = json!({"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}});
        let claiming = json!({"spec": {"resourceClaims": [{"name": "gpu"}]}});
        let workloads = "/namespaces/t/workloads";
        let table = [
            (
                "/resourceflavors",
                json!({"spec": {"topologyName": "racks"}}),
                topologies,
                "spec.topologyName",
            ),
            ("/resourceflavors", json!({"spec": {}}), "", ""),
            ("/topologies", json!({}), topologies, "kind"),
            (
                "/admissionchecks",
                json!({"spec": {"controllerName": MULTI_KUEUE}}),
                multi,
                "spec.controllerName",
            ),
            ("/multikueueclusters", json!({}), multi, "kind"),
            (
                "/clusterqueues",
                json!({"spec": {"concurrentAdmissionPolicy": {}}}),
                "",
                "",
            ),
            (workloads, sets(json!({})), "", ""),
            (
                workloads,
                sets(json!({"topologyRequest": {"preferred": "rack"}})),
                topologies,
                "spec.podSets[1].topologyRequest.preferred",
            ),
            (
                workloads,
                sets(json!({"template": claiming})),
                claims,
                "spec.podSets[1].template.spec.resourceClaims",
            ),
        ];
        let of_jobs = [
            (
                "/apis/batch/v1/namespaces/t/jobs",
                json!({"spec": {"template": {"metadata": annotated}}}),
                topologies,
                "spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]",
            ),
            (
                "/apis/batch/v1/namespaces/t/jobs/j?x=y",
                json!({"spec": {"template": claiming}}),
                claims,
                "spec.template.spec.resourceClaims",
            ),
            (
                "",
                json!({"kind": "Job", "metadata": named}),
                prebuilt,
                "metadata.labels[kueue.x-k8s.io/prebuilt-workload-name]",
            ),
            (
                "/api/v1/namespaces/t/pods",
                json!({"metadata": annotated}),
                topologies,
                "metadata.annotations[kueue.x-k8s.io/podset-required-topology]",
            ),
            (
                "/api/v1/namespaces/t/pods",
                claiming.clone(),
                claims,
                "spec.resourceClaims",
            ),
            ("/api/v1/namespaces", json!({}), "", ""),
        ];
        let table = table
            .map(|(path, body, feature, field)| (format!("{api}{path}"), body, feature, field));
        let of_jobs =
            of_jobs.map(|(path, body, feature, field)| (path.to_owned(), body, feature, field));
        for (path, mut body, feature, field) in table.into_iter().chain(of_jobs) {
            body["metadata"]["name"] = json!("one");
            let found = missing(&path, &body).unwrap_or_default();
            let expected = [feature, "one of the trace uses", field];
            assert_eq!(
                found.is_empty(),
                feature.is_empty(),
                "{path} {body}: {found}"
            );
            assert!(
                found.is_empty() || expected.iter().all(|part| found.contains(part)),
                "{path} {body}: {found}"
            );
        }
    }
}
