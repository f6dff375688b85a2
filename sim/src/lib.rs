#![doc = include_str!("../README.md")]

pub mod explore;
mod faults;
pub mod scenarios;
pub mod simulation;
pub mod timeline;

pub use explore::{Exploration, FaultPlan, Run};
#[doc(no_inline)]
pub use kueue_check_apiserver as apiserver;
#[doc(no_inline)]
pub use kueue_check_kueue_model::{autoscaler, definitions, jobs, kueue};
pub use simulation::{Cluster, Job, Simulation};
