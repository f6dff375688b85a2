//! Timelines: reading Workloads, and the output formats.

mod fixtures;
mod page;
mod phases;
mod server;
mod text;
