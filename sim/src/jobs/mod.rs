//! Kueue's job integrations: batch/v1 Jobs, and plain Pods behind a scheduling gate.

mod construct;
mod decide;
mod job;
mod pod_set_info;


#[cfg(test)]
mod tests;

pub use construct::{workload_name, workload_of};
pub use decide::{Move, decide};
pub use job::JobController;
pub use pod_set_info::{Conflict, PodSetInfo, pod_set_infos};

