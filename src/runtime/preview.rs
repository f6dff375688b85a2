//! Previews for the command `explain`: the verdict a check would return, and what would follow.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all, pending};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::Client;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;

use super::activation::{Located, ParametersStore, decode, locate};
use super::decide::{
    CheckPhase, Conclusion, Facts, Growth, Outcome, ReservationState, check_phase, conclude,
};
use super::evaluate::{CallError, call_with_timeout};
use super::informers::{Failure, StoredParameters};
use super::manager::{About, fit_updates};
use crate::api::{AdmissionCheck, AdmissionCheckState, ResourceFlavor, ServedApi, Workload};
use crate::check::{
    CheckError, DynCheck, Family, Message, ParametersKind, Policy, PreviewOutcome, ReadWorkload,
    Request, RequestBuilder, Reservation, ResolvedPolicy, Start, Trigger,
};

/// The inputs of a preview.
pub(crate) struct PreviewInput<'a> {
    pub(crate) check: &'a DynCheck,
    /// The kinds of parameters that other checks of its controller name take.
    pub(crate) other_kinds: Vec<ParametersKind>,
    pub(crate) admission_check: &'a AdmissionCheck,
    pub(crate) workload: &'a Workload,
    pub(crate) family: &'a Family,
    /// The same Workload, as a whole object.
    pub(crate) whole: &'a Value,
    /// The object to which the AdmissionCheck refers, or why it cannot be read.
    pub(crate) parameters: Result<Option<StoredParameters>, Failure>,
    pub(crate) flavors: &'a Arc<BTreeMap<String, ResourceFlavor>>,
    pub(crate) served: ServedApi,
    pub(crate) now: Timestamp,
    /// Time limit of the call, unless the check sets its own.
    pub(crate) limit: Duration,
    /// The client of the check's own watches. It must reject writes.
    pub(crate) client: &'a Client,
}

/// The result of a preview.
pub(crate) struct Forecast {
    pub(crate) foreseen: ForecastOutcome,
    /// The resolved policy, if the parameters are valid.
    pub(crate) policy: Option<ResolvedPolicy>,
}

/// The outcome of a preview.
pub(crate) enum ForecastOutcome {
    /// There is nothing to decide.
    Silent(CheckPhase),
    /// The check is not active with these parameters.
    Inactive { reason: String, message: Message },
    /// The check skips previews like this one.
    Skipped(Message),
    /// The check returned a verdict, or failed.
    Evaluated {
        outcome: Outcome,
        conclusion: Box<Conclusion>,
        /// A sentence about the updates that the pods do not get.
        lost_updates: Option<String>,
    },
}

/// Returns what the running program would do about a Workload if it evaluated it now for the first
/// time.
pub(crate) async fn forecast(input: PreviewInput<'_>) -> Forecast {
    let name = input.admission_check.name();
    let phase = check_phase(input.workload, name, input.check.lifetime());
    let (read, generation) = match parameters(&input) {
        Ok(found) => found,
        Err((reason, message)) => {
            return Forecast {
                foreseen: ForecastOutcome::Inactive { reason, message },
                policy: None,
            };
        }
    };
    let policy = Policy::resolve(read.policy.as_ref(), &input.check.policy());
    let reservation = Reservation::of(input.workload, name);
    let running = phase == CheckPhase::Admitted;
    let foreseen = match (phase, reservation, input.workload.check(name)) {
        (CheckPhase::AwaitingVerdict | CheckPhase::Admitted, Some(reservation), Some(entry)) => {
            let request = RequestBuilder::new(input.workload.clone(), name)
                .family(input.family.clone())
                .now(input.now)
                .parameters_generation(generation)
                .flavors(Arc::clone(input.flavors))
                .reader(Arc::new(LoadedWorkload(input.whole.clone())))
                .build_any(read.value);
            let current = CurrentState {
                reservation: &reservation,
                entry,
                policy: &policy,
                running,
            };
            run_preview(&input, request, current).await
        }
        (phase, ..) => ForecastOutcome::Silent(phase),
    };
    Forecast {
        foreseen,
        policy: Some(policy),
    }
}

fn parameters(
    input: &PreviewInput<'_>,
) -> Result<(crate::check::DecodedParameters, i64), (String, Message)> {
    let mut store = ParametersStore::default();
    store.apply(Event::Init);
    match &input.parameters {
        Ok(found) => {
            if let Some(object) = found {
                store.apply(Event::InitApply(object.clone()));
            }
            store.apply(Event::InitDone);
        }
        Err(failure) => store.failed(failure.clone()),
    }
    let kinds = input.check.parameters();
    match locate(
        input.admission_check,
        &kinds,
        &input.other_kinds,
        Some(&store),
    ) {
        Located::Found(stored, _) => {
            decode(&kinds, stored).map_err(|problem| ("ParametersInvalid".to_owned(), problem))
        }
        Located::Invalid { reason, message } => Err((reason.to_owned(), message)),
        Located::Unknown => Err((
            "Unknown".to_owned(),
            Message::new("the parameters are not determined yet"),
        )),
    }
}

/// A Workload for which a decision is due.
struct CurrentState<'a> {
    reservation: &'a Reservation,
    entry: &'a AdmissionCheckState,
    policy: &'a ResolvedPolicy,
    running: bool,
}

async fn run_preview(
    input: &PreviewInput<'_>,
    request: Request,
    current: CurrentState<'_>,
) -> ForecastOutcome {
    let PreviewInput {
        check, workload, ..
    } = input;
    let name = input.admission_check.name();
    let limit = check.timeout().unwrap_or(input.limit);
    let problem = Mutex::new(None);
    // The check is polled first: one that skips the preview causes no request.
    let result = tokio::select! {
        biased;
        result = call_with_timeout(check.preview(request), limit) => result,
        never = run_watches(check, input.client, &problem) => match never {},
    };
    let outcome = match result.map(|preview| preview.0) {
        Ok(PreviewOutcome::Skipped(why)) => return ForecastOutcome::Skipped(why),
        Ok(PreviewOutcome::Verdict(verdict)) => Outcome::Verdict(verdict),
        Err(none) => {
            let problem = problem.into_inner();
            let problem = problem.unwrap_or_else(PoisonError::into_inner);
            failed(&none, problem)
        }
    };
    let about = About {
        workload,
        family: input.family,
        check: name,
        flavors: input.flavors,
    };
    let reader = LoadedWorkload(input.whole.clone());
    let (outcome, lost_updates) = fit_updates(outcome, about, &reader).await;
    // Whether the running program monitors the job is only in its memory.
    let memory = ReservationState::watching();
    let facts = Facts {
        held: current.reservation.held_for(input.now),
        reserved: current.reservation.since(),
        entry: current.entry,
        admitted: current.running,
        growth: Growth::of(input.family),
        served: input.served,
        policy: current.policy,
        memory: &memory,
        monitors: true,
        evictions_last_hour: 0,
        now: input.now,
        steady: input.now,
    };
    let conclusion = Box::new(conclude(facts, &outcome));
    ForecastOutcome::Evaluated {
        outcome,
        conclusion,
        lost_updates,
    }
}

fn failed(none: &CallError, problem: Option<String>) -> Outcome {
    let message = match problem.filter(|_| matches!(none, CallError::TimedOut(_))) {
        Some(problem) => format!("{none}: {problem}"),
        None => none.to_string(),
    };
    Outcome::Failed {
        kind: none.kind(),
        message: message.into(),
    }
}

/// The delay before a failed watch is retried.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the check's watches of objects, for indices that they fill, and never ends. Their triggers
/// have no effect here, and the check author's own streams are not started.
async fn run_watches(
    check: &DynCheck,
    client: &Client,
    problem: &Mutex<Option<String>>,
) -> Infallible {
    let sources = check.watches().into_iter();
    let watches = sources.filter_map(|source| match source.start {
        Start::Objects { open, .. } => {
            let events = open()(client.clone());
            Some(run_watch(source.name, events, problem))
        }
        Start::Stream(_) => None,
    });
    join_all(watches).await;
    pending().await
}

async fn run_watch(
    name: String,
    mut events: impl Stream<Item = watcher::Result<Event<Trigger>>> + Unpin,
    problem: &Mutex<Option<String>>,
) {
    while let Some(event) = events.next().await {
        if let Err(error) = event {
            let message = format!(
                "its watch of {name} fails: {}",
                Failure::from(&error).message
            );
            *problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A Workload that has been read already.
struct LoadedWorkload(Value);

impl ReadWorkload for LoadedWorkload {
    fn read<'a>(&'a self, _: &'a Workload) -> BoxFuture<'a, Result<Value, CheckError>> {
        Box::pin(async move { Ok(self.0.clone()) })
    }
}
