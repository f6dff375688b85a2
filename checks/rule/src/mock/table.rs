//! The table of cases from which a mock returns verdicts.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::cel::{Type, nearest};
use crate::document::{Item, ItemAnswer, State, UpdateAnswer, check_item};

/// A table of cases. The first case that matches a Workload determines its verdict.
///
/// ```
/// let table = kueue_check_rule::mock::Table::read(
///     "cases: [{name: all, response: {state: Ready, message: go}}]",
/// )?;
/// assert!(table.seats().is_none());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Table {
    /// The maximum number of activated reservations at one time. Default: any number.
    #[serde(default)]
    seats: Option<usize>,
    cases: Vec<Case>,
}

/// A condition on Workloads, and the verdict for them.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    /// The part that the item's `workload` must contain.
    #[serde(default)]
    workload: Map<String, Json>,
    /// The required attempt. Default: any.
    #[serde(default)]
    attempt: Option<u32>,
    response: CaseResponse,
}

/// An `ItemAnswer` without the `uid`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CaseResponse {
    #[serde(default)]
    state: Option<State>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    retry_after_seconds: Option<u64>,
    #[serde(default)]
    pod_set_updates: Vec<UpdateAnswer>,
    #[serde(default)]
    recheck_after_seconds: Option<u64>,
    #[serde(default)]
    ttl_seconds: Option<u64>,
    #[serde(default)]
    error: Option<String>,
}

/// The type of an item's `workload`.
static WORKLOAD: LazyLock<Type> = LazyLock::new(|| {
    let schema = schemars::schema_for!(Item).to_value();
    match Type::of_schema(&schema, &schema["$defs"], "item") {
        Type::Object(item) => item.fields.get("workload").cloned().unwrap_or(Type::Dyn),
        other => other,
    }
});

impl Table {
    /// Reads a table in YAML.
    ///
    /// # Errors
    /// If it is no table, a case uses a field that Workloads do not have, or the runtime would
    /// reject a verdict.
    pub fn read(text: &str) -> Result<Self, String> {
        let table: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        if table.cases.is_empty() {
            return Err("it has no cases".to_owned());
        }
        for (index, case) in table.cases.iter().enumerate() {
            let place = format!("`cases[{index}].workload`");
            let pattern = Json::Object(case.workload.clone());
            typed(&pattern, &WORKLOAD, &place)?;
            let item = case.to_item("");
            if item.error.is_none() {
                let text = serde_json::to_string(&item).map_err(|error| error.to_string())?;
                check_item(&text)
                    .map_err(|problem| format!("`cases[{index}].response`: {problem}"))?;
            }
        }
        Ok(table)
    }

    /// Returns the maximum number of activated reservations at one time, if there is one.
    pub fn seats(&self) -> Option<usize> {
        self.seats
    }

    /// Returns the first case that matches `item`.
    pub(super) fn find(&self, item: &Item) -> Option<&Case> {
        let workload = serde_json::to_value(&item.workload).unwrap_or_default();
        self.cases.iter().find(|case| {
            case.attempt.is_none_or(|attempt| attempt == item.attempt)
                && is_part(&Json::Object(case.workload.clone()), &workload)
        })
    }
}

impl Case {
    /// Returns the result for the reservation `uid`.
    pub(super) fn to_item(&self, uid: &str) -> ItemAnswer {
        let fields = self.response.clone();
        ItemAnswer {
            uid: uid.to_owned(),
            state: fields.state,
            message: fields.message,
            retry_after_seconds: fields.retry_after_seconds,
            pod_set_updates: fields.pod_set_updates,
            recheck_after_seconds: fields.recheck_after_seconds,
            ttl_seconds: fields.ttl_seconds,
            error: fields.error,
        }
    }
}

/// Returns an error unless `pattern` may be a part of a value of type `kind`.
fn typed(pattern: &Json, kind: &Type, place: &str) -> Result<(), String> {
    match (pattern, kind) {
        (Json::Object(fields), Type::Object(object)) => {
            fields.iter().try_for_each(|(name, pattern)| {
                let Some(kind) = object.fields.get(name) else {
                    let near = nearest(name, object.fields.keys().map(String::as_str));
                    return Err(format!("{place}: there is no field `{name}`{near}"));
                };
                typed(pattern, kind, &format!("{place}.{name}"))
            })
        }
        (Json::Object(fields), Type::Map(kind)) => fields
            .iter()
            .try_for_each(|(name, pattern)| typed(pattern, kind, &format!("{place}.{name}"))),
        (Json::Array(elements), Type::List(kind)) => elements
            .iter()
            .try_for_each(|pattern| typed(pattern, kind, place)),
        (Json::Null, _)
        | (_, Type::Dyn)
        | (Json::Bool(_), Type::Bool)
        | (Json::Number(_), Type::Int | Type::Double)
        | (Json::String(_), Type::String) => Ok(()),
        (Json::String(text), Type::Timestamp) if text.parse::<Timestamp>().is_ok() => Ok(()),
        (other, kind) => Err(format!("{place}: expected {}, not {other}", kind.one())),
    }
}

/// Returns true if `value` contains all of `pattern`. `null` is a field that is absent.
fn is_part(pattern: &Json, value: &Json) -> bool {
    match (pattern, value) {
        (Json::Object(fields), Json::Object(values)) => fields.iter().all(|(name, pattern)| {
            let absent = Json::Null;
            is_part(pattern, values.get(name).unwrap_or(&absent))
        }),
        (Json::Array(patterns), Json::Array(values)) => {
            let mut pairs = patterns.iter().zip(values);
            patterns.len() == values.len() && pairs.all(|(pattern, value)| is_part(pattern, value))
        }
        (pattern, value) => pattern == value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_a_table_are_named_with_their_place() {
        for (cases, expected) in [
            ("[]", "it has no cases"),
            (
                "[{name: a, workload: {lables: {a: b}}, response: {state: Ready}}]",
                "`cases[0].workload`: there is no field `lables`: did you mean `labels`?",
            ),
            (
                "[{name: a, workload: {labels: {team: 1}}, response: {state: Ready}}]",
                "`cases[0].workload`.labels.team: expected a string, not 1",
            ),
            (
                "[{name: a, workload: {priority: high}, response: {state: Ready}}]",
                "`cases[0].workload`.priority: expected an int, not \"high\"",
            ),
            (
                "[{name: a, response: {message: go}}]",
                "neither a state nor",
            ),
            ("[{name: a, response: {state: Go}}]", "Go"),
            ("[{name: a, response: {state: Ready, ttl: 1}}]", "ttl"),
            (
                "[{name: a, response: {state: Ready, podSetUpdates: [{name: m, labels: {'a b': c}}]}}]",
                "`cases[0].response`: its podSetUpdates are rejected",
            ),
        ] {
            let problem = Table::read(&format!("cases: {cases}")).unwrap_err();
            assert!(problem.contains(expected), "{cases}: {problem}");
        }
    }

    #[test]
    fn a_pattern_matches_what_has_all_of_it() {
        let value = serde_json::json!({"a": 1, "b": {"c": "d", "e": "f"}, "l": [{"n": 1, "m": 2}]});
        for (pattern, expected) in [
            ("{}", true),
            ("{a: 1}", true),
            ("{a: 2}", false),
            ("{b: {c: d}}", true),
            ("{b: {c: e}}", false),
            ("{b: {g: null}}", true),
            ("{a: null}", false),
            ("{l: [{n: 1}]}", true),
            ("{l: [{n: 2}]}", false),
            ("{l: []}", false),
            ("{x: 1}", false),
        ] {
            let read: Json = serde_saphyr::from_str(pattern).unwrap();
            assert_eq!(is_part(&read, &value), expected, "{pattern}");
        }
    }
}
