//! The verdicts of each Workload, and the order of reviews. Pure: time is passed with each call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kueue_check::api::Uid;
use kueue_check::{CheckError, ErrorKind, Request, Reservation, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::failure::Failure;
use super::rate_limit::RateLimiter;
use super::resource::WebhookCheckSpec;
use crate::document::Decision;

/// All Workloads that services review.
#[derive(Default)]
pub(crate) struct Registry {
    checks: BTreeMap<String, CheckItems>,
    /// The reservations for which an activation is in flight.
    activating: BTreeSet<Reservation>,
}

/// The Workloads of one AdmissionCheck.
struct CheckItems {
    spec: Arc<WebhookCheckSpec>,
    items: BTreeMap<Uid, Entry>,
    /// The Workloads to review, in this order.
    queue: VecDeque<Uid>,
    /// Whether a request is being assembled.
    collecting: bool,
    /// The maximum number of items in the next request. It decreases after a failure, so that an
    /// item at which a service fails affects only itself.
    limit: usize,
    limiter: RateLimiter,
}

/// One Workload.
struct Entry {
    request: Request,
    fingerprint: u64,
    progress: Progress,
    known: Option<CachedVerdict>,
    failure: Option<Failure>,
    activated: bool,
    /// Whether an evaluation has requested a review since the current request was assembled.
    wanted: bool,
    /// The evaluation that waits for a response.
    waiter: Option<oneshot::Sender<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Idle,
    Queued,
    InFlight,
}

/// The last verdict.
struct CachedVerdict {
    decision: Decision,
    fingerprint: u64,
    sent_at: Instant,
    /// Whether an evaluation has returned it.
    delivered: bool,
    /// The minimum time for which it is valid until an evaluation returns it.
    grace: Duration,
}

/// The result of a lookup for an evaluation.
pub(crate) enum Lookup {
    /// A valid verdict.
    Verdict(Verdict),
    /// The last request failed.
    Failed(CheckError),
    /// The service is being queried; the receiver is resolved when there is a result.
    Requested(oneshot::Receiver<()>),
}

/// A request with several Workloads.
pub(crate) struct Batch {
    pub(crate) check: String,
    pub(crate) spec: Arc<WebhookCheckSpec>,
    pub(crate) items: Vec<BatchItem>,
    pub(crate) sent_at: Instant,
}

/// One Workload of a request.
pub(crate) struct BatchItem {
    pub(crate) request: Request,
    fingerprint: u64,
    /// Whether no evaluation requested it: its verdict was about to expire.
    early: bool,
}

/// An AdmissionCheck for which a request is being assembled, and its WebhookCheck.
pub(crate) type Collected = (String, Arc<WebhookCheckSpec>);

/// The outcome of one item.
pub(crate) enum Outcome {
    Decided(Decision),
    Failed(Failure),
}

impl CachedVerdict {
    /// Returns true if it is valid at `now` for this fingerprint.
    fn holds(&self, fingerprint: u64, now: Instant) -> bool {
        let age = now.duration_since(self.sent_at);
        let Decision { ttl, recheck, .. } = &self.decision;
        let limit = recheck.map_or(*ttl, |recheck| recheck.min(*ttl));
        let limit = if self.delivered {
            limit
        } else {
            limit.max(self.grace)
        };
        self.fingerprint == fingerprint && age < limit
    }

    /// Returns the verdict at `now`.
    fn verdict(&self, now: Instant) -> Verdict {
        let verdict = self.decision.verdict.clone();
        let age = now.duration_since(self.sent_at);
        match self.decision.recheck {
            Some(recheck) => verdict.recheck_in(recheck.saturating_sub(age)),
            // A job that waits for other checks must not start with an old Ready.
            None if verdict.is_ready() => {
                verdict.recheck_until_admitted(self.decision.ttl.saturating_sub(age))
            }
            None => verdict,
        }
    }

    /// Returns when it may be reviewed without an evaluation: after half of its recheck interval.
    fn early_at(&self) -> Option<Instant> {
        Some(self.sent_at + self.decision.recheck? / 2)
    }
}

impl Entry {
    fn new(request: &Request, fingerprint: u64) -> Self {
        Self {
            request: request.clone(),
            fingerprint,
            progress: Progress::Idle,
            known: None,
            failure: None,
            activated: false,
            wanted: false,
            waiter: None,
        }
    }

    fn is_of(&self, reservation: &Reservation) -> bool {
        self.request.reservation() == reservation
    }
}

impl Registry {
    /// Sets the WebhookCheck of an AdmissionCheck.
    pub(crate) fn set_spec(&mut self, check: &str, spec: &Arc<WebhookCheckSpec>) {
        let items = self.checks.entry(check.to_owned());
        let items = items.or_insert_with(|| CheckItems {
            spec: Arc::clone(spec),
            items: BTreeMap::new(),
            queue: VecDeque::new(),
            collecting: false,
            limit: usize::MAX,
            limiter: RateLimiter::default(),
        });
        if items.spec != *spec {
            items.spec = Arc::clone(spec);
            items.limit = usize::MAX;
        }
    }

    pub(crate) fn spec(&self, check: &str) -> Option<Arc<WebhookCheckSpec>> {
        Some(Arc::clone(&self.checks.get(check)?.spec))
    }

    /// Returns the AdmissionChecks and their WebhookChecks.
    pub(crate) fn specs(&self) -> Vec<(String, Arc<WebhookCheckSpec>)> {
        let specs = self.checks.iter();
        specs
            .map(|(check, items)| (check.clone(), Arc::clone(&items.spec)))
            .collect()
    }

    /// Returns the number of stored Workloads, by AdmissionCheck.
    pub(crate) fn sizes(&self) -> Vec<(String, usize)> {
        let sizes = self.checks.iter();
        sizes
            .map(|(check, items)| (check.clone(), items.items.len()))
            .collect()
    }

    /// Returns the stored result for the Workload of `request`. If it is no longer valid, queues a
    /// review.
    pub(crate) fn lookup(&mut self, request: &Request, fingerprint: u64, now: Instant) -> Lookup {
        let Some(items) = self.checks.get_mut(request.admission_check()) else {
            return Lookup::Failed(CheckError::transient("the WebhookCheck is not known yet"));
        };
        let uid = request.workload().uid();
        let entry = items
            .items
            .entry(uid.clone())
            .or_insert_with(|| Entry::new(request, fingerprint));
        if !entry.is_of(request.reservation()) {
            *entry = Entry::new(request, fingerprint);
        }
        entry.request = request.clone();
        entry.fingerprint = fingerprint;
        if let Some(failure) = entry.failure.as_mut().filter(|failure| !failure.delivered) {
            failure.delivered = true;
            return Lookup::Failed(failure.error());
        }
        if let Some(known) = entry
            .known
            .as_mut()
            .filter(|known| known.holds(fingerprint, now))
            && entry.failure.is_none()
        {
            known.delivered = true;
            return Lookup::Verdict(known.verdict(now));
        }
        if entry.progress == Progress::Idle {
            entry.progress = Progress::Queued;
            items.queue.push_back(uid.clone());
        }
        let (sender, receiver) = oneshot::channel();
        entry.wanted = true;
        entry.waiter = Some(sender);
        Lookup::Requested(receiver)
    }

    /// Returns the result of an evaluation that stops waiting: a result that has arrived, or
    /// unchanged. This is one step, so that any later result triggers an evaluation.
    pub(crate) fn conclude(
        &mut self,
        request: &Request,
        fingerprint: u64,
        now: Instant,
    ) -> Result<Verdict, CheckError> {
        match self.lookup(request, fingerprint, now) {
            Lookup::Verdict(verdict) => return Ok(verdict),
            Lookup::Failed(error) => return Err(error),
            Lookup::Requested(_) => {}
        }
        let items = self.checks.get_mut(request.admission_check());
        if let Some(entry) = items.and_then(|items| items.items.get_mut(request.workload().uid())) {
            entry.waiter = None;
        }
        self.meanwhile(request)
    }

    /// Returns the result of an evaluation while the service has not responded: unchanged.
    fn meanwhile(&self, request: &Request) -> Result<Verdict, CheckError> {
        let items = self.checks.get(request.admission_check());
        let entry = items.and_then(|items| items.items.get(request.workload().uid()));
        let entry = entry.filter(|entry| entry.is_of(request.reservation()));
        if let Some(failure) = entry.and_then(|entry| entry.failure.as_ref()) {
            return Err(failure.error());
        }
        let unchanged = Verdict::unchanged();
        let ready = request
            .workload()
            .check(request.admission_check())
            .is_some_and(|own| own.state().as_str() == "Ready");
        match entry.and_then(|entry| entry.known.as_ref()) {
            // A running job is still reviewed if it was before.
            Some(known) => Ok(match known.decision.recheck {
                Some(recheck) if known.decision.verdict.is_ready() => unchanged.recheck_in(recheck),
                _ => unchanged,
            }),
            None if ready => Err(CheckError::transient("the webhook has not responded yet")),
            None => Ok(unchanged),
        }
    }

    /// Returns the AdmissionChecks for which a request is to be assembled, and when there may be
    /// another one. Each is returned once, until its request is [taken](Self::take).
    pub(crate) fn collect(&mut self, now: Instant) -> (Vec<Collected>, Option<Instant>) {
        let (mut ready, mut later) = (Vec::new(), None);
        for (check, items) in &mut self.checks {
            if items.collecting || items.queue.is_empty() {
                continue;
            }
            let paced = items.spec.requests_per_minute();
            match paced.map(|per_minute| items.limiter.next(per_minute, now)) {
                Some(next) if next > now => {
                    later = Some(later.map_or(next, |later: Instant| later.min(next)));
                }
                _ => {
                    items.collecting = true;
                    ready.push((check.clone(), Arc::clone(&items.spec)));
                }
            }
        }
        (ready, later)
    }

    /// Takes the request for `check`: the Workloads to review, and in the remaining space those
    /// whose verdicts are due next.
    pub(crate) fn take(&mut self, check: &str, now: Instant) -> Option<Batch> {
        let items = self.checks.get_mut(check)?;
        items.collecting = false;
        let limit = items.spec.max_items().min(items.limit).max(1);
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(uid) = items.queue.pop_front()
        {
            let Some(entry) = items.items.get_mut(&uid) else {
                continue;
            };
            if entry.progress == Progress::Queued {
                taken.push(entry.take(false));
            }
        }
        if taken.is_empty() {
            return None;
        }
        if let Some(per_minute) = items.spec.requests_per_minute() {
            items.limiter.sent(per_minute, now);
        }
        if taken.len() < limit {
            let due = |entry: &Entry| {
                let known = entry.known.as_ref().filter(|_| entry.failure.is_none())?;
                let due = known.sent_at + known.decision.recheck?;
                known.early_at().filter(|early| *early <= now).map(|_| due)
            };
            let idle = items.items.iter();
            let idle = idle.filter(|(_, entry)| entry.progress == Progress::Idle);
            let mut next: Vec<(Instant, Uid)> = idle
                .filter_map(|(uid, entry)| Some((due(entry)?, uid.clone())))
                .collect();
            next.sort();
            next.truncate(limit - taken.len());
            for (_, uid) in next {
                taken.extend(items.items.get_mut(&uid).map(|entry| entry.take(true)));
            }
        }
        Some(Batch {
            check: check.to_owned(),
            spec: Arc::clone(&items.spec),
            items: taken,
            sent_at: now,
        })
    }

    /// Records that a request for `check` with `size` items succeeded, or failed.
    pub(crate) fn replied(&mut self, check: &str, size: usize, error: Option<&CheckError>) {
        let Some(items) = self.checks.get_mut(check) else {
            return;
        };
        match error.map(CheckError::kind) {
            None => items.limit = items.limit.max(size).saturating_mul(2),
            // Fewer items do not end a throttling.
            Some(ErrorKind::Throttled { .. }) => {}
            Some(_) => items.limit = (size / 2).max(1),
        }
    }

    /// Returns true if the activation of `item` may begin: its reservation is not over, and no
    /// other activation of it is in flight.
    pub(crate) fn begin_activation(&mut self, check: &str, item: &BatchItem) -> bool {
        let reservation = item.request.reservation();
        let current = self.entry(check, item).is_some();
        current && self.activating.insert(reservation.clone())
    }

    /// Records the end of an activation; `done` is true if it succeeded.
    pub(crate) fn end_activation(&mut self, check: &str, item: &BatchItem, done: bool) {
        self.activating.remove(item.request.reservation());
        if let Some(entry) = self.entry(check, item) {
            entry.activated |= done;
        }
    }

    pub(crate) fn is_activated(&mut self, check: &str, item: &BatchItem) -> bool {
        self.entry(check, item).is_some_and(|entry| entry.activated)
    }

    /// Records the outcome of `item`. Returns true if the Workload is to be evaluated: the result
    /// is new, and no evaluation waits for it.
    pub(crate) fn record(&mut self, batch: &Batch, item: &BatchItem, outcome: Outcome) -> bool {
        let check = &batch.check;
        let Some(entry) = self.entry(check, item) else {
            return false;
        };
        entry.progress = Progress::Idle;
        if entry.fingerprint != item.fingerprint {
            // The outcome is about an earlier version of the Workload.
            let review_again = entry.wanted;
            if review_again {
                entry.progress = Progress::Queued;
            }
            let uid = item.request.workload().uid().clone();
            if let Some(items) = self.checks.get_mut(check).filter(|_| review_again) {
                items.queue.push_back(uid);
            }
            return false;
        }
        let is_new = match outcome {
            Outcome::Failed(_) if item.early && !entry.wanted => false,
            Outcome::Failed(failure) => {
                entry.failure = Some(failure);
                true
            }
            Outcome::Decided(decision) => {
                let before = entry.known.as_ref().map(|known| &known.decision.verdict);
                let changed = before != Some(&decision.verdict) || entry.failure.is_some();
                entry.failure = None;
                entry.known = Some(CachedVerdict {
                    decision,
                    fingerprint: item.fingerprint,
                    sent_at: batch.sent_at,
                    delivered: item.early && !changed,
                    grace: batch.spec.timeout() + GRACE,
                });
                changed || !item.early
            }
        };
        let notified = entry
            .waiter
            .take()
            .is_some_and(|waiter| waiter.send(()).is_ok());
        is_new && !notified
    }

    /// Returns true if an activation of `reservation` is in flight.
    pub(crate) fn is_activating(&self, reservation: &Reservation) -> bool {
        self.activating.contains(reservation)
    }

    /// Removes the data of `reservation`.
    pub(crate) fn remove(&mut self, reservation: &Reservation) {
        if let Some(items) = self.checks.get_mut(reservation.admission_check())
            && let Some(entry) = items.items.get(reservation.uid())
            && entry.is_of(reservation)
        {
            items.items.remove(reservation.uid());
        }
    }

    /// Removes the data of the Workload `uid`.
    pub(crate) fn remove_workload(&mut self, uid: &Uid) {
        for items in self.checks.values_mut() {
            items.items.remove(uid);
        }
    }

    /// Queues the Workloads of requests that were in flight when a session ended.
    pub(crate) fn reset(&mut self) {
        self.activating.clear();
        for items in self.checks.values_mut() {
            items.collecting = false;
            for (uid, entry) in &mut items.items {
                if entry.progress == Progress::InFlight {
                    entry.progress = Progress::Queued;
                    items.queue.push_back(uid.clone());
                }
            }
        }
    }

    fn entry(&mut self, check: &str, item: &BatchItem) -> Option<&mut Entry> {
        let items = self.checks.get_mut(check)?;
        let entry = items.items.get_mut(item.request.workload().uid())?;
        entry.is_of(item.request.reservation()).then_some(entry)
    }
}

impl Entry {
    fn take(&mut self, early: bool) -> BatchItem {
        self.progress = Progress::InFlight;
        self.wanted = false;
        BatchItem {
            request: self.request.clone(),
            fingerprint: self.fingerprint,
            early,
        }
    }
}

/// The minimum time in which an evaluation can return a verdict, from the latest response on.
const GRACE: Duration = Duration::from_secs(30);
/// The maximum time that an evaluation waits for a response.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
