#![doc = include_str!("../README.md")]

pub mod autoscaler;
pub mod definitions;
pub mod jobs;
mod json;
pub mod kueue;
