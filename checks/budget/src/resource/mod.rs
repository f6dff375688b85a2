//! The custom resources: `Budget`, to which an AdmissionCheck refers, and `NamespaceBudget`, with
//! the limit and the balance of one namespace.

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

/// The pattern of timestamps. The format `date-time` accepts more, such as an offset of 99 hours:
/// such an object would be stored and could not be read.
const TIME: &str = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][01][0-9]:[0-5][0-9])$";

/// An invalid field, and what is expected.
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
