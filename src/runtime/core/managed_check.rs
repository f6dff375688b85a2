//! An AdmissionCheck of this process: its parameters, activation and conditions.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

use super::after_admission::AfterAdmission;
use crate::api::{AdmissionCheck, Uid};
use crate::check::{DecodedParameters, Inactive, Message, Policy, ResolvedPolicy};
use crate::runtime::activation::{active, after_admission};
use crate::runtime::informers::Revision;
use crate::runtime::writer::{ConditionPatch, field_manager};

/// An AdmissionCheck that a controller of this process manages.
#[derive(Clone, Debug)]
pub(crate) struct ManagedCheck {
    pub(crate) object: AdmissionCheck,
    pub(crate) controller: usize,
    /// The field manager of writes for it.
    pub(super) manager: Arc<str>,
    pub(super) policy: ResolvedPolicy,
    pub(super) activation: Activation,
    pub(super) announcement: Announcement,
    pub(super) after_admission: AfterAdmission,
}

/// Parameters with which an AdmissionCheck was activated.
#[derive(Debug)]
pub(crate) struct ValidParameters {
    pub(crate) read: DecodedParameters,
    pub(crate) generation: i64,
}

/// The reason why an AdmissionCheck is not active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: String,
    pub(crate) message: Message,
}

impl Problem {
    pub(super) fn new(reason: &str, message: impl Into<Message>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// Returns the problem as a check author receives it.
    pub(super) fn public(&self) -> Inactive {
        Inactive::new(&self.reason, self.message.clone())
    }
}

/// The AdmissionCheck and parameters of an activation attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActivationInput {
    pub(super) uid: Uid,
    pub(super) generation: i64,
    pub(super) parameters: Revision,
}

impl ActivationInput {
    /// Returns true if both are of the same state of the AdmissionCheck, so that only the content of
    /// the parameters may differ.
    pub(super) fn same_object(&self, other: &Self) -> bool {
        (&self.uid, self.generation) == (&other.uid, other.generation)
    }
}

/// The parameters for evaluations, or the reason why there are none.
pub(super) enum Readiness<'a> {
    Unknown,
    Inactive(&'a Problem),
    Active(&'a Arc<ValidParameters>),
}

impl ManagedCheck {
    pub(super) fn new(
        object: AdmissionCheck,
        controller: usize,
        name: &str,
        author: &Policy,
    ) -> Self {
        Self {
            manager: field_manager(name, object.name()).into(),
            after_admission: AfterAdmission::read(object.after_admission.as_ref()),
            object,
            controller,
            policy: Policy::resolve(None, author),
            activation: Activation::default(),
            announcement: Announcement::default(),
        }
    }

    /// Returns the last valid parameters, even while newer ones are invalid (rule 12).
    pub(crate) fn valid(&self) -> Option<&Arc<ValidParameters>> {
        self.activation.valid()
    }

    /// Returns the inputs of an activation with the parameters in this revision.
    pub(super) fn inputs(&self, parameters: Revision) -> ActivationInput {
        ActivationInput {
            uid: self.object.uid().clone(),
            generation: self.object.generation(),
            parameters,
        }
    }

    /// Returns whether it is active, or the problem; `None` until that is determined.
    pub(crate) fn active(&self) -> Option<Result<(), &Problem>> {
        self.activation.result()
    }

    pub(super) fn readiness(&self) -> Readiness<'_> {
        match (self.valid(), self.activation.result()) {
            (Some(valid), _) => Readiness::Active(valid),
            (None, Some(Err(problem))) => Readiness::Inactive(problem),
            (None, _) => Readiness::Unknown,
        }
    }

    /// Resets the tasks in flight, which were canceled.
    pub(super) fn cancel_tasks(&mut self) {
        self.activation.cancel();
        self.announcement.cancel();
    }

    /// Returns the conditions that it should have, `Active` first; `None` until it is determined
    /// whether it is active. They are written together, because an apply that omits one removes it.
    pub(super) fn conditions(
        &self,
        now: Timestamp,
        steady: Timestamp,
    ) -> Option<Vec<ConditionPatch>> {
        let (generation, result) = self.activation.result.as_ref()?;
        let problem = result
            .as_result()
            .map(|()| self.activation.message.as_ref())
            .map_err(|problem| (problem.reason.as_str(), &problem.message));
        let active = active(&self.object, problem, *generation, now);
        let message = self.after_admission.message(steady);
        let record = message.map(|message| after_admission(&self.object, message, now));
        Some(iter::once(active).chain(record).collect())
    }

    /// Stores the object that the API server returned, unless a newer one is stored.
    pub(super) fn take_written(&mut self, object: AdmissionCheck) {
        if object.uid() == self.object.uid() && !object.version.is_older_than(&self.object.version)
        {
            self.object = object;
        }
    }
}

/// Whether an AdmissionCheck is active.
#[derive(Clone, Debug)]
pub(super) enum Activity {
    Active,
    /// Evaluations have rejected the parameters with which it was activated.
    Rejected(Problem),
    Inactive(Problem),
}

impl Activity {
    /// Returns the problem of an inactive check.
    pub(super) fn as_result(&self) -> Result<(), &Problem> {
        match self {
            Self::Active => Ok(()),
            Self::Rejected(problem) | Self::Inactive(problem) => Err(problem),
        }
    }
}

/// The activation of an AdmissionCheck.
#[derive(Clone, Debug, Default)]
pub(super) struct Activation {
    /// The inputs of the last attempt; `None` if its result does not count.
    pub(super) input: Option<ActivationInput>,
    /// Whether it is active, with the AdmissionCheck's generation for which that holds.
    pub(super) result: Option<(i64, Activity)>,
    /// The additional message of the condition while it is active.
    pub(super) message: Option<Message>,
    /// The parameters of the last successful activation.
    pub(super) valid: Option<Arc<ValidParameters>>,
    /// The inputs of the attempt in flight.
    pub(super) in_flight: Option<ActivationInput>,
    pub(super) retry_at: Option<Instant>,
    /// Consecutive attempts that failed, or left the check inactive because of rejected parameters.
    pub(super) failures: u32,
    /// Consecutive attempts during which the inputs changed.
    pub(super) superseded: u32,
    pub(super) acceptance: Acceptance,
}

/// What evaluations have shown about the parameters with which an AdmissionCheck was activated.
///
/// While it is inactive, Kueue reserves no quota in its ClusterQueues (0.19.2, `nominate` in
/// `pkg/scheduler/scheduler.go`). So one Workload that rejects the parameters must not keep it
/// inactive, and only Workloads that have quota already can show that the parameters are valid.
#[derive(Clone, Debug)]
pub(super) struct Acceptance {
    /// The inputs of the activation.
    of: Option<ActivationInput>,
    /// Workloads that have rejected the parameters since the last verdict, at most
    /// [`MOST_NEEDED`](Self::MOST_NEEDED).
    rejected_by: BTreeSet<Uid>,
    /// The number of such Workloads with which the parameters are rejected: 1 until there is a
    /// verdict, then 2. It doubles with each verdict that shows that the parameters were not
    /// invalid, so that a check which rejects them for some Workloads does not flap.
    needed: usize,
    /// Whether there was a verdict.
    accepted: bool,
}

impl Default for Acceptance {
    fn default() -> Self {
        Self {
            of: None,
            rejected_by: BTreeSet::new(),
            needed: 1,
            accepted: false,
        }
    }
}

impl Acceptance {
    const MOST_NEEDED: usize = 16;

    pub(super) fn new(of: ActivationInput) -> Self {
        Self {
            of: Some(of),
            ..Self::default()
        }
    }

    pub(super) fn is_of(&self, inputs: &ActivationInput) -> bool {
        self.of.as_ref() == Some(inputs)
    }

    /// Handles a rejection by `workload`. After a verdict it counts only if it is `new`. `asked`:
    /// others are being evaluated, which may return a verdict. Returns whether the parameters are
    /// rejected.
    pub(super) fn reject(&mut self, workload: &Uid, new: bool, asked: bool) -> bool {
        let counts = new || self.needed == 1;
        if counts && self.rejected_by.len() < Self::MOST_NEEDED {
            self.rejected_by.insert(workload.clone());
        }
        let needed = if asked {
            self.needed.max(2)
        } else {
            self.needed
        };
        self.rejected_by.len() >= needed
    }

    /// Handles a verdict; the parameters were `rejected` until then, or not.
    pub(super) fn accept(&mut self, rejected: bool) {
        let doubled = self.needed.saturating_mul(2).min(Self::MOST_NEEDED);
        let needed = if rejected { doubled } else { self.needed };
        self.needed = needed.max(2);
        self.accepted = true;
        self.rejected_by.clear();
    }

    /// Returns true if a verdict has shown that the parameters are valid.
    pub(super) fn was_accepted(&self) -> bool {
        self.accepted
    }

    /// Handles an activation with rejected parameters. `users` are the Workloads that can be
    /// evaluated. Returns whether the check is active again: if fewer than two of them reject the
    /// parameters, others must show whether they are valid, and these have no quota yet.
    pub(super) fn activated(&mut self, users: &BTreeSet<Uid>) -> bool {
        self.rejected_by.retain(|workload| users.contains(workload));
        let opens = self.rejected_by.len() < 2;
        if opens {
            self.needed = self.needed.max(2);
        }
        opens
    }
}

/// The next step for the current inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An attempt with these or other inputs is in flight.
    Wait,
    /// They were tried, or the pause after attempts during which they changed is not over.
    Known,
    /// They are new.
    Try,
}

impl Activation {
    pub(super) fn valid(&self) -> Option<&Arc<ValidParameters>> {
        self.valid.as_ref()
    }

    pub(super) fn result(&self) -> Option<Result<(), &Problem>> {
        let (_, result) = self.result.as_ref()?;
        Some(result.as_result())
    }

    /// Returns true if evaluations have rejected the parameters with which it was activated.
    pub(super) fn is_rejected(&self) -> bool {
        matches!(self.result, Some((_, Activity::Rejected(_))))
    }

    pub(super) fn cancel(&mut self) {
        self.in_flight = None;
    }

    pub(super) fn next(&self, inputs: &ActivationInput) -> Next {
        match &self.input {
            _ if self.in_flight.is_some() => Next::Wait,
            Some(tried) if tried == inputs => Next::Known,
            None if self.retry_at.is_some() => Next::Known,
            _ => Next::Try,
        }
    }
}

/// The writes of an AdmissionCheck's conditions.
#[derive(Clone, Debug, Default)]
pub(super) struct Announcement {
    pub(super) in_flight: bool,
    pub(super) retry_at: Option<Instant>,
    pub(super) failures: u32,
    /// Consecutive writes that repeated the same conditions.
    pub(super) repeats: u32,
    pub(super) last: Option<Vec<(String, String)>>,
    /// The status of the last recorded event.
    pub(super) recorded: Option<String>,
}

impl Announcement {
    pub(super) fn cancel(&mut self) {
        self.in_flight = false;
    }
}
