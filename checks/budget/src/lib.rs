//! A budget for Kueue: a job starts only while its namespace has money.
//!
//! What has been spent stands in a monitoring system ([`source`]); what a namespace may spend in a
//! period stands in a custom resource ([`resource`]). Between the two lies an unmeasured window of
//! minutes, in which a naive check admits hundreds of jobs on the same money. The [`ledger`] closes
//! it: what it has let start counts as committed, by its estimate ([`estimate`]), until the source
//! reports it.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`money`], [`period`], [`estimate`] | exact amounts; periods of a calendar; what a job costs |
//! | [`resource`], [`config`] | `Budget` and `NamespaceBudget`; the same, compiled |
//! | [`ledger`] | decisions, pure |
//! | [`source`] | Prometheus, Datadog, fixed amounts |
//! | [`controller`] | the admission check, and its work beside |
//! | [`command`] | `demo`, `balance`, `estimate` |

pub mod command;
pub mod config;
pub mod controller;
pub mod estimate;
pub mod ledger;
pub mod messages;
pub mod money;
pub mod period;
pub mod resource;
pub mod source;
