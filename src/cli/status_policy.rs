//! `manifests`: the admission policies for the status of Workloads. The chart has copies of the
//! files.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Error, Result};

/// Limits what the check's own account may change.
const ACCOUNT: &str = include_str!("status_policy/account.yaml");

/// Limits who may change which admission check states.
const STATES: &str = include_str!("status_policy/states.yaml");

/// The values for the placeholders in the files.
#[derive(Debug)]
pub(super) struct StatusPolicy<'a> {
    /// The prefix of their names.
    pub(super) name: &'a str,
    /// The check's user in the API server.
    pub(super) account: String,
    /// The controller names of the program.
    pub(super) controllers: Vec<String>,
    /// Kueue's users; without any, other users are not restricted.
    pub(super) kueue: &'a [String],
    /// The version of Kueue's API in which the API server reads AdmissionChecks.
    pub(super) version: &'a str,
    pub(super) labels: BTreeMap<String, String>,
}

impl StatusPolicy<'_> {
    /// Returns the policies and their bindings.
    pub(super) fn documents(&self) -> Result<Vec<Value>> {
        let files = if self.kueue.is_empty() {
            &[ACCOUNT][..]
        } else {
            &[ACCOUNT, STATES]
        };
        let labels = serde_json::to_string(&self.labels);
        let labels = labels.map_err(|error| Error::Yaml(error.to_string()))?;
        let documents = files.iter().flat_map(|file| file.split("---\n"));
        documents
            .map(|text| {
                let text = text
                    .replace("$NAME", self.name)
                    .replace("$ACCOUNT", &self.account)
                    .replace("$CONTROLLERS", &list(&self.controllers))
                    .replace("$KUEUE", &list(self.kueue))
                    .replace("$VERSION", self.version)
                    .replace("$LABELS", &labels);
                serde_saphyr::from_str(&text).map_err(|error| Error::Yaml(error.to_string()))
            })
            .collect()
    }
}

/// Returns a list of strings in CEL. None of them has a quote: they are names.
fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_users_are_restricted_once_kueue_is_named() {
        let documents = |kueue: &[String]| {
            let policy = StatusPolicy {
                name: "window",
                account: "system:serviceaccount:b:window".to_owned(),
                controllers: vec!["example.com/window".to_owned(), "example.com/b".to_owned()],
                kueue,
                version: "v1beta2",
                labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            };
            policy.documents().unwrap()
        };
        assert_eq!(documents(&[]).len(), 2);
        let all = documents(&["kueue".to_owned()]);
        let names = all
            .iter()
            .map(|own| own["metadata"]["name"].as_str().unwrap());
        let expected = [
            "window-account",
            "window-account",
            "window-states",
            "window-states",
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert_eq!(all[0]["metadata"]["labels"], json!({"a": "b"}));
        let condition = "request.userInfo.username == 'system:serviceaccount:b:window'";
        assert_eq!(
            all[0]["spec"]["matchConditions"][0]["expression"],
            condition
        );
        let own = "params.spec.controllerName in ['example.com/window', 'example.com/b']";
        assert_eq!(all[2]["spec"]["variables"][3]["expression"], own);
        assert_eq!(
            all[2]["spec"]["paramKind"]["apiVersion"],
            "kueue.x-k8s.io/v1beta2"
        );
        for document in all {
            assert!(!document.to_string().contains('$'), "{document:#}");
        }
    }
}
