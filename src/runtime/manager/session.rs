//! One session: from knowing what the cluster serves to the end, or until it serves something else.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::checks::Slot;
use super::jobs::{self, Done};
use super::report::Recent;
use super::tracked::{Key, Tracked};
use super::{Query, RunError, Runtime, Settings};
use crate::api::{Name, ResourceFlavor, Served, Uid};
use crate::check::{Check, ParametersKind};
use crate::runtime::activation::Shelf;
use crate::runtime::backoff::Backoff;
use crate::runtime::connection::guarded;
use crate::runtime::decide::Slices;
use crate::runtime::events::Recorder;
use crate::runtime::health::Health;
use crate::runtime::intake::Incoming;
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::Metrics;
use crate::runtime::queue::Queue;
use crate::runtime::signal::given;
use crate::runtime::writer::Writer;

/// Why a session ended.
pub(super) enum SessionEnd {
    /// It was asked to.
    Stopped,
    /// The cluster no longer serves what it did.
    ApiChanged,
}

/// The state, and the loop that owns it.
pub(super) struct Session {
    pub(super) checks: Arc<[Check]>,
    pub(super) settings: Settings,
    pub(super) served: Served,
    pub(super) client: Client,
    pub(super) writer: Arc<Writer>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Health,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) backoff: Backoff,

    pub(super) incoming: (mpsc::Sender<Incoming>, mpsc::Receiver<Incoming>),
    pub(super) watches: JoinSet<()>,
    /// What each of them is called when it panics.
    pub(super) watch_names: HashMap<tokio::task::Id, String>,
    pub(super) workload_watch: Option<AbortHandle>,
    /// Looks once in each term for answers that an earlier leader left behind.
    pub(super) search: Option<AbortHandle>,
    /// Which watch of Workloads counts: events of an earlier one may still be on their way.
    pub(super) workload_term: u64,

    pub(super) synced: Synced,
    /// Whether this replica decides: it leads, and has read the lists since.
    pub(super) acting: bool,
    /// The same, for the checks' background work.
    pub(super) told_acting: watch::Sender<bool>,
    /// Whether Workloads may have come and gone unseen since the last complete list.
    pub(super) unseen: bool,
    leading: bool,

    pub(super) workloads: BTreeMap<Uid, Tracked>,
    pub(super) slices: Slices,
    pub(super) listed_workloads: Option<BTreeSet<Uid>>,
    pub(super) slots: BTreeMap<Name, Slot>,
    pub(super) listed_checks: Option<BTreeSet<Name>>,
    pub(super) flavors: Arc<BTreeMap<String, ResourceFlavor>>,
    pub(super) listed_flavors: Option<BTreeMap<String, ResourceFlavor>>,
    pub(super) shelves: Vec<(ParametersKind, Shelf)>,
    /// Which controllers have said that they never start anything.
    pub(super) release_nothing: BTreeSet<usize>,

    pub(super) queue: Queue<Key>,
    pub(super) restoring: Restoring,
    pub(super) timers: BTreeSet<(Instant, Timer)>,
    pub(super) jobs: JoinSet<Done>,
    /// How many of the jobs are looks at Workloads.
    pub(super) looking: usize,
    pub(super) recent: VecDeque<Recent>,
    /// What was owed while another replica led, by age.
    pub(super) owed_as_standby: VecDeque<(Instant, Key)>,
}

/// Whether each of the lists without which nothing is decided has been read in this term.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Synced {
    pub(super) workloads: bool,
    pub(super) checks: bool,
}

/// The beginning of a term, in which a check learns what it has given away.
#[derive(Debug, Default)]
pub(super) struct Restoring {
    /// Until when everything else waits for it.
    pub(super) until: Option<Instant>,
    pub(super) at_work: BTreeSet<Key>,
}

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Look at a Workload.
    Look(Key),
    /// Activate an AdmissionCheck again.
    Activate(Name),
    /// Ask a controller what is outstanding.
    Outstanding(usize),
}

/// How long to wait for the lease before beginning to read: a list that is begun as leader need not be read again.
const LEASE_FIRST: Duration = Duration::from_secs(3);
/// For how long at most what is new waits for what was approved before: an outage of a check must not hold up everything for long.
const RESTORE: Duration = Duration::from_mins(1);
/// How many incoming events are taken at once.
const BATCH: usize = 256;
/// The pause before a session that follows an API change, which may only be an outage of discovery.
const SETTLE: Duration = Duration::from_secs(1);
/// The first and the largest delay after failures of a check, a write or a release.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

impl Session {
    pub(super) fn new(
        runtime: &Runtime,
        served: Served,
        recorder: Recorder,
        leadership: watch::Receiver<Leadership>,
    ) -> Self {
        let client = guarded(&runtime.client, &runtime.metrics, None);
        let annotations: BTreeSet<String> =
            runtime.checks.iter().flat_map(Check::annotations).collect();
        let mut kinds: Vec<ParametersKind> = runtime
            .checks
            .iter()
            .filter_map(|check| check.parameters().kind)
            .collect();
        kinds.sort_by_key(ToString::to_string);
        kinds.dedup();
        Self {
            checks: Arc::clone(&runtime.checks),
            settings: runtime.settings.clone(),
            served,
            writer: Arc::new(Writer::new(client, served, annotations, leadership.clone())),
            client: runtime.client.clone(),
            recorder,
            metrics: Arc::clone(&runtime.metrics),
            health: runtime.health.clone(),
            leadership,
            backoff: Backoff::new(RETRY.0, RETRY.1, runtime.settings.seed),
            incoming: mpsc::channel(1024),
            watches: JoinSet::new(),
            watch_names: HashMap::new(),
            workload_watch: None,
            search: None,
            workload_term: 0,
            synced: Synced::default(),
            acting: false,
            told_acting: watch::Sender::new(false),
            unseen: true,
            leading: false,
            workloads: BTreeMap::new(),
            slices: Slices::default(),
            listed_workloads: None,
            slots: BTreeMap::new(),
            listed_checks: None,
            flavors: Arc::default(),
            listed_flavors: None,
            shelves: kinds
                .into_iter()
                .map(|kind| (kind, Shelf::default()))
                .collect(),
            release_nothing: BTreeSet::new(),
            queue: Queue::default(),
            restoring: Restoring::default(),
            timers: BTreeSet::new(),
            jobs: JoinSet::new(),
            looking: 0,
            recent: VecDeque::new(),
            owed_as_standby: VecDeque::new(),
        }
    }

    /// Runs to its end.
    pub(super) async fn run(
        mut self,
        queries: &mut mpsc::Receiver<Query>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<SessionEnd, RunError> {
        let decided = self
            .leadership
            .wait_for(|leadership| *leadership != Leadership::Undecided);
        drop(timeout(LEASE_FIRST, decided).await);
        self.health.forget_watches();
        self.start_watches();
        self.leadership_changed();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            self.dispatch();
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = given(&mut stop) => {
                    self.wind_down().await;
                    return Ok(SessionEnd::Stopped);
                }
                changed = self.leadership.changed() => {
                    if changed.is_err() {
                        return Err(RunError::TaskDied("lease ended".to_owned()));
                    }
                    self.leadership_changed();
                }
                Some(done) = self.jobs.join_next() => match done {
                    Ok(done) => self.done(done),
                    Err(error) => return Err(RunError::TaskDied(format!("a job: {error}"))),
                },
                _ = self.incoming.1.recv_many(&mut batch, BATCH) => {
                    for incoming in batch.drain(..) {
                        if matches!(incoming, Incoming::ApiChanged) {
                            tokio::time::sleep(SETTLE).await;
                            return Ok(SessionEnd::ApiChanged);
                        }
                        self.take(incoming);
                    }
                }
                Some(query) = queries.recv() => self.answer(query),
                Some(ended) = self.watches.join_next_with_id() => {
                    let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
                    let name = self.watch_names.remove(&id).unwrap_or_default();
                    if let Err(error) = ended
                        && error.is_panic()
                    {
                        return Err(RunError::TaskDied(format!("{name}: {error}")));
                    }
                }
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.fire_timers(),
            }
        }
    }

    /// Nothing new is begun; what runs may finish, and is still written. Whoever leads next starts from the cluster.
    async fn wind_down(&mut self) {
        self.watches.abort_all();
        let mut end = Instant::now() + self.settings.grace;
        // An evaluation that ends may still be written.
        while !self.jobs.is_empty() && Instant::now() < end {
            for done in jobs::finish(
                &mut self.jobs,
                end.saturating_duration_since(Instant::now()),
            )
            .await
            {
                self.done(done);
            }
            if self.jobs.is_empty() {
                end = Instant::now();
            }
        }
        self.jobs.abort_all();
    }

    /// A new leader must see what the old one wrote, so it reads the list again before it decides anything.
    fn leadership_changed(&mut self) {
        let leads = self
            .leadership
            .borrow_and_update()
            .may_write(Instant::now());
        self.health.lease_is(&self.leadership.borrow());
        self.metrics.leader.set(leads.into());
        if leads == self.leading {
            return;
        }
        self.leading = leads;
        tracing::info!(state = self.leadership.borrow().as_str(), "leadership");
        if leads {
            if self.synced.workloads {
                self.start_workload_watch();
            }
            self.act_if_ready();
        } else {
            self.stop_acting();
        }
    }

    /// Begins to decide, once everything that it depends on is known.
    pub(super) fn act_if_ready(&mut self) {
        if self.acting || !self.leading || !self.synced.workloads || !self.synced.checks {
            return;
        }
        self.acting = true;
        self.told_acting.send_replace(true);
        self.restoring = Restoring {
            until: Some(Instant::now() + RESTORE),
            at_work: BTreeSet::new(),
        };
        self.drop_old_debts();
        self.observe_all();
        self.refresh_all();
        for controller in 0..self.checks.len() {
            self.ask_outstanding(controller);
        }
        self.search_left_behind();
    }

    fn stop_acting(&mut self) {
        self.acting = false;
        self.told_acting.send_replace(false);
        if let Some(search) = self.search.take() {
            search.abort();
        }
        self.queue = Queue::default();
        self.timers.clear();
        for key in self
            .workloads
            .values_mut()
            .flat_map(|tracked| &mut tracked.keys)
        {
            key.forget();
            key.timer = None;
            key.again = None;
        }
        for slot in self.slots.values_mut() {
            slot.forget();
        }
    }

    fn take(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Checks(event) => self.take_check(event),
            Incoming::Workloads {
                event,
                selected,
                term,
            } if term == self.workload_term => {
                // The server may refuse to select Workloads, whatever its schema says.
                self.served.selects_reserved = selected;
                self.take_workload(event);
            }
            Incoming::LeftBehind { workload, term } if term == self.workload_term => {
                self.take_left_behind(&workload);
            }
            Incoming::Workloads { .. } | Incoming::LeftBehind { .. } | Incoming::ApiChanged => {}
            Incoming::Flavors(event) => self.take_flavor(event),
            Incoming::Parameters { kind, event } => self.take_parameters(kind, event),
            Incoming::ParametersFailed { kind, failure } => self.parameters_failed(kind, failure),
            Incoming::Wake { check, wake } => self.wake(check, &wake),
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Evaluated {
                key,
                reservation,
                outcome,
                word,
                took,
                told,
            } => {
                self.tell_all(&key, told);
                self.evaluated(&key, reservation, &outcome, word, took);
            }
            Done::Written {
                key,
                conclusion,
                result,
            } => self.written(&key, &conclusion, result),
            Done::Fetched { key, result } => self.fetched(&key, result),
            Done::FoundOut { key, result } => self.found_out(&key, result),
            Done::Withdrawn { key, result } => self.withdrawn(&key, result),
            Done::Released { key, result } => self.released(&key, result),
            Done::Outstanding { controller, result } => self.outstanding(controller, result),
            Done::Activated {
                check,
                tried,
                good,
                result,
            } => self.activated(&check, tried, good, result),
            Done::Announced { check, result } => self.announced(&check, result),
        }
    }

    /// When the loop must turn again by itself.
    fn next_wake(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let pause = (self.acting && self.queue.len() > 0)
            .then(|| self.writer.pause())
            .flatten()
            .map(|pause| Instant::now() + pause);
        let restored = self.restoring.until.filter(|until| *until > Instant::now());
        [timer, pause, restored].into_iter().flatten().min()
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        while self.timers.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, timer)) = self.timers.pop_first()
        {
            match timer {
                Timer::Look(key) => self.timer_fired(&key),
                Timer::Activate(check) => self.activation_due(&check),
                Timer::Outstanding(controller) => self.ask_outstanding(controller),
            }
        }
    }
}
