//! The autoscaler running against an API server.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::Clock;
use serde_json::Value;
use tokio::sync::Notify;

use super::condition::after;
use super::writer::{REQUESTS, Writer};
use super::{
    Action, AutoscalerState, ClusterSnapshot, Condition, ConditionType, Mode, Pod, Request,
    RequestKey, Settings, Shape, Step, Write, step,
};
use kueue_check_apiserver::{ApiServer, Resource};

static TEMPLATES: LazyLock<Resource> = LazyLock::new(|| Resource::new("", "v1", "podtemplates"));
static PODS: LazyLock<Resource> = LazyLock::new(|| Resource::new("", "v1", "pods"));

/// Annotations that name the request that a pod consumes. The second is the older form, which
/// autoscalers still accept.
const CONSUMES: [&str; 2] = [
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
];

/// A simulated autoscaler for an API server. Clones are handles of the same autoscaler.
///
/// It runs a loop at the start of each scan in which something changed or became due. It sleeps
/// through all other scans, so idle time costs nothing.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use std::time::Duration;
/// # use example::create_request;
/// use kueue_check_sim::Simulation;
/// use kueue_check_sim::autoscaler::{Autoscaler, BEST_EFFORT_ATOMIC, NodePool, Profile, Settings};
///
/// Simulation::new(|| open).run(async |cluster| {
///     let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)]);
///     let autoscaler = Autoscaler::new(cluster.server().clone(), cluster.clock().clone(), settings);
///     let running = autoscaler.clone();
///     tokio::spawn(async move { running.run().await });
///     create_request(cluster.server(), "train", BEST_EFFORT_ATOMIC, 24); // a ProvisioningRequest for 24 pods of one CPU
///     cluster.advance(Duration::from_secs(10)).await;
///     assert_eq!(autoscaler.nodes("pool"), (3, 1)); // two more are on their way
/// });
/// ```
#[derive(Clone)]
pub struct Autoscaler {
    server: ApiServer,
    clock: Clock,
    inner: Arc<Mutex<Inner>>,
    wake: Arc<Notify>,
}

struct Inner {
    settings: Settings,
    state: AutoscalerState,
}

/// The result of a loop, and whether a write was rejected.
struct Left {
    step: Step,
    refused: bool,
}

impl Autoscaler {
    /// Creates an autoscaler that has not run a loop yet.
    pub fn new(server: ApiServer, clock: Clock, settings: Settings) -> Self {
        let state = AutoscalerState::new(&settings);
        Self {
            server,
            clock,
            inner: Arc::new(Mutex::new(Inner { settings, state })),
            wake: Arc::new(Notify::new()),
        }
    }

    /// Runs until dropped. Loops begin at whole multiples of the scan interval after the call.
    pub async fn run(&self) {
        let start = self.clock.now();
        let mut changed = self.server.changes();
        loop {
            changed.mark_seen();
            let left = self.turn();
            let (interval, frequent) = self.pace();
            if left.step.picked && frequent && !left.refused {
                tokio::task::yield_now().await;
                continue;
            }
            let now = self.clock.now();
            let next_scan = next_scan(start, interval, now, now);
            let due = if left.refused || left.step.picked {
                Some(next_scan)
            } else {
                left.step
                    .again
                    .map(|again| next_scan_after(start, interval, now, again))
            };
            tokio::select! {
                biased;
                () = self.sleep_until(due) => {}
                () = self.wake.notified() => {}
                () = changed.changed() => {
                    let now_then = self.clock.now();
                    self.sleep_until(Some(next_scan_after(start, interval, now, now_then))).await;
                }
            }
        }
    }

    /// Changes the settings from now on. Existing nodes stay as they are.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.inner().settings);
        self.wake.notify_one();
    }

    /// Restarts the autoscaler's process: it loses its backoffs and pending outcomes.
    pub fn restart(&self) {
        self.inner().state.restart();
        self.wake.notify_one();
    }

    /// Returns the number of nodes of a pool, and how many of them are ready.
    pub fn nodes(&self, pool: &str) -> (usize, usize) {
        self.inner().state.nodes().count(pool, self.clock.now())
    }

    /// Writes a condition now, regardless of the settings: to provision, fail, expire or revoke by
    /// hand. Returns true if the API server accepted the write.
    pub fn set(
        &self,
        request: &RequestKey,
        kind: ConditionType,
        status: bool,
        reason: &str,
        message: &str,
    ) -> bool {
        let write = Write {
            request: request.clone(),
            action: Action::Write {
                mode: Mode::Update,
                conditions: vec![Condition::new(
                    kind,
                    status,
                    reason,
                    message,
                    self.clock.now(),
                )],
                details: Vec::new(),
                conflict: false,
            },
        };
        let agent = self.inner().settings.agent.clone();
        self.writer(&agent, self.objects()).write(&write)
    }

    fn turn(&self) -> Left {
        let objects = self.objects();
        let snapshot = self.snapshot(&objects);
        let mut inner = self.inner();
        let Inner { settings, state } = &mut *inner;
        let step = step(settings, &snapshot, state, self.clock.now());
        let agent = settings.agent.clone();
        // Admission hooks of the writes may call `nodes`, which locks the state.
        drop(inner);
        let mut writer = self.writer(&agent, objects);
        let refused = step
            .writes
            .iter()
            .filter(|write| !writer.write(write))
            .count();
        Left {
            step,
            refused: refused > 0,
        }
    }

    fn objects(&self) -> BTreeMap<RequestKey, Arc<Value>> {
        let objects = self.server.objects(&REQUESTS, "").into_iter();
        objects
            .map(|object| (Request::read(&object).key, object))
            .collect()
    }

    fn snapshot(&self, objects: &BTreeMap<RequestKey, Arc<Value>>) -> ClusterSnapshot {
        let requests: Vec<_> = objects
            .values()
            .map(|object| Request::read(object))
            .collect();
        if requests.is_empty() {
            return ClusterSnapshot::default();
        }
        let mut templates = BTreeMap::new();
        for request in &requests {
            for set in &request.pod_sets {
                let namespace = &request.key.namespace;
                if let Some(object) = self.server.object(&TEMPLATES, namespace, &set.template) {
                    let shape = Shape::of_pod_spec(&object["template"]["spec"]);
                    templates.insert((namespace.clone(), set.template.clone()), shape);
                }
            }
        }
        let pods = self.server.objects(&PODS, "");
        let pods = pods.iter().filter(|pod| !has_ended(pod));
        ClusterSnapshot {
            requests,
            templates,
            pods: pods.map(|pod| read_pod(pod)).collect(),
        }
    }

    fn writer<'a>(&'a self, agent: &'a str, read: BTreeMap<RequestKey, Arc<Value>>) -> Writer<'a> {
        Writer {
            server: &self.server,
            agent,
            read,
        }
    }

    fn pace(&self) -> (Duration, bool) {
        let settings = &self.inner().settings;
        // With a scan interval of zero, time would never advance.
        let interval = settings.scan_interval.max(Duration::from_millis(1));
        (interval, settings.frequent_loops)
    }

    async fn sleep_until(&self, moment: Option<Timestamp>) {
        match moment {
            Some(moment) => {
                let wait = moment.duration_since(self.clock.now());
                tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
            }
            None => std::future::pending().await,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the first start of a scan at or after `moment` and later than `last`, the previous loop.
fn next_scan_after(
    start: Timestamp,
    interval: Duration,
    last: Timestamp,
    moment: Timestamp,
) -> Timestamp {
    let next = next_scan(start, interval, last, moment);
    let before = next.checked_sub(interval).unwrap_or(next);
    if before >= moment && before > last {
        before
    } else {
        next
    }
}

/// Returns the first start of a scan later than both `last` and `moment`.
fn next_scan(
    start: Timestamp,
    interval: Duration,
    last: Timestamp,
    moment: Timestamp,
) -> Timestamp {
    let passed = moment.max(last).duration_since(start);
    let passed = Duration::try_from(passed).unwrap_or_default().as_nanos();
    let scans = u32::try_from(passed / interval.as_nanos() + 1).unwrap_or(u32::MAX);
    after(start, interval.saturating_mul(scans))
}

fn has_ended(pod: &Value) -> bool {
    let phase = &pod["status"]["phase"];
    phase == "Succeeded" || phase == "Failed"
}

fn read_pod(pod: &Value) -> Pod {
    let annotations = &pod["metadata"]["annotations"];
    let consumes = CONSUMES.iter().find_map(|key| annotations[key].as_str());
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    Pod {
        namespace: pod["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        consumes: consumes.map(str::to_owned),
        scheduled: !node.is_empty(),
        shape: Shape::of_pod_spec(&pod["spec"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_begin_at_multiples_of_the_interval() {
        let start: Timestamp = "2026-11-21T09:00:00Z".parse().unwrap();
        let second = |seconds: u64| after(start, Duration::from_secs(seconds));
        let ten = Duration::from_secs(10);
        // The last loop, the moment, the next scan.
        let table = [
            (0, 0, 10),
            (0, 3, 10),
            (0, 10, 10),
            (0, 11, 20),
            (10, 10, 20),
            (10, 60, 60),
        ];
        for (last, moment, expected) in table {
            let next = next_scan_after(start, ten, second(last), second(moment));
            assert_eq!(next, second(expected), "{last} {moment}");
        }
    }
}
