//! One AdmissionCheck of this process: its parameters, whether it is active, and what is written.

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

/// One AdmissionCheck that a controller of this process answers.
#[derive(Clone, Debug)]
pub(crate) struct ManagedCheck {
    pub(crate) object: AdmissionCheck,
    pub(crate) controller: usize,
    /// The field manager of what is written for it.
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

/// Why an AdmissionCheck is not active.
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

    /// As a check author gets it.
    pub(super) fn public(&self) -> Inactive {
        Inactive::new(&self.reason, self.message.clone())
    }
}

/// Which AdmissionCheck and parameters were tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActivationInput {
    pub(super) uid: Uid,
    pub(super) generation: i64,
    pub(super) parameters: Revision,
}

/// With what Workloads are evaluated.
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

    /// The last valid parameters, also while newer ones are invalid (rule 12).
    pub(crate) fn valid(&self) -> Option<&Arc<ValidParameters>> {
        self.activation.valid()
    }

    /// Whether it is active, and why not; `None` until that is known.
    pub(crate) fn active(&self) -> Option<Result<(), &Problem>> {
        self.activation.judged()
    }

    pub(super) fn readiness(&self) -> Readiness<'_> {
        match (self.valid(), self.activation.judged()) {
            (Some(valid), _) => Readiness::Active(valid),
            (None, Some(Err(problem))) => Readiness::Inactive(problem),
            (None, _) => Readiness::Unknown,
        }
    }

    /// Its tasks in flight were canceled.
    pub(super) fn cancel_tasks(&mut self) {
        self.activation.cancel();
        self.announcement.cancel();
    }

    /// The conditions that it should have, `Active` first: they are written together, because an
    /// apply that leaves one out removes it. `None` until it is known whether it is active.
    pub(super) fn conditions(
        &self,
        now: Timestamp,
        steady: Timestamp,
    ) -> Option<Vec<ConditionPatch>> {
        let (generation, judged) = self.activation.judged.as_ref()?;
        let problem = judged
            .as_ref()
            .map(|()| self.activation.message.as_ref())
            .map_err(|problem| (problem.reason.as_str(), &problem.message));
        let active = active(&self.object, problem, *generation, now);
        let message = self.after_admission.message(steady);
        let record = message.map(|message| after_admission(&self.object, message, now));
        Some(iter::once(active).chain(record).collect())
    }

    /// Takes what the API server returned, unless something newer is known.
    pub(super) fn take_written(&mut self, object: AdmissionCheck) {
        if object.uid() == self.object.uid() && !object.version.is_older_than(&self.object.version)
        {
            self.object = object;
        }
    }
}

/// Whether an AdmissionCheck can be evaluated.
#[derive(Clone, Debug, Default)]
pub(super) struct Activation {
    /// The inputs about which `judged` is, or of the attempt that failed last.
    pub(super) input: Option<ActivationInput>,
    /// Whether it is active; with the AdmissionCheck's generation for which that holds.
    pub(super) judged: Option<(i64, Result<(), Problem>)>,
    /// What the condition says besides, while it is active.
    pub(super) message: Option<Message>,
    /// The last parameters with which it was activated.
    pub(super) valid: Option<Arc<ValidParameters>>,
    /// The inputs that are being tried.
    pub(super) in_flight: Option<ActivationInput>,
    pub(super) retry_at: Option<Instant>,
    /// Attempts in a row that failed.
    pub(super) failures: u32,
    /// How often in a row the check itself refused the parameters while it was evaluated.
    pub(super) refusals: u32,
}

/// What to do about the inputs as they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// They are being tried, or others are.
    Wait,
    /// They were tried.
    Known,
    /// They are new.
    Try,
}

impl Activation {
    pub(super) fn valid(&self) -> Option<&Arc<ValidParameters>> {
        self.valid.as_ref()
    }

    pub(super) fn judged(&self) -> Option<Result<(), &Problem>> {
        let (_, judged) = self.judged.as_ref()?;
        Some(view(judged))
    }

    pub(super) fn cancel(&mut self) {
        self.in_flight = None;
    }

    pub(super) fn next(&self, inputs: &ActivationInput) -> Next {
        match &self.input {
            _ if self.in_flight.is_some() => Next::Wait,
            Some(tried) if tried == inputs => Next::Known,
            _ => Next::Try,
        }
    }
}

pub(super) fn view(judged: &Result<(), Problem>) -> Result<(), &Problem> {
    match judged {
        Ok(()) => Ok(()),
        Err(problem) => Err(problem),
    }
}

/// How an AdmissionCheck's conditions are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Announcement {
    pub(super) in_flight: bool,
    pub(super) retry_at: Option<Instant>,
    pub(super) failures: u32,
    /// How often in a row the same conditions had to be written.
    pub(super) repeats: u32,
    pub(super) last: Option<Vec<(String, String)>>,
    /// The status about which an event was last recorded.
    pub(super) recorded: Option<String>,
}

impl Announcement {
    pub(super) fn cancel(&mut self) {
        self.in_flight = false;
    }
}
