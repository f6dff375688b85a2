//! Scheduling directives of a Pod that may change while it is gated (KEP-3838).

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, NodeSelectorTerm, PodSpec, Toleration};

/// A forbidden change of a gated Pod's scheduling directives.
///
/// ```
/// use k8s_openapi::api::core::v1::PodSpec;
///
/// let on = |zone: &str| PodSpec { node_selector: Some([("zone".into(), zone.into())].into()), ..PodSpec::default() };
/// let refused = kueue_check::scheduling_directives_may_change(&on("a"), &on("b"));
/// assert_eq!(refused[0].to_string(), "spec: Forbidden: pod updates may not change fields other than");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForbiddenChange {
    /// The field's path, such as `spec.nodeSelector`.
    pub field: String,
    /// Whether the API server reports it as `Invalid` (else `Forbidden`).
    pub invalid: bool,
    /// The API server's message.
    pub message: &'static str,
}

impl fmt::Display for ForbiddenChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {}",
            self.field,
            if self.invalid {
                "Invalid value"
            } else {
                "Forbidden"
            },
            self.message
        )
    }
}

impl std::error::Error for ForbiddenChange {}

impl ForbiddenChange {
    fn invalid(field: impl Into<String>, message: &'static str) -> Self {
        Self {
            field: field.into(),
            invalid: true,
            message,
        }
    }

    fn forbidden(field: impl Into<String>, message: &'static str) -> Self {
        Self {
            field: field.into(),
            invalid: false,
            message,
        }
    }
}

const ONLY_SELECTOR_ADDITIONS: &str =
    "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
const SAME_NUMBER_OF_TERMS: &str =
    "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
const ONLY_TERM_ADDITIONS: &str = "only additions are allowed (no mutations or deletions)";
const TOLERATIONS_STAY: &str =
    "existing toleration can not be modified except its tolerationSeconds";
const OTHER_FIELDS: &str = "pod updates may not change fields other than";
const TERMS: &str =
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

/// Compares the scheduling directives of a Pod before and after one update. Returns the forbidden
/// changes: none if the update is allowed.
///
/// While the old Pod has a scheduling gate:
/// - node selectors may be added, never changed or removed;
/// - required node affinity may be set where there is none; else the number of terms stays, and
///   each term may only get more expressions at its end;
/// - preferred node affinity may change freely;
/// - the gate may be removed in the same update.
///
/// Without a gate node selector and affinity stay as they are. Tolerations may be added in any
/// state, and pod affinity never changes. Other fields of the spec are not compared. The rules and
/// messages are those of kube-apiserver 1.36.3, with which the tests compare this function.
///
/// ```
/// use k8s_openapi::api::core::v1::{PodSchedulingGate, PodSpec};
///
/// let gated = PodSpec { scheduling_gates: Some(vec![PodSchedulingGate { name: "kueue.x-k8s.io/admission".into() }]), ..PodSpec::default() };
/// let released = PodSpec { node_selector: Some([("zone".into(), "a".into())].into()), ..PodSpec::default() };
/// assert!(kueue_check::scheduling_directives_may_change(&gated, &released).is_empty());
/// assert!(!kueue_check::scheduling_directives_may_change(&released, &gated).is_empty());
/// ```
pub fn scheduling_directives_may_change(old: &PodSpec, new: &PodSpec) -> Vec<ForbiddenChange> {
    let mut refused = Vec::new();
    refused.extend(tolerations(
        old.tolerations.as_deref(),
        new.tolerations.as_deref(),
    ));
    refused.extend(new_gates(old, new));
    if old
        .scheduling_gates
        .as_ref()
        .is_some_and(|gates| !gates.is_empty())
    {
        refused.extend(node_selector(old, new));
        refused.extend(node_affinity(node_affinity_of(old), node_affinity_of(new)));
        if with_node_affinity_of(old, new) != old.affinity {
            refused.push(ForbiddenChange::forbidden("spec", OTHER_FIELDS));
        }
    } else if selector_of(old) != selector_of(new) || old.affinity != new.affinity {
        refused.push(ForbiddenChange::forbidden("spec", OTHER_FIELDS));
    }
    refused
}

fn tolerations(old: Option<&[Toleration]>, new: Option<&[Toleration]>) -> Option<ForbiddenChange> {
    let same = |old: &Toleration, new: &Toleration| {
        Toleration {
            toleration_seconds: None,
            ..old.clone()
        } == Toleration {
            toleration_seconds: None,
            ..new.clone()
        }
    };
    let kept = |old: &Toleration| new.unwrap_or_default().iter().any(|new| same(old, new));
    (!old.unwrap_or_default().iter().all(kept))
        .then(|| ForbiddenChange::forbidden("spec.tolerations", TOLERATIONS_STAY))
}

fn new_gates(old: &PodSpec, new: &PodSpec) -> Vec<ForbiddenChange> {
    let old = old.scheduling_gates.as_deref().unwrap_or_default();
    let gates = new
        .scheduling_gates
        .as_deref()
        .unwrap_or_default()
        .iter()
        .enumerate();
    let added = gates.filter(|(_, gate)| old.iter().all(|known| known.name != gate.name));
    added
        .map(|(at, _)| {
            ForbiddenChange::forbidden(
                format!("spec.schedulingGates[{at}].name"),
                "only deletion is allowed, but found new scheduling gate",
            )
        })
        .collect()
}

fn node_selector(old: &PodSpec, new: &PodSpec) -> Option<ForbiddenChange> {
    let wanted = selector_of(new);
    let kept = selector_of(old)
        .iter()
        .all(|(key, value)| wanted.get(key) == Some(value));
    (!kept).then(|| ForbiddenChange::invalid("spec.nodeSelector", ONLY_SELECTOR_ADDITIONS))
}

fn selector_of(spec: &PodSpec) -> BTreeMap<String, String> {
    spec.node_selector.clone().unwrap_or_default()
}

fn node_affinity(old: Option<&NodeAffinity>, new: Option<&NodeAffinity>) -> Vec<ForbiddenChange> {
    let Some(old) = required_terms(old).filter(|terms| !terms.is_empty()) else {
        return Vec::new();
    };
    let new = required_terms(new).unwrap_or_default();
    if old.len() != new.len() {
        return vec![ForbiddenChange::invalid(TERMS, SAME_NUMBER_OF_TERMS)];
    }
    let pairs = old.iter().zip(new).enumerate();
    let narrowed = pairs.filter(|(_, (old, new))| !only_adds(old, new));
    narrowed
        .map(|(at, _)| ForbiddenChange::invalid(format!("{TERMS}[{at}]"), ONLY_TERM_ADDITIONS))
        .collect()
}

fn required_terms(affinity: Option<&NodeAffinity>) -> Option<&[NodeSelectorTerm]> {
    Some(
        affinity?
            .required_during_scheduling_ignored_during_execution
            .as_ref()?
            .node_selector_terms
            .as_slice(),
    )
}

/// Returns true if `new` only adds expressions. A term without any expression matches no node, so
/// adding to it would widen the choice.
fn only_adds(old: &NodeSelectorTerm, new: &NodeSelectorTerm) -> bool {
    let lists = |term: &NodeSelectorTerm| {
        (
            term.match_expressions.clone().unwrap_or_default(),
            term.match_fields.clone().unwrap_or_default(),
        )
    };
    let ((old_expressions, old_fields), (new_expressions, new_fields)) = (lists(old), lists(new));
    if old_expressions.is_empty() && old_fields.is_empty() {
        return new_expressions.is_empty() && new_fields.is_empty();
    }
    new_expressions.starts_with(&old_expressions) && new_fields.starts_with(&old_fields)
}

fn node_affinity_of(spec: &PodSpec) -> Option<&NodeAffinity> {
    spec.affinity.as_ref()?.node_affinity.as_ref()
}

/// Returns `new`'s affinity with `old`'s node affinity, which has been compared already: the rest
/// must be the same.
fn with_node_affinity_of(old: &PodSpec, new: &PodSpec) -> Option<Affinity> {
    let node_affinity = node_affinity_of(old).cloned();
    if node_affinity.as_ref() == node_affinity_of(new) {
        return new.affinity.clone();
    }
    let whole = Affinity {
        node_affinity,
        ..new.affinity.clone().unwrap_or_default()
    };
    let nothing_else = whole.pod_affinity.is_none() && whole.pod_anti_affinity.is_none();
    (old.affinity.is_some() || !nothing_else).then_some(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(old: Value, new: Value) -> Vec<String> {
        let (old, new): (PodSpec, PodSpec) = (spec(old), spec(new));
        scheduling_directives_may_change(&old, &new)
            .into_iter()
            .map(|refused| refused.field)
            .collect()
    }

    fn spec(mut value: Value) -> PodSpec {
        value["containers"] = json!([]);
        serde_json::from_value(value).unwrap()
    }

    fn required(terms: &[&[&str]]) -> Value {
        let term = |keys: &&[&str]| json!({"matchExpressions": keys.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect::<Vec<_>>()});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms.iter().map(term).collect::<Vec<_>>()}}})
    }

    fn gated(mut spec: Value) -> Value {
        spec["schedulingGates"] = json!([{"name": "g"}]);
        spec
    }

    #[test]
    fn a_gated_pod_may_be_narrowed_and_released_in_one_update() {
        let allowed = [
            (json!({}), json!({"nodeSelector": {"a": "1"}})),
            (
                json!({"nodeSelector": {"a": "1"}}),
                json!({"nodeSelector": {"a": "1", "b": "2"}}),
            ),
            (json!({}), json!({"affinity": required(&[&["a"]])})),
            (
                json!({"affinity": required(&[&["a"], &["b"]])}),
                json!({"affinity": required(&[&["a", "c"], &["b"]])}),
            ),
            (
                json!({"tolerations": [{"key": "a"}]}),
                json!({"tolerations": [{"key": "b"}, {"key": "a", "tolerationSeconds": 5}]}),
            ),
            (
                json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}}),
                json!({"affinity": {"nodeAffinity": {}}}),
            ),
        ];
        for (old, new) in allowed {
            assert_eq!(
                refused(gated(old.clone()), new.clone()),
                Vec::<String>::new(),
                "{old} -> {new}"
            );
            assert_eq!(
                refused(gated(old.clone()), gated(new.clone())),
                Vec::<String>::new(),
                "{old} -> {new}"
            );
        }
    }

    #[test]
    fn a_change_that_widens_the_choice_is_rejected() {
        let term = |at: usize| format!("{TERMS}[{at}]");
        let rows = [
            (
                json!({"nodeSelector": {"a": "1"}}),
                json!({"nodeSelector": {"a": "2"}}),
                vec!["spec.nodeSelector".to_owned()],
            ),
            (
                json!({"nodeSelector": {"a": "1"}}),
                json!({}),
                vec!["spec.nodeSelector".to_owned()],
            ),
            (
                json!({"affinity": required(&[&["a"]])}),
                json!({"affinity": required(&[&["a"], &["b"]])}),
                vec![TERMS.to_owned()],
            ),
            (
                json!({"affinity": required(&[&["a"]])}),
                json!({}),
                vec![TERMS.to_owned()],
            ),
            (
                json!({"affinity": required(&[&["a", "b"]])}),
                json!({"affinity": required(&[&["b", "a"]])}),
                vec![term(0)],
            ),
            (
                json!({"affinity": required(&[&["a"], &["b", "c"]])}),
                json!({"affinity": required(&[&["a"], &["b"]])}),
                vec![term(1)],
            ),
            (
                json!({"affinity": required(&[&[]])}),
                json!({"affinity": required(&[&["a"]])}),
                vec![term(0)],
            ),
            (
                json!({"tolerations": [{"key": "a"}]}),
                json!({}),
                vec!["spec.tolerations".to_owned()],
            ),
            (
                json!({}),
                json!({"affinity": {"podAffinity": {}}}),
                vec!["spec".to_owned()],
            ),
            (json!({}), json!({"affinity": {}}), vec!["spec".to_owned()]),
        ];
        for (old, new, fields) in rows {
            assert_eq!(
                refused(gated(old.clone()), gated(new.clone())),
                fields,
                "{old} -> {new}"
            );
        }
    }

    #[test]
    fn without_a_gate_only_tolerations_may_be_added() {
        assert_eq!(
            refused(json!({}), json!({"nodeSelector": {"a": "1"}})),
            ["spec"]
        );
        assert_eq!(
            refused(json!({}), json!({"affinity": required(&[&["a"]])})),
            ["spec"]
        );
        assert_eq!(
            refused(json!({}), json!({"tolerations": [{"key": "a"}]})),
            Vec::<String>::new()
        );
        assert_eq!(
            refused(json!({}), gated(json!({}))),
            ["spec.schedulingGates[0].name"]
        );
    }
}
