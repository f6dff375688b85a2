//! From what the check said to what is written.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Delay, EntryPatch, Millis, Notice, ReservationState, Suppression};
use crate::api::{AdmissionCheckState, CheckState, ServedApi};
use crate::check::{
    ErrorKind, Family, FamilyRole, MESSAGE_LIMIT, Message, OnError, OnFailure, OnTimeout,
    PodSetUpdates, ResolvedPolicy, Verdict, VerdictKind,
};

/// What came of asking the check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It decided.
    Verdict(Verdict),
    /// It failed, panicked or took too long.
    Failed { kind: ErrorKind, message: Message },
    /// It was not evaluated, or its verdict is not accepted: says why, and when to retry if nothing
    /// changes.
    Blocked {
        message: Message,
        again: Option<Duration>,
    },
}

/// A Workload that waits, of a job of which an earlier slice runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    /// How many pods run; `None` if the slice that runs is not known.
    pub(crate) running: Option<u32>,
}

impl Growth {
    /// What grows, if it is a growth of `family`.
    pub(crate) fn of(family: &Family) -> Option<Self> {
        (*family.role() == FamilyRole::Growth).then(|| Self {
            running: family.all_running_pods(),
        })
    }
}

/// Everything that the conclusion depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// How long the reservation has been held, whatever the wall clock did meanwhile.
    pub(crate) held: Duration,
    /// The check's present entry.
    pub(crate) entry: &'a AdmissionCheckState,
    /// Whether the job is admitted.
    pub(crate) admitted: bool,
    /// What the Workload grows, if it is not admitted and an earlier slice of its job runs.
    pub(crate) growth: Option<Growth>,
    pub(crate) served: ServedApi,
    pub(crate) policy: &'a ResolvedPolicy,
    pub(crate) memory: &'a ReservationState,
    /// Whether this AdmissionCheck has ever monitored an admitted job, under any leader.
    pub(crate) monitors: bool,
    /// How many running jobs this AdmissionCheck has stopped in the last hour, under any leader.
    pub(crate) evictions_last_hour: u32,
    /// The wall clock, for what is written.
    pub(crate) now: Timestamp,
    /// A clock that no step of the wall clock changes, for what is waited for.
    pub(crate) steady: Timestamp,
}

/// What follows from an outcome.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conclusion {
    /// The entry to write; `None` when it is there already, or nothing may be written.
    pub(crate) write: Option<EntryPatch>,
    /// When to recheck, if nothing else happens.
    pub(crate) next_evaluation: NextEvaluation,
    /// What to remember.
    pub(crate) memory: ReservationState,
    /// What to report once it is done.
    pub(crate) notes: Vec<Notice>,
    /// Whether the write stops a running job.
    pub(crate) evicts: bool,
}

/// When to recheck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextEvaluation {
    /// When something changes.
    OnChange,
    /// After this delay.
    After(Duration),
    /// After a delay that grows with each failure, and after this one at the latest.
    Backoff { at_most: Option<Duration> },
}

/// How soon a running job with a failing verdict is rechecked, when the verdict does not
/// say.
const FAILING_VERDICT_RECHECK: Duration = Duration::from_mins(1);

/// How far apart failing verdicts about a running job must be to count as several.
const OBJECTION_SPACING: SignedDuration = SignedDuration::from_mins(1);

/// The longest time until a refused growth is evaluated again, when its verdict does not say. It
/// begins with [`FAILING_VERDICT_RECHECK`] and doubles.
const GROWTH_RECHECK: Duration = Duration::from_mins(15);

/// The state that should stand there.
struct Target {
    state: CheckState,
    message: Message,
    requeue_after: Option<Duration>,
    updates: PodSetUpdates,
    /// The reason of a Retry or Rejected in other words than the message, for a growth to which it
    /// does not happen.
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

    /// By a field of the policy, because of `reason`.
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

/// What follows from `outcome`.
pub(crate) fn conclude(facts: Facts<'_>, outcome: &Outcome) -> Conclusion {
    let mut draft = Draft {
        facts,
        memory: facts.memory.clone(),
        notes: Vec::new(),
    };
    let (target, look_again) = match (outcome, facts.admitted) {
        (Outcome::Verdict(verdict), false) => draft.waiting(verdict),
        (Outcome::Verdict(verdict), true) => draft.running(verdict),
        (Outcome::Failed { kind, message }, _) => draft.failed(*kind, message),
        (Outcome::Blocked { message, again }, _) => (
            draft.update_message(message.clone()),
            again.map_or(NextEvaluation::OnChange, NextEvaluation::After),
        ),
    };
    let (target, look_again) = draft.bound_waiting(target, look_again);
    let (target, look_again) = draft.keep_running(outcome, target, look_again);
    let write = target.and_then(|target| draft.patch(target));
    let evicts = (facts.admitted || facts.growth.is_some())
        && write
            .as_ref()
            .is_some_and(|patch| matches!(patch.state, CheckState::Retry | CheckState::Rejected));
    Conclusion {
        write,
        next_evaluation: look_again,
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
    /// A verdict about a Workload that waits.
    fn waiting(&mut self, verdict: &Verdict) -> Step {
        self.memory.decided();
        // Of a job that is admitted without a Ready from here, another process has said it.
        self.memory.monitored = verdict.is_ready().then_some(verdict.recheck_in.is_some());
        self.memory.recheck = verdict.recheck_in.map(Millis::from);
        let again = verdict
            .recheck_in
            .map_or(NextEvaluation::OnChange, NextEvaluation::After);
        if !verdict.is_retry() {
            self.memory
                .update_failure_state(|trouble| trouble.retry_due = None);
        }
        let target = match verdict.answer {
            VerdictKind::Ready | VerdictKind::NotApplicable => ready(verdict),
            VerdictKind::Pending => Target::new(CheckState::Pending, verdict.message.clone()),
            VerdictKind::PreemptionRequired => self.preemption_required(verdict),
            VerdictKind::Retry { delay } => return self.retry(delay, verdict.message.clone()),
            VerdictKind::Rejected => Target::new(CheckState::Rejected, verdict.message.clone()),
            VerdictKind::Unchanged => {
                let stands_ready = self.facts.entry.state == CheckState::Ready;
                self.memory.monitored = stands_ready.then_some(verdict.recheck_in.is_some());
                return (None, again);
            }
        };
        (Some(target), again)
    }

    /// A verdict about a job that runs: Pending means nothing to Kueue now (rule 6), and what would
    /// stop the job is fenced.
    fn running(&mut self, verdict: &Verdict) -> Step {
        self.memory.decided();
        match verdict.answer {
            VerdictKind::Ready | VerdictKind::NotApplicable => {
                self.memory.no_objection();
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
                self.memory.no_objection();
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
                self.memory.no_objection();
                let recheck = verdict.recheck_in.or(self.memory.recheck.map(Millis::get));
                (
                    None,
                    recheck.map_or(NextEvaluation::OnChange, NextEvaluation::After),
                )
            }
            VerdictKind::Retry { .. } | VerdictKind::Rejected => self.failing_verdict(verdict),
        }
    }

    /// Kueue stops the whole job when a check refuses a growth of it, so a refusal of one becomes
    /// Pending, wherever it comes from.
    ///
    /// Where the operator wants running jobs to be stopped, a verdict is held back by the same
    /// fences as one about an admitted Workload. Errors stop nothing there either.
    fn keep_running(
        &mut self,
        outcome: &Outcome,
        target: Option<Target>,
        look_again: NextEvaluation,
    ) -> Step {
        let Some(growth) = self.facts.growth.filter(|_| !self.facts.admitted) else {
            return (target, look_again);
        };
        let is_verdict = matches!(outcome, Outcome::Verdict(_));
        let refusal = match target {
            Some(target) if target.is_refusal() => target,
            target => {
                if is_verdict {
                    self.memory.no_objection();
                }
                return (target, look_again);
            }
        };
        self.count_objection();
        let held = if self.facts.policy.operator_evicts && is_verdict {
            self.suppression()
        } else {
            Some(Suppression::Growth)
        };
        let Some(why) = held else {
            return (Some(refusal), look_again);
        };
        self.notes
            .retain(|note| !matches!(note, Notice::PolicyApplied(_)));
        let again = match look_again {
            NextEvaluation::OnChange => NextEvaluation::After(self.growth_recheck(why, &refusal)),
            again => again,
        };
        let reason = refusal.refused_by.unwrap_or(refusal.message);
        self.notes.push(Notice::Suppression {
            why,
            answer: match refusal.state {
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

    /// When a growth that would be refused is evaluated again: as its verdict says, else less and
    /// less often.
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

    /// A verdict that would stop a running job.
    fn failing_verdict(&mut self, verdict: &Verdict) -> Step {
        self.count_objection();
        if let Some(why) = self.suppression() {
            self.notes.push(Notice::Suppression {
                why,
                answer: verdict.answer,
                message: verdict.message.clone(),
            });
            // Also where the check is not known to monitor the job: a new leader does not know,
            // and the next Ready says whether it does.
            let again = self
                .memory
                .recheck
                .map_or(FAILING_VERDICT_RECHECK, Millis::get);
            return (None, NextEvaluation::After(again));
        }
        match verdict.answer {
            VerdictKind::Retry { delay } => self.retry(delay, verdict.message.clone()),
            _ => (
                Some(Target::new(CheckState::Rejected, verdict.message.clone())),
                NextEvaluation::OnChange,
            ),
        }
    }

    fn count_objection(&mut self) {
        let at = self.facts.steady;
        self.memory.update_failure_state(|trouble| {
            // A minute apart: a source that flaps within seconds has failed once.
            let spaced = trouble
                .objected_at
                .is_none_or(|last| at.duration_since(last) >= OBJECTION_SPACING);
            if spaced {
                trouble.failing_verdicts = trouble.failing_verdicts.saturating_add(1);
                trouble.objected_at = Some(at);
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
                    objections: self.memory.failure_state().failing_verdicts,
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

    /// Kueue 0.14 has no delay and would evict at once, so there the delay is waited for here
    /// (rule 14). A growth is no matter of delay: it is spared, or stopped by the operator's wish.
    fn retry(&mut self, delay: Duration, message: Message) -> Step {
        if self.facts.served.requeue_after || delay.is_zero() || self.facts.growth.is_some() {
            return (
                Some(Target::retry(delay, message)),
                NextEvaluation::OnChange,
            );
        }
        let now = self.facts.steady;
        self.memory.update_failure_state(|trouble| {
            trouble.retry_due.get_or_insert(after(now, delay));
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
        let said = (!self.facts.admitted).then(|| {
            Target::new(
                CheckState::Pending,
                format!("{message} (gives the quota back at {due:.0})"),
            )
        });
        (said, again)
    }

    /// The check did not decide: the state stays.
    fn failed(&mut self, kind: ErrorKind, message: &Message) -> Step {
        let now = self.facts.steady;
        self.memory.update_failure_state(|trouble| {
            trouble.failures = trouble.failures.saturating_add(1);
            trouble.failing_since.get_or_insert(now);
        });
        let failing_since = self.memory.failure_state().failing_since.unwrap_or(now);
        let again = match kind {
            ErrorKind::Transient => NextEvaluation::Backoff { at_most: None },
            ErrorKind::Throttled { after } => NextEvaluation::After(Delay::retry(after).get()),
            ErrorKind::Parameters | ErrorKind::Permanent => NextEvaluation::OnChange,
        };
        let said = match kind {
            ErrorKind::Transient => format!("the check failed and is tried again: {message}"),
            ErrorKind::Throttled { .. } => {
                format!("the check was rate limited and will be retried: {message}")
            }
            ErrorKind::Parameters => format!("the check's parameters are invalid: {message}"),
            ErrorKind::Permanent => format!("the check cannot judge this Workload: {message}"),
        };
        if self.facts.admitted
            || self.facts.entry.state == CheckState::Ready
            || kind == ErrorKind::Permanent
        {
            return (self.update_message(said), again);
        }
        let lasts = after(failing_since, self.facts.policy.on_error_after);
        match self.facts.policy.on_error {
            OnError::Hold => (self.update_message(said), again),
            _ if now < lasts => (self.update_message(said), at_most(again, until(now, lasts))),
            OnError::Admit => {
                self.notes.push(Notice::PolicyApplied("onError: Admit"));
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
                self.notes.push(Notice::PolicyApplied("onError: Retry"));
                (
                    Some(
                        Target::retry(
                            Duration::ZERO,
                            format!("gives the quota back, as `onError: Retry` says: {message}"),
                        )
                        .by_policy("onError: Retry", message),
                    ),
                    again,
                )
            }
        }
    }

    /// Changes the message of a Pending entry, and nothing else.
    fn update_message(&self, message: impl Into<Message>) -> Option<Target> {
        let waits = !self.facts.admitted
            && matches!(
                self.facts.entry.state,
                CheckState::Pending | CheckState::PreemptionRequired
            );
        waits.then(|| Target::new(self.facts.entry.state.clone(), message))
    }

    /// Nothing may wait for longer than the policy says.
    fn bound_waiting(&mut self, target: Option<Target>, look_again: NextEvaluation) -> Step {
        let Some((limit, then)) = self.facts.policy.pending_timeout else {
            return (target, look_again);
        };
        let state = target
            .as_ref()
            .map_or(&self.facts.entry.state, |target| &target.state);
        let waits = matches!(state, CheckState::Pending | CheckState::PreemptionRequired);
        if self.facts.admitted || !waits {
            return (target, look_again);
        }
        let held = self.facts.held;
        if held < limit {
            return (target, at_most(look_again, limit.saturating_sub(held)));
        }
        self.notes.push(Notice::PolicyApplied("pendingTimeout"));
        let last = target.map_or_else(|| Message::new("no answer"), |target| target.message);
        let timed_out = match then {
            OnTimeout::Admit => Target::new(
                CheckState::Ready,
                format!("admitted, as `pendingTimeout` says; it waited for: {last}"),
            ),
            OnTimeout::Retry => Target::retry(
                Duration::ZERO,
                format!("gives the quota back, as `pendingTimeout` says; it waited for: {last}"),
            )
            .by_policy("pendingTimeout", &last),
            OnTimeout::Reject => Target::new(
                CheckState::Rejected,
                format!("rejected, as `pendingTimeout` says; it waited for: {last}"),
            )
            .by_policy("pendingTimeout", &last),
        };
        (Some(timed_out), look_again)
    }

    /// The patch that makes `target` stand there; `None` if it does.
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
        // Kueue refuses other updates while the state stays Ready (its webhook), so the first ones
        // stand.
        if patch.state == CheckState::Ready && patch.updates.digest() != entry.updates_digest {
            self.notes.push(Notice::UpdatesFrozen);
            return None;
        }
        (!patch.matches(entry)).then_some(patch)
    }
}

/// The message of a growth that would be refused because of `reason`, which is cut before the words
/// about what runs.
fn would_be_refused(reason: &Message, growth: Growth) -> String {
    /// More characters than the other words have.
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
        NextEvaluation::After(delay) => NextEvaluation::After(delay.min(limit)),
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

/// Whole seconds, rounded up, as far as the API's int32 goes.
fn seconds(delay: Duration) -> u32 {
    let up = u64::from(delay.subsec_nanos() > 0);
    u32::try_from(delay.as_secs().saturating_add(up))
        .unwrap_or(u32::MAX)
        .min(i32::MAX.unsigned_abs())
}

#[cfg(test)]
#[path = "conclude_tests.rs"]
mod tests;
