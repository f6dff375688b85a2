//! [`CELCheck`]: expressions decide.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`resource`] | the custom resource `CELCheck` |
//! | [`rule`] | a checked `CELCheck`, and its verdict about a Workload; pure |
//! | `scope` | the variables of expressions |
//! | [`watched`] | which objects are watched, and those that are known |
//! | `path` | the part of a JSON document that expressions see |
//! | `sources` | data sources, asked beside the evaluations |
//! | `shares` | how many steps rules may take together |
//! | `starting` | which jobs a rule has let start |
//! | `controller` | the admission check |

mod controller;
mod path;
pub mod resource;
pub mod rule;
pub(crate) mod scope;
mod shares;
mod sources;
mod starting;
pub mod watched;

pub use controller::CELCheck;
pub use sources::Fetch;
