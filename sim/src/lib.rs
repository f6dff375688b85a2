#![doc = include_str!("../README.md")]

pub mod apiserver;
pub mod autoscaler;
pub mod definitions;
pub mod demo;
pub mod explore;
pub mod jobs;
pub mod kueue;
pub mod replay;
pub mod scenarios;
pub mod simulation;
pub mod timeline;

pub use explore::{Exploration, FaultPlan, Run};
pub use simulation::{Cluster, Job, Simulation};
