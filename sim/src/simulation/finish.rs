//! The end of a run: what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use kueue_check::api::CheckState;
use serde_json::Value;
use tokio::time::sleep;

use super::cluster::{Cluster, is_true, workloads};
use super::failure::Failure;
use crate::apiserver::Resource;
use crate::explore::{Evidence, Fault, JobOutcome, Outcome, Run, violations};

/// So long nothing may change until all is at rest.
const REST: Duration = Duration::from_secs(30);
/// It must come to rest within this.
const PATIENCE: Duration = Duration::from_secs(900);
/// Then so long is looked for writes without a cause.
const QUIET: Duration = Duration::from_secs(120);

impl Cluster {
    pub(super) async fn finish(self, failed: Option<Failure>) -> Run {
        self.injector.stop();
        let mut run = Run {
            plan: self.plan.clone(),
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
            run.violations
                .push("quiet: the check asks and asks, and no time passes".to_owned());
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
        let more = self.more_checks();
        let tried = self.simulation.checks.iter().map(|c| c.name.as_str());
        let mut names: Vec<&str> = tried.chain(more.iter().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        run.violations = violations(&Evidence {
            checks: &names,
            history: &self.server.history(),
            answers: &self.answers.all(),
            since: self.prepared,
            replicas: self.simulation.replicas,
            second_leader: self.plan.has(Fault::SecondLeader),
        });
        for invariant in &self.simulation.invariants {
            if let Err(broken) = (invariant.holds)(&self) {
                run.violations.push(format!("{}: {broken}", invariant.name));
            }
        }
        run
    }

    async fn rest(&self) {
        let (mut still, mut waited) = (Duration::ZERO, Duration::ZERO);
        let mut before = self.writes();
        let step = Duration::from_secs(5);
        while still < REST && waited < PATIENCE {
            sleep(step).await;
            waited += step;
            still += step;
            let now = self.writes();
            if now != before {
                (before, still) = (now, Duration::ZERO);
            }
        }
    }

    /// Other AdmissionChecks that a check answers too, because they have its controller name.
    fn more_checks(&self) -> Vec<String> {
        let resource = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
        let tried = self.simulation.checks.iter();
        let controllers: Vec<Value> = tried
            .filter_map(|check| self.server.object(&resource, "", &check.name))
            .map(|check| check["spec"]["controllerName"].clone())
            .collect();
        let there = self.server.objects(&resource, "");
        let ours = there
            .iter()
            .map(|object| &**object)
            .chain(&self.simulation.objects)
            .filter(|object| {
                object["kind"] == "AdmissionCheck"
                    && controllers.contains(&object["spec"]["controllerName"])
            });
        ours.filter_map(|check| check["metadata"]["name"].as_str())
            .map(ToOwned::to_owned)
            .collect()
    }

    /// What the replicas have written so far, besides their Lease and events.
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
        let jobs = all.iter().map(|workload| (name(workload), job(workload)));
        let checks = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
        let checks = self.server.objects(&checks, "");
        let checks = checks
            .iter()
            .map(|check| (text(&check["metadata"]["name"]), is_true(check, "Active")));
        Outcome {
            jobs: jobs.collect(),
            active: checks.collect(),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A Workload by its job.
fn name(workload: &Value) -> String {
    let metadata = &workload["metadata"];
    let owner = metadata
        .pointer("/ownerReferences/0/name")
        .unwrap_or(&metadata["name"]);
    format!("{}/{}", text(&metadata["namespace"]), text(owner))
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
        finished: is_true(workload, "Finished"),
        active: workload["spec"]["active"] != false,
        states,
    }
}
