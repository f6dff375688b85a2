//! Runs tasks: calls of check code, and requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::updates::{About, fit_updates, not_passed_on};
use crate::check::{CheckError, DynCheck, ReadWorkload, RequestBuilder};
use crate::runtime::core::{Controller, EvaluationTask, NotActivated, Task, TaskResult};
use crate::runtime::evaluate::{call_with_timeout, evaluate};
use crate::runtime::writer::Writer;

/// The context in which tasks run.
#[derive(Clone)]
pub(super) struct TaskContext {
    pub(super) controllers: Arc<[Controller]>,
    pub(super) writer: Arc<Writer>,
    /// The time limit of a call of check code, unless the check sets its own.
    pub(super) timeout: Duration,
}

impl TaskContext {
    fn check(&self, controller: usize) -> (DynCheck, Duration) {
        let check = self.controllers[controller].check.clone();
        let limit = check.timeout().unwrap_or(self.timeout);
        (check, limit)
    }

    /// Runs `task`.
    pub(super) async fn carry_out(self, task: Task) -> TaskResult {
        match task {
            Task::Evaluate(task) => self.evaluate(task).await,
            Task::WriteEntry {
                workload,
                check,
                manager,
                patch,
            } => TaskResult::EntryWritten(
                self.writer.entry(&workload, &check, &manager, &patch).await,
            ),
            Task::Read {
                namespace,
                name,
                uid,
            } => TaskResult::Read(self.writer.fetch(&namespace, &name, &uid).await),
            Task::Release {
                controller,
                reservation,
                why,
            } => {
                let (check, limit) = self.check(controller);
                let limit = limit.max(self.timeout);
                TaskResult::Released(
                    call_with_timeout(check.release(&reservation, why), limit).await,
                )
            }
            Task::ListUnreleased { controller } => {
                let (check, limit) = self.check(controller);
                let limit = limit.max(self.timeout);
                TaskResult::Unreleased(
                    call_with_timeout(check.unreleased_reservations(), limit).await,
                )
            }
            Task::Activate {
                controller,
                object,
                parameters,
            } => {
                let (check, limit) = self.check(controller);
                let limit = limit.max(self.timeout);
                let call = async { Ok::<_, CheckError>(check.activate(&object, parameters).await) };
                TaskResult::Activated(match call_with_timeout(call, limit).await {
                    Ok(activated) => activated.map_err(NotActivated::Inactive),
                    Err(error) => Err(NotActivated::Failed(error)),
                })
            }
            Task::WriteConditions {
                object,
                manager,
                conditions,
            } => {
                let written = self.writer.conditions(&object, &manager, &conditions);
                TaskResult::ConditionsWritten(written.await.map(Box::new))
            }
        }
    }

    /// Evaluates, and validates the updates of the verdict.
    async fn evaluate(self, task: EvaluationTask) -> TaskResult {
        let started = Instant::now();
        let (check, limit) = self.check(task.controller);
        let reader: Arc<dyn ReadWorkload> = Arc::clone(&self.writer) as Arc<dyn ReadWorkload>;
        let request = RequestBuilder::new(task.workload.clone(), &task.check)
            .family(task.family)
            .now(task.now)
            .evaluation(task.evaluation)
            .parameters_generation(task.generation)
            .flavors(Arc::clone(&task.flavors))
            .reader(reader)
            .build_any(task.parameters);
        let (outcome, label) = evaluate(&check, request.clone(), limit).await;
        let took = started.elapsed();
        let mut events = request.take_events();
        let about = About {
            workload: &task.workload,
            family: request.family(),
            check: &task.check,
            flavors: &task.flavors,
        };
        let (outcome, lost) = fit_updates(outcome, about, &*self.writer).await;
        events.extend(lost.and_then(|lost| not_passed_on(lost, about)));
        TaskResult::Evaluated {
            outcome,
            label,
            took,
            events,
        }
    }
}
