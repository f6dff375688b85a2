//! Validation of the lists of indexes in the status of a Job (Kubernetes 1.36.3,
//! `validateIndexesFormat` and `validateFailedIndexesNotOverlapCompleted` in
//! `pkg/apis/batch/validation/validation.go`).

use serde_json::Value;

use crate::status::FieldError;

/// Checks the lists that have changed.
pub(super) fn check(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let (spec, status) = (&new["spec"], &new["status"]);
    let changed = |field| old["status"].get(field) != status.get(field);
    let (of_completed, of_failed) = (changed("completedIndexes"), changed("failedIndexes"));
    let mut refuse = |field: &str, why: &str| {
        let path = format!("status.{field}");
        errors.push(FieldError::invalid(path, &status[field], why));
    };
    let completed = status["completedIndexes"].as_str().unwrap_or_default();
    let failed = status["failedIndexes"].as_str();
    let completions = spec["completions"].as_i64();
    let per_index = !spec["backoffLimitPerIndex"].is_null();
    if let (true, Some(most)) = (of_completed, completions)
        && let Err(why) = check_order(completed, most)
    {
        let why = format!("error parsing completedIndexes: {why}");
        refuse("completedIndexes", &why);
    }
    if let (true, true, Some(failed), Some(most)) = (of_failed, per_index, failed, completions)
        && let Err(why) = check_order(failed, most)
    {
        let why = format!("error parsing failedIndexes: {why}");
        refuse("failedIndexes", &why);
    }
    if of_completed && !completed.is_empty() && spec["completionMode"] != "Indexed" {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        refuse("completedIndexes", why);
    }
    if of_failed && failed.is_some() && !per_index {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        refuse("failedIndexes", why);
    }
    if let (true, Some(failed), Some(most)) = (of_completed || of_failed, failed, completions)
        && let Some(index) = overlap(completed, failed, most)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        refuse("failedIndexes", &why);
    }
}

/// Checks that a list such as `0,2-4` is empty or increases.
fn check_order(list: &str, completions: i64) -> Result<(), String> {
    if list.is_empty() {
        return Ok(());
    }
    let mut previous = None;
    for part in list.split(',') {
        let (first, last) = interval(part, completions)?;
        if let Some(previous) = previous.filter(|previous| *previous >= first) {
            return Err(not_increasing(previous, first));
        }
        previous = Some(last);
    }
    Ok(())
}

/// Returns the first and the last index of a part of a list, such as `2-4` or `3`.
fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = part.split('-').collect();
    let index = |text: &str| {
        let index: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if index >= completions {
            return Err(format!("too large index: {text:?}"));
        }
        Ok(index)
    };
    match limits.as_slice() {
        [one] => index(one).map(|one| (one, one)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(not_increasing(first, last));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at \
             most two parts separated by '-'"
        )),
    }
}

fn not_increasing(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

/// Returns the first index that is in both lists. Parts that are no intervals count for nothing.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let valid = |list: &str| -> Vec<(i64, i64)> {
        let parts = list.split(',');
        parts
            .filter_map(|part| interval(part, completions).ok())
            .collect()
    };
    let failed = valid(failed);
    let common = valid(completed).into_iter().flat_map(|(first, last)| {
        let failed = failed.iter();
        let common = failed.map(move |(f, l)| (first.max(*f), last.min(*l)));
        common.filter(|(first, last)| first <= last)
    });
    common.map(|(first, _)| first).min()
}
