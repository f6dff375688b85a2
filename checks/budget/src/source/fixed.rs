//! The source of fixed amounts, which the Budget contains.

use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::{Source, SourceError, SpendQuery, SpendReport};
use crate::ledger::Observation;
use crate::resource::FixedSource;

/// A source that returns the amounts in the Budget and is always fresh.
#[derive(Clone, Debug, Default)]
pub struct Fixed(FixedSource);

impl Fixed {
    /// Creates the source of the amounts in `spec`.
    pub fn new(spec: FixedSource) -> Self {
        Self(spec)
    }
}

impl Source for Fixed {
    fn query_spend(
        &self,
        spend_query: SpendQuery,
    ) -> BoxFuture<'_, Result<SpendReport, SourceError>> {
        let observation = Observation {
            spent: self
                .0
                .spent
                .iter()
                .map(|(namespace, spent)| (namespace.as_str().into(), *spent))
                .collect(),
            ..Observation::of(spend_query.period, spend_query.at)
        };
        ready(Ok(SpendReport {
            observation,
            notes: Vec::new(),
        }))
        .boxed()
    }
}
