//! A cluster in a box: API server, Kueue, jobs and autoscaler in virtual time.

pub mod apiserver;
pub mod autoscaler;
pub mod definitions;
pub mod explore;
pub mod jobs;
pub mod kueue;
pub mod replay;
pub mod scenarios;
pub mod simulation;
pub mod timeline;

pub use explore::{Explored, Plan, Run};
pub use simulation::{Cluster, Job, Simulation};
