//! The book's own tests: its statements hold, and its link targets exist.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod blocks;
mod cluster;
mod console;
mod fresh;
mod generated;
mod links;
mod markdown;
mod names;
