//! Tools for the tests of the chart: Helm, and a reader of the metrics in a PromQL expression.

mod helm;
mod promql;

pub use helm::{Helm, chart};
pub use promql::{MetricReference, reads};
