//! Loops of the autoscaler without an API server. Writes are stored in the requests, and time
//! advances to the next loop that is due.

use std::time::Duration;

use jiff::Timestamp;
use kueue_check_kueue_model::autoscaler::{
    Action, AutoscalerState, ClusterSnapshot, Condition, Mode, NodePool, Pod, PodSet, Profile,
    Request, RequestKey, Settings, Shape, Step, step,
};

pub(super) const CHECK: &str = "check-capacity.autoscaling.x-k8s.io";
pub(super) const ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
pub(super) const QUEUED: &str = "queued-provisioning.gke.io";
pub(super) const MINUTE: i64 = 60;
pub(super) const DAY: i64 = 86_400;

pub(super) fn start() -> Timestamp {
    "2026-11-21T09:00:00Z".parse().unwrap()
}

/// Returns a pool of nodes with 4 CPUs.
pub(super) fn pool(current: u32, max: u32) -> NodePool {
    NodePool::new("cpu", &[("cpu", "4")], current, max)
}

pub(super) struct Scenario {
    pub(super) settings: Settings,
    pub(super) snapshot: ClusterSnapshot,
    pub(super) state: AutoscalerState,
    pub(super) now: Timestamp,
    /// `seconds name type=status reason`, one line for each condition.
    pub(super) log: Vec<String>,
    /// The mode of each write, in the same order.
    pub(super) modes: Vec<&'static str>,
}

impl Scenario {
    pub(super) fn new(settings: Settings) -> Self {
        let mut snapshot = ClusterSnapshot::default();
        let one_cpu = Shape {
            requests: [("cpu".to_owned(), 1000)].into(),
            ..Shape::default()
        };
        snapshot
            .templates
            .insert(("team".to_owned(), "one-cpu".to_owned()), one_cpu);
        Self {
            state: AutoscalerState::new(&settings),
            settings,
            snapshot,
            now: start(),
            log: Vec::new(),
            modes: Vec::new(),
        }
    }

    pub(super) fn of(profile: Profile, pool: NodePool) -> Self {
        Self::new(Settings::new(profile, [pool]))
    }

    /// Adds a request for `count` pods of 1 CPU.
    pub(super) fn request(mut self, name: &str, class: &str, count: u64) -> Self {
        self.snapshot.requests.push(Request {
            key: RequestKey {
                namespace: "team".to_owned(),
                name: name.to_owned(),
            },
            uid: format!("uid-{name}"),
            created: self.now,
            generation: 1,
            class: class.to_owned(),
            parameters: std::collections::BTreeMap::new(),
            pod_sets: vec![PodSet {
                template: "one-cpu".to_owned(),
                count,
            }],
            conditions: Vec::new(),
            details: std::collections::BTreeMap::new(),
        });
        self
    }

    pub(super) fn parameter(mut self, key: &str, value: &str) -> Self {
        let last = self.snapshot.requests.last_mut().unwrap();
        last.parameters.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds scheduled pods of 1 CPU that consume the request.
    pub(super) fn pods(&mut self, request: &str, count: usize) {
        let shape = self.snapshot.templates[&("team".to_owned(), "one-cpu".to_owned())].clone();
        let pod = Pod {
            namespace: "team".to_owned(),
            consumes: Some(request.to_owned()),
            scheduled: true,
            shape,
        };
        self.snapshot.pods.extend(std::iter::repeat_n(pod, count));
    }

    /// Runs one loop now.
    pub(super) fn scan(&mut self) -> Step {
        let step = step(&self.settings, &self.snapshot, &mut self.state, self.now);
        for write in &step.writes {
            self.apply(&write.request, &write.action);
        }
        step
    }

    /// Runs the due loops, at scans every 10 s, until `seconds` after the start.
    pub(super) fn until(&mut self, seconds: i64) {
        let end = start() + Duration::from_secs(u64::try_from(seconds).unwrap());
        for _ in 0..100_000 {
            let step = self.scan();
            let at_once = step.picked && self.settings.frequent_loops;
            if at_once {
                continue;
            }
            let again = if step.picked {
                Some(self.now)
            } else {
                step.again
            };
            let Some(next) = again
                .map(|again| self.next_scan(again))
                .filter(|next| *next <= end)
            else {
                self.now = end;
                return;
            };
            self.now = next;
        }
        panic!("no end of loops: {:?}", self.log);
    }

    fn next_scan(&self, again: Timestamp) -> Timestamp {
        let nanos = again
            .max(self.now + Duration::from_nanos(1))
            .duration_since(start())
            .as_nanos();
        let scans =
            nanos.div_euclid(10_000_000_000) + i128::from(nanos.rem_euclid(10_000_000_000) > 0);
        start() + Duration::from_secs(u64::try_from(scans * 10).unwrap())
    }

    fn apply(&mut self, key: &RequestKey, action: &Action) {
        let seconds = self.now.duration_since(start()).as_secs();
        match action {
            Action::Delete => {
                self.log.push(format!("{seconds} {} deleted", key.name));
                self.snapshot.requests.retain(|request| request.key != *key);
            }
            Action::Write {
                mode,
                conditions,
                details,
                conflict,
            } => {
                self.modes.push(if *mode == Mode::Apply {
                    "apply"
                } else {
                    "update"
                });
                for condition in conditions {
                    let Condition {
                        kind,
                        status,
                        reason,
                        ..
                    } = condition;
                    let lost = if *conflict { " (conflict)" } else { "" };
                    self.log.push(format!(
                        "{seconds} {} {kind}={status} {reason}{lost}",
                        key.name
                    ));
                    if !conflict {
                        self.put(key, condition);
                    }
                }
                let request = self
                    .snapshot
                    .requests
                    .iter_mut()
                    .find(|request| request.key == *key)
                    .unwrap();
                request.details.extend(details.iter().cloned());
            }
        }
    }

    pub(super) fn put(&mut self, key: &RequestKey, condition: &Condition) {
        let request = self
            .snapshot
            .requests
            .iter_mut()
            .find(|request| request.key == *key)
            .unwrap();
        request.conditions.retain(|old| old.kind != condition.kind);
        request.conditions.push(condition.clone());
    }

    pub(super) fn message(&self, name: &str, kind: &str) -> String {
        let request = self
            .snapshot
            .requests
            .iter()
            .find(|request| request.key.name == name)
            .unwrap();
        let condition = request
            .conditions
            .iter()
            .find(|condition| condition.kind == kind)
            .unwrap();
        condition.message.clone()
    }

    #[track_caller]
    pub(super) fn expect(&self, log: &[&str]) {
        assert_eq!(self.log, log);
    }
}
