//! Amounts that stand in the Budget itself.

use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::{Answer, Question, Source, SourceError};
use crate::ledger::Observation;
use crate::resource::FixedSource;

/// Answers what the Budget says, and is always fresh.
#[derive(Clone, Debug, Default)]
pub struct Fixed(FixedSource);

impl Fixed {
    /// The source that says what `spec` does.
    pub fn new(spec: FixedSource) -> Self {
        Self(spec)
    }
}

impl Source for Fixed {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Answer, SourceError>> {
        let observation = Observation {
            spent: self
                .0
                .spent
                .iter()
                .map(|(namespace, spent)| (namespace.as_str().into(), *spent))
                .collect(),
            ..Observation::of(question.period, question.at)
        };
        ready(Ok(Answer {
            observation,
            notes: Vec::new(),
        }))
        .boxed()
    }
}
