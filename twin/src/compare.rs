//! Comparison of the model with a recording.

use kueue_check_sim_cli::replay::{self, Difference, Replay, ReplayError, Trace, VersionEvidence};
use serde_json::Value;

/// Returns the differences between the model and a recording.
pub(crate) async fn differences(trace: &Value) -> Result<Vec<Difference>, ReplayError> {
    let trace: Trace = serde_json::from_value(trace.clone())?;
    let replay = tokio::task::spawn_blocking(move || Replay::new(trace).run());
    replay.await.map_err(std::io::Error::other)?
}

/// Returns true if a recording shows the difference between versions in this field of
/// `KueueVersion`.
pub(crate) async fn shows(trace: &Value, field: &str) -> Result<bool, ReplayError> {
    let trace: Trace = serde_json::from_value(trace.clone())?;
    let field = field.to_owned();
    let shows = tokio::task::spawn_blocking(move || VersionEvidence::shows(&trace, &field));
    shows.await.map_err(std::io::Error::other)?
}

/// Returns the differences between two recordings of a history on the real Kueue.
pub(crate) fn between(one: &Value, other: &Value) -> Result<Vec<Difference>, ReplayError> {
    let one: Trace = serde_json::from_value(one.clone())?;
    let other: Trace = serde_json::from_value(other.clone())?;
    Ok(replay::between(&one, &other))
}
