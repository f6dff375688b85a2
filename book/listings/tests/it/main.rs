//! The book's own tests: what it says is so, and where it points to is there.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod blocks;
mod cluster;
mod console;
mod fresh;
mod generated;
mod links;
mod markdown;
mod names;
