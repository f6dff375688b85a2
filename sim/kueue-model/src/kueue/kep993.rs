//! Kueue's definitions with the additions of KEP-993.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

const TEXTS: [&str; 2] = [
    include_str!("../../crds/kueue-v0.19.2/kueue.x-k8s.io_admissionchecks.yaml"),
    include_str!("../../crds/kueue-v0.19.2/kueue.x-k8s.io_workloads.yaml"),
];

/// Returns Kueue's definitions with the additions of KEP-993.
///
/// These are `spec.preemptionPolicy` of AdmissionChecks (`Anytime` or `AfterCheckPassedOrOnDemand`)
/// and the check state `PreemptionRequired`. [Install](kueue_check_apiserver::ApiServer::install)
/// them over the others on a server for [`KueueVersion::KEP993`](super::KueueVersion).
pub fn kep993_definitions() -> Vec<CustomResourceDefinition> {
    // The texts are part of this crate, and a test reads them all.
    let definitions = TEXTS
        .iter()
        .filter_map(|text| serde_saphyr::from_str(text).ok());
    definitions.filter_map(extended).collect()
}

fn extended(mut definition: Value) -> Option<CustomResourceDefinition> {
    let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
    for version in versions {
        let schema = version.pointer_mut("/schema/openAPIV3Schema/properties")?;
        let state = "/status/properties/admissionChecks/items/properties/state/enum";
        if let Some(states) = schema.pointer_mut(state).and_then(Value::as_array_mut) {
            states.push(json!("PreemptionRequired"));
        } else {
            let spec = schema.pointer_mut("/spec/properties")?.as_object_mut()?;
            let policy = json!({"type": "string", "default": "Anytime", "enum": ["Anytime", "AfterCheckPassedOrOnDemand"]});
            spec.insert("preemptionPolicy".to_owned(), policy);
        }
    }
    serde_json::from_value(definition).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_definitions_are_extended() {
        let all = super::kep993_definitions();
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(all.len(), 2);
        assert!(text.contains("PreemptionRequired") && text.contains("preemptionPolicy"));
    }
}
