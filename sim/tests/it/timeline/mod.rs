//! Timelines: what is read from Workloads, and how it is shown.

mod fixtures;
mod page;
mod phases;
mod server;
mod text;
