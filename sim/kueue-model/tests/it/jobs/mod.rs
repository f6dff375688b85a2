//! The job integrations.

mod directives;
mod pod_groups;
mod pods;
mod running;
