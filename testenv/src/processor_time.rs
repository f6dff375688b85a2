//! Processor time, independent of the load of the machine.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns this thread's processor time; where Linux does not report it, the real time.
pub fn processor_time() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = schedstat.and_then(|schedstat| schedstat.split(' ').next()?.parse().ok());
    match nanoseconds {
        Some(nanoseconds) => Duration::from_nanos(nanoseconds),
        None => BEGAN.get_or_init(real_time).elapsed(),
    }
}

#[expect(clippy::disallowed_methods, reason = "this is about real time")]
fn real_time() -> Instant {
    Instant::now()
}
