//! Defects that tests plant in the runtime, to see that the simulated cluster finds them. Without the feature `planted-defects` there are none, and this is
//! nothing.

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "with the feature, tests name it")]
pub enum Defect {
    /// Decides while the Workload is being evicted.
    WritesWhileEvicted,
    /// Sends no resourceVersion.
    SendsNoVersion,
    /// Has one field manager for all checks.
    SharesItsManager,
    /// Takes an answer for a reservation that is over.
    KeepsLateAnswers,
    /// Writes without the lease.
    IgnoresTheLease,
    /// Does not look again after a 409.
    ForgetsConflicts,
    /// Believes what stands there after a restart, and sets no timer.
    ForgetsTimers,
    /// Takes lost quota for a deletion.
    TakesLossForDeletion,
    /// Lets stand what somebody else wrote over its entry.
    NeverReasserts,
    /// Leaves the delay of a Retry out.
    DropsTheDelay,
    /// Changes `lastTransitionTime` with each write.
    TouchesTheTime,
    /// Rejects when the check fails.
    RejectsOnErrors,
    /// Says Pending to a job that runs.
    SaysPendingLate,
}

#[cfg(feature = "planted-defects")]
mod planted {
    use std::cell::Cell;

    use super::Defect;

    thread_local! {
        static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Calls `run` with a runtime that has this defect, on this thread.
    pub fn with_defect<T>(defect: Defect, run: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(defect));
        let done = run();
        PLANTED.set(None);
        done
    }

    pub(crate) fn has(defect: Defect) -> bool {
        PLANTED.get() == Some(defect)
    }
}

#[cfg(feature = "planted-defects")]
pub(crate) use planted::has;
#[cfg(feature = "planted-defects")]
pub use planted::with_defect;

#[cfg(not(feature = "planted-defects"))]
pub(crate) const fn has(_: Defect) -> bool {
    false
}
