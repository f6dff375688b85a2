//! Random faults of requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::watch;

use crate::random::Random;

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request is delayed.
    Delay(Duration),
    /// The connection is reset, and the request never arrives.
    Reset,
    /// This status is returned, and the request never arrives.
    Refuse(StatusCode),
    /// The request never arrives, and has no response.
    Hang,
    /// The request is carried out, and the connection is reset instead of a response.
    LostReply,
    /// The first part of the response's body arrives, then the connection is reset.
    Truncate,
    /// Nothing of a watch arrives after this time.
    Silence(Duration),
}

/// The number of faults, by name.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// The faults of one server. Clones share their state.
#[derive(Clone)]
pub(crate) struct Faults {
    random: Arc<Mutex<Random>>,
    counts: Arc<Mutex<Counts>>,
    /// The number of 1,000 requests that have a fault; 0 without a storm.
    storm: watch::Receiver<u32>,
}

impl Faults {
    /// Creates faults that `seed` and the server's `name` determine, while `storm` is not 0.
    pub(crate) fn new(
        seed: u64,
        name: &str,
        storm: watch::Receiver<u32>,
        counts: Arc<Mutex<Counts>>,
    ) -> Self {
        let random = Arc::new(Mutex::new(Random::new(seed, name)));
        Self {
            random,
            counts,
            storm,
        }
    }

    /// Draws the fault of the next request.
    pub(crate) fn draw(&self, is_watch: bool) -> Option<Fault> {
        let rate = *self.storm.borrow();
        let fault = draw(&mut lock(&self.random), rate, is_watch);
        *lock(&self.counts).entry("requests").or_default() += 1;
        if let Some(fault) = fault {
            *lock(&self.counts).entry(name(fault)).or_default() += 1;
        }
        fault
    }

    /// Waits until there is no storm.
    pub(crate) async fn calm(&self) {
        let mut storm = self.storm.clone();
        drop(storm.wait_for(|rate| *rate == 0).await);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the name of a fault in the counts.
fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Delay(_) => "delayed",
        Fault::Reset => "reset",
        Fault::Refuse(StatusCode::TOO_MANY_REQUESTS) => "429",
        Fault::Refuse(StatusCode::INTERNAL_SERVER_ERROR) => "500",
        Fault::Refuse(_) => "503",
        Fault::Hang => "no response",
        Fault::LostReply => "reply lost",
        Fault::Truncate => "truncated",
        Fault::Silence(_) => "watch silent",
    }
}

/// Draws the fault of a request; `rate` of 1,000 have one. Each request draws the same count of
/// numbers.
fn draw(random: &mut Random, rate: u32, is_watch: bool) -> Option<Fault> {
    let happens = random.chance(rate);
    let pause = Duration::from_secs_f64(random.between(0.05, 4.0));
    let after = Duration::from_secs_f64(random.between(0.5, 30.0));
    let code = random.weighted(&[
        (2, StatusCode::TOO_MANY_REQUESTS),
        (2, StatusCode::INTERNAL_SERVER_ERROR),
        (2, StatusCode::SERVICE_UNAVAILABLE),
    ])?;
    let (silence, lost) = if is_watch { (4, 0) } else { (0, 4) };
    let fault = random.weighted(&[
        (6, Fault::Delay(pause)),
        (3, Fault::Reset),
        (5, Fault::Refuse(code)),
        (1, Fault::Hang),
        (lost, Fault::LostReply),
        (2, Fault::Truncate),
        (silence, Fault::Silence(after)),
    ])?;
    happens.then_some(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, rate: u32, is_watch: bool) -> Vec<Option<Fault>> {
        let mut random = Random::new(seed, "proxy");
        (0..2000)
            .map(|_| draw(&mut random, rate, is_watch))
            .collect()
    }

    #[test]
    fn a_seed_determines_the_faults_and_the_rate_their_number() {
        assert_eq!(drawn(1, 100, false), drawn(1, 100, false));
        assert_ne!(drawn(1, 100, false), drawn(2, 100, false));
        let count = |rate| drawn(1, rate, false).iter().flatten().count();
        assert_eq!((count(0), count(1000)), (0, 2000));
        assert!((150..250).contains(&count(100)), "{}", count(100));
    }

    #[test]
    fn every_fault_befalls_the_requests_that_it_can() {
        for (is_watch, all) in [
            (
                false,
                [
                    "delayed",
                    "reset",
                    "429",
                    "500",
                    "503",
                    "no response",
                    "reply lost",
                    "truncated",
                ],
            ),
            (
                true,
                [
                    "delayed",
                    "reset",
                    "429",
                    "500",
                    "503",
                    "no response",
                    "truncated",
                    "watch silent",
                ],
            ),
        ] {
            let mut names: Vec<_> = drawn(1, 1000, is_watch)
                .into_iter()
                .flatten()
                .map(name)
                .collect();
            names.sort_unstable();
            names.dedup();
            let mut all = all.to_vec();
            all.sort_unstable();
            assert_eq!(names, all);
        }
    }
}
