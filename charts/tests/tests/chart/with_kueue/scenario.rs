//! Operations of users and the autoscaler in a town whose pods run, with two invariants. No job is
//! stopped except by the scenario, and nothing is released while its pods run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use kueue_check::runtime::RuntimeHandle;
use kueue_check_testenv::JobController;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::pods::{Node, OfJob};
use super::{Town, is_true, job, message_contains};
use crate::harness::{eventually, job_controller};

/// The time that the pods of all jobs take to end.
pub(super) const GRACE: Duration = Duration::from_secs(6);
/// The maximum time for which pods may run that are not counted.
const UNCOUNTED: Duration = Duration::from_secs(10);

/// A scenario in a town.
pub(super) struct Scenario {
    pub(super) town: Town,
    node: Node,
    _jobs: JobController,
    witness: Arc<Mutex<Witness>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Scenario {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The observed violations.
#[derive(Default)]
struct Witness {
    /// The jobs that clients other than a check may stop.
    may_stop: BTreeSet<String>,
    /// Whether each job was suspended when it was last observed.
    suspended: BTreeMap<String, bool>,
    violations: Vec<String>,
    /// The longest time for which uncounted pods ran.
    uncounted: Duration,
}

fn locked(witness: &Mutex<Witness>) -> MutexGuard<'_, Witness> {
    witness.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scenario {
    pub(super) async fn begin(town: Town) -> Self {
        let node = Node::start(&town.stage, GRACE);
        let witness: Arc<Mutex<Witness>> = Arc::default();
        let jobs = job_controller().await;
        let job = town.job_of("");
        let suspensions = Arc::clone(&witness);
        let watched = watch(town.stage.api(&job), move |object, _| {
            suspension(&mut locked(&suspensions), object);
        });
        Self {
            town,
            node,
            _jobs: jobs,
            witness,
            tasks: vec![watched],
        }
    }

    /// Submits a job of `pods` pods of one CPU.
    pub(super) async fn submit(&self, name: &str, pods: u32) {
        self.town.stage.apply(&self.town.job_with(name, pods)).await;
    }

    /// Submits an elastic job. It ends when one of its pods succeeds.
    pub(super) async fn submit_elastic(&self, name: &str, pods: u32) {
        let mut job = self.town.job_with(name, pods);
        job["metadata"]["annotations"] = json!({"kueue.x-k8s.io/elastic-job": "true"});
        job["spec"].as_object_mut().unwrap().remove("completions");
        self.town.stage.apply(&job).await;
    }

    /// Submits a job of a higher priority, which preempts others.
    pub(super) async fn submit_urgent(&self, name: &str, pods: u32) {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000});
        self.town.stage.apply(&class).await;
        let mut job = self.town.job_with(name, pods);
        job["spec"]["template"]["spec"]["priorityClassName"] = json!("urgent");
        self.town.stage.apply(&job).await;
    }

    /// Scales an elastic job to `pods` pods, as its owner does.
    pub(super) async fn scale(&self, name: &str, pods: u32) {
        let job = self.town.job_of(name);
        self.town
            .merge(&job, false, json!({"spec": {"parallelism": pods}}))
            .await;
    }

    /// Stops the job, as a user does.
    pub(super) async fn deactivate(&self, job: &str) {
        self.active(job, false).await;
    }

    /// Resumes the job, as a user does.
    pub(super) async fn activate(&self, job: &str) {
        self.active(job, true).await;
    }

    async fn active(&self, job: &str, active: bool) {
        let newest = self.town.slices(job).await.pop().unwrap();
        let patch = json!({"spec": {"active": active}});
        self.town.merge(&newest, false, patch).await;
    }

    /// From now on clients other than a check may stop `job`.
    pub(super) fn may_stop(&self, job: &str) {
        locked(&self.witness).may_stop.insert(job.to_owned());
    }

    /// Lets `pods` pods of a job succeed.
    pub(super) fn succeed(&self, job: &str, pods: usize) {
        self.node.pods.succeed(job, pods);
    }

    /// Lets all pods of the job succeed, so that it ends. If Kueue stops it meanwhile, to start it
    /// with a better variant, the new pods succeed too.
    pub(super) async fn complete(&self, job: &str) {
        eventually(&format!("{job}: it is finished"), async || {
            self.succeed(job, self.node.pods.of(job).running);
            let newest = self.town.slices(job).await.pop().unwrap_or_default();
            (is_true(&newest, "Finished"), self.in_short(job).await)
        })
        .await;
    }

    /// Waits until `pods` pods of `job` run and none of them is ending or gated.
    pub(super) async fn runs(&self, job: &str, pods: usize) {
        let wanted = OfJob {
            running: pods,
            ..OfJob::default()
        };
        eventually(&format!("{pods} pods of {job} run"), async || {
            let seen = self.node.pods.of(job);
            (seen == wanted, (seen, self.in_short(job).await))
        })
        .await;
    }

    /// Checks for some seconds that only `pods` pods of `job` run and nothing changes.
    pub(super) async fn runs_on(&self, job: &str, pods: usize) {
        for _ in 0..15 {
            let seen = self.node.pods.of(job);
            if (seen.running, seen.ending) != (pods, 0) {
                let slices = self.in_short(job).await;
                panic!("{pods} pods of {job} should run, and there are {seen:?}: {slices:#?}");
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Returns the Workloads of `job`, the newest last, each in a line.
    pub(super) async fn in_short(&self, job: &str) -> Vec<String> {
        let slices = self.town.slices(job).await;
        slices.iter().map(in_short).collect()
    }

    /// Waits until `holds` returns true for the newest Workload of `job`.
    pub(super) async fn newest(&self, job: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        eventually(&format!("{job}: {what}"), async || {
            let newest = self.town.slices(job).await.pop().unwrap_or_default();
            (holds(&newest), self.in_short(job).await)
        })
        .await;
    }

    /// Waits until a check's message for the newest Workload of `job`, which has `pods` pods,
    /// contains `text`.
    pub(super) async fn waits(&self, job: &str, pods: u32, text: &str) {
        self.newest(job, &format!("it waits: {text}"), |workload| {
            let fits = workload["spec"]["podSets"][0]["count"] == pods;
            fits && message_contains(workload, text) && !is_true(workload, "Admitted")
        })
        .await;
    }

    /// From now on a pod that runs for more than 10 s must be committed with one unit.
    pub(super) fn counted(&mut self, budget: &str) {
        let checks = self.town.checks.clone().unwrap();
        let witness = Arc::clone(&self.witness);
        let (budget, pods) = (budget.to_owned(), self.node.pods.clone());
        self.tasks.push(tokio::spawn(async move {
            let mut since: Option<Instant> = None;
            loop {
                let running: usize = pods.all().values().map(|of_job| of_job.running).sum();
                let committed = committed(&checks, &budget).await;
                #[expect(clippy::cast_precision_loss, reason = "few pods")]
                let all = committed + 0.1 >= running as f64;
                if all {
                    since = None;
                } else {
                    let uncounted = since.get_or_insert_with(Instant::now).elapsed();
                    let mut witness = locked(&witness);
                    witness.uncounted = witness.uncounted.max(uncounted);
                    if uncounted > UNCOUNTED {
                        let what = format!("{running} pods run, {committed} is committed");
                        witness.violations.push(what);
                        since = None;
                    }
                }
                sleep(Duration::from_millis(200)).await;
            }
        }));
    }

    /// Checks the invariants at the end.
    pub(super) fn end(self) {
        let witness = locked(&self.witness);
        assert!(witness.violations.is_empty(), "{:#?}", witness.violations);
        println!("  pods ran uncounted for at most {:?}", witness.uncounted);
    }

    /// As [`end`](Self::end), and checks that at no time pods of more than `seats` jobs ran.
    pub(super) fn end_with_seats(self, seats: usize) {
        for (at, pods) in self.node.pods.history() {
            let running = pods.iter().filter(|(_, of_job)| of_job.running > 0);
            let running: Vec<_> = running.collect();
            assert!(running.len() <= seats, "{at:?}: {running:?}");
        }
        self.end();
    }
}

/// Returns a Workload's name, its requested and assigned pods, its true conditions and its checks.
fn in_short(workload: &Value) -> String {
    let status = &workload["status"];
    let of = |list: &Value, line: &dyn Fn(&Value) -> Option<String>| {
        let lines = list.as_array().into_iter().flatten().filter_map(line);
        lines.collect::<Vec<String>>().join(", ")
    };
    let condition = |condition: &Value| {
        let [kind, reason, message] =
            ["type", "reason", "message"].map(|key| condition[key].as_str().unwrap_or_default());
        let not = if condition["status"] == "True" {
            ""
        } else {
            "not "
        };
        let words = if kind == "Finished" { message } else { "" };
        Some(
            format!("{not}{kind} ({reason}) {words}")
                .trim_end()
                .to_owned(),
        )
    };
    let entry = |entry: &Value| {
        let [state, message] = ["state", "message"].map(|key| entry[key].as_str());
        Some(format!(
            "{}: {}",
            state.unwrap_or_default(),
            message.unwrap_or_default()
        ))
    };
    format!(
        "{} of {} pods, {} assigned; {}; {}",
        workload["metadata"]["name"].as_str().unwrap_or_default(),
        workload["spec"]["podSets"][0]["count"],
        status["admission"]["podSetAssignments"][0]["count"],
        of(&status["conditions"], &condition),
        of(&status["admissionChecks"], &entry),
    )
}

/// Returns the committed amount of a Budget.
async fn committed(checks: &RuntimeHandle, budget: &str) -> f64 {
    let text = checks.metrics().await;
    let head = format!("budget_committed{{budget=\"{budget}\"");
    let lines = text.lines().filter(|line| line.starts_with(&head));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// Records that a running Job was suspended although only a check could have caused it.
fn suspension(witness: &mut Witness, job: &DynamicObject) {
    let name = job.metadata.name.clone().unwrap_or_default();
    let suspended = job.data["spec"]["suspend"] == true;
    let before = witness.suspended.insert(name.clone(), suspended);
    if suspended && before == Some(false) && !witness.may_stop.contains(&name) {
        witness.violations.push(format!("{name} was stopped"));
    }
}

/// Reports each change of the objects of `api`, and whether it is a deletion.
fn watch(
    api: Api<DynamicObject>,
    mut show: impl FnMut(&DynamicObject, bool) + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        loop {
            match events.try_next().await {
                Ok(Some(Event::Apply(object) | Event::InitApply(object))) => show(&object, false),
                Ok(Some(Event::Delete(object))) => show(&object, true),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    })
}

impl Town {
    /// Returns the Workloads of the job `name`. The newest, which no other replaces, is last.
    /// Variants, which a Workload owns, are not included.
    pub(super) async fn slices(&self, name: &str) -> Vec<Value> {
        let mut all = self.stage.list("Workload", Some(self.name())).await;
        let replaces = |workload: &Value| {
            let annotation = "kueue.x-k8s.io/workload-slice-replacement-for";
            let replaced = workload["metadata"]["annotations"][annotation].as_str();
            replaced.and_then(|key| Some(key.rsplit_once('/')?.1.to_owned()))
        };
        let replaced: BTreeSet<String> = all.iter().filter_map(replaces).collect();
        all.retain(|workload| {
            let owner = &workload["metadata"]["ownerReferences"][0];
            owner["kind"] == "Job" && owner["name"] == name
        });
        all.sort_by_key(|workload| {
            let own = workload["metadata"]["name"].as_str().unwrap_or_default();
            !replaced.contains(own)
        });
        all
    }

    /// Returns the Job `name` with its kind and name only.
    fn job_of(&self, name: &str) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": self.name(), "name": name}})
    }

    /// Returns a Job of `pods` pods of one CPU each, which the namespace accepts.
    fn job_with(&self, name: &str, pods: u32) -> Value {
        let mut job = job(self.name(), name);
        job["spec"]["parallelism"] = json!(pods);
        job["spec"]["completions"] = json!(pods);
        let pod = &mut job["spec"]["template"]["spec"];
        pod["terminationGracePeriodSeconds"] = json!(GRACE.as_secs());
        pod["securityContext"] =
            json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        pod["containers"][0]["securityContext"] =
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        job
    }
}
