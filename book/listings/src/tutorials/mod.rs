//! A program for each tutorial. What the reader writes stands between the anchors `file`; above it,
//! what this crate calls.

pub mod composing;
pub mod first_check;
pub mod licence_server;
pub mod metrics_budget;
pub mod parameters;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod testing;
