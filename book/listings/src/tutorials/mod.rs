//! A program for each tutorial. Between the anchors stands what the reader writes; below them, what this crate calls.

pub mod composing;
pub mod first_check;
pub mod licence_server;
pub mod metrics_budget;
pub mod parameters;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod testing;
