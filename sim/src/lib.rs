//! A cluster in a box: API server, Kueue, jobs and autoscaler in virtual time.

pub mod apiserver;
pub mod autoscaler;
pub mod definitions;
pub mod jobs;
pub mod kueue;
pub mod replay;
pub mod timeline;
