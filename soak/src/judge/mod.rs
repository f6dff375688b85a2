//! The judge: evaluates the objects of the API server, the meter and `/proc` for violations. Pure.

mod decisions;
mod leftovers;
mod lost;
mod money;
mod report;
mod resources;
mod view;

pub(crate) use self::decisions::Decisions;
pub(crate) use self::leftovers::{Ends, leftovers};
pub(crate) use self::lost::{BOUND, Lost, obligations};
pub(crate) use self::money::{affordable, overspent};
pub(crate) use self::report::{Report, Subject, words};
pub(crate) use self::resources::{Sample, Slope, slope};
pub(crate) use self::view::{CheckState, RequestView, View, condition};

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The kind.
    pub(crate) kind: Kind,
    /// The event, its object, and its time.
    pub(crate) text: String,
}

/// The kinds of findings, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A Workload holds quota without a decision.
    Lost,
    /// A second deciding write for one reservation, without a reason.
    Double,
    /// A deciding write about a Workload that holds no quota, is evicted or has finished.
    OutOfTurn,
    /// A check has a Workload evicted, without a reason.
    Eviction,
    /// The amount spent exceeds the limit.
    Overspend,
    /// An object is left over.
    Leftover,
}
