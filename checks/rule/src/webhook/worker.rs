//! Requests to services, sent in the background: a slow service blocks no evaluation.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{Stream, stream};
use jiff::Timestamp;
use kueue_check::api::Uid;
use kueue_check::{BackgroundContext, CheckError, Clock, Reservation, Trigger, Verdict};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use super::failure::Failure;
use super::registry::{Batch, BatchItem, Outcome, Registry};
use super::resource::WebhookCheckSpec;
use super::service::{Services, lock};
use super::transport::{Operation, ServiceCall, ServiceReply, WHO};
use crate::document::{
    ACTIVATION, Call, Decision, Item, ItemResult, RELEASE, ReviewRequest, clean, quote, read_held,
    read_refusal, read_review,
};

/// How long Workloads are collected for one request.
const WINDOW: Duration = Duration::from_millis(50);
/// The interval between lists of held reservations.
const RELIST: Duration = Duration::from_mins(10);
/// How long after a failure the list is repeated; twice as long after each further one, up to
/// [`RELIST`].
const RELIST_AFTER_FAILURE: Duration = Duration::from_mins(1);
/// The maximum time for the list of one service: less than that of the call for all of them.
const LIST: Duration = Duration::from_secs(20);

/// The state that evaluations and background tasks share.
pub(crate) struct Shared {
    pub(crate) services: Services,
    registry: Mutex<Registry>,
    /// Notified when there are Workloads to review.
    pub(crate) queued: Notify,
    triggers: Mutex<BTreeSet<Uid>>,
    relist: Mutex<bool>,
    failed: Mutex<FailedLists>,
    triggered: Notify,
}

/// The lists in a row in which a service failed and another one did not.
#[derive(Default)]
struct FailedLists {
    count: u32,
    /// When they are repeated.
    again: Option<Instant>,
}

impl FailedLists {
    /// Records lists that ended at `now`; `all` is false if one of them failed.
    fn listed(&mut self, all: bool, now: Instant) {
        if all {
            *self = Self::default();
            return;
        }
        let delay = RELIST_AFTER_FAILURE * 2_u32.pow(self.count.min(4));
        self.count = self.count.saturating_add(1);
        self.again = Some(now + delay.min(RELIST));
    }
}

impl Shared {
    pub(crate) fn new(services: Services) -> Self {
        Self {
            services,
            registry: Mutex::default(),
            queued: Notify::new(),
            triggers: Mutex::default(),
            relist: Mutex::new(false),
            failed: Mutex::default(),
            triggered: Notify::new(),
        }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    /// Triggers a list of held reservations by the runtime.
    pub(crate) fn relist(&self) {
        *lock(&self.relist) = true;
        self.triggered.notify_one();
    }

    /// Records whether all services have listed what they hold. If not, the lists are repeated.
    fn listed(&self, all: bool) {
        lock(&self.failed).listed(all, Instant::now());
        // The time of the next list may have changed.
        self.queued.notify_one();
    }

    fn evaluate(&self, uid: &Uid) {
        lock(&self.triggers).insert(uid.clone());
        self.triggered.notify_one();
    }

    /// Returns the triggers for Workloads to evaluate.
    pub(crate) fn triggers(self: Arc<Self>) -> impl Stream<Item = Trigger> {
        stream::unfold(self, async |shared| {
            loop {
                if std::mem::take(&mut *lock(&shared.relist)) {
                    return Some((Trigger::UnreleasedReservations, shared));
                }
                let next = lock(&shared.triggers).pop_first();
                if let Some(uid) = next {
                    return Some((Trigger::Uid(uid), shared));
                }
                shared.triggered.notified().await;
            }
        })
    }
}

/// Sends requests until the session ends.
pub(crate) async fn run(shared: Arc<Shared>, context: BackgroundContext) {
    let clock = context.clock().clone();
    shared.registry().reset();
    let mut relist = interval(RELIST);
    relist.tick().await;
    let mut flights = FuturesUnordered::new();
    loop {
        let (ready, later) = shared.registry().collect(Instant::now());
        for (check, spec) in ready {
            flights.push(fly(Arc::clone(&shared), clock.clone(), check, spec));
        }
        let again = lock(&shared.failed).again;
        tokio::select! {
            () = shared.queued.notified() => {}
            Some(()) = flights.next(), if !flights.is_empty() => {}
            () = sleep_until(later.unwrap_or_else(Instant::now)), if later.is_some() => {}
            () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {
                lock(&shared.failed).again = None;
                shared.relist();
            }
            _ = relist.tick() => {
                let holds = |(_, spec): &(String, Arc<WebhookCheckSpec>)| spec.held_path.is_some();
                if shared.registry().specs().iter().any(holds) {
                    shared.relist();
                }
            }
        }
    }
}

/// Sends one request; Workloads are collected while it waits for a permit.
async fn fly(shared: Arc<Shared>, clock: Clock, check: String, spec: Arc<WebhookCheckSpec>) {
    if spec.max_items() > 1 {
        sleep(WINDOW).await;
    }
    let permit = match spec.origin() {
        Ok(origin) => shared.services.permit(origin).await.ok(),
        Err(_) => None,
    };
    let batch = shared.registry().take(&check, Instant::now());
    // Workloads that do not fit are in the next request.
    shared.queued.notify_one();
    let Some(batch) = batch else {
        return;
    };
    let results = review(&shared, &clock, &batch).await;
    drop(permit);
    shared
        .registry()
        .replied(&batch.check, batch.items.len(), results.as_ref().err());
    match results {
        Ok(mut results) => {
            let mut activations = FuturesUnordered::new();
            for item in &batch.items {
                let result = results.remove(&item.request.reservation().to_string());
                match result {
                    Some(ItemResult::Decided(decision))
                        if needs_activation(&shared, &batch, item, &decision) =>
                    {
                        activations.push(activate(&shared, &clock, &batch, item, decision));
                    }
                    Some(ItemResult::Decided(decision)) => {
                        record(&shared, &batch, item, Outcome::Decided(decision));
                    }
                    Some(ItemResult::Unusable(problem)) => {
                        record(&shared, &batch, item, Outcome::Failed(unusable(&problem)));
                    }
                    None => record(
                        &shared,
                        &batch,
                        item,
                        Outcome::Failed(unusable("no response")),
                    ),
                }
            }
            while activations.next().await.is_some() {}
        }
        Err(error) => {
            for item in &batch.items {
                record(&shared, &batch, item, Outcome::Failed(Failure::of(&error)));
            }
        }
    }
}

fn unusable(problem: &str) -> Failure {
    Failure::transient(format!("{WHO}: {problem}"))
}

fn record(shared: &Shared, batch: &Batch, item: &BatchItem, outcome: Outcome) {
    if shared.registry().record(batch, item, outcome) {
        shared.evaluate(item.request.workload().uid());
    }
}

type ItemResults = std::collections::BTreeMap<String, ItemResult>;

async fn review(shared: &Shared, clock: &Clock, batch: &Batch) -> Result<ItemResults, CheckError> {
    let now = clock.now();
    let items = batch.items.iter().map(|item| Item::of(&item.request, now));
    let document = ReviewRequest::new(
        &batch.check,
        now,
        batch.spec.config.clone().unwrap_or_default(),
        items.collect(),
    );
    let call = call(
        &batch.spec,
        Operation::Review,
        serde_json::to_string(&document)?,
        now,
    );
    let reply = expect_success(shared.services.send(call).await?)?;
    let requested: Vec<Reservation> = batch
        .items
        .iter()
        .map(|item| item.request.reservation().clone())
        .collect();
    read_review(&reply.body, &requested, batch.spec.recheck_after())
        .map_err(|problem| CheckError::transient(format!("{WHO}: {problem}")))
}

fn call(
    spec: &Arc<WebhookCheckSpec>,
    operation: Operation,
    body: String,
    time: Timestamp,
) -> ServiceCall {
    ServiceCall {
        spec: Arc::clone(spec),
        operation,
        body,
        idempotency_key: None,
        time,
    }
}

fn expect_success(reply: ServiceReply) -> Result<ServiceReply, CheckError> {
    if reply.status.is_success() {
        return Ok(reply);
    }
    let status = reply.status.as_u16();
    let text = format!("{WHO} responded with {status}: {}", quote(&reply.body));
    Err(CheckError::transient(text))
}

/// Returns an error unless a call of this `kind` was carried out. Confirmations are 2xx with an
/// empty body, or with a JSON object that is no other document. A proxy's page with status 200 is
/// none.
fn expect_confirmation(reply: ServiceReply, kind: &str) -> Result<(), CheckError> {
    let reply = expect_success(reply)?;
    let document: Option<Map<String, Value>> = serde_json::from_slice(&reply.body).ok();
    let confirms = match document {
        Some(document) => document.get("kind").is_none_or(|own| own == kind),
        None => reply.body.is_empty(),
    };
    if confirms {
        return Ok(());
    }
    let text = format!("{WHO} returned no {kind}: {}", quote(&reply.body));
    Err(CheckError::transient(text))
}

fn needs_activation(shared: &Shared, batch: &Batch, item: &BatchItem, decision: &Decision) -> bool {
    decision.verdict.is_ready()
        && batch.spec.activate_path.is_some()
        && !shared.registry().is_activated(&batch.check, item)
}

/// Allocates for a Workload with the verdict Ready, and records the outcome.
async fn activate(
    shared: &Shared,
    clock: &Clock,
    batch: &Batch,
    item: &BatchItem,
    decision: Decision,
) {
    if !shared.registry().begin_activation(&batch.check, item) {
        // The reservation is over, or another task handles it.
        record(
            shared,
            batch,
            item,
            Outcome::Failed(unusable("an activation is under way")),
        );
        return;
    }
    let outcome = post_activation(shared, clock, batch, item).await;
    let done = matches!(outcome, Ok(None));
    shared.registry().end_activation(&batch.check, item, done);
    let outcome = match outcome {
        Ok(None) => Outcome::Decided(decision),
        Ok(Some(refusal)) => {
            let recheck = batch.spec.recheck_after();
            Outcome::Decided(Decision {
                verdict: Verdict::pending(refusal),
                ttl: recheck,
                recheck: Some(recheck),
            })
        }
        Err(error) => Outcome::Failed(Failure::of(&error)),
    };
    record(shared, batch, item, outcome);
}

/// Returns `None` if it is allocated, or the reason of the refusal.
async fn post_activation(
    shared: &Shared,
    clock: &Clock,
    batch: &Batch,
    item: &BatchItem,
) -> Result<Option<String>, CheckError> {
    let reservation = item.request.reservation();
    let body = serde_json::to_string(&Call::activation(reservation))?;
    let mut call = call(&batch.spec, Operation::Activate, body, clock.now());
    call.idempotency_key = Some(reservation.to_string());
    let origin = batch.spec.origin().map_err(CheckError::parameters)?;
    let _permit = shared.services.permit(origin).await?;
    let reply = shared.services.send(call).await?;
    if reply.status.as_u16() == 409 {
        return Ok(Some(read_refusal(&reply.body)));
    }
    expect_confirmation(reply, ACTIVATION).map(|()| None)
}

/// Releases what is allocated for `reservation`.
pub(crate) async fn release(
    shared: &Shared,
    spec: &Arc<WebhookCheckSpec>,
    reservation: &Reservation,
    reason: &str,
    now: Timestamp,
) -> Result<(), CheckError> {
    let body = serde_json::to_string(&Call::release(reservation, reason))?;
    let mut call = call(spec, Operation::Release, body, now);
    call.idempotency_key = Some(reservation.to_string());
    let origin = spec.origin().map_err(CheckError::parameters)?;
    let _permit = shared.services.permit(origin).await?;
    let reply = shared.services.send(call).await?;
    if matches!(reply.status.as_u16(), 404 | 410) {
        return Ok(());
    }
    expect_confirmation(reply, RELEASE)
}

/// Returns the reservations for which something is allocated, by all services that list them. A
/// service that fails does not affect the others.
///
/// # Errors
/// If no service has listed any.
pub(crate) async fn all_held(
    shared: &Arc<Shared>,
    now: Timestamp,
) -> Result<Vec<Reservation>, CheckError> {
    let specs = shared.registry().specs();
    let specs = specs.into_iter();
    let lists = specs
        .filter(|(_, spec)| spec.held_path.is_some())
        .map(|(check, spec)| {
            let shared = Arc::clone(shared);
            async move {
                let listed = timeout(LIST, held(&shared, &check, &spec, now)).await;
                let late = |_| CheckError::transient(format!("{WHO}: no list within {LIST:?}"));
                (check, listed.map_err(late).flatten())
            }
        });
    let lists: Vec<_> = lists.collect();
    let (mut all, mut listed, mut failure) = (Vec::new(), false, None);
    for (check, reservations) in join_all(lists).await {
        match reservations {
            Ok(reservations) => {
                listed = true;
                all.extend(reservations);
            }
            Err(error) => {
                tracing::warn!(admission_check = check.as_str(), %error, "cannot list what the service holds; will retry");
                failure = Some(error);
            }
        }
    }
    match failure {
        Some(error) if !listed => Err(error),
        failure => {
            shared.listed(failure.is_none());
            Ok(all)
        }
    }
}

/// Returns the reservations for which something is allocated by the service of `check`.
async fn held(
    shared: &Shared,
    check: &str,
    spec: &Arc<WebhookCheckSpec>,
    now: Timestamp,
) -> Result<Vec<Reservation>, CheckError> {
    let call = call(spec, Operation::Held, String::new(), now);
    let origin = spec.origin().map_err(CheckError::parameters)?;
    let _permit = shared.services.permit(origin).await?;
    let reply = expect_success(shared.services.send(call).await?)?;
    read_held(&reply.body, check)
        .map_err(|problem| CheckError::transient(format!("{WHO}: {}", clean(&problem))))
}

/// Returns the verdict of the service about one Workload, without effect.
pub(crate) async fn preview(
    shared: &Shared,
    spec: &Arc<WebhookCheckSpec>,
    request: &kueue_check::Request,
    sent_at: Timestamp,
) -> Result<Verdict, CheckError> {
    let (now, reservation) = (request.now(), request.reservation());
    let config = spec.config.clone().unwrap_or_default();
    let items = vec![Item::of(request, now)];
    let mut document = ReviewRequest::new(request.admission_check(), now, config, items);
    document.request.dry_run = true;
    let call = call(
        spec,
        Operation::Review,
        serde_json::to_string(&document)?,
        sent_at,
    );
    let reply = expect_success(shared.services.send(call).await?)?;
    let read = read_review(
        &reply.body,
        std::slice::from_ref(reservation),
        spec.recheck_after(),
    );
    let mut results = read.map_err(|problem| CheckError::transient(format!("{WHO}: {problem}")))?;
    match results.remove(&reservation.to_string()) {
        Some(ItemResult::Decided(decision)) => Ok(match decision.recheck {
            Some(recheck) => decision.verdict.recheck_in(recheck),
            None => decision.verdict,
        }),
        Some(ItemResult::Unusable(problem)) => {
            Err(CheckError::transient(format!("{WHO}: {problem}")))
        }
        None => Err(CheckError::transient(format!("{WHO}: no response"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_failed_is_repeated_soon_and_then_less_often() {
        let (mut failed, now) = (FailedLists::default(), Instant::now());
        let mut minutes = Vec::new();
        for _ in 0..6 {
            failed.listed(false, now);
            minutes.push(failed.again.unwrap().duration_since(now).as_secs() / 60);
        }
        assert_eq!(minutes, [1, 2, 4, 8, 10, 10]);
        failed.listed(true, now);
        assert!(failed.again.is_none());
    }
}
