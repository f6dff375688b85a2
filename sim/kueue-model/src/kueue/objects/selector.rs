//! Label selectors.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A `metav1.LabelSelector`. An empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    /// Returns true if it selects an object with these labels.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut wanted = self.match_labels.iter();
        wanted.all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|r| r.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let label = labels.get(&self.key);
        let listed = label.is_some_and(|label| self.values.contains(label));
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            _ => false,
        }
    }
}
