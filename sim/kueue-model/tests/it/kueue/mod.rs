//! The model of Kueue.

pub(crate) mod cluster;
mod details;
mod determinism;
mod fair_sharing;
mod kep993;
mod pods_ready;
mod scenarios;
mod since_0_19;
mod speed;
pub(crate) mod versions;
mod webhook;
