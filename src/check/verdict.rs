//! Verdicts: what an evaluation returns.

use std::time::Duration;

use jiff::Timestamp;

use super::{Message, PodSetUpdates};

/// What a check decides about one Workload.
///
/// | constructor | state written | what Kueue does | what it costs |
/// | --- | --- | --- | --- |
/// | [`ready`](Self::ready) | Ready | admits when all checks are Ready | |
/// | [`pending`](Self::pending) | Pending | waits | **holds the quota**, for ever: bound it with the policy's `pendingTimeout` |
/// | [`retry_now`](Self::retry_now) | Retry | takes the quota away and queues the Workload again at once | answered at once again, it is a loop |
/// | [`retry_after`](Self::retry_after) | Retry | Kueue ≥ 0.15: evicts **after** the delay | holds the quota for the delay, and a running job runs on meanwhile |
/// | [`rejected`](Self::rejected) | Rejected | deactivates the Workload | a person must bring it back: only for "never" |
/// | [`preemption_required`](Self::preemption_required) | PreemptionRequired, or Pending where the cluster has no such state | KEP-993; no released Kueue | as Pending |
/// | [`not_applicable`](Self::not_applicable) | Ready | as Ready | |
/// | [`unchanged`](Self::unchanged) | none: the state stays | as with the present state | as the present state |
///
/// Measured on Kueue 0.19.2. An error is not a verdict: return [`CheckError`](super::CheckError),
/// and the state stays as it is.
///
/// ```
/// use std::time::Duration;
/// use kueue_check::Verdict;
///
/// fn decide(free: u32, wanted: u32, total: u32) -> Verdict {
///     if wanted > total {
///         return Verdict::rejected(format!("{wanted} licences are wanted, and there are {total} in all"));
///     }
///     if wanted <= free {
///         return Verdict::ready("the licences are free");
///     }
///     Verdict::pending(format!("waits for {} licences", wanted - free)).recheck_in(Duration::from_secs(60))
/// }
///
/// assert!(decide(3, 2, 5).is_ready());
/// assert!(decide(3, 9, 5).is_rejected());
/// let waits = decide(3, 5, 5);
/// assert_eq!((waits.message(), waits.recheck()), ("waits for 2 licences", Some(Duration::from_secs(60))));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Verdict {
    pub(crate) answer: VerdictKind,
    pub(crate) message: Message,
    pub(crate) recheck_in: Option<Duration>,
    pub(crate) updates: PodSetUpdates,
}

/// The decision itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum VerdictKind {
    Ready,
    NotApplicable,
    Pending,
    PreemptionRequired,
    Retry { delay: Duration },
    Rejected,
    Unchanged,
}

impl VerdictKind {
    /// The word for metrics and diagnostics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotApplicable => "NotApplicable",
            Self::Pending => "Pending",
            Self::PreemptionRequired => "PreemptionRequired",
            Self::Retry { .. } => "Retry",
            Self::Rejected => "Rejected",
            Self::Unchanged => "Unchanged",
        }
    }
}

/// The shortest delay of a recheck.
const SHORTEST_RECHECK: Duration = Duration::from_secs(1);

impl Verdict {
    /// The job may start, as far as this check is concerned. Add what its pods need with
    /// [`with_updates`](Self::with_updates).
    ///
    /// With [`recheck_in`](Self::recheck_in), the check is evaluated again, also while the job
    /// runs: see [`AfterAdmission`](super::AfterAdmission).
    pub fn ready(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::Ready, message)
    }

    /// Not yet. The Workload waits and holds its quota; the check is evaluated again when something
    /// that it can see changes, when one of its [`watches`](super::Check::watches) wakes it, and
    /// after [`recheck_in`](Self::recheck_in).
    pub fn pending(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::Pending, message)
    }

    /// Not now, and let others have the quota: Kueue evicts the Workload and queues it again at
    /// once, behind its peers.
    pub fn retry_now(message: impl Into<Message>) -> Self {
        Self::new(
            VerdictKind::Retry {
                delay: Duration::ZERO,
            },
            message,
        )
    }

    /// Not for `delay` (whole seconds, rounded up). Kueue 0.15 and later hold the quota for the
    /// delay and then evict, so this suits a short delay; on Kueue 0.14, which has no delay, the
    /// SDK waits and then asks for the eviction.
    pub fn retry_after(delay: Duration, message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::Retry { delay }, message)
    }

    /// Never. Kueue deactivates the Workload, and a person must bring it back: up to Kueue 0.19 by
    /// deleting the Workload, which is then made anew from its job, because one that is only
    /// activated again (`spec.active: true`) is not queued (measured on 0.19.2).
    ///
    /// About the growth of an elastic job, this and both kinds of Retry are written as Pending: see
    /// [`AfterAdmission`](super::AfterAdmission).
    pub fn rejected(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::Rejected, message)
    }

    /// It would pass if other Workloads were preempted (KEP-993).
    pub fn preemption_required(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::PreemptionRequired, message)
    }

    /// The check has nothing to say about this Workload, which only shares the queue.
    pub fn not_applicable(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::NotApplicable, message)
    }

    /// Nothing new: state, message and updates stay as they stand there.
    ///
    /// For a check that has decided and no longer has, or does not need, its verdict: whose
    /// answer was given by an earlier process, or whose source has gone silent. A Workload that
    /// has no decision stays Pending.
    pub fn unchanged() -> Self {
        Self::new(VerdictKind::Unchanged, "")
    }

    /// Rechecks after `delay`, at the latest. Retry and Rejected end the reservation, so there is
    /// nothing to recheck, and it is ignored, unless they are about the growth of an elastic
    /// job: see [`AfterAdmission`](super::AfterAdmission).
    ///
    /// A delay below one second is one second: the difference between two times can be zero, and
    /// must not make a busy loop.
    ///
    /// ```
    /// # use kueue_check::Verdict;
    /// # use std::time::Duration;
    /// let verdict = Verdict::pending("opens at 22:00").recheck_in(Duration::ZERO);
    /// assert_eq!(verdict.recheck(), Some(Duration::from_secs(1)));
    /// ```
    pub fn recheck_in(mut self, delay: Duration) -> Self {
        self.recheck_in = Some(delay.max(SHORTEST_RECHECK));
        self
    }

    /// Says when the answer is expected: ` (expected by …)` is added to the message.
    pub fn expected_by(mut self, at: Timestamp) -> Self {
        let at = at.round(jiff::Unit::Second).unwrap_or(at);
        self.message = Message::new(format!("{} (expected by {at})", self.message));
        self
    }

    /// What to add to the job's pods. Only a Ready verdict changes pods; with any other the updates
    /// are not sent.
    pub fn with_updates(mut self, updates: PodSetUpdates) -> Self {
        self.updates = updates;
        self
    }

    /// The message.
    pub fn message(&self) -> &str {
        self.message.as_str()
    }

    /// Whether the job may start: [`ready`](Self::ready) or
    /// [`not_applicable`](Self::not_applicable).
    pub fn is_ready(&self) -> bool {
        matches!(self.answer, VerdictKind::Ready | VerdictKind::NotApplicable)
    }

    /// Whether the check is undecided: [`pending`](Self::pending) or
    /// [`preemption_required`](Self::preemption_required).
    pub fn is_pending(&self) -> bool {
        matches!(
            self.answer,
            VerdictKind::Pending | VerdictKind::PreemptionRequired
        )
    }

    /// Whether it takes the quota away for now: [`retry_now`](Self::retry_now) or
    /// [`retry_after`](Self::retry_after).
    pub fn is_retry(&self) -> bool {
        matches!(self.answer, VerdictKind::Retry { .. })
    }

    /// Whether it is [`rejected`](Self::rejected).
    pub fn is_rejected(&self) -> bool {
        self.answer == VerdictKind::Rejected
    }

    /// Whether it is [`unchanged`](Self::unchanged).
    pub fn is_unchanged(&self) -> bool {
        self.answer == VerdictKind::Unchanged
    }

    /// Returns when to recheck.
    pub fn recheck(&self) -> Option<Duration> {
        self.recheck_in
    }

    /// What to add to the job's pods.
    pub fn updates(&self) -> &PodSetUpdates {
        &self.updates
    }

    fn new(answer: VerdictKind, message: impl Into<Message>) -> Self {
        Self {
            answer,
            message: message.into(),
            recheck_in: None,
            updates: PodSetUpdates::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_said_to_the_second() {
        let verdict = Verdict::pending("booting nodes")
            .expected_by("2026-11-21T09:30:00.4Z".parse().unwrap());
        assert_eq!(
            verdict.message(),
            "booting nodes (expected by 2026-11-21T09:30:00Z)"
        );
    }

    #[test]
    fn the_two_meanings_of_retry_are_two_constructors() {
        assert_eq!(
            Verdict::retry_now("x").answer,
            VerdictKind::Retry {
                delay: Duration::ZERO
            }
        );
        assert_eq!(
            Verdict::retry_after(Duration::from_secs(60), "x").answer,
            VerdictKind::Retry {
                delay: Duration::from_secs(60)
            }
        );
    }
}
