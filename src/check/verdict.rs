//! Verdicts: what an evaluation returns.

use std::time::Duration;

use jiff::Timestamp;

use super::{Message, PodSetUpdates};

/// A verdict: the decision of a check about one Workload.
///
/// | constructor | state written | what Kueue does | what it costs |
/// | --- | --- | --- | --- |
/// | [`ready`](Self::ready) | Ready | admits when all checks are Ready | |
/// | [`pending`](Self::pending) | Pending | waits | **holds the quota**, for ever: bound it with the policy's `pendingTimeout` |
/// | [`retry_now`](Self::retry_now) | Retry | evicts and requeues at once | a loop if repeated |
/// | [`retry_after`](Self::retry_after) | Retry | Kueue ≥ 0.15: evicts **after** the delay | holds the quota for the delay, and a running job runs on meanwhile |
/// | [`rejected`](Self::rejected) | Rejected | deactivates the Workload | a person must reactivate it: only for "never" |
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
    pub(crate) kind: VerdictKind,
    pub(crate) message: Message,
    pub(crate) recheck_in: Option<Duration>,
    pub(crate) recheck_until_admitted: Option<Duration>,
    pub(crate) updates: PodSetUpdates,
}

/// The kind of a verdict.
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
    /// Returns the name for metrics and diagnostics.
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
    /// Returns a Ready verdict: for this check, the job may start. Add what its pods need with
    /// [`with_updates`](Self::with_updates).
    ///
    /// The Workload may still wait for other checks. If time can make the verdict wrong, add
    /// [`recheck_until_admitted`](Self::recheck_until_admitted). With
    /// [`recheck_in`](Self::recheck_in), the check is evaluated again, also while the job runs: see
    /// [`AfterAdmission`](super::AfterAdmission).
    pub fn ready(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::Ready, message)
    }

    /// Returns a Pending verdict: the Workload waits and holds its quota. The check is evaluated
    /// again when its inputs change, when one of its [`watches`](super::Check::watches) triggers
    /// it, and after [`recheck_in`](Self::recheck_in).
    pub fn pending(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::Pending, message)
    }

    /// Returns a Retry verdict without a delay: others get the quota. Kueue evicts the Workload and
    /// requeues it at once, behind its peers.
    pub fn retry_now(message: impl Into<Message>) -> Self {
        Self::new(
            VerdictKind::Retry {
                delay: Duration::ZERO,
            },
            message,
        )
    }

    /// Returns a Retry verdict with `delay` (whole seconds, rounded up). Kueue 0.15 and later hold
    /// the quota for the delay and then evict, so this suits a short delay. Kueue 0.14 has no
    /// delay: the SDK waits, and then requests the eviction.
    pub fn retry_after(delay: Duration, message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::Retry { delay }, message)
    }

    /// Returns a Rejected verdict: Kueue deactivates the Workload, and a person must restore it. Up
    /// to Kueue 0.19 that takes a deletion of the Workload, which is then created anew from its
    /// job. A Workload that is only activated again (`spec.active: true`) is not queued (measured
    /// on 0.19.2).
    ///
    /// For the growth of an elastic job, this and both kinds of Retry are written as Pending: see
    /// [`AfterAdmission`](super::AfterAdmission).
    pub fn rejected(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::Rejected, message)
    }

    /// Returns a verdict for a Workload that would pass if others were preempted (KEP-993).
    pub fn preemption_required(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::PreemptionRequired, message)
    }

    /// Returns a Ready verdict for a Workload that the check does not cover and that only shares
    /// the queue.
    pub fn not_applicable(message: impl Into<Message>) -> Self {
        Self::new(VerdictKind::NotApplicable, message)
    }

    /// Returns a verdict that changes nothing: state, message and updates stay as they are.
    ///
    /// For a check that has decided and no longer has, or does not need, its verdict: an earlier
    /// process returned it, or its source does not respond. A Workload without a decision stays
    /// Pending.
    pub fn unchanged() -> Self {
        Self::new(VerdictKind::Unchanged, "")
    }

    /// Sets a recheck after `delay`, at the latest. Retry and Rejected end the reservation, so for
    /// them the delay is ignored, unless they are about the growth of an elastic job: see
    /// [`AfterAdmission`](super::AfterAdmission).
    ///
    /// A delay below 1 s is 1 s: the difference between two times can be zero, and must not cause a
    /// busy loop.
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

    /// Sets a recheck of a Ready, or of an [`unchanged`](Self::unchanged) one, after `delay`, as
    /// long as the Workload waits for other checks: a window may close meanwhile. Unlike
    /// [`recheck_in`](Self::recheck_in) it does not monitor the job once it is admitted. Other
    /// verdicts ignore it. A delay below 1 s is 1 s.
    ///
    /// ```
    /// # use kueue_check::Verdict;
    /// # use std::time::Duration;
    /// let verdict = Verdict::ready("the window closes at 06:00");
    /// let verdict = verdict.recheck_until_admitted(Duration::from_secs(600));
    /// assert_eq!(verdict.recheck(), None, "the job is not monitored");
    /// ```
    pub fn recheck_until_admitted(mut self, delay: Duration) -> Self {
        self.recheck_until_admitted = Some(delay.max(SHORTEST_RECHECK));
        self
    }

    /// Adds the time at which a decision is expected: ` (expected by …)` at the end of the message.
    pub fn expected_by(mut self, at: Timestamp) -> Self {
        let at = at.round(jiff::Unit::Second).unwrap_or(at);
        self.message = Message::new(format!("{} (expected by {at})", self.message));
        self
    }

    /// Sets the updates of the job's pods. Only a Ready verdict changes pods; updates of any other
    /// are not sent.
    pub fn with_updates(mut self, updates: PodSetUpdates) -> Self {
        self.updates = updates;
        self
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        self.message.as_str()
    }

    /// Returns true if the job may start: [`ready`](Self::ready) or
    /// [`not_applicable`](Self::not_applicable).
    pub fn is_ready(&self) -> bool {
        matches!(self.kind, VerdictKind::Ready | VerdictKind::NotApplicable)
    }

    /// Returns true if the check is undecided: [`pending`](Self::pending) or
    /// [`preemption_required`](Self::preemption_required).
    pub fn is_pending(&self) -> bool {
        matches!(
            self.kind,
            VerdictKind::Pending | VerdictKind::PreemptionRequired
        )
    }

    /// Returns true if Kueue will evict and requeue the Workload: [`retry_now`](Self::retry_now) or
    /// [`retry_after`](Self::retry_after).
    pub fn is_retry(&self) -> bool {
        matches!(self.kind, VerdictKind::Retry { .. })
    }

    /// Returns true if it is [`rejected`](Self::rejected).
    pub fn is_rejected(&self) -> bool {
        self.kind == VerdictKind::Rejected
    }

    /// Returns true if it is [`unchanged`](Self::unchanged).
    pub fn is_unchanged(&self) -> bool {
        self.kind == VerdictKind::Unchanged
    }

    /// Returns the delay of the recheck.
    pub fn recheck(&self) -> Option<Duration> {
        self.recheck_in
    }

    /// Returns the updates of the job's pods.
    pub fn updates(&self) -> &PodSetUpdates {
        &self.updates
    }

    fn new(kind: VerdictKind, message: impl Into<Message>) -> Self {
        Self {
            kind,
            message: message.into(),
            recheck_in: None,
            recheck_until_admitted: None,
            updates: PodSetUpdates::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_rounded_to_the_second() {
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
            Verdict::retry_now("x").kind,
            VerdictKind::Retry {
                delay: Duration::ZERO
            }
        );
        assert_eq!(
            Verdict::retry_after(Duration::from_secs(60), "x").kind,
            VerdictKind::Retry {
                delay: Duration::from_secs(60)
            }
        );
    }
}
