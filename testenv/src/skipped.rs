//! Tests that are skipped because a real program is missing.

use std::fmt::Display;

use crate::Cluster;

/// The variable that skips tests whose real API server or other program is not available. Without
/// it they fail: a test that did nothing has not passed.
pub const SKIP: &str = "KUEUE_CHECK_SKIP_TESTENV";

/// Returns true if [`SKIP`] is set, and prints that the tests `what` are skipped.
pub fn is_skipped(what: &str) -> bool {
    let skipped = std::env::var_os(SKIP).is_some();
    if skipped {
        eprintln!("SKIPPED: {what}: {SKIP} is set");
    }
    skipped
}

/// Returns the result of `find`; `None` if [`SKIP`] is set, without a search or build.
///
/// # Panics
/// If it is not available.
pub fn or_skipped<T, E: Display>(what: &str, find: impl FnOnce() -> Result<T, E>) -> Option<T> {
    (!is_skipped(what)).then(|| match find() {
        Ok(found) => found,
        Err(why) => panic!("{what} can't run: {why} (set {SKIP}=1 to skip it)"),
    })
}

impl Cluster {
    /// Returns a running cluster for the tests `what`; `None` if [`SKIP`] is set.
    ///
    /// # Panics
    /// If it can't be built or started.
    pub async fn start_or_skip(what: &str) -> Option<Self> {
        if is_skipped(what) {
            return None;
        }
        match Self::start().await {
            Ok(cluster) => Some(cluster),
            Err(why) => panic!("{what} can't run: {why} (set {SKIP}=1 to skip it)"),
        }
    }
}
