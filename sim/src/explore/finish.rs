//! The end of a run, and its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kueue_check::api::CheckState;
use serde_json::Value;
use tokio::time::sleep;

use super::invariants::{RunRecord, violations};
use super::run::{JobOutcome, Outcome, Run};
use crate::faults::Fault;
use crate::kueue::resource;
use crate::simulation::{CheckKey, Cluster, Failure, current, owner, workloads};
use crate::timeline::{is_true, text};

/// The time without a write after which the cluster is at rest.
const REST: Duration = Duration::from_secs(30);
/// The time limit for coming to rest.
const REST_TIMEOUT: Duration = Duration::from_secs(900);
/// The time after that in which writes without a cause are counted.
const QUIET: Duration = Duration::from_secs(120);

impl Cluster {
    pub(super) async fn finish(self, failed: Option<Failure>) -> Run {
        let run = self.finished(failed).await;
        // A handle holds the checks, and the checks hold the owner of the handle.
        for replica_fault in &self.replica_faults {
            replica_fault.set_handle(None);
        }
        run
    }

    async fn finished(&self, failed: Option<Failure>) -> Run {
        self.injector.stop();
        let mut run = Run {
            plan: self.plan.clone(),
            not_injected: self.injector.not_injected(),
            seed: self.simulation.seed,
            points: self.injector.points(),
            failure: failed.map(|failure| failure.0),
            violations: Vec::new(),
            outcome: Outcome::default(),
            requests: self.injector.requests(""),
            restless: 0,
            until: self.now(),
            server: self.server.clone(),
        };
        if self.injector.looped() {
            run.violations.push(
                "quiet: the replicas send requests without end, and no time passes".to_owned(),
            );
        }
        if run.failed() {
            return run;
        }
        self.rest().await;
        let before = self.writes();
        sleep(QUIET).await;
        run.restless = self.writes() - before;
        run.outcome = self.outcome();
        run.until = self.now();
        run.requests = self.injector.requests("");
        run.violations = self.violations();
        run.violations.extend(self.misreported().await);
        for invariant in &self.simulation.invariants {
            if let Err(broken) = (invariant.holds)(self) {
                run.violations.push(format!("{}: {broken}", invariant.name));
            }
        }
        run
    }

    /// Returns the invariants that the run violated.
    fn violations(&self) -> Vec<String> {
        let history = self.server.history();
        let traits = self.verdicts.traits();
        let mut limits: Vec<(&str, u32)> = Vec::new();
        let mut outliving: Vec<&str> = Vec::new();
        // By name, for all versions of an AdmissionCheck. One with parameters may have other
        // limits. The history may be trimmed, so existing objects count too.
        let mut keys: BTreeMap<&str, BTreeSet<CheckKey>> = BTreeMap::new();
        let there = self.server.objects(&resource("admissionchecks"), "");
        let changes = history.iter();
        let changed = changes.filter(|change| change.resource.plural == "admissionchecks");
        for check in changed.map(|change| &change.object).chain(&there) {
            let (name, spec) = (&check["metadata"]["name"], &check["spec"]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let parameters = spec.get("parameters").filter(|given| !given.is_null());
            let kind = parameters.map(|given| (text(&given["kind"]), text(&given["apiGroup"])));
            let of_name = keys.entry(name.as_str().unwrap_or_default());
            let of_name = of_name.or_default();
            of_name.insert((text(&spec["controllerName"]), kind));
        }
        for (name, keys) in &keys {
            let known = keys.iter().filter_map(|key| traits.get(key));
            if keys.iter().all(|(_, kind)| kind.is_none()) {
                limits.extend(known.clone().map(|known| (*name, known.evictions)));
            }
            if known.clone().any(|known| known.outlives) {
                outliving.push(name);
            }
        }
        let is_ours = |key: &CheckKey| traits.keys().any(|(controller, _)| *controller == key.0);
        let ours = keys.iter().filter(|(_, keys)| keys.iter().any(is_ours));
        let names: Vec<&str> = ours.map(|(name, _)| *name).collect();
        violations(&RunRecord {
            checks: &names,
            history: &history,
            verdicts: &self.verdicts.all(),
            calls: &self.verdicts.calls(),
            pauses: &self.injector.pauses(),
            eviction_limits: &limits,
            outliving: &outliving,
            since: self.prepared,
            replicas: self.simulation.replicas,
            second_leader: self.deposed() || self.plan.faults().any(Fault::takes_the_lease),
            clocks_differ: self.plan.faults().any(|fault| fault.skew().is_some()),
            faults: self.plan.len(),
        })
    }

    async fn rest(&self) {
        let (mut still, mut waited) = (Duration::ZERO, Duration::ZERO);
        let mut before = self.writes();
        let step = Duration::from_secs(5);
        while still < REST && waited < REST_TIMEOUT {
            sleep(step).await;
            waited += step;
            still += step;
            let now = self.writes();
            if now != before {
                (before, still) = (now, Duration::ZERO);
            }
        }
    }

    /// Returns the number of writes of the replicas so far, besides their Lease and events.
    fn writes(&self) -> usize {
        ["apply", "create", "update", "patch", "delete"]
            .iter()
            .map(|verb| {
                let about = |what: &str| self.injector.requests(&format!("{verb} {what}"));
                about("") - about("leases") - about("events")
            })
            .sum()
    }

    fn outcome(&self) -> Outcome {
        let all = self.server.objects(&workloads(), "");
        let jobs = current(&all).map(|workload| (name(workload), job(workload)));
        let checks = self.server.objects(&resource("admissionchecks"), "");
        let checks = checks
            .iter()
            .map(|check| (text(&check["metadata"]["name"]), is_true(check, "Active")));
        Outcome {
            jobs: jobs.collect(),
            active: checks.collect(),
        }
    }
}

/// Returns `namespace/job` of a Workload, or its own name without an owner.
fn name(workload: &Value) -> String {
    let metadata = &workload["metadata"];
    let name = owner(workload)["name"].as_str();
    let name = name.or(metadata["name"].as_str()).unwrap_or_default();
    format!("{}/{name}", text(&metadata["namespace"]))
}

fn job(workload: &Value) -> JobOutcome {
    let entries = workload["status"]["admissionChecks"].as_array();
    let states: BTreeMap<String, CheckState> = entries
        .into_iter()
        .flatten()
        .map(|entry| {
            (
                text(&entry["name"]),
                CheckState::new(&text(&entry["state"])),
            )
        })
        .collect();
    JobOutcome {
        admitted: is_true(workload, "Admitted"),
        reserved: is_true(workload, "QuotaReserved"),
        finished: is_true(workload, "Finished"),
        active: workload["spec"]["active"] != false,
        states,
    }
}
