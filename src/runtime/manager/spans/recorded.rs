//! Spans of the crate `tracing`, which `tracing-opentelemetry` exports as OpenTelemetry spans.

use std::collections::HashMap;

use tracing::field::{Empty, display};
use tracing::instrument::Instrumented;
use tracing::span::Entered;
use tracing::{Instrument, Span};

use crate::api::Uid;
use crate::check::{ReleaseOutcome, Reservation};
use crate::runtime::SPANS;
use crate::runtime::core::{Controller, NotActivated, Report, Task, TaskId, TaskResult};
use crate::runtime::decide::Outcome;

/// The spans of the tasks in flight.
#[derive(Default)]
pub(in crate::runtime::manager) struct Spans(HashMap<TaskId, Open>);

/// The task whose result is being processed, if any.
#[derive(Default)]
pub(in crate::runtime::manager) struct Cause(Option<Open>);

/// The span of a task that begins.
pub(in crate::runtime::manager) struct TaskSpan(Span);

impl TaskSpan {
    /// Runs `work` in the span.
    pub(in crate::runtime::manager) fn around<F: Future>(self, work: F) -> Instrumented<F> {
        work.instrument(self.0)
    }
}

struct Open {
    span: Span,
    about: About,
}

/// The subject of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct About {
    workload: Option<Uid>,
    check: Option<String>,
}

impl About {
    fn of(task: &Task) -> Self {
        let (workload, check): (Option<&Uid>, Option<&str>) = match task {
            Task::Evaluate(task) => (Some(task.workload.uid()), Some(&task.check)),
            Task::WriteEntry {
                workload, check, ..
            } => (Some(workload.uid()), Some(check)),
            Task::Read { uid, .. } => (Some(uid), None),
            Task::Release { reservation, .. } => {
                (Some(reservation.uid()), Some(reservation.admission_check()))
            }
            Task::ListUnreleased { .. } => (None, None),
            Task::Activate { object, .. } | Task::WriteConditions { object, .. } => {
                (None, Some(object.name()))
            }
        };
        Self {
            workload: workload.cloned(),
            check: check.map(ToOwned::to_owned),
        }
    }

    /// Returns true if a task about `self`, started while the result of a task about `cause` is
    /// processed, follows from that result. A task that starts only because a slot became free does
    /// not.
    fn follows(&self, cause: &Self) -> bool {
        let same_check = match (&self.check, &cause.check) {
            (Some(own), Some(other)) => own == other,
            // A read is about a Workload, whichever check needs it.
            _ => self.workload.is_some(),
        };
        let same_workload = match (&self.workload, &cause.workload) {
            (Some(own), Some(other)) => own == other,
            _ => self.check.is_some(),
        };
        same_check && same_workload
    }
}

impl Spans {
    /// Begins the span of `task`.
    pub(in crate::runtime::manager) fn begin(
        &mut self,
        id: TaskId,
        task: &Task,
        controllers: &[Controller],
        cause: &Cause,
    ) -> TaskSpan {
        // A trace begins with an evaluation or an activation.
        let begins = matches!(task, Task::Evaluate(_) | Task::Activate { .. });
        let cause = cause.0.as_ref().filter(|_| !begins);
        let cause = cause.filter(|cause| About::of(task).follows(&cause.about));
        let span = span(task, controllers, cause.and_then(|cause| cause.span.id()));
        if !span.is_disabled() {
            let open = Open {
                span: span.clone(),
                about: About::of(task),
            };
            self.0.insert(id, open);
        }
        TaskSpan(span)
    }

    /// Removes the span of the task `id`, whose result is processed next.
    pub(in crate::runtime::manager) fn ended(&mut self, id: TaskId, result: &TaskResult) -> Cause {
        let open = self.0.remove(&id);
        if let Some(open) = &open {
            record_result(&open.span, result);
        }
        Cause(open)
    }

    /// Ends the spans of all tasks, which are canceled.
    pub(in crate::runtime::manager) fn canceled(&mut self) {
        for (_, open) in self.0.drain() {
            open.span.record("kueue.outcome", "canceled");
        }
    }
}

/// Tasks are canceled when the loop ends.
impl Drop for Spans {
    fn drop(&mut self) {
        self.canceled();
    }
}

impl Cause {
    /// Enters the span if `report` has the same subject.
    pub(in crate::runtime::manager) fn enter(&self, report: &Report) -> Option<Entered<'_>> {
        let Open { span, about } = self.0.as_ref()?;
        if let Report::Evaluated {
            dropped: Some(why), ..
        } = report
        {
            span.record("kueue.dropped", why);
        }
        concerns(report, about).then(|| span.enter())
    }
}

fn concerns(report: &Report, about: &About) -> bool {
    let is_check = |check: &str| about.check.as_deref().is_none_or(|own| own == check);
    let of = |reservation: &Reservation| {
        about.workload.as_ref() == Some(reservation.uid())
            && is_check(reservation.admission_check())
    };
    match report {
        Report::Outcome { reservation, .. }
        | Report::Notice { reservation, .. }
        | Report::WriteRejected { reservation, .. }
        | Report::WriteFailed { reservation, .. }
        | Report::Event { reservation, .. }
        | Report::Released { reservation, .. } => of(reservation),
        Report::Evaluated { check, .. }
        | Report::Written { check, .. }
        | Report::Evicted { check, .. }
        | Report::Overwritten { check, .. }
        | Report::ActivationFailed { check, .. }
        | Report::ConditionFailed { check, .. } => is_check(check),
        Report::Activation { object, .. } => is_check(object.name()),
        Report::UnreleasedFailed { .. } => about.workload.is_none(),
        Report::CheckAdded { .. } | Report::CheckRemoved { .. } | Report::Role(_) => false,
    }
}

fn span(task: &Task, controllers: &[Controller], parent: Option<tracing::span::Id>) -> Span {
    let name = match task {
        Task::Evaluate(_) => "evaluate",
        Task::WriteEntry { .. } => "write state",
        Task::Read { .. } => "read workload",
        Task::Release { .. } => "release",
        Task::ListUnreleased { .. } => "list unreleased",
        Task::Activate { .. } => "activate",
        Task::WriteConditions { .. } => "write conditions",
    };
    // A `parent` of none is the root of a trace.
    let span = tracing::info_span!(
        target: SPANS,
        parent: parent,
        "task",
        otel.name = name,
        otel.status_code = Empty,
        otel.status_description = Empty,
        k8s.namespace.name = Empty,
        kueue.workload.name = Empty,
        kueue.workload.uid = Empty,
        kueue.admission_check.name = Empty,
        kueue.controller.name = Empty,
        kueue.state = Empty,
        kueue.evaluation = Empty,
        kueue.release.reason = Empty,
        kueue.inactive.reason = Empty,
        kueue.outcome = Empty,
        kueue.dropped = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    let of_workload = |namespace: &str, name: &str, uid: &Uid| {
        span.record("k8s.namespace.name", namespace);
        span.record("kueue.workload.name", name);
        span.record("kueue.workload.uid", display(uid));
    };
    let of_check = |check: &str| _ = span.record("kueue.admission_check.name", check);
    let of_controller = |number: usize| {
        let name = controllers[number].check.controller_name();
        span.record("kueue.controller.name", display(name));
    };
    match task {
        Task::Evaluate(task) => {
            let workload = &task.workload;
            of_workload(workload.namespace(), workload.name(), workload.uid());
            of_check(&task.check);
            of_controller(task.controller);
            span.record("kueue.evaluation", task.evaluation);
        }
        Task::WriteEntry {
            workload,
            check,
            patch,
            ..
        } => {
            of_workload(workload.namespace(), workload.name(), workload.uid());
            of_check(check);
            span.record("kueue.state", patch.state.to_string());
        }
        Task::Read {
            namespace,
            name,
            uid,
        } => of_workload(namespace, name, uid),
        Task::Release {
            controller,
            reservation,
            why,
        } => {
            of_workload(
                reservation.namespace(),
                reservation.name(),
                reservation.uid(),
            );
            of_check(reservation.admission_check());
            of_controller(*controller);
            span.record("kueue.release.reason", why.as_str());
        }
        Task::ListUnreleased { controller } => of_controller(*controller),
        Task::Activate {
            controller, object, ..
        } => {
            of_check(object.name());
            of_controller(*controller);
        }
        Task::WriteConditions { object, .. } => of_check(object.name()),
    }
    span
}

fn record_result(span: &Span, result: &TaskResult) {
    let outcome = |word: &str| _ = span.record("kueue.outcome", word);
    let failed = |word: &str, error: &dyn std::fmt::Display| {
        outcome(word);
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", display(error));
    };
    match result {
        TaskResult::Evaluated {
            outcome: of_call,
            label,
            ..
        } => match of_call {
            Outcome::Failed { message, .. } => failed(label, message),
            Outcome::Verdict(_) | Outcome::Conflict { .. } | Outcome::Blocked { .. } => {
                outcome(label);
            }
        },
        TaskResult::EntryWritten(Ok(_))
        | TaskResult::ConditionsWritten(Ok(_))
        | TaskResult::Unreleased(Ok(_)) => outcome("ok"),
        TaskResult::Read(Ok(read)) => outcome(if read.is_some() { "found" } else { "gone" }),
        TaskResult::EntryWritten(Err(error))
        | TaskResult::ConditionsWritten(Err(error))
        | TaskResult::Read(Err(error)) => failed(error.as_str(), error),
        TaskResult::Released(Ok(released)) => outcome(match released {
            ReleaseOutcome::Done => "done",
            ReleaseOutcome::RetryAfter(_) => "later",
            ReleaseOutcome::NeverAllocates(_) => "nothing",
        }),
        TaskResult::Released(Err(error)) | TaskResult::Unreleased(Err(error)) => {
            failed(error.as_str(), error);
        }
        TaskResult::Activated(Ok(())) => outcome("active"),
        TaskResult::Activated(Err(NotActivated::Inactive(inactive))) => {
            outcome("inactive");
            span.record("kueue.inactive.reason", &*inactive.reason);
        }
        TaskResult::Activated(Err(NotActivated::Failed(error))) => failed(error.as_str(), error),
    }
}
