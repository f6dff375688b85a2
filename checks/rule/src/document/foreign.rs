//! Decoding of a service's responses, for the fuzz targets.

use std::collections::BTreeMap;
use std::time::Duration;

use kueue_check::{Reservation, Verdict};

use super::{ItemResult, read_held, read_refusal, read_review};

/// A verdict, how long it holds, and the delay until the next review.
pub type Reviewed = (Verdict, Duration, Option<Duration>);

/// Returns the verdicts in a response `body` to a review of `requested`, or why there is none.
///
/// # Errors
/// If the response is no review.
pub fn review(
    body: &[u8],
    requested: &[Reservation],
    recheck_after: Duration,
) -> Result<BTreeMap<String, Result<Reviewed, String>>, String> {
    let results = read_review(body, requested, recheck_after)?;
    let read = |result| match result {
        ItemResult::Decided(decision) => Ok((decision.verdict, decision.ttl, decision.recheck)),
        ItemResult::Unusable(problem) => Err(problem),
    };
    Ok(results
        .into_iter()
        .map(|(uid, result)| (uid, read(result)))
        .collect())
}

/// Returns the reservations of `admission_check` in a response of `spec.heldPath`.
///
/// # Errors
/// If the response is no list.
pub fn held(body: &[u8], admission_check: &str) -> Result<Vec<Reservation>, String> {
    read_held(body, admission_check)
}

/// Returns why an activation is refused.
pub fn refusal(body: &[u8]) -> String {
    read_refusal(body)
}
