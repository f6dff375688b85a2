//! Pod set updates of several checks.

use serde_json::Value;

use super::{RunRecord, of_workloads, place, text};

/// The fields of a pod set update with keys and values.
const MAPS: [&str; 3] = ["labels", "annotations", "nodeSelector"];

/// Finds two entries of one Workload that give one key two values. Kueue finishes its job as
/// FailedToStart.
pub(super) fn contradicting(evidence: &RunRecord<'_>, found: &mut Vec<String>) {
    for change in of_workloads(evidence) {
        if let Some(what) = contradiction(&change.object) {
            let (job, at, writer) = (place(&change.object), change.at, &change.agent);
            found.push(format!("updates: {job} at {at}, by {writer}: {what}"));
        }
    }
}

/// Returns the first contradiction.
fn contradiction(workload: &Value) -> Option<String> {
    let entries = list(&workload["status"]["admissionChecks"]);
    for (index, one) in entries.iter().enumerate() {
        for other in &entries[index + 1..] {
            if let Some(key) = contradicts(one, other) {
                let (one, other) = (text(&one["name"]), text(&other["name"]));
                return Some(format!(
                    "`{one}` and `{other}` contradict each other in {key}"
                ));
            }
        }
    }
    None
}

fn contradicts(one: &Value, other: &Value) -> Option<String> {
    let (ones, others) = (list(&one["podSetUpdates"]), list(&other["podSetUpdates"]));
    let pairs = ones
        .iter()
        .flat_map(|one| others.iter().map(move |other| (one, other)));
    let mut same = pairs.filter(|(one, other)| one["name"] == other["name"]);
    same.find_map(|(one, other)| {
        MAPS.iter().find_map(|map| {
            let values = one[map].as_object()?;
            let differs = |(key, value): (&String, &Value)| {
                let theirs = other[map].get(key)?;
                (theirs != value).then(|| format!("{map} `{key}`: {value} and {theirs}"))
            };
            values.iter().find_map(differs)
        })
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_one_key_with_two_values_contradicts() {
        let workload = |one: Value, other: Value| {
            json!({"status": {"admissionChecks": [
                {"name": "a", "podSetUpdates": [{"name": "main", "nodeSelector": one}]},
                {"name": "b", "podSetUpdates": [{"name": "main", "nodeSelector": other}]},
            ]}})
        };
        let found = contradiction(&workload(json!({"zone": "a"}), json!({"zone": "b"})));
        let expected = r#"`a` and `b` contradict each other in nodeSelector `zone`: "a" and "b""#;
        assert_eq!(found.as_deref(), Some(expected));
        for (one, other) in [
            (json!({"zone": "a"}), json!({"zone": "a"})),
            (json!({"zone": "a"}), json!({"rack": "b"})),
            (json!({"zone": "a"}), Value::Null),
        ] {
            assert_eq!(contradiction(&workload(one, other)), None);
        }
    }
}
