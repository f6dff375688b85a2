//! [`CELCheck`]: expressions decide.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`resource`] | the custom resource `CELCheck` |
//! | `validate` | what of a `CELCheck` its schema can't say |
//! | [`rule`] | a checked `CELCheck`, and its verdict about a Workload; pure |
//! | `scope` | the variables of expressions |
//! | [`watched`] | which objects are watched, and those that are known |
//! | `memo` | what is made of an object once |
//! | `path` | the part of a JSON document that expressions see |
//! | `sources` | data sources, asked beside the evaluations |
//! | `shares` | how many steps rules may take together |
//! | `starting` | which jobs a rule has let start |
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
