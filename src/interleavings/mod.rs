//! Every interleaving of the runtime's core with a small model of the API server, Kueue and the
//! lease.
//!
//! The core is a value with one step, so the search can copy it. A state of the [`world`] is copied
//! for each action that is possible in it: an event is delivered, a request is applied, its reply
//! arrives or is lost, Kueue or a user changes a Workload, the lease lapses, a process dies. States
//! that were seen before are not followed again. The first violation that is found is one of the
//! shortest.

mod search;
mod world;
