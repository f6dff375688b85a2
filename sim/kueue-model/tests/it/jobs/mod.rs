//! The job integrations.

mod directives;
mod pods;
mod running;
