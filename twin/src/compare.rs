//! Comparison of the model with a recording.

use kueue_check_sim_cli::replay::{Difference, Replay, ReplayError, Trace};
use serde_json::Value;

/// What the model does differently.
pub(crate) async fn differences(trace: &Value) -> Result<Vec<Difference>, ReplayError> {
    let trace: Trace = serde_json::from_value(trace.clone())?;
    let replay = tokio::task::spawn_blocking(move || Replay::new(trace).run());
    replay.await.map_err(std::io::Error::other)?
}
