//! A real kube-apiserver and etcd for tests.
//!
//! [`Cluster::start`] runs both on free loopback ports and stops them, however the test process
//! ends. The programs are built once, with kubectl, from their Go modules (`go.mod` beside this
//! crate pins them) into `testenv/bin`. That takes minutes on two cores.

mod build;
mod cluster;
mod crds;
pub mod exposition;
mod folder;
mod job_controller;
mod killed;
mod kueue;
mod objects;
mod process;
mod processor_time;
mod prometheus;
mod skipped;
mod workload;

pub use build::{Programs, Unavailable, alertmanager, helm, opa, programs};
pub use cluster::{Access, Cluster, StartError};
pub use crds::{CrdError, KueueVersion, crds, crds_of_autoscaler};
pub use folder::Folder;
pub use job_controller::JobController;
pub use killed::{Killed, free_address};
pub use kueue::{Kueue, KueueOptions};
pub use objects::{api, apply, eventually, resource, token};
pub use process::Process;
pub use processor_time::processor_time;
pub use prometheus::{Prometheus, prometheus};
pub use skipped::{SKIP, is_skipped, or_skipped};
pub use workload::workload;
