//! Taints and node affinity: whether Pods can run on the nodes of a flavor.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::json::list;
use crate::kueue::objects::{NodeLabels, PodSet, ResourceFlavor};

/// The ResourceFlavors by name.
pub(crate) type Flavors = BTreeMap<String, ResourceFlavor>;

/// Returns the reason why the Pods cannot run on a flavor's nodes. Node selectors and affinities
/// count only for labels that `counts` returns true for.
pub(super) fn unsuitable(
    set: &PodSet,
    name: &str,
    counts: impl Fn(&str) -> bool,
    flavors: &Flavors,
) -> Option<String> {
    let Some(flavor) = flavors.get(name) else {
        return Some(format!("flavor {name} not found"));
    };
    let spec = &set.template["spec"];
    let taint = flavor.spec.node_taints.iter().find(|taint| {
        let keeps_off = matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute"));
        let own = flavor.spec.tolerations.iter();
        keeps_off
            && !own
                .chain(list(&spec["tolerations"]))
                .any(|t| tolerates(t, taint))
    });
    if let Some(taint) = taint {
        let part = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        let (key, value, effect) = (part("key"), part("value"), part("effect"));
        return Some(format!(
            "untolerated taint {{{key} {value} {effect} <nil>}} in flavor {name}"
        ));
    }
    let labels = &flavor.spec.node_labels;
    let matches = selected(spec, labels, &counts) && wanted(spec, labels, &counts);
    (!matches).then(|| format!("flavor {name} doesn't match node affinity"))
}

/// Returns true if the node selector matches.
fn selected(spec: &Value, labels: &NodeLabels, counts: impl Fn(&str) -> bool) -> bool {
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    let mut counted = selector.filter(|(key, _)| counts(key));
    counted.all(|(key, value)| value.as_str() == labels.get(key).map(String::as_str))
}

/// Returns true if a term of the required node affinity matches. A term that names only labels
/// that do not count is true.
fn wanted(spec: &Value, labels: &NodeLabels, counts: impl Fn(&str) -> bool) -> bool {
    let terms = spec.pointer(
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    let Some(terms) = terms.and_then(Value::as_array).filter(|t| !t.is_empty()) else {
        return true;
    };
    terms.iter().any(|term| {
        let about = |e: &&Value| e["key"].as_str().is_some_and(&counts);
        let mut expressions = list(&term["matchExpressions"]).filter(about);
        expressions.all(|expression| holds(expression, labels))
    })
}

fn holds(expression: &Value, labels: &NodeLabels) -> bool {
    let key = expression["key"].as_str().unwrap_or_default();
    let operator = expression["operator"].as_str();
    let Some(label) = labels.get(key) else {
        return matches!(operator, Some("NotIn" | "DoesNotExist"));
    };
    let mut values = list(&expression["values"]).filter_map(Value::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    match operator {
        Some("In") => values.any(|value| value == label),
        Some("NotIn") => values.all(|value| value != label),
        Some("DoesNotExist") => false,
        Some("Gt") => values.next().and_then(number) < number(label),
        Some("Lt") => number(label).is_some() && number(label) < values.next().and_then(number),
        _ => true,
    }
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let effect = text(toleration, "effect");
    let key = text(toleration, "key");
    let matches_effect = effect.is_empty() || effect == text(taint, "effect");
    let matches_key = key.is_empty() || key == text(taint, "key");
    let exists = text(toleration, "operator") == "Exists";
    matches_effect && matches_key && (exists || text(toleration, "value") == text(taint, "value"))
}
