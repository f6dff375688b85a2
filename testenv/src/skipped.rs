//! Tests that are skipped because a real program is missing.

use std::fmt::Display;

use crate::{Cluster, StartError};

/// Set where tests are skipped that need a real API server, or what can't be had there. Without it
/// they fail: a test that did nothing has not passed.
pub const SKIP: &str = "KUEUE_CHECK_SKIP_TESTENV";

/// What was `found`; `None` if it can't be had here and [`SKIP`] is set.
///
/// # Panics
/// If it can't be had and [`SKIP`] is not set.
pub fn or_skipped<T>(what: &str, found: Result<T, impl Display>) -> Option<T> {
    found
        .inspect_err(|why| {
            assert!(
                std::env::var_os(SKIP).is_some(),
                "{what} can't run: {why} (set {SKIP}=1 to skip it)"
            );
            eprintln!("SKIPPED: {what}: {why}");
        })
        .ok()
}

impl Cluster {
    /// A running cluster for the tests `what`; `None` if [`SKIP`] is set.
    ///
    /// # Panics
    /// If it can be built but not started, or can't be built and [`SKIP`] is not set.
    pub async fn start_or_skip(what: &str) -> Option<Self> {
        if std::env::var_os(SKIP).is_some() {
            return or_skipped(what, Err(format!("{SKIP} is set")));
        }
        match Self::start().await {
            Ok(cluster) => Some(cluster),
            Err(StartError::Unavailable(why)) => or_skipped(what, Err(why)),
            Err(error) => panic!("{what}: {error}"),
        }
    }
}
