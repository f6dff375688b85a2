//! An API server in memory.

mod call;

pub use call::{Answer, Call, Patch, Resource, Verb};
