//! The template of a check, rendered.

mod refusals;
mod rendered;
