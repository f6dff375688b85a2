//! One execution of a target, with its panic, time and memory.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::targets::{Outcome, Target};

/// The time limit of one execution: a slower input blocks its reader.
pub const LONGEST: Duration = Duration::from_secs(1);
/// The number of repetitions of a slow execution before it counts as a failure.
const REPEATS: u32 = 3;
/// Ticks of processor time in a second, on all of Linux' platforms.
const TICKS: u64 = 100;

/// The memory of the process, as an allocator counts it.
#[derive(Clone, Copy, Debug)]
pub struct MemoryMeter {
    /// Resets the peak to the memory that is allocated now.
    pub reset: fn(),
    /// Returns the peak since then, in bytes.
    pub peak: fn() -> usize,
}

/// The failure of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The place of the failure, the same for inputs that fail alike.
    pub place: String,
    /// The message of the failure.
    pub message: String,
}

/// Counts beginnings and ends of executions: a lasting odd number means that an execution hangs.
pub static STEPS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static EXECUTING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Silences panics in executions: [`execute`] returns each as a failure.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !EXECUTING.get() {
                return before(panic);
            }
            let payload = panic.payload();
            let text = payload.downcast_ref::<String>().cloned().or_else(|| {
                payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
            });
            let place = panic.location().map_or_else(String::new, |place| {
                format!("{}:{}", place.file(), place.line())
            });
            let message = text.unwrap_or_default();
            PANIC.replace(Some(Failure { place, message }));
        }));
    });
}

/// Runs `target` on `input`.
///
/// # Errors
/// It panics, or takes too long or too much memory.
pub fn execute(
    target: &Target,
    input: &[u8],
    memory: Option<MemoryMeter>,
) -> Result<Outcome, Failure> {
    silence_panics();
    let (outcome, took) = timed(target, input, memory)?;
    if took <= LONGEST {
        return Ok(outcome);
    }
    // The machine may have been busy, so the processor's time counts.
    let mut least = took;
    for _ in 0..REPEATS {
        let before = processor_time();
        let wall = timed(target, input, None)?.1;
        let used = processor_time()
            .zip(before)
            .map(|(now, before)| now.saturating_sub(before));
        least = least.min(used.unwrap_or(wall).min(wall));
        if least <= LONGEST {
            return Ok(outcome);
        }
    }
    Err(Failure {
        place: format!("{}: time", target.name),
        message: format!("it takes {least:?}, more than {LONGEST:?}"),
    })
}

/// Returns the processor time of this process, with all its threads; `None` without `/proc`.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, which may contain spaces, is in parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let ticks = ticks(11)? + ticks(12)?;
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

#[expect(
    clippy::disallowed_methods,
    reason = "what an execution takes is measured, and decides nothing in the program"
)]
fn timed(
    target: &Target,
    input: &[u8],
    memory: Option<MemoryMeter>,
) -> Result<(Outcome, Duration), Failure> {
    if let Some(memory) = memory {
        (memory.reset)();
    }
    let before = memory.map(|memory| (memory.peak)());
    let start = Instant::now();
    EXECUTING.set(true);
    STEPS.fetch_add(1, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    STEPS.fetch_add(1, Ordering::Relaxed);
    EXECUTING.set(false);
    let took = start.elapsed();
    let outcome = outcome.map_err(|_| {
        PANIC.take().unwrap_or_else(|| Failure {
            place: format!("{}: panic", target.name),
            message: String::new(),
        })
    })?;
    if let (Some(memory), Some(before)) = (memory, before) {
        let taken = (memory.peak)().saturating_sub(before);
        let allowed = target.memory.of(input.len());
        if taken > allowed {
            return Err(Failure {
                place: format!("{}: memory", target.name),
                message: format!(
                    "it takes {taken} bytes of memory for {} bytes, more than {allowed}",
                    input.len()
                ),
            });
        }
    }
    Ok((outcome, took))
}
