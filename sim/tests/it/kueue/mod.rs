//! The model of Kueue.

pub(crate) mod cluster;
mod kep993;
mod scenarios;
mod versions;
mod webhook;
