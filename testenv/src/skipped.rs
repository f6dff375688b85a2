//! What a test does that needs something real where it can't be had.

use std::fmt::Display;

use crate::{Cluster, StartError};

/// Set where nothing may be skipped, as in CI.
pub const REQUIRE: &str = "KUEUE_CHECK_REQUIRE_TESTENV";

/// What was `found`; `None` if it can't be had here, and then it says that `what` is skipped, and why.
///
/// # Panics
/// If it can't be had and [`REQUIRE`] is set.
pub fn or_skipped<T>(what: &str, found: Result<T, impl Display>) -> Option<T> {
    found
        .inspect_err(|why| {
            assert!(
                std::env::var_os(REQUIRE).is_none(),
                "{REQUIRE} is set, but {what} can't run: {why}"
            );
            eprintln!("SKIPPED: {what}: {why}");
        })
        .ok()
}

impl Cluster {
    /// A running cluster for the tests `what`; `None` where none can be built, as [`or_skipped`] says.
    ///
    /// # Panics
    /// If it can be built but not started, or can't be built and [`REQUIRE`] is set.
    pub async fn start_or_skip(what: &str) -> Option<Self> {
        match Self::start().await {
            Ok(cluster) => Some(cluster),
            Err(StartError::Unavailable(why)) => or_skipped(what, Err(why)),
            Err(error) => panic!("{what}: {error}"),
        }
    }
}
