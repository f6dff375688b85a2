//! Tests of the Helm chart: its output, its rejections and its alerts. Each check works with
//! exactly the permissions of the chart, and needs each of them.

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
