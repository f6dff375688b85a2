//! Gauges and diagnostics of a running session.

use std::collections::BTreeMap;

use serde::Serialize;
use tokio::time::Instant;

use super::Query;
use super::session::Session;
use crate::api::{CheckState, Name, ServedApi};
use crate::runtime::core::{Core, Recent, Role};
use crate::runtime::health::WatchReport;
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::{CheckLabels, LaneLabels};
use crate::runtime::queue::{Lane, Queue};

/// The state of a runtime, as the admin endpoint's `/diagnostics` returns it.
///
/// ```
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::Runtime};
/// # use kueue_check_sim::apiserver::{ApiServer, ApiRequest, Resource, Verb};
/// # #[admission_check(controller = "example.com/window")] async fn window() -> Verdict { Verdict::ready("inside the window") }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::with_definitions(Clock::system(), kueue_check_sim::definitions::kueue());
/// # let checks = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
/// # let object = serde_json::json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "window"}, "spec": {"controllerName": "example.com/window"}});
/// # assert_eq!(server.call(&ApiRequest::new(Verb::Create, &checks).body(object)).code, 201);
/// # let client = server.client();
/// # let runtime = Runtime::builder(client).check(window).build()?;
/// let handle = runtime.handle();
/// # tokio::spawn(runtime.run(std::future::pending()));
/// # tokio::time::sleep(std::time::Duration::from_secs(10)).await;
/// let diagnostics = handle.diagnostics().await.ok_or("the event loop is stuck")?;
/// let shown = serde_json::to_value(&diagnostics)?;
/// assert_eq!(shown["served"]["version"], "v1beta2");
/// assert_eq!(shown["leadership"], "leader", "there is no lease, so no other replica leads");
/// assert_eq!(shown["admissionChecks"][0]["name"], "window");
/// assert_eq!(shown["admissionChecks"][0]["active"], true);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostics {
    served: ServedApi,
    /// The result of a PreemptionRequired verdict, as a sentence.
    preemption_required: &'static str,
    leadership: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    lease_holder: String,
    leading: bool,
    workloads: usize,
    in_flight_evaluations: usize,
    queue: Vec<LaneReport>,
    pending_cleanups: Vec<String>,
    admission_checks: Vec<CheckReport>,
    watches: Vec<WatchReport>,
    problems: Vec<String>,
    recent: Vec<Recent>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LaneReport {
    lane: &'static str,
    depth: usize,
    oldest_seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckReport {
    name: String,
    controller: String,
    active: Option<bool>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    /// The generation of the parameters in use for evaluations.
    parameters_generation: Option<i64>,
    workloads: usize,
}

impl Session {
    pub(super) fn reply(&mut self, query: Query) {
        match query {
            Query::Gauges(reply) => {
                self.set_gauges();
                let _ = reply.send(());
            }
            Query::Diagnostics(reply) => {
                let _ = reply.send(self.diagnostics());
            }
        }
    }

    /// Updates every gauge. Only the leader sets those of checks: a former leader's values are
    /// stale.
    fn set_gauges(&self) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let workloads = self.core.workloads_with_quota();
        self.metrics.workloads.set(count(workloads));
        self.metrics.pending_workloads.clear();
        self.metrics.check_active.clear();
        self.metrics.cleanups.pending.clear();
        for lane in self.lanes() {
            let labels = LaneLabels { lane: lane.lane };
            self.metrics
                .queue
                .depth
                .get_or_create(&labels)
                .set(count(lane.depth));
            self.metrics
                .queue
                .oldest_seconds
                .get_or_create(&labels)
                .set(lane.oldest_seconds);
        }
        if !self.leads() {
            return;
        }
        for (name, check) in &self.core.checks {
            if let Some(active) = check.active() {
                self.metrics
                    .check_active
                    .get_or_create(&CheckLabels::new(&**name))
                    .set(active.is_ok().into());
            }
        }
        for (name, pending) in self.pending() {
            self.metrics
                .pending_workloads
                .get_or_create(&CheckLabels::new(&*name))
                .set(pending);
        }
        for cleanup in self.core.cleanups.iter() {
            self.metrics
                .cleanups
                .pending
                .get_or_create(&CheckLabels::new(
                    cleanup.subject.reservation.admission_check(),
                ))
                .inc();
        }
    }

    fn leads(&self) -> bool {
        self.core.role == Role::Leading
    }

    /// Returns the number of pending Workloads for each check.
    fn pending(&self) -> BTreeMap<Name, i64> {
        let checks = self.core.checks.keys().map(|name| (Name::clone(name), 0));
        let mut pending: BTreeMap<Name, i64> = checks.collect();
        for (workload, tracked) in self.core.workloads.present() {
            for key in tracked.keys.iter().filter(|key| key.reservation.is_some()) {
                let entry = workload
                    .check(&key.check)
                    .filter(|_| Core::is_decided_about(workload));
                if entry.is_some_and(|entry| *entry.state() == CheckState::Pending) {
                    *pending.entry(Name::clone(&key.check)).or_default() += 1;
                }
            }
        }
        pending
    }

    fn lanes(&self) -> Vec<LaneReport> {
        let now = Instant::now();
        let age = |at: Instant| now.duration_since(at).as_secs_f64();
        let depths = self.core.work.queues.iter().map(Queue::depths);
        let all = Lane::ALL.map(|lane| LaneReport {
            lane: lane.as_str(),
            depth: 0,
            oldest_seconds: 0.0,
        });
        let mut all = Vec::from(all);
        for depths in depths {
            for (report, (_, depth, oldest)) in all.iter_mut().zip(depths) {
                report.depth += depth;
                report.oldest_seconds = report.oldest_seconds.max(oldest.map_or(0.0, age));
            }
        }
        all
    }

    fn diagnostics(&self) -> Diagnostics {
        let leadership = self.leadership.borrow().at(Instant::now());
        let core = &self.core;
        Diagnostics {
            served: core.served,
            preemption_required: if core.served.preemption_required {
                "written as PreemptionRequired: the served schema has the state"
            } else {
                "shown as Pending with the reason: the served schema has no such state"
            },
            leadership: leadership.as_str(),
            lease_holder: match leadership {
                Leadership::Standby { holder } => holder,
                _ => String::new(),
            },
            leading: self.leads(),
            workloads: core.workloads_with_quota(),
            in_flight_evaluations: core.work.used_concurrency.iter().sum(),
            queue: self.lanes(),
            pending_cleanups: core
                .cleanups
                .iter()
                .map(|cleanup| cleanup.subject.reservation.to_string())
                .collect(),
            admission_checks: core
                .checks
                .keys()
                .filter_map(|name| self.check_report(name))
                .collect(),
            watches: self.health.watches(),
            problems: self.health.problems(),
            recent: core.recent.iter().cloned().collect(),
        }
    }

    fn check_report(&self, name: &str) -> Option<CheckReport> {
        let check = self.core.checks.get(name)?;
        let active = check.active();
        let problem = active.and_then(Result::err);
        Some(CheckReport {
            name: name.to_owned(),
            controller: check.object.controller_name().to_owned(),
            active: active.map(|active| active.is_ok()),
            reason: problem
                .map(|problem| problem.reason.clone())
                .unwrap_or_default(),
            message: problem
                .map(|problem| problem.message.to_string())
                .unwrap_or_default(),
            parameters_generation: check.valid().map(|valid| valid.generation),
            workloads: self
                .core
                .workloads
                .keys()
                .filter(|(key, state)| &*key.check == name && state.reservation.is_some())
                .count(),
        })
    }
}
