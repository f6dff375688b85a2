//! [`CELCheck`]: expressions decide.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`resource`] | the custom resource `CELCheck` |
//! | `validate` | the validation of a `CELCheck` beyond its schema |
//! | [`rule`] | a checked `CELCheck`, and its verdict about a Workload; pure |
//! | `scope` | the variables of expressions |
//! | [`watched`] | the watched resources, and a store of their objects |
//! | `memo` | a value computed from an object once |
//! | `path` | the part of a JSON document that expressions read |
//! | `sources` | data sources, queried in the background |
//! | `shares` | the step limits of rules |
//! | `starting` | the jobs that a rule has let start |
//! | `controller` | the admission check |

mod controller;
mod memo;
mod path;
pub mod resource;
pub mod rule;
pub(crate) mod scope;
mod shares;
mod sources;
mod starting;
mod validate;
pub mod watched;

pub use controller::CELCheck;
pub use sources::Fetch;
