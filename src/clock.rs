//! The clock: the only source of wall-clock time.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// A source of wall-clock time. Timers use tokio's time; every time that is written or shown comes
/// from a clock.
///
/// State that outlives an evaluation, such as cached prices, has a clock too, so that a test can
/// advance it by an hour:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), jiff::Error> {
/// # use jiff::{SignedDuration, Timestamp};
/// # use kueue_check::Clock;
/// struct Prices { read: Timestamp, clock: Clock } // in production `Clock::system()`
///
/// impl Prices {
///     fn are_old(&self) -> bool {
///         self.clock.now().duration_since(self.read) >= SignedDuration::from_hours(1)
///     }
/// }
///
/// # tokio::time::pause();
/// let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse()?);
/// let prices = Prices { read: clock.now(), clock };
/// tokio::time::advance(std::time::Duration::from_secs(3600)).await;
/// assert!(prices.are_old());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Returns the machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// Returns a clock that starts at `start` and follows tokio's time, which tests can pause and
    /// advance. Must be called inside a tokio runtime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// tokio::time::pause();
    /// let start = "2026-11-21T09:00:00Z".parse().unwrap();
    /// let clock = kueue_check::Clock::following_tokio(start);
    /// tokio::time::advance(std::time::Duration::from_secs(3600)).await;
    /// assert_eq!(clock.now().to_string(), "2026-11-21T10:00:00Z");
    /// # }
    /// ```
    pub fn following_tokio(start: Timestamp) -> Self {
        let zero = tokio::time::Instant::now();
        Self(Arc::new(move || {
            start
                .saturating_add(
                    jiff::SignedDuration::try_from(zero.elapsed())
                        .unwrap_or(jiff::SignedDuration::MAX),
                )
                .unwrap_or(Timestamp::MAX)
        }))
    }

    /// Returns this clock with the offset that `offset` returns: a wall clock that is set while a
    /// process runs.
    #[doc(hidden)]
    #[must_use]
    pub fn with_offset(
        &self,
        offset: impl Fn() -> jiff::SignedDuration + Send + Sync + 'static,
    ) -> Self {
        let clock = self.clone();
        Self(Arc::new(move || {
            let now = clock.now();
            now.saturating_add(offset()).unwrap_or(now)
        }))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// The clock as a function, for code that does not depend on this crate, such as the simulated API
/// server.
impl From<Clock> for Arc<dyn Fn() -> Timestamp + Send + Sync> {
    fn from(clock: Clock) -> Self {
        clock.0
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
