//! `helm-values`: the values of the Helm chart `charts/kueue-check` for a program.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::manifests::{cluster_rules, definitions, namespace_rules, objects, value};
use super::{Error, Result};
use crate::check::DynCheck;

/// Returns the value `check` of the chart, as YAML. The administrator chooses all others.
pub(super) fn values(program: &str, checks: &[DynCheck]) -> Result<String> {
    let cluster_rules: Result<Vec<Value>> = cluster_rules(checks).iter().map(value).collect();
    let rules: Result<Vec<Value>> = namespace_rules(checks).iter().map(value).collect();
    let definitions: Result<Vec<Value>> = definitions(checks).iter().map(value).collect();
    let mut values = json!({"check": {
        "program": program,
        "controllers": checks.iter().map(controller).collect::<Vec<Value>>(),
        "clusterRules": cluster_rules?,
        "rules": rules?,
        "definitions": definitions?,
    }});
    let objects = objects(checks, &BTreeMap::new());
    if !objects.is_empty() {
        values["check"]["objects"] = json!(objects);
    }
    let text = serde_saphyr::to_string(&values).map_err(|error| Error::Yaml(error.to_string()))?;
    Ok(text.trim_end().to_owned() + "\n")
}

/// Returns which AdmissionChecks a check serves, and their parameters' kind.
fn controller(check: &DynCheck) -> Value {
    let name = check.controller_name().to_string();
    match check.parameters().kind {
        Some(kind) => {
            json!({"name": name, "parameters": {"apiGroup": kind.group, "kind": kind.kind}})
        }
        None => json!({"name": name}),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::PolicyRule;

    use super::*;
    use crate::Check;
    use crate::check::samples;

    #[test]
    fn the_values_have_the_controllers_and_permissions_of_a_program() {
        let open: Check = samples::check("example.com/open");
        let open = open.namespace_permissions([PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            verbs: vec!["list".to_owned()],
            ..PolicyRule::default()
        }]);
        let text = values("open", &[DynCheck::new(open)]).unwrap();
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        let check = &read["check"];
        assert_eq!(check["program"], "open");
        assert_eq!(check["controllers"], json!([{"name": "example.com/open"}]));
        assert_eq!(check["definitions"], json!([]));
        assert_eq!(
            check["rules"],
            json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]),
            "for the release's namespace"
        );
        assert_eq!(
            check["clusterRules"][1],
            json!({"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads/status"], "verbs": ["patch"]})
        );
    }
}
