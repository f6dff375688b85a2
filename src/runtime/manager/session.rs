//! The event loop of a session: it feeds the core and carries out its effects.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::spans::{Cause, Spans};
use super::tasks::TaskContext;
use super::{Query, RunError, Runtime, Settings};
use crate::api::ServedApi;
use crate::check::WorkloadEvent;
use crate::runtime::backoff::Backoff;
use crate::runtime::connection::instrumented;
use crate::runtime::core::{
    Controller, Core, Effect, Input, LeaseState, Limits, Now, ObserverEvent, TaskId, TaskResult,
};
use crate::runtime::events::Recorder;
use crate::runtime::health::Health;
use crate::runtime::informers::{InformerEvent, Noticed};
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::Metrics;
use crate::runtime::signal::cancelled;
use crate::runtime::writer::Writer;

/// The event loop, with the means to carry out effects.
pub(super) struct Session {
    pub(super) core: Core,
    pub(super) settings: Settings,
    pub(super) client: Client,
    writer: Arc<Writer>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Health,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) incoming: (mpsc::Sender<InformerEvent>, mpsc::Receiver<InformerEvent>),
    pub(super) watches: Watching,
    tasks: JoinSet<(TaskId, TaskResult)>,
    spans: Spans,
    /// Whether this replica leads, for the checks' background work.
    pub(super) leads: watch::Sender<bool>,
}

/// Tasks that run apart from the loop.
#[derive(Default)]
pub(super) struct Watching {
    pub(super) running: JoinSet<()>,
    /// The name of each task, for the message of a panic.
    pub(super) names: HashMap<tokio::task::Id, String>,
    /// The tasks that depend on how Kueue's API is served.
    pub(super) of_kueue: Vec<AbortHandle>,
    pub(super) workloads: Vec<AbortHandle>,
    pub(super) noticed: Arc<Noticed>,
    pub(super) scan: Option<AbortHandle>,
    /// The current watch of Workloads: events of an earlier watch may still be in transit.
    pub(super) term: u64,
}

/// Time to wait for the Lease before the first lists: lists that the leader starts need not be read
/// again.
const LEASE_FIRST: Duration = Duration::from_secs(3);
/// Maximum number of informer events received at once.
const BATCH: usize = 256;
/// The first and the maximum delay after failures of a check, a write or a release.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

impl Session {
    pub(super) fn new(
        runtime: &Runtime,
        served: ServedApi,
        recorder: Recorder,
        leadership: watch::Receiver<Leadership>,
    ) -> Self {
        let controllers: Arc<[Controller]> = runtime
            .checks
            .iter()
            .map(|check| Controller::from(check.clone()))
            .collect();
        let limits = Limits {
            concurrency: runtime.settings.concurrency,
            backoff: Backoff::new(RETRY.0, RETRY.1, runtime.settings.seed),
        };
        let now = now(&runtime.settings);
        Self {
            writer: Arc::new(writer(
                instrumented(&runtime.client, &runtime.metrics, None),
                served,
                &controllers,
                leadership.clone(),
            )),
            core: Core::new(controllers, limits, served, now),
            settings: runtime.settings.clone(),
            client: runtime.client.clone(),
            recorder,
            metrics: Arc::clone(&runtime.metrics),
            health: runtime.health.clone(),
            leadership,
            incoming: mpsc::channel(1024),
            watches: Watching::default(),
            tasks: JoinSet::new(),
            spans: Spans::default(),
            leads: watch::Sender::new(false),
        }
    }

    /// Runs until `stop` is true.
    pub(super) async fn run(
        mut self,
        queries: &mut mpsc::Receiver<Query>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), RunError> {
        let decided = self
            .leadership
            .wait_for(|leadership| !matches!(leadership, Leadership::Undecided { .. }));
        drop(timeout(LEASE_FIRST, decided).await);
        self.start_watches();
        self.leadership_changed()?;
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let next = self.core.next_step();
            let expires = self.expires();
            tokio::select! {
                biased;
                () = cancelled(&mut stop) => return self.wind_down(queries).await,
                () = sleep_until(expires.unwrap_or_else(Instant::now)), if expires.is_some() => {
                    self.leadership_changed()?;
                }
                changed = self.leadership.changed() => {
                    if changed.is_err() {
                        return Err(RunError::TaskEnded("lease ended".to_owned()));
                    }
                    self.leadership_changed()?;
                }
                Some(query) = queries.recv() => self.reply(query),
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    self.step(Input::Time);
                }
                Some(ended) = self.tasks.join_next() => self.task_ended(ended)?,
                _ = self.incoming.1.recv_many(&mut batch, BATCH) => {
                    for incoming in batch.drain(..) {
                        self.take(incoming)?;
                    }
                }
                Some(ended) = self.watches.running.join_next_with_id() => {
                    let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
                    let name = self.watches.names.remove(&id).unwrap_or_default();
                    if let Err(error) = ended
                        && error.is_panic()
                    {
                        return Err(RunError::TaskEnded(format!("{name}: {error}")));
                    }
                }
            }
        }
    }

    /// Starts no new evaluation. Evaluations in flight may end within the grace time, and each
    /// verdict is written as it arrives. Then running evaluations are canceled, because the Lease
    /// is held meanwhile. A write that was sent is waited for. When the Lease expires, everything is
    /// canceled. The next leader starts from the cluster's state.
    async fn wind_down(&mut self, queries: &mut mpsc::Receiver<Query>) -> Result<(), RunError> {
        self.watches.running.abort_all();
        self.core.stop_starting();
        let end = Instant::now() + self.settings.grace;
        while self.core.tasks() > 0 && (Instant::now() < end || self.core.writes() > 0) {
            let expires = self.expires();
            tokio::select! {
                biased;
                () = sleep_until(expires.unwrap_or_else(Instant::now)), if expires.is_some() => break,
                Some(ended) = self.tasks.join_next() => self.task_ended(ended)?,
                Ok(()) = self.leadership.changed() => {
                    if !self.leadership.borrow_and_update().may_write(Instant::now()) {
                        break;
                    }
                }
                Some(query) = queries.recv() => self.reply(query),
                () = sleep_until(end), if Instant::now() < end => {}
            }
        }
        let abandoned = self.core.tasks();
        if abandoned > 0 {
            tracing::warn!(abandoned, "evaluations did not end within the grace time");
        }
        self.tasks.abort_all();
        Ok(())
    }

    fn task_ended(
        &mut self,
        ended: Result<(TaskId, TaskResult), JoinError>,
    ) -> Result<(), RunError> {
        match ended {
            Ok((task, result)) => {
                let cause = self.spans.ended(task, &result);
                self.step_because(Input::Finished(task, result), &cause);
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => return Err(RunError::TaskEnded(format!("a task: {error}"))),
        }
        Ok(())
    }

    /// Returns when the leadership of this replica expires.
    fn expires(&self) -> Option<Instant> {
        match *self.leadership.borrow() {
            Leadership::Leader { valid_until } if self.core.holds_lease() => valid_until,
            _ => None,
        }
    }

    /// Ends the process after leadership is lost: a check's state in memory belongs to its
    /// leadership term. A lapse in which no other replica led only suspends.
    fn leadership_changed(&mut self) -> Result<(), RunError> {
        let leadership = self.leadership.borrow_and_update().at(Instant::now());
        self.health.set_leadership(&leadership);
        let leads = matches!(leadership, Leadership::Leader { .. });
        self.metrics.leader.set(leads.into());
        let state = match leadership {
            Leadership::Leader { .. } => LeaseState::Acquired,
            Leadership::Lost { holder } => return Err(RunError::LeadershipLost { holder }),
            Leadership::Lapsed => LeaseState::Lapsed,
            Leadership::Undecided { .. } | Leadership::Standby { .. } => LeaseState::Standby,
        };
        self.step(Input::Lease(state));
        Ok(())
    }

    fn take(&mut self, incoming: InformerEvent) -> Result<(), RunError> {
        let input = match incoming {
            InformerEvent::Checks(event) => Input::AdmissionChecks(event),
            InformerEvent::Workloads {
                event,
                selected,
                term,
            } if term == self.watches.term => Input::Workloads { event, selected },
            InformerEvent::WithoutQuota { workload, term } if term == self.watches.term => {
                Input::WithoutQuota(workload)
            }
            InformerEvent::Compare {
                workload,
                as_of,
                term,
            } if term == self.watches.term => Input::Compare { workload, as_of },
            InformerEvent::Compared { named, term } if term == self.watches.term => {
                Input::Compared(named)
            }
            InformerEvent::Workloads { .. }
            | InformerEvent::WithoutQuota { .. }
            | InformerEvent::Compare { .. }
            | InformerEvent::Compared { .. } => return Ok(()),
            InformerEvent::Flavors(event) => Input::Flavors(event),
            InformerEvent::Parameters { kind, event } => Input::Parameters { kind, event },
            InformerEvent::ParametersFailed { kind, failure } => {
                Input::ParametersFailed { kind, failure }
            }
            InformerEvent::Trigger { check, trigger } => Input::Trigger {
                controller: check,
                trigger,
            },
            InformerEvent::Served(served) => {
                self.served_changed(served);
                return Ok(());
            }
            InformerEvent::Restored { shown, now } => {
                return Err(RunError::ClusterRestored { shown, now });
            }
        };
        self.step(input);
        Ok(())
    }

    /// Restarts Kueue's watches after a change of the served API.
    fn served_changed(&mut self, served: ServedApi) {
        tracing::warn!(?served, "served Kueue API changed");
        self.writer = Arc::new(writer(
            instrumented(&self.client, &self.metrics, None),
            served,
            &self.core.controllers,
            self.leadership.clone(),
        ));
        self.step(Input::Served(served));
        self.restart_kueue_watches();
    }

    fn step(&mut self, input: Input) {
        self.step_because(input, &Cause::default());
    }

    fn step_because(&mut self, input: Input, cause: &Cause) {
        let effects = self.core.step(now(&self.settings), input);
        for effect in effects {
            self.carry_out(effect, cause);
        }
    }

    fn carry_out(&mut self, effect: Effect, cause: &Cause) {
        match effect {
            Effect::Start(id, task) => {
                let context = TaskContext {
                    controllers: Arc::clone(&self.core.controllers),
                    writer: Arc::clone(&self.writer),
                    timeout: self.settings.timeout,
                };
                let controllers = &self.core.controllers;
                let span = self.spans.begin(id, &task, controllers, cause);
                self.tasks
                    .spawn(span.around(async move { (id, context.carry_out(*task).await) }));
            }
            Effect::CancelTasks => {
                self.tasks.abort_all();
                self.spans.canceled();
            }
            Effect::Observe(event) => {
                for controller in &*self.core.controllers {
                    controller.check.observe(workload_event(&event));
                }
            }
            Effect::Leads(leads) => {
                self.leads.send_replace(leads);
                if !leads && let Some(scan) = self.watches.scan.take() {
                    scan.abort();
                }
            }
            Effect::WatchWorkloads => self.start_workload_watch(),
            Effect::ScanWithoutQuota => self.scan_without_quota(),
            Effect::Report(report) => {
                let _entered = cause.enter(&report);
                self.report(report);
            }
        }
    }
}

fn now(settings: &Settings) -> Now {
    Now {
        instant: Instant::now(),
        wall: settings.clock.now(),
    }
}

fn writer(
    client: Client,
    served: ServedApi,
    controllers: &[Controller],
    leadership: watch::Receiver<Leadership>,
) -> Writer {
    let annotations: BTreeSet<String> = controllers
        .iter()
        .flat_map(|controller| controller.check.annotations())
        .collect();
    Writer::new(client, served, annotations, leadership)
}

fn workload_event(event: &ObserverEvent) -> WorkloadEvent<'_> {
    match event {
        ObserverEvent::ListStarted => WorkloadEvent::ListStarted,
        ObserverEvent::Applied(workload, family) => WorkloadEvent::Applied(workload, family),
        ObserverEvent::Removed(workload) => WorkloadEvent::Removed(workload),
        ObserverEvent::ListCompleted { continuous } => WorkloadEvent::ListCompleted {
            continuous: *continuous,
        },
    }
}
