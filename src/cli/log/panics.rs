//! Panics as lines of the log.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use tracing::Level;

use crate::check::redact;

/// Logs each panic from here on, in the form that the log has. Where the filter hides errors, the
/// hook that was there before gets it, so that no panic is silent.
pub(super) fn log() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if tracing::enabled!(Level::ERROR) {
            log_one(panic);
        } else {
            before(panic);
        }
    }));
}

fn log_one(panic: &PanicHookInfo<'_>) {
    let error = panic.payload_as_str().unwrap_or("(no message)");
    let location = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace =
        (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(
        error = &*redact(error),
        location,
        thread = std::thread::current().name(),
        task = tokio::task::try_id().map(tracing::field::display),
        backtrace,
        "panicked"
    );
}
