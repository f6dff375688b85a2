//! Server-side apply: field ownership, conflicts and merging.
//!
//! All of it is pure: values and sets in, values and sets out.

mod compare;
mod last_applied;
mod malformed;
mod managers;
mod merge;
mod set;
mod typed;
mod update;

pub(crate) use last_applied::apply_after_client;
pub(crate) use malformed::go_map;
pub(crate) use managers::{Managers, Owner};
pub(crate) use update::{Request, reset_fields, update};
