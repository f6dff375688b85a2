//! Fault injection: faults, injection points and plans.

mod fault;
mod injector;
mod paused_replica;
mod plan;
mod replica_fault;

pub use fault::Fault;
pub(crate) use fault::PAUSE;
pub(crate) use injector::Injector;
pub use paused_replica::PausedReplica;
pub use plan::{FaultPlan, InjectionPoint, PlanError};
pub(crate) use replica_fault::ReplicaFault;
