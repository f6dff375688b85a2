//! Kueue's job integrations: batch/v1 Jobs, and plain Pods behind a scheduling gate.
//!
//! [`Jobs`] creates the Workload of each job, starts the job and stops it. [`Nodes`] runs started
//! jobs, and [`finish`] and [`fail`] end them.

mod actor;
mod completion;
mod construct;
mod decide;
mod directives;
mod group_step;
mod hash;
mod integration;
mod job;
mod job_pods;
mod labels;
mod nodes;
mod pod;
mod pod_group;
mod pod_set_info;
mod priority;
mod role;
mod slices;
mod start;
mod step;
mod ungate;
mod ungater;

#[cfg(test)]
mod tests;

pub use actor::Jobs;
pub use completion::{fail, finish};
pub(crate) use construct::variant_name;
pub(crate) use directives::refused as refused_directives;
pub(crate) use job::{MIN_PARALLELISM, SAME_COMPLETIONS};
pub(crate) use labels::{MAX_EXEC_TIME, PRIORITY_CLASS, QUEUE, gates};
pub use nodes::Nodes;
pub use pod::GATE;
pub(crate) use pod::{MANAGED, gated, is_suspended as is_pod_suspended};
pub(crate) use pod_group::{NAME as GROUP_NAME, RETRIABLE, TOTAL as GROUP_TOTAL, group_name};
pub(crate) use slices::{ELASTIC, GATE as ELASTIC_GATE, is_elastic};
