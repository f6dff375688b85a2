//! The model of Kueue.

pub(crate) mod cluster;
mod scenarios;
