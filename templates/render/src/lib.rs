//! Renders a cargo-generate template, by [cargo-generate's
//! rules](https://cargo-generate.github.io/cargo-generate/), as far as this project's templates use
//! them.
//!
//! It exists to test them: cargo-generate forgives what a test should find. That both make the same
//! projects is tested too. A variable that nobody defined is an error here, and so is anything in
//! `cargo-generate.toml` that this does not know.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`Config`], [`Placeholder`] | `cargo-generate.toml`: what is asked, what is an answer |
//! | [`Condition`] | when files are left out |
//! | [`Engine`] | liquid, with cargo-generate's filters |
//! | [`render`] | a project |
//! | [`variants`] | all projects that the template of a check can make, as one workspace |

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
