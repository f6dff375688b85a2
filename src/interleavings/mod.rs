//! Every interleaving of the runtime's core with a small model of the API server, Kueue and the
//! lease.
//!
//! The core is a value with one step, so the search can copy it. It copies a state of the [`model`]
//! for each action that is possible in it: an event is delivered, a request is applied, its reply
//! arrives or is lost, Kueue or a user changes a Workload, the Lease lapses, a process dies.
//! Visited states are not followed again. The first violation that is found is one of the shortest.

mod model;
mod search;

/// The search allocates much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
