//! The budget check against real servers and strict stand-ins: one binary, because linking is slow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod chart;
mod datadog;
mod definitions;
mod end_to_end;
mod harness;
mod program;
mod prometheus;
mod promise;
mod replicas;
mod scenarios;
mod server;
mod sources;
mod stale_evaluation;

/// A third of what simulated clusters do is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
