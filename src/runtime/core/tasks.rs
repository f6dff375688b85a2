//! Asynchronous tasks and their results.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::cache::Key;
use super::managed_check::{ActivationInput, ValidParameters};
use super::{Core, Effect};
use crate::api::{AdmissionCheck, Name, ResourceFlavor, ResourceVersion, Uid, Workload};
use crate::check::{
    AnyParameters, CheckEvent, Family, Inactive, ReleaseOutcome, ReleaseReason, Reservation,
};
use crate::runtime::decide::{Conclusion, EntryPatch, Outcome};
use crate::runtime::evaluate::CallError;
use crate::runtime::writer::{ConditionPatch, WriteError};

/// The number of a task, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaskId(NonZeroU64);

impl fmt::Debug for TaskId {
    /// Omits the number: two states that differ in nothing else are equal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("task")
    }
}

/// An asynchronous task.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Evaluate a check for a Workload.
    Evaluate(EvaluationTask),
    /// Write an entry of a Workload.
    WriteEntry {
        workload: Workload,
        check: Name,
        manager: Arc<str>,
        patch: EntryPatch,
    },
    /// Read a Workload.
    Read {
        namespace: String,
        name: String,
        uid: Uid,
    },
    /// Release a reservation.
    Release {
        controller: usize,
        reservation: Reservation,
        why: ReleaseReason,
    },
    /// List the unreleased reservations of a controller.
    ListUnreleased { controller: usize },
    /// Activate an AdmissionCheck with parameters.
    Activate {
        controller: usize,
        object: AdmissionCheck,
        parameters: AnyParameters,
    },
    /// Write the conditions of an AdmissionCheck.
    WriteConditions {
        object: AdmissionCheck,
        manager: Arc<str>,
        conditions: Vec<ConditionPatch>,
    },
}

impl Task {
    pub(super) fn read(namespace: &str, name: &str, uid: &Uid) -> Self {
        Self::Read {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.clone(),
        }
    }
}

/// The inputs of one evaluation task.
#[derive(Clone, Debug)]
pub(crate) struct EvaluationTask {
    pub(crate) controller: usize,
    pub(crate) check: Name,
    pub(crate) workload: Workload,
    pub(crate) family: Family,
    pub(crate) evaluation: u32,
    pub(crate) now: Timestamp,
    pub(crate) generation: i64,
    pub(crate) parameters: AnyParameters,
    pub(crate) flavors: Arc<BTreeMap<String, ResourceFlavor>>,
}

/// The result of a task.
#[derive(Debug)]
pub(crate) enum TaskResult {
    Evaluated {
        outcome: Outcome,
        label: &'static str,
        took: Duration,
        events: Vec<CheckEvent>,
    },
    EntryWritten(Result<Workload, WriteError>),
    Read(Result<Option<Workload>, WriteError>),
    Released(Result<ReleaseOutcome, CallError>),
    Unreleased(Result<Vec<Reservation>, CallError>),
    Activated(Result<(), NotActivated>),
    ConditionsWritten(Result<Box<AdmissionCheck>, WriteError>),
}

impl TaskResult {
    /// Returns the pause that the API server requested.
    fn pause(&self) -> Option<Duration> {
        let error = match self {
            Self::EntryWritten(result) => result.as_ref().err(),
            Self::Read(result) => result.as_ref().err(),
            Self::ConditionsWritten(result) => result.as_ref().err(),
            Self::Evaluated { .. }
            | Self::Released(_)
            | Self::Unreleased(_)
            | Self::Activated(_) => None,
        };
        match error? {
            WriteError::Paused(pause) => Some(*pause),
            _ => None,
        }
    }
}

/// The reason why an AdmissionCheck was not activated.
#[derive(Debug)]
pub(crate) enum NotActivated {
    /// The check returned that it is inactive.
    Inactive(Inactive),
    /// The call failed, so the validity of the parameters is unknown.
    Failed(CallError),
}

/// A kind of task of an AdmissionCheck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckTask {
    Activation,
    /// A write of its conditions.
    Conditions,
}

/// A task in flight.
#[derive(Clone, Debug)]
pub(super) struct Started {
    pub(super) purpose: InFlight,
    /// The controller against whose concurrency the task counts: another one may manage the
    /// AdmissionCheck when the task ends.
    counts: Option<usize>,
}

/// The subject of a cleanup: a reservation that ended, and the controller that decided for it and
/// may hold resources. Another controller may manage the AdmissionCheck by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) reservation: Reservation,
    pub(crate) controller: usize,
}

/// The verdict that a reservation which ended leaves.
pub(super) enum Leftover {
    /// None, or one that may remain.
    Nothing,
    /// A read must determine whether a verdict is to be withdrawn.
    Unknown,
    /// This Workload's verdict is to be withdrawn.
    Verdict(Workload),
}

/// The purpose of a task in flight.
#[derive(Clone, Debug)]
pub(super) enum InFlight {
    Evaluation {
        key: Key,
        basis: Box<Basis>,
    },
    Verdict {
        key: Key,
        reservation: Reservation,
        conclusion: Box<Conclusion>,
    },
    /// A write of conditions that records an eviction before the eviction is written.
    Eviction {
        key: Key,
        verdict: Box<ConcludedVerdict>,
    },
    /// A read after conflicts.
    Reread {
        key: Key,
        /// The version cached when the read began.
        known: Option<ResourceVersion>,
    },
    /// A read that determines why a reservation ended.
    FindReason {
        key: Key,
        subject: Subject,
        /// The newest version known when the read began.
        known: Option<ResourceVersion>,
    },
    Withdrawal {
        key: Key,
        subject: Subject,
    },
    Release {
        key: Key,
        subject: Subject,
    },
    Unreleased {
        controller: usize,
    },
    Activation {
        controller: usize,
        check: Name,
        tried: ActivationInput,
        valid: Arc<ValidParameters>,
    },
    Conditions {
        check: Name,
    },
    /// A read of a Workload about which a list and the cache disagree. `known` is the version in
    /// the cache when the read was sent.
    Confirm {
        uid: Uid,
        /// The namespace and the name.
        place: (String, String),
        known: Option<ResourceVersion>,
    },
}

/// The inputs of a verdict.
#[derive(Clone, Debug)]
pub(super) struct Basis {
    pub(super) reservation: Reservation,
    pub(super) workload: Workload,
    pub(super) family: Family,
    pub(super) parameters: Arc<ValidParameters>,
    pub(super) flavors: Arc<BTreeMap<String, ResourceFlavor>>,
}

/// A verdict that is to be written.
#[derive(Clone, Debug)]
pub(super) struct ConcludedVerdict {
    pub(super) reservation: Reservation,
    pub(super) workload: Workload,
    pub(super) patch: EntryPatch,
    pub(super) conclusion: Conclusion,
}

impl InFlight {
    fn key(&self) -> Option<&Key> {
        match self {
            Self::Evaluation { key, .. }
            | Self::Verdict { key, .. }
            | Self::Eviction { key, .. }
            | Self::Reread { key, .. }
            | Self::FindReason { key, .. }
            | Self::Withdrawal { key, .. }
            | Self::Release { key, .. } => Some(key),
            Self::Unreleased { .. }
            | Self::Activation { .. }
            | Self::Conditions { .. }
            | Self::Confirm { .. } => None,
        }
    }

    /// Returns the subject of the cleanup, if the task belongs to one.
    fn subject(&self) -> Option<&Subject> {
        match self {
            Self::FindReason { subject, .. }
            | Self::Withdrawal { subject, .. }
            | Self::Release { subject, .. } => Some(subject),
            _ => None,
        }
    }
}

impl Core {
    /// Starts `task`, whose result belongs to `purpose`.
    pub(super) fn start(&mut self, purpose: InFlight, task: Task) {
        let number = self.work.next_task;
        self.work.next_task += 1;
        let Some(id) = NonZeroU64::new(number).map(TaskId) else {
            return;
        };
        let state = purpose.key().and_then(|key| self.workloads.key_mut(key));
        let counts = state.map(|state| {
            state.in_flight = true;
            let subject = purpose.subject();
            subject.map_or(state.controller(), |subject| subject.controller)
        });
        if let Some(controller) = counts {
            self.work.used_concurrency[controller] += 1;
        }
        self.work.in_flight.insert(id, Started { purpose, counts });
        self.effects.push(Effect::Start(id, Box::new(task)));
    }

    /// Passes the result of a task on. The result of a canceled task is dropped.
    pub(super) fn finished(&mut self, task: TaskId, result: TaskResult) {
        let Some(Started { purpose, counts }) = self.work.in_flight.remove(&task) else {
            return;
        };
        if let Some(state) = purpose.key().and_then(|key| self.workloads.key_mut(key)) {
            state.in_flight = false;
        }
        if let Some(controller) = counts {
            self.work.used_concurrency[controller] =
                self.work.used_concurrency[controller].saturating_sub(1);
        }
        if let Some(pause) = result.pause() {
            self.pause(pause);
        }
        match (purpose, result) {
            (
                InFlight::Evaluation { key, basis },
                TaskResult::Evaluated {
                    outcome,
                    label,
                    took,
                    events,
                },
            ) => self.evaluated(&key, &basis, &outcome, (label, took), events),
            (
                InFlight::Verdict {
                    key,
                    reservation,
                    conclusion,
                },
                TaskResult::EntryWritten(result),
            ) => self.written(&key, &reservation, &conclusion, result),
            (InFlight::Eviction { key, verdict }, TaskResult::ConditionsWritten(result)) => {
                self.eviction_recorded(&key, *verdict, result);
            }
            (InFlight::Reread { key, known }, TaskResult::Read(result)) => {
                self.reread(&key, known.as_ref(), result);
            }
            (
                InFlight::FindReason {
                    key,
                    subject,
                    known,
                },
                TaskResult::Read(result),
            ) => self.reason_found(&key, &subject, known.as_ref(), result),
            (InFlight::Withdrawal { key, subject }, TaskResult::EntryWritten(result)) => {
                self.withdrawn(&key, &subject, result);
            }
            (InFlight::Release { key, subject }, TaskResult::Released(result)) => {
                self.released(&key, &subject, result);
            }
            (InFlight::Unreleased { controller }, TaskResult::Unreleased(result)) => {
                self.unreleased_listed(controller, result);
            }
            (
                InFlight::Activation {
                    controller: _,
                    check,
                    tried,
                    valid,
                },
                TaskResult::Activated(result),
            ) => self.activated(&check, tried, valid, result),
            (InFlight::Conditions { check }, TaskResult::ConditionsWritten(result)) => {
                self.conditions_written(&check, result);
            }
            (InFlight::Confirm { uid, place, known }, TaskResult::Read(result)) => {
                self.confirmed(&uid, place, known.as_ref(), result);
            }
            // Each task returns the result of its kind.
            _ => {}
        }
    }

    /// Returns the number of activations by `of` in flight.
    pub(super) fn activations(&self, of: usize) -> usize {
        self.count_tasks(
            |purpose| matches!(purpose, InFlight::Activation { controller, .. } if *controller == of),
        )
    }

    /// Returns the number of writes of conditions in flight.
    pub(super) fn writes_of_conditions(&self) -> usize {
        self.count_tasks(|purpose| matches!(purpose, InFlight::Conditions { .. }))
    }

    /// Returns the number of reads in flight for Workloads about which a list and the cache
    /// disagree.
    pub(super) fn confirming(&self) -> usize {
        self.count_tasks(|purpose| matches!(purpose, InFlight::Confirm { .. }))
    }

    /// Returns true if such a read of this Workload is in flight.
    pub(super) fn is_confirmed(&self, uid: &Uid) -> bool {
        self.count_tasks(|task| matches!(task, InFlight::Confirm { uid: of, .. } if of == uid)) > 0
    }

    /// Returns the number of writes in flight.
    pub(crate) fn writes(&self) -> usize {
        self.count_tasks(|purpose| {
            matches!(
                purpose,
                InFlight::Verdict { .. }
                    | InFlight::Eviction { .. }
                    | InFlight::Withdrawal { .. }
                    | InFlight::Conditions { .. }
            )
        })
    }

    fn count_tasks(&self, counts: impl Fn(&InFlight) -> bool) -> usize {
        let all = self.work.in_flight.values();
        all.filter(|started| counts(&started.purpose)).count()
    }

    /// Returns the number of tasks in flight.
    pub(crate) fn tasks(&self) -> usize {
        self.work.in_flight.len()
    }
}
