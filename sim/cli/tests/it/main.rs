//! The suite of replays.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod program;
mod record;
mod traces;

/// A third of what simulated clusters do is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
