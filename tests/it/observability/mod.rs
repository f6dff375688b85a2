//! The output of a running check: spans, its log, panics. A program on an API server in memory,
//! which serves it on a port. In real time.

mod log;
mod program;
mod replicas;
mod spans;
