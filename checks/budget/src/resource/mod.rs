//! The custom resources: `Budget`, which an AdmissionCheck refers to, and `NamespaceBudget`, with
//! which a team has a limit and a balance of its own.

mod namespace_budget;
mod period;
mod source;
mod spec;
mod status;
mod validate;

pub use kueue_check_sources::{Auth, BasicAuth};
pub use namespace_budget::{NamespaceBudget, NamespaceBudgetSpec, TopUp};
pub use period::{CalendarUnit, PeriodSpec, TermSpec};
pub use source::{Correction, DatadogSource, FixedSource, PrometheusSource, Shape, SourceSpec};
pub use spec::{
    AdmitOrder, Budget, BudgetSpec, Enforcement, EstimateSpec, EvictOrder, Exempt,
    ExemptPriorityClass, HoldOrAdmit, NamespaceLimit, NamespaceLimits, OnExhausted, OnOverspent,
    OnTooLarge, OnUnpriced, Pool, Price, PriorityClassKind, Quota, Running, Takeover,
};
pub use status::{
    AccountStatus, BudgetStatus, CommittedStatus, NamespaceBudgetStatus, PeriodStatus,
};

/// The API group of both.
pub const GROUP: &str = "budget.kueue-check.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";

/// The form of points in time. The format `date-time` takes more, such as an offset of 99 hours:
/// such an object would be stored and could not be read.
const TIME: &str = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][01][0-9]:[0-5][0-9])$";

/// Where a value of the wrong form is, and what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field, such as `spec.source.interval`.
    pub field: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl Invalid {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}
