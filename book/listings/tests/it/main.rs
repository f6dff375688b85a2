//! The book's own tests: what it says is so, and where it points to is there.

mod blocks;
mod console;
mod fresh;
mod generated;
mod links;
mod markdown;
mod names;
