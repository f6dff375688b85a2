//! Timelines: what is read from Workloads, and how it is shown.

mod page;
mod phases;
mod server;
mod stories;
mod text;
