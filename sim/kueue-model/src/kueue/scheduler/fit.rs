//! Whether there is room for something.

/// Whether there is room. The best is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// There is.
    Fits,
    /// There would be if others left that take more than their own.
    Reclaim,
    /// There would be if others left, some of the same ClusterQueue.
    Preempt,
    /// There would be if others left, but none can be made to.
    NoCandidates,
    /// There never is.
    No,
}
