//! Tests that are skipped because a real program is missing.

use std::fmt::Display;

use crate::Cluster;

/// Set where tests are skipped that need a real API server, or what can't be had there. Without it
/// they fail: a test that did nothing has not passed.
pub const SKIP: &str = "KUEUE_CHECK_SKIP_TESTENV";

/// Whether [`SKIP`] is set, which is said of the tests `what`.
fn is_skipped(what: &str) -> bool {
    let skipped = std::env::var_os(SKIP).is_some();
    if skipped {
        eprintln!("SKIPPED: {what}: {SKIP} is set");
    }
    skipped
}

/// What `find` finds; `None` if [`SKIP`] is set, and then nothing is sought or built.
///
/// # Panics
/// If it can't be had.
pub fn or_skipped<T, E: Display>(what: &str, find: impl FnOnce() -> Result<T, E>) -> Option<T> {
    (!is_skipped(what)).then(|| match find() {
        Ok(found) => found,
        Err(why) => panic!("{what} can't run: {why} (set {SKIP}=1 to skip it)"),
    })
}

impl Cluster {
    /// A running cluster for the tests `what`; `None` if [`SKIP`] is set.
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
