//! The tests of the provisioning check: one binary, because linking takes most of the time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod chart;
mod configs;
#[cfg(feature = "demo")]
mod demo;
mod differences;
mod explore;
mod flavors;
mod growths;
mod harness;
mod idle;
mod improvements;
mod kep;
mod program;
mod real;
mod request_lifecycle;
mod retries;
mod topologies;
mod traces;

/// A third of what simulated clusters do is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
