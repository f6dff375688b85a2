//! The model of Kueue.

pub(crate) mod cluster;
mod details;
mod determinism;
mod kep993;
mod scenarios;
mod speed;
mod versions;
mod webhook;
