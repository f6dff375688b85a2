//! Decoding of a service's answers, for the fuzz targets.

use std::collections::BTreeMap;
use std::time::Duration;

use kueue_check::{Reservation, Verdict};

use super::{Answer, read_held, read_refusal, read_review};

/// A verdict, how long it holds, and the delay until the next review.
pub type Reviewed = (Verdict, Duration, Option<Duration>);

/// Returns the verdicts in an answer `body` to a review of `asked`, or why there is none.
///
/// # Errors
/// If the answer is no review.
pub fn review(
    body: &[u8],
    asked: &[Reservation],
    recheck_after: Duration,
) -> Result<BTreeMap<String, Result<Reviewed, String>>, String> {
    let answers = read_review(body, asked, recheck_after)?;
    let read = |answer| match answer {
        Answer::Decided(decision) => Ok((decision.verdict, decision.ttl, decision.recheck)),
        Answer::Unusable(problem) => Err(problem),
    };
    Ok(answers
        .into_iter()
        .map(|(uid, answer)| (uid, read(answer)))
        .collect())
}

/// Returns the reservations of `admission_check` in an answer of `spec.heldPath`.
///
/// # Errors
/// If the answer is no list.
pub fn held(body: &[u8], admission_check: &str) -> Result<Vec<Reservation>, String> {
    read_held(body, admission_check)
}

/// Returns why an activation is refused.
pub fn refusal(body: &[u8]) -> String {
    read_refusal(body)
}
