//! The simulator's test suite: one binary, because linking is slow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod simulation;
mod timeline;

/// A third of what simulated clusters do is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
