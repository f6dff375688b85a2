//! Conclusions: from the outcome of an evaluation to the entry to write.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{AppliedPolicy, Delay, EntryPatch, Millis, Notice, ReservationState, Suppression};
use crate::api::{AdmissionCheckState, CheckState, ServedApi, Workload};
use crate::check::{
    ErrorKind, Family, FamilyRole, MESSAGE_LIMIT, Message, OnError, OnFailure, OnTimeout,
    PodSetUpdates, ResolvedPolicy, Verdict, VerdictKind,
};

/// The outcome of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The check returned a verdict.
    Verdict(Verdict),
    /// The call failed, panicked or timed out.
    Failed { kind: ErrorKind, message: Message },
    /// The updates of the entry, which is Ready, contradict a flavor or another check by now: Kueue
    /// would finish the job as FailedToStart (rule 10).
    Conflict { message: Message },
    /// The check was not evaluated, or its verdict is not accepted. `message` has the reason,
    /// `again` the delay before a retry if nothing changes.
    Blocked {
        message: Message,
        again: Option<Duration>,
    },
}

impl Outcome {
    /// Returns true if the entry of `check` in `workload`, which is not admitted, is Ready and stays
    /// so with this outcome.
    pub(crate) fn keeps_ready(&self, workload: &Workload, check: &str) -> bool {
        let entry = workload.check(check);
        let is_ready = entry.is_some_and(|entry| *entry.state() == CheckState::Ready);
        let keeps = match self {
            Self::Verdict(verdict) => verdict.is_ready() || verdict.is_unchanged(),
            Self::Failed { .. } | Self::Conflict { .. } | Self::Blocked { .. } => true,
        };
        is_ready && keeps && !workload.is_admitted()
    }
}

/// A waiting Workload of a job of which an earlier slice runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Number of running pods; `None` if the running slice is unknown.
    pub(crate) running: Option<u32>,
}

impl Growth {
    /// Returns the growth, if the Workload is a growth in `family`.
    pub(crate) fn of(family: &Family) -> Option<Self> {
        (*family.role() == FamilyRole::Growth).then(|| Self {
            running: family.all_running_pods(),
        })
    }
}

/// The inputs of a conclusion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// Time for which the reservation has been held, unaffected by steps of the wall clock.
    pub(crate) held: Duration,
    /// When the quota was reserved.
    pub(crate) reserved: Timestamp,
    /// The check's current entry.
    pub(crate) entry: &'a AdmissionCheckState,
    /// Whether the job is admitted.
    pub(crate) admitted: bool,
    /// The growth, if the Workload is not admitted and an earlier slice of its job runs.
    pub(crate) growth: Option<Growth>,
    pub(crate) served: ServedApi,
    pub(crate) policy: &'a ResolvedPolicy,
    pub(crate) memory: &'a ReservationState,
    /// Whether this AdmissionCheck has ever monitored an admitted job, under any leader.
    pub(crate) monitors: bool,
    /// Running jobs that this AdmissionCheck has evicted in the last hour, under any leader.
    pub(crate) evictions_last_hour: u32,
    /// The wall clock, for times that are written.
    pub(crate) now: Timestamp,
    /// A clock that ignores steps of the wall clock, for delays.
    pub(crate) steady: Timestamp,
}

/// The consequences of an outcome.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conclusion {
    /// The entry to write; `None` if it is written already, or nothing may be written.
    pub(crate) write: Option<EntryPatch>,
    /// When to recheck, if nothing else happens first.
    pub(crate) next_evaluation: NextEvaluation,
    /// The state to keep in memory.
    pub(crate) memory: ReservationState,
    /// Notices to report after the write.
    pub(crate) notes: Vec<Notice>,
    /// Whether the write evicts a running job.
    pub(crate) evicts: bool,
}

/// The time of the next evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextEvaluation {
    /// After a change.
    OnChange,
    /// After this delay.
    After(Duration),
    /// After this delay, unless the job is admitted before.
    UntilAdmitted(Duration),
    /// After an exponential backoff, and after `at_most` at the latest.
    Backoff { at_most: Option<Duration> },
}

/// Recheck delay of a running job with a failing verdict, if [`ReservationState::recheck`] is not
/// set.
const FAILING_VERDICT_RECHECK: Duration = Duration::from_mins(1);

/// Minimum time between failing verdicts about a running job that count separately.
const FAILING_VERDICT_SPACING: SignedDuration = SignedDuration::from_mins(1);

/// Maximum recheck delay of a growth that would be refused, if its verdict sets none. The delay
/// starts at [`FAILING_VERDICT_RECHECK`] and doubles.
const GROWTH_RECHECK: Duration = Duration::from_mins(15);

/// The first and the maximum recheck delay of a Workload that has rejected the parameters. It
/// doubles each time.
const REJECTED_RECHECK: (Duration, Duration) = (Duration::from_mins(1), Duration::from_mins(5));

/// The desired entry.
struct Target {
    state: CheckState,
    message: Message,
    requeue_after: Option<Duration>,
    updates: PodSetUpdates,
    /// The reason of a Retry or Rejected without its effect, for a growth, which that effect does
    /// not reach.
    refused_by: Option<Message>,
}

impl Target {
    fn new(state: CheckState, message: impl Into<Message>) -> Self {
        Self {
            state,
            message: message.into(),
            requeue_after: None,
            updates: PodSetUpdates::default(),
            refused_by: None,
        }
    }

    fn retry(delay: Duration, message: impl Into<Message>) -> Self {
        Self {
            requeue_after: Some(delay),
            ..Self::new(CheckState::Retry, message)
        }
    }

    /// Sets the reason for a growth: `field` of the policy applies because of `reason`.
    fn by_policy(self, field: &str, reason: &Message) -> Self {
        Self {
            refused_by: Some(format!("`{field}` applies: {reason}").into()),
            ..self
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self.state, CheckState::Retry | CheckState::Rejected)
    }
}

/// Returns the consequences of `outcome`.
pub(crate) fn conclude(facts: Facts<'_>, outcome: &Outcome) -> Conclusion {
    let mut draft = Draft {
        facts,
        memory: facts.memory.clone(),
        notes: Vec::new(),
    };
    let (target, next_evaluation) = match (outcome, facts.admitted) {
        (Outcome::Verdict(verdict), false) => draft.waiting(verdict),
        (Outcome::Verdict(verdict), true) => draft.running(verdict),
        (Outcome::Failed { kind, message }, _) => draft.failed(*kind, message),
        (Outcome::Conflict { message }, _) => draft.conflict(message),
        (Outcome::Blocked { message, again }, _) => (
            draft.update_message(message.clone()),
            again.map_or(NextEvaluation::OnChange, NextEvaluation::After),
        ),
    };
    let (target, next_evaluation) = draft.bound_waiting(target, next_evaluation);
    let (target, next_evaluation) = draft.keep_running(outcome, target, next_evaluation);
    let write = target.and_then(|target| draft.patch(target));
    let evicts = (facts.admitted || facts.growth.is_some())
        && write
            .as_ref()
            .is_some_and(|patch| matches!(patch.state, CheckState::Retry | CheckState::Rejected));
    Conclusion {
        write,
        next_evaluation,
        memory: draft.memory,
        notes: draft.notes,
        evicts,
    }
}

struct Draft<'a> {
    facts: Facts<'a>,
    memory: ReservationState,
    notes: Vec<Notice>,
}

type Step = (Option<Target>, NextEvaluation);

impl Draft<'_> {
    /// Handles a verdict about a waiting Workload.
    fn waiting(&mut self, verdict: &Verdict) -> Step {
        self.memory.decided();
        // For a job that is admitted without a Ready from here, another process returned the Ready.
        self.memory.monitored = verdict.is_ready().then_some(verdict.recheck_in.is_some());
        self.memory.recheck = verdict.recheck_in.map(Millis::from);
        let ready_stands = verdict.is_unchanged() && self.facts.entry.state == CheckState::Ready;
        let until_admitted = verdict
            .recheck_until_admitted
            .filter(|_| verdict.is_ready() || ready_stands);
        let again = match (verdict.recheck_in, until_admitted) {
            (Some(one), Some(other)) => NextEvaluation::After(one.min(other)),
            (Some(delay), None) => NextEvaluation::After(delay),
            (None, Some(delay)) => NextEvaluation::UntilAdmitted(delay),
            (None, None) => NextEvaluation::OnChange,
        };
        if !verdict.is_retry() {
            self.memory
                .update_failure_state(|failure| failure.retry_due = None);
        }
        let target = match verdict.kind {
            VerdictKind::Ready | VerdictKind::NotApplicable => ready(verdict),
            VerdictKind::Pending => Target::new(CheckState::Pending, verdict.message.clone()),
            VerdictKind::PreemptionRequired => self.preemption_required(verdict),
            VerdictKind::Retry { delay } => return self.retry(delay, verdict.message.clone()),
            VerdictKind::Rejected => Target::new(CheckState::Rejected, verdict.message.clone()),
            VerdictKind::Unchanged => {
                self.memory.monitored = ready_stands.then_some(verdict.recheck_in.is_some());
                return (None, again);
            }
        };
        (Some(target), again)
    }

    /// Handles a verdict about a running job. Kueue now ignores Pending (rule 6), and the eviction
    /// limits apply to a verdict that would evict the job.
    fn running(&mut self, verdict: &Verdict) -> Step {
        self.memory.decided();
        match verdict.kind {
            VerdictKind::Ready | VerdictKind::NotApplicable => {
                self.memory.reset_failing_verdicts();
                self.memory.monitored = Some(verdict.recheck_in.is_some());
                self.memory.recheck = verdict.recheck_in.map(Millis::from);
                let target = (self.facts.entry.state != CheckState::Ready).then(|| ready(verdict));
                (
                    target,
                    verdict
                        .recheck_in
                        .map_or(NextEvaluation::OnChange, NextEvaluation::After),
                )
            }
            VerdictKind::Unchanged => {
                self.memory.reset_failing_verdicts();
                self.memory.monitored = Some(verdict.recheck_in.is_some());
                self.memory.recheck = verdict.recheck_in.map(Millis::from);
                (
                    None,
                    verdict
                        .recheck_in
                        .map_or(NextEvaluation::OnChange, NextEvaluation::After),
                )
            }
            VerdictKind::Pending | VerdictKind::PreemptionRequired => {
                self.memory.reset_failing_verdicts();
                // A check that may not evict the job is not evaluated again and again.
                let may_evict = self.memory.monitored != Some(false)
                    || self.facts.policy.on_failure == Some(OnFailure::Evict);
                let recheck = verdict.recheck_in.filter(|_| may_evict);
                let recheck = recheck.or(self.memory.recheck.map(Millis::get));
                (
                    None,
                    recheck.map_or(NextEvaluation::OnChange, NextEvaluation::After),
                )
            }
            VerdictKind::Retry { .. } | VerdictKind::Rejected => self.failing_verdict(verdict),
        }
    }

    /// Turns a refusal of a growth into Pending, whether a verdict or the policy refuses it. Kueue
    /// would evict the whole job.
    ///
    /// If the administrator allows evictions of running jobs, the eviction limits apply to a
    /// verdict as for an admitted Workload. Errors evict no job there either.
    fn keep_running(
        &mut self,
        outcome: &Outcome,
        target: Option<Target>,
        next_evaluation: NextEvaluation,
    ) -> Step {
        let Some(growth) = self.facts.growth.filter(|_| !self.facts.admitted) else {
            return (target, next_evaluation);
        };
        let is_verdict = matches!(outcome, Outcome::Verdict(_));
        let refusal = match target {
            Some(target) if target.is_refusal() => target,
            target => {
                if is_verdict {
                    self.memory.reset_failing_verdicts();
                }
                return (target, next_evaluation);
            }
        };
        self.count_failing_verdict();
        let held = if self.facts.policy.administrator_evicts && is_verdict {
            self.suppression()
        } else {
            Some(Suppression::Growth)
        };
        let Some(why) = held else {
            return (Some(refusal), next_evaluation);
        };
        self.notes
            .retain(|note| !matches!(note, Notice::PolicyApplied(_)));
        let again = match next_evaluation {
            NextEvaluation::OnChange => NextEvaluation::After(self.growth_recheck(why, &refusal)),
            again => again,
        };
        let reason = refusal.refused_by.unwrap_or(refusal.message);
        self.notes.push(Notice::Suppression {
            why,
            kind: match refusal.state {
                CheckState::Retry => VerdictKind::Retry {
                    delay: refusal.requeue_after.unwrap_or_default(),
                },
                _ => VerdictKind::Rejected,
            },
            message: reason.clone(),
        });
        let spared = Target::new(CheckState::Pending, would_be_refused(&reason, growth));
        (Some(spared), again)
    }

    /// Returns the recheck delay of a growth that would be refused. A delay of its verdict comes
    /// first. Otherwise a [`Suppression::Growth`] doubles [`FAILING_VERDICT_RECHECK`] each time,
    /// and any other suppression uses it as it is.
    fn growth_recheck(&self, why: Suppression, refusal: &Target) -> Duration {
        let delay = refusal.requeue_after.filter(|delay| !delay.is_zero());
        let doubled = self
            .memory
            .failure_state()
            .failing_verdicts
            .saturating_sub(1)
            .min(8);
        let pause = match why {
            Suppression::Growth => (FAILING_VERDICT_RECHECK * (1 << doubled)).min(GROWTH_RECHECK),
            _ => FAILING_VERDICT_RECHECK,
        };
        self.memory
            .recheck
            .map(Millis::get)
            .or(delay)
            .unwrap_or(pause)
    }

    /// Handles a verdict that would evict a running job.
    fn failing_verdict(&mut self, verdict: &Verdict) -> Step {
        self.count_failing_verdict();
        if let Some(why) = self.suppression() {
            self.notes.push(Notice::Suppression {
                why,
                kind: verdict.kind,
                message: verdict.message.clone(),
            });
            // Also if the check is not recorded as monitoring the job: a new leader has received no
            // Ready yet, and the next Ready determines it.
            let again = self
                .memory
                .recheck
                .map_or(FAILING_VERDICT_RECHECK, Millis::get);
            let unmonitored = self.memory.monitored == Some(false)
                && matches!(why, Suppression::NotMonitored | Suppression::Ignored);
            let again = (!unmonitored).then_some(again);
            return (
                None,
                again.map_or(NextEvaluation::OnChange, NextEvaluation::After),
            );
        }
        match verdict.kind {
            VerdictKind::Retry { delay } => self.retry(delay, verdict.message.clone()),
            _ => (
                Some(Target::new(CheckState::Rejected, verdict.message.clone())),
                NextEvaluation::OnChange,
            ),
        }
    }

    fn count_failing_verdict(&mut self) {
        let at = self.facts.steady;
        self.memory.update_failure_state(|failure| {
            // At least 1 min apart: a source that flaps within seconds has failed once.
            let spaced = failure
                .objected_at
                .is_none_or(|last| at.duration_since(last) >= FAILING_VERDICT_SPACING);
            if spaced {
                failure.failing_verdicts = failure.failing_verdicts.saturating_add(1);
                failure.objected_at = Some(at);
            }
        });
    }

    fn suppression(&self) -> Option<Suppression> {
        let Facts {
            policy,
            monitors,
            evictions_last_hour,
            ..
        } = self.facts;
        match policy.on_failure {
            Some(OnFailure::Ignore) => Some(Suppression::Ignored),
            None if !self.memory.monitored.unwrap_or(monitors) => Some(Suppression::NotMonitored),
            _ if self.memory.failure_state().failing_verdicts < policy.consecutive => {
                Some(Suppression::BelowThreshold {
                    failing_verdicts: self.memory.failure_state().failing_verdicts,
                    needed: policy.consecutive,
                })
            }
            _ if evictions_last_hour >= policy.max_evictions_per_hour => {
                Some(Suppression::RateLimited {
                    limit: policy.max_evictions_per_hour,
                })
            }
            _ => None,
        }
    }

    fn preemption_required(&mut self, verdict: &Verdict) -> Target {
        if self.facts.served.preemption_required {
            return Target::new(CheckState::PreemptionRequired, verdict.message.clone());
        }
        self.notes
            .push(Notice::PreemptionNotSupported(verdict.message.clone()));
        Target::new(
            CheckState::Pending,
            format!(
                "preemption required, which this Kueue does not support: {}",
                verdict.message
            ),
        )
    }

    /// Returns the step of a Retry. Kueue 0.14 has no delay and would evict at once, so there the
    /// runtime waits for the delay (rule 14). The delay of a growth does not matter: the growth
    /// becomes Pending, or the administrator allows the eviction.
    fn retry(&mut self, delay: Duration, message: Message) -> Step {
        if self.facts.served.requeue_after || delay.is_zero() || self.facts.growth.is_some() {
            return (
                Some(Target::retry(delay, message)),
                NextEvaluation::OnChange,
            );
        }
        let now = self.facts.steady;
        self.memory.update_failure_state(|failure| {
            failure.retry_due.get_or_insert(after(now, delay));
        });
        let due = self.memory.failure_state().retry_due.unwrap_or(now);
        if due <= now {
            return (
                Some(Target::retry(Duration::ZERO, message)),
                NextEvaluation::OnChange,
            );
        }
        let again = NextEvaluation::After(until(now, due));
        let due = after(self.facts.now, until(now, due));
        let target = (!self.facts.admitted).then(|| {
            Target::new(
                CheckState::Pending,
                format!("{message} (releases the quota at {due:.0})"),
            )
        });
        (target, again)
    }

    /// Handles a failed call: the state stays, unless `onError` applies.
    fn failed(&mut self, kind: ErrorKind, message: &Message) -> Step {
        let now = self.facts.steady;
        self.memory.update_failure_state(|failure| {
            failure.failures = failure.failures.saturating_add(1);
            failure.failing_since.get_or_insert(now);
            failure.rejected |= kind == ErrorKind::Parameters;
        });
        let failing_since = self.memory.failure_state().failing_since.unwrap_or(now);
        let again = match kind {
            ErrorKind::Transient => NextEvaluation::Backoff { at_most: None },
            ErrorKind::Throttled { after } => NextEvaluation::After(Delay::retry(after).get()),
            ErrorKind::Parameters => NextEvaluation::After(self.rejected_recheck()),
            ErrorKind::Permanent => NextEvaluation::OnChange,
        };
        let text = match kind {
            ErrorKind::Transient => format!("the check failed; will retry: {message}"),
            ErrorKind::Throttled { .. } => {
                format!("the check was rate limited and will be retried: {message}")
            }
            ErrorKind::Parameters => format!("the check's parameters are invalid: {message}"),
            ErrorKind::Permanent => format!("the check cannot evaluate this Workload: {message}"),
        };
        if self.facts.admitted
            || self.facts.entry.state == CheckState::Ready
            || kind == ErrorKind::Permanent
        {
            return (self.update_message(text), again);
        }
        let lasts = after(failing_since, self.facts.policy.on_error_after);
        match self.facts.policy.on_error {
            OnError::Hold => (self.update_message(text), again),
            _ if now < lasts => (self.update_message(text), at_most(again, until(now, lasts))),
            OnError::Admit => {
                self.notes
                    .push(Notice::PolicyApplied(AppliedPolicy::OnErrorAdmit));
                (
                    Some(Target::new(
                        CheckState::Ready,
                        format!(
                            "admitted without a verdict, by policy `onError: Admit`: {message}"
                        ),
                    )),
                    again,
                )
            }
            OnError::Retry => {
                self.notes
                    .push(Notice::PolicyApplied(AppliedPolicy::OnErrorRetry));
                (
                    Some(
                        Target::retry(
                            Duration::ZERO,
                            format!("requeued, by policy `onError: Retry`: {message}"),
                        )
                        .by_policy("onError: Retry", message),
                    ),
                    again,
                )
            }
        }
    }

    /// Returns the recheck delay of a Workload that has rejected the parameters: something that they
    /// refer to may exist by then.
    fn rejected_recheck(&self) -> Duration {
        let (first, most) = REJECTED_RECHECK;
        let doubled = self.memory.failure_state().failures.clamp(1, 8) - 1;
        (first * (1 << doubled)).min(most)
    }

    /// Withdraws a Ready whose updates contradict others, and evaluates again: other updates can be
    /// written only when the entry is not Ready.
    fn conflict(&mut self, message: &Message) -> Step {
        let text = format!("Ready is withdrawn, because Kueue would finish the job: {message}");
        let target = if !self.facts.admitted && self.facts.entry.state == CheckState::Ready {
            Some(Target::new(CheckState::Pending, text))
        } else {
            self.update_message(text)
        };
        (target, NextEvaluation::After(Duration::ZERO))
    }

    /// Changes the message of a Pending or PreemptionRequired entry, and nothing else.
    fn update_message(&self, message: impl Into<Message>) -> Option<Target> {
        let waits = !self.facts.admitted
            && matches!(
                self.facts.entry.state,
                CheckState::Pending | CheckState::PreemptionRequired
            );
        waits.then(|| Target::new(self.facts.entry.state.clone(), message))
    }

    /// Applies the policy's `pendingTimeout` to a Workload that waits.
    fn bound_waiting(&mut self, target: Option<Target>, next_evaluation: NextEvaluation) -> Step {
        let Some((limit, then)) = self.facts.policy.pending_timeout else {
            return (target, next_evaluation);
        };
        let state = target
            .as_ref()
            .map_or(&self.facts.entry.state, |target| &target.state);
        let waits = matches!(state, CheckState::Pending | CheckState::PreemptionRequired);
        if self.facts.admitted || !waits {
            return (target, next_evaluation);
        }
        let Facts {
            entry,
            held,
            reserved,
            ..
        } = self.facts;
        let waited = match waits_since(entry, reserved, then) {
            Some(since) => held.saturating_sub(until(reserved, since)),
            None => Duration::ZERO,
        };
        if waited < limit {
            let again = at_most(next_evaluation, limit.saturating_sub(waited));
            return (target, again);
        }
        self.notes
            .push(Notice::PolicyApplied(AppliedPolicy::PendingTimeout));
        let last = target.map_or_else(|| Message::new("no verdict"), |target| target.message);
        let timed_out = match then {
            OnTimeout::Admit => Target::new(
                CheckState::Ready,
                format!("admitted, by policy `pendingTimeout`; it waited for: {last}"),
            ),
            OnTimeout::Retry => Target::retry(
                Duration::ZERO,
                format!("requeued, by policy `pendingTimeout`; it waited for: {last}"),
            )
            .by_policy("pendingTimeout", &last),
            OnTimeout::Reject => Target::new(
                CheckState::Rejected,
                format!("rejected, by policy `pendingTimeout`; it waited for: {last}"),
            )
            .by_policy("pendingTimeout", &last),
        };
        (Some(timed_out), next_evaluation)
    }

    /// Returns the patch from the entry to `target`; `None` if nothing must or can be written.
    fn patch(&mut self, target: Target) -> Option<EntryPatch> {
        let entry = self.facts.entry;
        let same_state = target.state == entry.state;
        let patch = EntryPatch {
            since: entry
                .since()
                .filter(|_| same_state)
                .unwrap_or(self.facts.now),
            requeue_after_seconds: target.requeue_after.map(seconds),
            state: target.state,
            message: target.message,
            updates: target.updates,
        };
        if !same_state {
            let notes = std::mem::take(&mut self.notes);
            self.notes = vec![Notice::StateChanged {
                from: entry.state.clone(),
                to: patch.state.clone(),
                message: patch.message.clone(),
            }];
            self.notes.extend(notes);
            return Some(patch);
        }
        // While the state stays Ready, Kueue's webhook rejects other updates, so the first ones
        // remain.
        if patch.state == CheckState::Ready && patch.updates.digest() != entry.updates_digest {
            self.notes.push(Notice::UpdatesFrozen);
            return None;
        }
        (!patch.matches(entry)).then_some(patch)
    }
}

/// Returns the time from which `pendingTimeout` counts; `None` while the check is Ready. With Admit
/// the policy's own Ready stays, whatever was Ready before it. The end of a Ready is known from
/// `lastTransitionTime` only, so it is moved by a step of the wall clock during the reservation.
pub(crate) fn waits_since(
    entry: &AdmissionCheckState,
    reserved: Timestamp,
    then: OnTimeout,
) -> Option<Timestamp> {
    match then {
        OnTimeout::Admit => Some(reserved),
        _ if *entry.state() == CheckState::Ready => None,
        OnTimeout::Retry | OnTimeout::Reject => {
            Some(entry.since().unwrap_or(reserved).max(reserved))
        }
    }
}

/// Returns the message of a growth that would be refused because of `reason`. The reason is cut,
/// the part about the running pods is not.
fn would_be_refused(reason: &Message, growth: Growth) -> String {
    /// More characters than the rest of the message has.
    const REST: usize = 64;
    let reason = reason.cut_to(MESSAGE_LIMIT - REST);
    match growth.running {
        Some(1) => format!("would be refused: {reason}; the job runs on with 1 pod"),
        Some(pods) => format!("would be refused: {reason}; the job runs on with {pods} pods"),
        None => format!("would be refused: {reason}; the job runs on"),
    }
}

fn ready(verdict: &Verdict) -> Target {
    Target {
        updates: verdict.updates.clone(),
        ..Target::new(CheckState::Ready, verdict.message.clone())
    }
}

fn at_most(again: NextEvaluation, limit: Duration) -> NextEvaluation {
    match again {
        NextEvaluation::OnChange => NextEvaluation::After(limit),
        NextEvaluation::After(delay) | NextEvaluation::UntilAdmitted(delay) => {
            NextEvaluation::After(delay.min(limit))
        }
        NextEvaluation::Backoff { at_most } => NextEvaluation::Backoff {
            at_most: Some(at_most.map_or(limit, |known| known.min(limit))),
        },
    }
}

fn after(at: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    at.saturating_add(delay).unwrap_or(Timestamp::MAX)
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

/// Returns whole seconds, rounded up, at most the maximum of the API's int32.
fn seconds(delay: Duration) -> u32 {
    let up = u64::from(delay.subsec_nanos() > 0);
    u32::try_from(delay.as_secs().saturating_add(up))
        .unwrap_or(u32::MAX)
        .min(i32::MAX.unsigned_abs())
}

#[cfg(test)]
#[path = "conclude_tests.rs"]
mod tests;
