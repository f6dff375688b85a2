//! The Helm chart: what it renders, refuses and alerts on; and that each check works with exactly
//! the rights that the chart gives it, and with none fewer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod applied;
mod budget;
mod exemptions;
mod harness;
mod monitoring;
mod prometheus_operator;
mod provisioning;
mod rbac;
mod rbac_recorder;
mod status_policy;
mod user_roles;
mod values;
mod with_kueue;
