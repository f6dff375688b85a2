//! Kueue's job integrations: batch/v1 Jobs, and plain Pods behind a scheduling gate.

mod actor;
mod construct;
mod decide;
mod ending;
mod job;
mod pod_set_info;

#[cfg(test)]
mod tests;

pub use actor::Jobs;
pub use construct::{Owner, workload_name, workload_of};
pub use decide::{JobView, Move, decide};
pub use ending::{fail, finish};
pub use job::JobController;
pub use pod_set_info::{Conflict, PodSetInfo, pod_set_infos};
