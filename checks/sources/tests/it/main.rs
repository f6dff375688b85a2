//! The suite of the data sources: one binary, because linking is slow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod http;
mod prometheus;
mod tls;
