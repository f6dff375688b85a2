//! A rate limiter of starts: the state that the check keeps between evaluations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kueue_check::jiff::Timestamp;
use kueue_check::{Request, api::CheckState};
use kueue_check::prelude::Reservation;

/// The last start that each AdmissionCheck allowed. Clones share it.
///
/// It is in memory: after a restart one job may start early. What must survive a restart belongs
/// where `release` can find it again.
#[derive(Clone, Debug, Default)]
pub struct RateLimiter(Arc<Mutex<BTreeMap<String, (Reservation, Timestamp)>>>);

impl RateLimiter {
    /// Lets the job of `request` start, unless another one started less than `interval` ago; then
    /// how long it has to wait.
    ///
    /// The verdict is stable: a job that was Ready stays Ready, independent of the state in memory.
    ///
    /// # Errors
    /// The time to wait.
    pub fn start(&self, request: &Request, interval: Duration) -> Result<(), Duration> {
        let (check, now) = (request.admission_check(), request.now());
        let entry = request.workload().check(check);
        if entry.is_some_and(|entry| *entry.state() == CheckState::Ready) {
            return Ok(());
        }
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((reservation, at)) = last.get(check)
            && reservation != request.reservation()
        {
            let since = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
            if since < interval {
                return Err(interval - since);
            }
        }
        last.insert(check.to_owned(), (request.reservation().clone(), now));
        Ok(())
    }
}
