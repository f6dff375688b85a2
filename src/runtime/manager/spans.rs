//! Spans of tasks, for OpenTelemetry.
//!
//! The loop makes them where it carries effects out; the core does not use them. A span begins with
//! its task and ends when the core has processed the result, so that it records the outcome. A task
//! that the core starts because of that result is its child: the write of a verdict is the child of
//! the evaluation. Without the feature `otel` all of this is empty.

#[cfg(feature = "otel")]
mod recorded;
#[cfg(not(feature = "otel"))]
mod unrecorded;

#[cfg(feature = "otel")]
pub(super) use recorded::{Cause, Spans};
#[cfg(not(feature = "otel"))]
pub(super) use unrecorded::{Cause, Spans};
