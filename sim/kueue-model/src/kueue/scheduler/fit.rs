//! The fit of a Workload in the available quota.

/// The fit of a request in the available quota, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// It fits now.
    Fits,
    /// It would fit after preemption of Workloads whose ClusterQueues exceed their own quota.
    Reclaim,
    /// It would fit after preemptions, some of them in the same ClusterQueue.
    Preempt,
    /// It would fit with less usage, but no Workload can be preempted.
    NoCandidates,
    /// It never fits.
    No,
}
