//! Renders a cargo-generate template, by [cargo-generate's
//! rules](https://cargo-generate.github.io/cargo-generate/), as far as this project's templates use
//! them.
//!
//! It exists to test them: cargo-generate accepts errors that a test should find. Another test
//! compares both results. An undefined variable is an error here, and so is anything in
//! `cargo-generate.toml` that is not supported here.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`Config`], [`Placeholder`] | `cargo-generate.toml`: the questions and the valid answers |
//! | [`Condition`] | when files are left out |
//! | [`Engine`] | liquid, with cargo-generate's filters |
//! | [`render`] | a project |
//! | [`variants`] | all projects of the template of a check, as one workspace |

mod condition;
mod config;
mod engine;
mod error;
mod placeholder;
mod project;
pub mod variants;

pub use condition::Condition;
pub use config::Config;
pub use engine::{Engine, Value, Values};
pub use error::Error;
pub use placeholder::{Kind, Placeholder};
pub use project::{Project, render};
