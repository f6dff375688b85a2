//! Polling of sources: each Budget at its own interval, on the leader only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kueue_check::BackgroundContext;
use tokio::time::{Instant, sleep_until};

use super::shared::SharedState;
use crate::config::BudgetConfig;
use crate::ledger::SpendUpdate;
use crate::source::{Source, SourceError, SourceWarning, SpendQuery, SpendReport, moment};

/// The polling state of one Budget's source.
struct PollState {
    terms: Arc<BudgetConfig>,
    source: Arc<dyn Source>,
    next: Instant,
    failures: u32,
    in_flight: bool,
}

type Outcome = (String, Arc<BudgetConfig>, Result<SpendReport, SourceError>);

/// Polls the sources, forever.
pub(super) async fn run(shared: &Arc<SharedState>, mut context: BackgroundContext) {
    let mut states: BTreeMap<String, PollState> = BTreeMap::new();
    let mut queries: FuturesUnordered<BoxFuture<'static, Outcome>> = FuturesUnordered::new();
    loop {
        while !context.is_leader() {
            states.clear();
            queries.clear();
            context.leadership_changed().await;
        }
        follow_budgets(shared, &mut states);
        for (name, state) in &mut states {
            if !state.in_flight && state.next <= Instant::now() {
                state.in_flight = true;
                queries.push(start_query(shared, name, state));
            }
        }
        let next = states
            .values()
            .filter(|state| !state.in_flight)
            .map(|state| state.next)
            .min();
        tokio::select! {
            Some((name, terms, result)) = queries.next(), if !queries.is_empty() => {
                let pause = take(shared, &name, &terms, result, states.get(&name));
                if let Some(state) = states.get_mut(&name) {
                    state.in_flight = false;
                    let failures = state.failures.saturating_add(1);
                    state.failures = if pause.failed { failures } else { 0 };
                    state.next = Instant::now() + pause.length;
                }
            }
            () = shared.wait_for_poll_request() => {}
            () = context.leadership_changed() => {}
            () = sleep_until(next.unwrap_or_else(|| Instant::now() + Duration::from_hours(1))) => {}
        }
    }
}

/// Keeps one state for each Budget; the source of a changed Budget is queried at once. The source
/// of a Budget without AdmissionChecks is queried only if it requires no credentials.
fn follow_budgets(shared: &SharedState, states: &mut BTreeMap<String, PollState>) {
    let ledgers = shared.ledgers();
    let known: BTreeMap<String, Arc<BudgetConfig>> = ledgers
        .all()
        .filter(|(name, ledger)| {
            !ledger.terms().source.has_credentials() || ledgers.checks_of(name).next().is_some()
        })
        .map(|(name, ledger)| (name.to_owned(), Arc::clone(ledger.terms())))
        .collect();
    drop(ledgers);
    // The result of a query in flight is discarded if the Budget measures something else by now.
    states.retain(|name, state| {
        state.in_flight || known.get(name).is_some_and(|terms| state.measures(terms))
    });
    for (name, terms) in known {
        let Some(state) = states.get_mut(&name) else {
            let source = (shared.make)(&terms);
            let next = Instant::now();
            states.insert(
                name,
                PollState {
                    terms,
                    source,
                    next,
                    failures: 0,
                    in_flight: false,
                },
            );
            continue;
        };
        // An activation waits for a response for this generation.
        let has_result = shared
            .source_result(&name)
            .is_some_and(|last_result| last_result.generation == terms.generation);
        let changed = state.terms.generation != terms.generation || state.failures > 0;
        if !state.in_flight && !has_result && changed {
            state.next = Instant::now();
        }
        if state.measures(&terms) {
            state.terms = terms;
        }
    }
}

impl PollState {
    /// Returns true if its source is that of `terms`.
    fn measures(&self, terms: &BudgetConfig) -> bool {
        terms.uid == self.terms.uid && terms.measures_like(&self.terms)
    }
}

fn start_query(shared: &SharedState, name: &str, state: &PollState) -> BoxFuture<'static, Outcome> {
    let (name, terms, source) = (
        name.to_owned(),
        Arc::clone(&state.terms),
        Arc::clone(&state.source),
    );
    let now = shared.now();
    let spend_query = terms.schedule.at(now).map(|period| SpendQuery {
        period,
        at: moment(now, terms.source.settle_delay(), source.step()),
        namespaces: if terms.governs_all() {
            Vec::new()
        } else {
            terms.named_namespaces().map(str::to_owned).collect()
        },
    });
    Box::pin(async move {
        let result = match spend_query {
            Some(spend_query) => source.query_spend(spend_query).await,
            None => Err(SourceError::NotMeasured(
                "the freshness metric is not queried: there is no period now".to_owned(),
            )),
        };
        (name, terms, result)
    })
}

struct Pause {
    length: Duration,
    failed: bool,
}

/// Records a result, and returns the pause before the next query.
fn take(
    shared: &SharedState,
    name: &str,
    terms: &BudgetConfig,
    result: Result<SpendReport, SourceError>,
    state: Option<&PollState>,
) -> Pause {
    let now = shared.now();
    let (failures, step) = state.map_or((1, 1), |state| {
        (state.failures.saturating_add(1), state.source.step())
    });
    let interval = terms.source.interval();
    let mut ledgers = shared.ledgers();
    // The Budget may measure something else by now.
    let Some(ledger) = ledgers
        .ledger_mut(name)
        .filter(|ledger| ledger.terms().measures_like(terms) && ledger.terms().uid == terms.uid)
    else {
        return Pause {
            length: Duration::ZERO,
            failed: false,
        };
    };
    let pause = match result {
        Ok(report) => {
            let report = report.without_invalid_names();
            let report = report.corrected(&terms.source.corrections);
            for note in &report.notes {
                if let SourceWarning::InvalidNames { count, example } = note {
                    tracing::warn!(
                        budget = name,
                        count,
                        example,
                        "the source reports names that no namespace can have"
                    );
                    shared.count_invalid_names(name, *count);
                }
            }
            let taken = ledger.observe(&report.observation, now);
            // A cold start ends with the first response about a time that was watched. The next
            // query is sent as soon as that time can be queried.
            let settle = i64::try_from(terms.source.settle_delay().as_secs())
                .unwrap_or(i64::MAX)
                .saturating_add(step);
            let cold = ledger
                .cold_for(
                    settle,
                    i64::try_from(interval.as_secs()).unwrap_or(i64::MAX),
                    now,
                )
                .and_then(|seconds| u64::try_from(seconds).ok());
            drop(ledgers);
            let slow = report.notes.contains(&SourceWarning::SlowDown);
            shared.record_source_result(name, terms.generation, Ok(report.notes), taken);
            Pause {
                length: match cold {
                    _ if slow => interval * 2,
                    Some(seconds) => interval.min(Duration::from_secs(seconds)),
                    None => interval,
                },
                failed: false,
            }
        }
        Err(error) => {
            tracing::warn!(budget = name, reason = error.reason(), %error, "spending cannot be found out");
            ledger.failed(error.to_string());
            drop(ledgers);
            // The jitter is derived from the name, so that Budgets that fail together retry at
            // different times.
            let jitter = f64::from(
                u8::try_from(
                    name.bytes()
                        .fold(0_u32, |sum, byte| sum * 31 % 251 + u32::from(byte))
                        % 100,
                )
                .unwrap_or(0),
            ) / 100.0;
            let length = error.pause(failures, jitter);
            shared.record_source_result(name, terms.generation, Err(error), SpendUpdate::default());
            Pause {
                length,
                failed: true,
            }
        }
    };
    shared.changed();
    pause
}
