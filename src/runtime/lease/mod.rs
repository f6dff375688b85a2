//! Leader election by a Lease.
//!
//! One replica holds the Lease object. For another replica, the Lease expires if the record has not
//! changed for its duration on that replica's own monotonic clock. Wall clocks are never compared.
//! The holder stops writing well before another replica may take over: see [`LeaseTimes`].

mod candidate;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::error_text::public;
use super::signal::cancelled;
use crate::Clock;
use candidate::{Candidate, NextStep, Record};

/// Leader election among the replicas of one check.
///
/// ```
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::{LeaseConfig, LeaseTimes, Runtime}};
/// # use kueue_check_sim::apiserver::ApiServer;
/// # use std::{future::pending, time::Duration};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::with_definitions(Clock::system(), kueue_check_sim::definitions::kueue());
/// let replica = |pod: &str| {
///     let lease = LeaseConfig { namespace: "default".into(), name: "open".into(), identity: pod.into(), times: LeaseTimes::default() };
///     Runtime::builder(server.client()).check(open).lease(lease).build()
/// };
/// let (first, second) = (replica("open-0")?, replica("open-1")?);
/// let standby = second.handle();
/// # tokio::spawn(first.run(pending()));
/// # tokio::time::sleep(Duration::from_secs(5)).await;
/// # tokio::spawn(second.run(pending()));
/// # tokio::time::sleep(Duration::from_secs(5)).await;
/// // Both run, the second for a shorter time:
/// let shown = serde_json::to_value(standby.diagnostics().await)?;
/// assert_eq!(shown["leadership"], "standby");
/// assert_eq!(shown["leaseHolder"], "open-0");
/// assert!(standby.problems().is_empty(), "a standby is ready");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name: the same for all replicas, different for different checks.
    pub name: String,
    /// This replica's name, unique among them (the pod's name).
    pub identity: String,
    /// Durations and intervals.
    pub times: LeaseTimes,
}

/// The durations and intervals of a Lease.
///
/// A standby replaces a replica that dies without warning after at most `duration` plus
/// `retry_period`. By default that is 11 s, which leaves the new leader 4 s to read the Workloads
/// and continue.
///
/// ```
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::{LeaseConfig, LeaseTimes, Runtime, RuntimeHandle}};
/// # use kueue_check_sim::apiserver::ApiServer;
/// # use std::{future::pending, time::Duration};
/// # use tokio::time::{Instant, sleep};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # async fn leads(replica: &RuntimeHandle) -> bool {
/// #     serde_json::to_value(replica.diagnostics().await).is_ok_and(|shown| shown["leadership"] == "leader")
/// # }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::with_definitions(Clock::system(), kueue_check_sim::definitions::kueue());
/// # let replica = |pod: &str, times| {
/// #     let lease = LeaseConfig { namespace: "default".into(), name: "open".into(), identity: pod.into(), times };
/// #     Runtime::builder(server.client()).check(open).lease(lease).build()
/// # };
/// // For an API server that is slow at times: the leader may go without a renewal for longer.
/// let times = LeaseTimes { duration: Duration::from_secs(30), renew_deadline: Duration::from_secs(20), ..LeaseTimes::default() };
/// # let (first, second) = (replica("open-0", times)?, replica("open-1", times)?);
/// # let standby = second.handle();
/// let leader = tokio::spawn(first.run(pending()));
/// # sleep(Duration::from_secs(5)).await;
/// # tokio::spawn(second.run(pending()));
/// # sleep(Duration::from_secs(5)).await;
/// # assert!(!leads(&standby).await);
/// leader.abort(); // its node dies
/// let died = Instant::now();
/// while !leads(&standby).await {
///     sleep(Duration::from_millis(100)).await;
/// }
/// assert!(died.elapsed() <= times.duration + times.retry_period, "{:?}", died.elapsed());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Time without a change of the record after which another replica takes over. In whole
    /// seconds: a fraction is cut off. Default: 10 s.
    pub duration: Duration,
    /// Time after its last renewal for which the holder may still write. Must be longer than
    /// `renew_interval` and shorter than `duration`. Default: 7 s.
    pub renew_deadline: Duration,
    /// Interval between the holder's renewals. Default: 2 s.
    pub renew_interval: Duration,
    /// Interval between reads of the other replicas; also the delay after a failed request.
    /// Default: 1 s.
    pub retry_period: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            renew_deadline: Duration::from_secs(7),
            renew_interval: Duration::from_secs(2),
            retry_period: Duration::from_secs(1),
        }
    }
}

impl LeaseTimes {
    /// Returns true if the holder renews in time and stops writing before another replica may take
    /// over. The record has whole seconds.
    pub(crate) fn is_valid(self) -> bool {
        let recorded = Duration::from_secs(self.duration.as_secs());
        !self.retry_period.is_zero()
            && !self.renew_interval.is_zero()
            && self.renew_interval < self.renew_deadline
            && self.renew_deadline < recorded
    }
}

/// Leadership of this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// Not determined yet; the error of the last request for the Lease.
    Undecided { error: Option<String> },
    /// Another replica leads.
    Standby { holder: String },
    /// This replica leads until the instant by which it must have renewed; `None` without a Lease.
    Leader { valid_until: Option<Instant> },
    /// This replica led, and could not renew in time. No other leader has been observed since.
    Lapsed,
    /// This replica led, and now another replica leads.
    Lost { holder: String },
}

impl Leadership {
    /// Returns true if a write may be sent at `now`.
    pub(crate) fn may_write(&self, now: Instant) -> bool {
        matches!(self, Self::Leader { valid_until } if valid_until.is_none_or(|until| now < until))
    }

    /// Returns the leadership at `now`: the task that renews the Lease may wait for a reply for
    /// longer than it is valid.
    pub(crate) fn at(&self, now: Instant) -> Self {
        match self {
            Self::Leader { .. } if !self.may_write(now) => Self::Lapsed,
            _ => self.clone(),
        }
    }

    /// Returns the label for metrics and diagnostics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Undecided { .. } => "undecided",
            Self::Standby { .. } => "standby",
            Self::Leader { .. } => "leader",
            Self::Lapsed => "lapsed",
            Self::Lost { .. } => "lost",
        }
    }
}

/// Holds the Lease, or waits for it, until `stop` is true; then releases it. Publishes the observed
/// state in `leadership`.
pub(crate) async fn run(
    client: Client,
    config: LeaseConfig,
    clock: Clock,
    leadership: watch::Sender<Leadership>,
    mut stop: watch::Receiver<bool>,
) {
    let api = Api::namespaced(client, &config.namespace);
    let mut holder = Holder {
        api,
        clock,
        candidate: Candidate::new(&config.identity, config.times),
        config,
        leadership,
        error: None,
    };
    loop {
        let next = holder.step().await;
        tokio::select! {
            biased;
            () = cancelled(&mut stop) => break,
            () = holder.wait(next) => {}
        }
    }
    holder.release().await;
}

struct Holder {
    api: Api<Lease>,
    clock: Clock,
    config: LeaseConfig,
    candidate: Candidate,
    leadership: watch::Sender<Leadership>,
    /// The error of the last request.
    error: Option<String>,
}

impl Holder {
    /// Runs one round: reads if it must, then writes if it may. Returns the time of the next round.
    async fn step(&mut self) -> Instant {
        if self.candidate.next_step(Instant::now()) == NextStep::Read {
            self.read().await;
        }
        let started = Instant::now();
        match self.candidate.next_step(started) {
            NextStep::Wait(_) | NextStep::Read => {}
            next_step => self.write(next_step, started).await,
        }
        self.publish();
        match self.candidate.next_step(Instant::now()) {
            NextStep::Wait(until) => until,
            _ => Instant::now() + self.config.times.retry_period,
        }
    }

    async fn read(&mut self) {
        match self.bounded(self.api.get_opt(&self.config.name)).await {
            Ok(lease) => {
                let record = lease.map(Record::from);
                self.candidate.on_read(record, Instant::now());
                self.error = None;
            }
            Err(error) => {
                tracing::warn!(%error, lease = self.config.name, "cannot read lease");
                self.error = Some(format!("cannot read lease: {}", error.public()));
            }
        }
    }

    async fn write(&mut self, next_step: NextStep, started: Instant) {
        let wanted = self.lease(&next_step);
        let sent = match &next_step {
            NextStep::Create => {
                self.bounded(self.api.create(&PostParams::default(), &wanted))
                    .await
            }
            _ => {
                self.bounded(
                    self.api
                        .replace(&self.config.name, &PostParams::default(), &wanted),
                )
                .await
            }
        };
        match sent {
            Ok(lease) => self.candidate.on_written(Record::from(lease), started),
            // A Lease that cannot be found is created; if that cannot be, its namespace is missing.
            Err(LeaseError::Kube(kube::Error::Api(status)))
                if status.code == 409 || (status.code == 404 && next_step != NextStep::Create) =>
            {
                self.candidate.on_conflict();
            }
            Err(error) => {
                tracing::warn!(%error, lease = self.config.name, "cannot write lease");
                self.error = Some(format!("cannot write lease: {}", error.public()));
            }
        }
    }

    /// Returns the Lease that `next_step` writes.
    fn lease(&self, next_step: &NextStep) -> Lease {
        next_lease(
            &self.config,
            self.candidate.record(),
            next_step,
            self.clock.now(),
        )
    }

    /// Releases the Lease, so that the other replicas need not wait. Afterwards no caller may
    /// assume that this replica still leads, even if the release failed.
    async fn release(&mut self) {
        let held = self.candidate.valid_until(Instant::now()).is_some();
        self.leadership.send_replace(Leadership::Standby {
            holder: String::new(),
        });
        if !held {
            return;
        }
        let mut lease = self.lease(&NextStep::Renew);
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        if let Err(error) = self
            .bounded(
                self.api
                    .replace(&self.config.name, &PostParams::default(), &lease),
            )
            .await
        {
            tracing::warn!(%error, lease = self.config.name, "cannot release lease; it will expire");
        }
    }

    fn publish(&self) {
        let now = match self.candidate.valid_until(Instant::now()) {
            Some(until) => Leadership::Leader {
                valid_until: Some(until),
            },
            None => match self.candidate.record() {
                Some(record) if self.candidate.is_lost() => Leadership::Lost {
                    holder: record.holder.clone(),
                },
                _ if self.candidate.has_led() => Leadership::Lapsed,
                None => Leadership::Undecided {
                    error: self.error.clone(),
                },
                Some(record) => Leadership::Standby {
                    holder: record.holder.clone(),
                },
            },
        };
        self.leadership.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        });
    }

    /// Waits for the next round; publishes at once if leadership expires before it.
    async fn wait(&self, next: Instant) {
        if let Some(until) = self.candidate.valid_until(Instant::now())
            && until < next
        {
            sleep_until(until).await;
            self.publish();
        }
        sleep_until(next).await;
    }

    async fn bounded<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, LeaseError> {
        let limit = self.config.times.renew_deadline / 2;
        Ok(timeout(limit, request)
            .await
            .map_err(|_| LeaseError::TimedOut(limit))??)
    }
}

#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("no response in {0:?}")]
    TimedOut(Duration),
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

impl LeaseError {
    /// Returns its text for `/readyz`.
    fn public(&self) -> String {
        match self {
            Self::Kube(error) => public(error),
            Self::TimedOut(_) => self.to_string(),
        }
    }
}

/// Returns the Lease that `next_step` writes over the record `known`.
fn next_lease(
    config: &LeaseConfig,
    known: Option<&Record>,
    next_step: &NextStep,
    now: Timestamp,
) -> Lease {
    let taking = matches!(next_step, NextStep::Create | NextStep::Acquire);
    let transitions = known.map_or(0, |record| {
        // The API server rejects a negative count.
        record.transitions.saturating_add(i32::from(taking))
    });
    Lease {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            resource_version: known.map(|record| record.version.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(config.identity.clone()),
            lease_duration_seconds: i32::try_from(config.times.duration.as_secs()).ok(),
            acquire_time: if taking {
                Some(MicroTime(now))
            } else {
                known.and_then(|record| record.acquired).map(MicroTime)
            },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }),
    }
}

/// Returns the Lease that a replica writes after it read `found` and observed no change for
/// `waited`; `None` while it waits.
#[doc(hidden)]
pub fn lease_after(
    config: &LeaseConfig,
    found: Lease,
    waited: Duration,
    now: Timestamp,
) -> Option<Lease> {
    let mut candidate = Candidate::new(&config.identity, config.times);
    let sent = Instant::now();
    candidate.on_read(Some(Record::from(found)), sent);
    match candidate.next_step(sent + waited) {
        NextStep::Wait(_) | NextStep::Read => None,
        next_step => Some(next_lease(config, candidate.record(), &next_step, now)),
    }
}

impl From<Lease> for Record {
    fn from(lease: Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        let seconds = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(0);
        Self {
            version: lease.metadata.resource_version.unwrap_or_default(),
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds),
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquired: spec.acquire_time.map(|MicroTime(at)| at),
            renewed: spec.renew_time.map(|MicroTime(at)| at),
        }
    }
}

/// A wall-clock time, kept only to be written back.
type Stamp = Option<Timestamp>;
