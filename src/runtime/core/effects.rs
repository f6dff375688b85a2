//! Effects: what a step requires to be done.

use super::tasks::{Task, TaskId};
use crate::api::{AdmissionCheck, ApiVersion, CheckState, Workload};
use crate::check::{CheckEvent, Family, Reservation};
use crate::runtime::decide::Notice;

/// One thing to do.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Start a task. Its result comes back as an input.
    Start(TaskId, Box<Task>),
    /// Stop all tasks: their results are of no use.
    CancelTasks,
    /// Show the checks what happened to a Workload.
    Show(Shown),
    /// Tell background work whether this replica leads.
    Leads(bool),
    /// List and watch Workloads anew.
    WatchWorkloads,
    /// Scan the Workloads without quota: for verdicts that an earlier leader could not withdraw, and
    /// for growths that were evicted.
    ScanWithoutQuota,
    /// Count, record or log something.
    Report(Report),
}

/// What happened to a Workload, for [`observe`](crate::Check::observe).
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    ListStarted,
    Applied(Workload, Box<Family>),
    Removed(Workload),
    ListCompleted { continuous: bool },
}

/// Something for metrics, events or the log.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    /// The check was evaluated.
    Evaluated {
        check: String,
        label: &'static str,
        took: std::time::Duration,
        /// Why the result is of no use, if it is not.
        #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "for spans"))]
        dropped: Option<&'static str>,
    },
    /// What came of it is current. `first` is how long the reservation had been held at its first
    /// verdict.
    Outcome {
        reservation: Reservation,
        label: &'static str,
        message: String,
        failed: bool,
        first: Option<std::time::Duration>,
    },
    /// A state was written, or could not be.
    Written {
        check: String,
        label: &'static str,
    },
    /// Something follows from a verdict.
    Notice {
        reservation: Reservation,
        controller: usize,
        note: Box<Notice>,
        held: std::time::Duration,
    },
    /// A running job was stopped.
    Evicted {
        check: String,
        state: CheckState,
    },
    /// The API server does not accept a state.
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
        /// Set if it is written again only after a delay.
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
    /// An AdmissionCheck is, or is no longer, this process's.
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
    /// The role of this replica.
    Role(&'static str),
}
