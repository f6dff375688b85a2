//! Normalization of values that differ from run to run: generated names, UIDs, waiting times.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::list;
use super::trace::Trace;
use kueue_check_sim::apiserver::ApiServer;
use kueue_check_sim::kueue;

/// The annotation of a variant, with its flavor.
const FLAVOR: &str = "kueue.x-k8s.io/workload-allowed-resource-flavors";
/// The annotation of a slice.
const SLICE: &str = "kueue.x-k8s.io/elastic-job";

/// Returns the short names of the Workloads of jobs, by generated name.
///
/// `el` is the Workload of Job `el`, `el#2` the second one of an elastic Job, `j@spot` a variant of
/// `j`.
pub(super) fn short(server: &ApiServer) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    let changes = server.history().into_iter();
    for change in changes.filter(|change| change.resource == kueue::resource("workloads")) {
        let metadata = &change.object["metadata"];
        // The Workload of a Pod group has the name of the group, and no controller.
        let mut owners = list(&metadata["ownerReferences"]);
        let owner = owners.find(|owner| owner["controller"] == true);
        let Some(owner) = owner.and_then(|owner| owner["name"].as_str()) else {
            continue;
        };
        let name = metadata["name"].as_str().unwrap_or_default();
        if names.contains_key(name) {
            continue;
        }
        let short = if let Some(flavor) = metadata["annotations"][FLAVOR].as_str() {
            let parent = names.get(owner).map_or(owner, String::as_str).to_owned();
            let job = parent.split('#').next().unwrap_or_default();
            *made.entry(job.to_owned()).or_default() += 1;
            format!("{parent}@{flavor}")
        } else {
            let number = made.entry(owner.to_owned()).or_default();
            *number += 1;
            if metadata["annotations"][SLICE].is_null() {
                owner.to_owned()
            } else {
                format!("{owner}#{number}")
            }
        };
        names.insert(name.to_owned(), short);
    }
    names
}

/// Returns recorded generated names, with those of the same Workloads on this server.
///
/// Several Workloads with one short name, as when a job is submitted again, are matched by order.
pub(super) fn present(trace: &Trace, server: &ApiServer) -> BTreeMap<String, String> {
    if trace.workload_names.is_empty() {
        return BTreeMap::new();
    }
    let here = short(server);
    let here = in_order(names_of_history(server), &here);
    let then = in_order(trace.workloads_in_order(), &trace.workload_names);
    let mut names = BTreeMap::new();
    for (short, generated) in then {
        let Some(here) = here.get(&short) else {
            continue;
        };
        for (at, then) in generated.into_iter().enumerate() {
            let now = here.get(at).or(here.last());
            names.extend(now.map(|now| (then, now.clone())));
        }
    }
    names
}

/// Returns the generated names for each short one, in order of appearance; unused names come last.
fn in_order(came: Vec<String>, shorts: &BTreeMap<String, String>) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for generated in came.iter().chain(shorts.keys()) {
        let Some(short) = shorts.get(generated) else {
            continue;
        };
        let list = found.entry(short.clone()).or_default();
        if !list.contains(generated) {
            list.push(generated.clone());
        }
    }
    found
}

/// Returns the names of Workloads, in order of appearance.
fn names_of_history(server: &ApiServer) -> Vec<String> {
    let changes = server.history().into_iter();
    let of_workloads = changes.filter(|c| c.resource == kueue::resource("workloads"));
    let names =
        of_workloads.filter_map(|c| c.object["metadata"]["name"].as_str().map(str::to_owned));
    names.collect()
}

/// Replaces generated names by short ones, and removes UIDs and waiting times.
pub(super) fn normal(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (generated, short) in names {
        text = text.replace(generated.as_str(), short);
    }
    with_sorted_values(&without_waits(&without_uids(&text)))
}

/// Applies [`normal`] to all strings of the value.
pub(super) fn normal_value(value: &Value, names: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => normal(text, names).into(),
        Value::Array(items) => items.iter().map(|item| normal_value(item, names)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (normal(name, names), normal_value(value, names)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Sorts `supported values: "b", "a"`: Kueue lists flavors in the order of a map.
fn with_sorted_values(text: &str) -> String {
    const VALUES: &str = "supported values: ";
    let Some((before, values)) = text.split_once(VALUES) else {
        return text.to_owned();
    };
    if !values
        .split(", ")
        .all(|v| v.starts_with('"') && v.ends_with('"'))
    {
        return text.to_owned();
    }
    let mut values: Vec<&str> = values.split(", ").collect();
    values.sort_unstable();
    format!("{before}{VALUES}{}", values.join(", "))
}

fn without_uids(text: &str) -> String {
    const LENGTH: usize = 36;
    /// The place of the first hyphen.
    const FIRST: usize = 8;
    let is_uid = |part: &[u8]| {
        part.iter().enumerate().all(|(at, byte)| match at {
            FIRST | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut searched) = (0, 0);
    while let Some(hyphen) = text[searched..].find('-').map(|at| searched + at) {
        searched = hyphen + 1;
        let Some(begin) = hyphen.checked_sub(FIRST).filter(|at| *at >= copied) else {
            continue;
        };
        let part = text.as_bytes().get(begin..begin + LENGTH);
        if part.is_some_and(is_uid) {
            out.push_str(&text[copied..begin]);
            out.push_str("<uid>");
            copied = begin + LENGTH;
            searched = copied;
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// Removes the number from `wait time since queued was 3s`.
fn without_waits(text: &str) -> String {
    let Some((before, after)) = text.split_once("wait time since ") else {
        return text.to_owned();
    };
    let Some((what, number)) = after.split_once(" was ") else {
        return text.to_owned();
    };
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}wait time since {what} was N{rest}")
}

/// Returns true if text has an unknown generated name such as `job-wl-b841f`.
///
/// Such a name is left over from an earlier recording.
pub(super) fn has_generated_name(text: &str) -> bool {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.into_iter().any(|word| {
        let hash = word
            .strip_prefix("job-")
            .and_then(|rest| rest.rsplit_once('-'));
        hash.is_some_and(|(_, hash)| hash.len() == 5 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_varies_from_run_to_run_is_removed() {
        let names = BTreeMap::from([("job-a-12345".to_owned(), "a".to_owned())]);
        let table = [
            ("job-a-12345 waits", "a waits"),
            (
                "(UID: 86befcde-7792-42ac-8ac8-4e7ecbc4e9ca)",
                "(UID: <uid>)",
            ),
            (
                "é-86befcde-7792-42ac-8ac8-4e7ecbc4e9ca86befcde-7792-42ac-8ac8-4e7ecbc4e9ca",
                "é-<uid><uid>",
            ),
            (
                "86befcde-7792-42ac-8ac8-4e7ecbc4e9c",
                "86befcde-7792-42ac-8ac8-4e7ecbc4e9c",
            ),
            (
                "wait time since queued was 13s; more",
                "wait time since queued was Ns; more",
            ),
            (
                r#"supported values: "b", "a""#,
                r#"supported values: "a", "b""#,
            ),
            (
                r#"supported values: "b", "a"]"#,
                r#"supported values: "b", "a"]"#,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(normal(text, &names), expected);
        }
    }
}
