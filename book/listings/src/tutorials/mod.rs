//! A program for each tutorial. The reader writes the code between the anchors `file`; this crate
//! calls the code above it.

pub mod composing;
pub mod first_check;
pub mod licence_server;
pub mod metrics_budget;
pub mod parameters;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod testing;
