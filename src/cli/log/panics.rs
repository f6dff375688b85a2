//! Panics as lines of the log.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use tracing::Level;

use crate::check::redact;

/// Logs each panic from now on, in the format of the log. Where the filter hides errors, the
/// previous hook receives the panic, so that it is always printed.
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
