//! What the tests of the chart stand on: Helm, and which metrics a PromQL expression reads.

mod helm;
mod promql;

pub use helm::{Helm, HelmUnavailable, chart};
pub use promql::{MetricReference, reads};
