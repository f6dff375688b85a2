//! The log's filter, which can be changed while the program runs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tracing_subscriber::EnvFilter;

use crate::Clock;

/// The filter of the log. Cheap to clone.
#[derive(Clone)]
pub(in crate::cli) struct LogFilter(Arc<Inner>);

struct Inner {
    set: Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    /// The current filter.
    now: String,
    /// The filter after `until`.
    lasting: String,
    until: Option<Timestamp>,
    /// The number of changes.
    changes: u64,
}

/// Why a filter is not set.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    #[error(
        "the filter is empty; send a level such as `info`, or directives such as `info,kueue_check=debug`"
    )]
    Empty,
    #[error(
        "the filter `{0}` cannot be read: {1}; send a level such as `info`, or directives such as `info,kueue_check=debug`"
    )]
    Invalid(String, String),
    #[error("cannot set the filter: {0}")]
    NotSet(String),
}

impl LogFilter {
    /// Makes a filter that starts as `text`, and that `set` applies.
    pub(super) fn new(
        text: &str,
        clock: Clock,
        set: impl Fn(EnvFilter) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            set: Box::new(set),
            clock,
            state: Mutex::new(State {
                now: text.to_owned(),
                lasting: text.to_owned(),
                until: None,
                changes: 0,
            }),
        }))
    }

    /// Sets the filter: until it is set again, or for `lasts`. After that, the last filter without
    /// a duration applies again. `user` is who requests it, if authenticated.
    pub(super) fn set(
        &self,
        text: &str,
        lasts: Option<Duration>,
        user: Option<&str>,
    ) -> Result<(), FilterError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(FilterError::Empty);
        }
        let parsed = EnvFilter::try_new(text)
            .map_err(|error| FilterError::Invalid(text.to_owned(), error.to_string()))?;
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        tracing::info!(
            filter = text,
            ?lasts,
            was = state.now,
            user,
            "log filter set"
        );
        (self.0.set)(parsed).map_err(FilterError::NotSet)?;
        text.clone_into(&mut state.now);
        state.changes += 1;
        match lasts {
            None => {
                text.clone_into(&mut state.lasting);
                state.until = None;
            }
            Some(lasts) => {
                let lasts_signed = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
                let until = self.0.clock.now().saturating_add(lasts_signed);
                state.until = Some(until.unwrap_or(Timestamp::MAX));
                let (own, change) = (self.clone(), state.changes);
                tokio::spawn(async move {
                    tokio::time::sleep(lasts).await;
                    own.revert(change);
                });
            }
        }
        Ok(())
    }

    /// Reverts a filter that was set for some time, unless another was set since.
    fn revert(&self, change: u64) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.changes != change {
            return;
        }
        let Ok(filter) = EnvFilter::try_new(&state.lasting) else {
            return;
        };
        if let Err(error) = (self.0.set)(filter) {
            tracing::warn!(error, "cannot set the log filter back");
            return;
        }
        let lasting = state.lasting.clone();
        tracing::info!(filter = lasting, "log filter set back");
        state.now = lasting;
        state.until = None;
    }
}

/// Prints the filter, and how long it is in force.
impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(f, "{}", state.now)?;
        match state.until {
            Some(until) => writeln!(f, "until {until:.0}, then {}", state.lasting),
            None => Ok(()),
        }
    }
}
