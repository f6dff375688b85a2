//! An admission check for budgets: a job starts only while its namespace has money.
//!
//! The spend of a namespace is in a monitoring system ([`source`]). Its limit for a period is in a
//! custom resource ([`resource`]). Spend is reported minutes late, and in that time a naive check
//! admits hundreds of jobs on the same money. The [`ledger`] prevents this: an approved job counts
//! as committed, by its estimate ([`estimate`]), until the source reports it.
//!
//! | module | contents |
//! | --- | --- |
//! | [`money`], [`period`], [`estimate`] | exact amounts; calendar periods; the cost of a job |
//! | [`resource`], [`config`] | `Budget` and `NamespaceBudget`; the same, compiled |
//! | [`ledger`] | decisions, pure |
//! | [`source`] | Prometheus, Datadog, fixed amounts |
//! | [`controller`] | the admission check and its background work |
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
