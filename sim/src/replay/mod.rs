//! Recorded traces of a real Kueue, played to the model and compared.

mod compare;
mod names;
mod play;
mod project;
mod request;
mod trace;

use std::fmt;
use std::path::Path;

pub use trace::Trace;

use crate::apiserver::Prepared;
use crate::kueue::KueueVersion;

/// Where the model did something else than the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The object or the step.
    pub at: String,
    /// What was recorded.
    pub recorded: String,
    /// What the model did.
    pub simulated: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.at)?;
        writeln!(f, "  recorded:  {}", self.recorded)?;
        write!(f, "  simulated: {}", self.simulated)
    }
}

/// Why a trace could not be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file.
    #[error("the trace could not be read: {0}")]
    Io(#[from] std::io::Error),
    /// What is in it.
    #[error("the file is not a trace: {0}")]
    Json(#[from] serde_json::Error),
    /// A request in it.
    #[error("the trace has a request that the model does not know: {0}")]
    Request(String),
}

/// Plays a trace file in virtual time against Kueue 0.19.2's model, on a server with these kinds. Empty: everything that has to be equal is.
pub fn run(path: &Path, kinds: &Prepared) -> Result<Vec<Difference>, ReplayError> {
    let trace: Trace = serde_json::from_slice(&std::fs::read(path)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let played = runtime.block_on(play::play(&trace, kinds, KueueVersion::V0_19))?;
    Ok(compare::compare(&trace, &played))
}
