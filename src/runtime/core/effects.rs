//! Effects: the actions that a step requires.

use super::tasks::{Task, TaskId};
use crate::api::{AdmissionCheck, ApiVersion, CheckState, Workload};
use crate::check::{CheckEvent, Family, Reservation};
use crate::runtime::decide::Notice;

/// One action to carry out.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Start a task. Its result returns as an input.
    Start(TaskId, Box<Task>),
    /// Cancel all tasks and drop their results.
    CancelTasks,
    /// Pass an event of a Workload to the checks.
    Observe(ObserverEvent),
    /// Notify background work whether this replica leads.
    Leads(bool),
    /// List and watch Workloads again.
    WatchWorkloads,
    /// Scan the Workloads without quota for verdicts that an earlier leader could not withdraw, and
    /// for growths that were evicted.
    ScanWithoutQuota,
    /// Count, record or log a report.
    Report(Report),
}

/// An event of a Workload, for [`observe`](crate::Check::observe).
#[derive(Clone, Debug)]
pub(crate) enum ObserverEvent {
    ListStarted,
    Applied(Workload, Box<Family>),
    Removed(Workload),
    ListCompleted { continuous: bool },
}

/// A report for metrics, events or the log.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    /// The check was evaluated.
    Evaluated {
        check: String,
        label: &'static str,
        took: std::time::Duration,
        /// The reason to drop the result, if it is dropped.
        #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "for spans"))]
        dropped: Option<&'static str>,
    },
    /// The outcome of an evaluation is current. `first` is the time for which the reservation had
    /// been held at its first verdict.
    Outcome {
        reservation: Reservation,
        label: &'static str,
        message: String,
        failed: bool,
        first: Option<std::time::Duration>,
    },
    /// The write of a state succeeded or failed.
    Written {
        check: String,
        label: &'static str,
    },
    /// A verdict caused a notice.
    Notice {
        reservation: Reservation,
        controller: usize,
        note: Box<Notice>,
        held: std::time::Duration,
    },
    /// A running job was evicted.
    Evicted {
        check: String,
        state: CheckState,
    },
    /// The API server rejected a state.
    WriteRejected {
        reservation: Reservation,
        code: u16,
        message: String,
    },
    /// A write failed and will be retried.
    WriteFailed {
        reservation: Reservation,
        error: String,
    },
    /// Another client changed the check's entry.
    Overwritten {
        check: String,
        /// Set if the entry is written again only after a delay.
        delayed: Option<(String, u32, std::time::Duration)>,
    },
    /// The check's own event about a Workload.
    Event {
        reservation: Reservation,
        event: CheckEvent,
    },
    /// A release was called.
    Released {
        reservation: Reservation,
        label: &'static str,
        error: Option<String>,
    },
    /// The unreleased reservations of a controller could not be listed.
    UnreleasedFailed {
        controller: usize,
        error: String,
    },
    /// An AdmissionCheck was added to this process, or removed from it.
    CheckAdded {
        check: String,
        controller: usize,
    },
    CheckRemoved {
        check: String,
    },
    /// An AdmissionCheck became active or inactive.
    Activation {
        object: Box<AdmissionCheck>,
        version: ApiVersion,
        active: bool,
        reason: String,
        message: String,
    },
    /// An activation, or the write of its condition, failed and will be retried.
    ActivationFailed {
        check: String,
        error: String,
    },
    ConditionFailed {
        check: String,
        error: String,
    },
    /// The role of this replica changed.
    Role(&'static str),
}
