//! Empty spans, without the feature `otel`.

use crate::runtime::core::{Controller, Report, Task, TaskId, TaskResult};

#[derive(Default)]
pub(in crate::runtime::manager) struct Spans {}

#[derive(Default)]
pub(in crate::runtime::manager) struct Cause {}

pub(in crate::runtime::manager) struct TaskSpan;

pub(in crate::runtime::manager) struct Entered;

#[expect(clippy::unused_self, reason = "as with the feature")]
impl Spans {
    pub(in crate::runtime::manager) fn begin(
        &mut self,
        _: TaskId,
        _: &Task,
        _: &[Controller],
        _: &Cause,
    ) -> TaskSpan {
        TaskSpan
    }

    pub(in crate::runtime::manager) fn ended(&mut self, _: TaskId, _: &TaskResult) -> Cause {
        Cause {}
    }

    pub(in crate::runtime::manager) fn canceled(&mut self) {}
}

#[expect(clippy::unused_self, reason = "as with the feature")]
impl TaskSpan {
    pub(in crate::runtime::manager) fn around<F: Future>(self, work: F) -> F {
        work
    }
}

#[expect(clippy::unused_self, reason = "as with the feature")]
impl Cause {
    pub(in crate::runtime::manager) fn enter(&self, _: &Report) -> Entered {
        Entered
    }
}
