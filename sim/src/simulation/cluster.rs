//! The simulated cluster, for a scenario.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::api::CheckState;
use kueue_check::runtime::{Diagnostics, Runtime};
use kueue_check::{Clock, DynCheck};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::external::ExternalServices;
use super::failure::{fail, json, time};
use super::replica::{Replica, agent, depose, lease_holder};
use super::{CHECK, Job, QUEUE, Simulation, VerdictLog, objects};
use crate::apiserver::{ApiResponse, ApiServer, Backup, Resource};
use crate::definitions::{self, KueueApi};
use crate::faults::{FaultPlan, Injector, ReplicaFault};
use crate::jobs::{Jobs, Nodes};
use crate::kueue::{self, Kueue, Webhook};
use crate::timeline::{Timeline, is_true};

/// A cluster with Kueue, its jobs, and replicas of the check.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # use serde_json::json;
/// use kueue_check_sim::{Cluster, Job, Simulation};
///
/// async fn switched_off_and_on(cluster: &Cluster) {
///     cluster.submit(Job::new("train").namespace("team-a"));
///     cluster.expect_admitted("team-a/train").await;
///     cluster.merge_workload("team-a/train", &json!({"spec": {"active": false}}));
///     cluster.expect_deactivated("team-a/train").await;
///     cluster.advance_to("2026-11-21T12:00:00Z").await;
///     cluster.merge_workload("team-a/train", &json!({"spec": {"active": true}}));
///     cluster.expect_admitted("team-a/train").await;
///     assert_eq!(cluster.verdicts().all().len(), 2); // the first verdict was for another reservation
/// }
/// Simulation::new(|| open).run(switched_off_and_on);
/// ```
#[derive(Debug)]
pub struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) clock: Clock,
    pub(crate) simulation: Simulation,
    pub(crate) plan: FaultPlan,
    pub(crate) verdicts: VerdictLog,
    outside: ExternalServices,
    pub(crate) injector: Arc<Injector>,
    /// The faults of each replica.
    pub(crate) replica_faults: Vec<Arc<ReplicaFault>>,
    /// The resource version after all initial objects.
    pub(crate) prepared: u64,
    deposed: AtomicBool,
    /// The tasks of Kueue, jobs and other actors.
    others: Mutex<Vec<JoinHandle<()>>>,
}

impl Cluster {
    /// Starts a cluster. Must be called inside a paused tokio runtime.
    pub(crate) fn start(simulation: &Simulation, plan: &FaultPlan) -> Self {
        let clock = Clock::following_tokio(simulation.start);
        let kinds = match simulation.api {
            None => definitions::of_version(simulation.version),
            Some(_) => definitions::kueue_in_both_versions(),
        };
        let server = ApiServer::with_definitions(clock.clone(), kinds);
        server.offer(simulation.api.map(KueueApi::offered));
        server.collect_garbage(true);
        let replica_faults: Vec<Arc<ReplicaFault>> =
            (0..simulation.replicas).map(|_| Arc::default()).collect();
        let named = replica_faults.iter().enumerate();
        let named = named.map(|(number, replica_fault)| (agent(number), Arc::clone(replica_fault)));
        let injector = Arc::new(Injector::new(
            plan,
            named.collect(),
            clock.clone(),
            simulation.alter,
        ));
        let verdicts = VerdictLog::new(clock.clone());
        verdicts.pauses_of(&injector);
        Self {
            prepared: 0,
            deposed: AtomicBool::new(false),
            others: Mutex::default(),
            verdicts,
            server,
            clock,
            simulation: simulation.clone(),
            plan: plan.clone(),
            outside: ExternalServices::default(),
            injector,
            replica_faults,
        }
        .with_everything()
    }

    fn with_everything(mut self) -> Self {
        let replicas: Vec<Replica> = (0..self.simulation.replicas)
            .map(|n| self.replica(n))
            .collect();
        let checks = replicas[0].checks(0, &self.clock);
        for object in self.all_objects(&checks) {
            // They do not pass Kueue's webhooks.
            let plural = objects::resource_of(&object).plural;
            if let Some(why) = kueue::refusal(&plural, &object) {
                fail(why);
            }
            objects::create(&self.server, &object);
        }
        // Each replica would find these errors too, but no test would report them.
        if let Err(error) = Runtime::builder(self.server.client())
            .checks(checks)
            .build()
        {
            fail(error.to_string());
        }
        self.prepared = self.server.resource_version();
        self.server
            .set_admission(Arc::new(Webhook::of_version(self.simulation.version)));
        self.server.set_faults(Arc::clone(&self.injector) as _);
        self.start_others();
        for replica in replicas {
            replica.start();
        }
        self
    }

    /// Starts Kueue, its jobs and the other actors, without state in memory.
    fn start_others(&self) {
        let (server, clock) = (&self.server, &self.clock);
        let version = self.simulation.version;
        let kueue = Kueue::new(server, clock, version);
        let jobs = Jobs::of_version(server, clock, version);
        let mut started = vec![
            tokio::spawn(crate::kueue::run(kueue, server.clone(), clock.clone())),
            tokio::spawn(crate::kueue::run(jobs, server.clone(), clock.clone())),
        ];
        if let Some(grace) = self.simulation.grace {
            let nodes = Nodes::new(server, clock).with_grace(grace);
            let nodes = crate::kueue::run(nodes, server.clone(), clock.clone());
            started.push(tokio::spawn(nodes));
        }
        let others = self.simulation.actors.iter();
        started.extend(others.map(|start| start(server, clock)));
        let mut running = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for earlier in std::mem::replace(&mut *running, started) {
            earlier.abort();
        }
    }

    /// Restores a [backup](ApiServer::backup): objects and versions go back. Kueue and the other
    /// controllers restart, as the restore of a cluster requires. The checks run on.
    pub fn restore(&self, backup: &Backup) {
        self.server.restore(backup);
        self.start_others();
    }

    fn replica(&self, number: usize) -> Replica {
        Replica {
            simulation: self.simulation.clone(),
            number,
            server: self.server.clone(),
            clock: self.clock.clone(),
            verdicts: self.verdicts.clone(),
            outside: self.outside.clone(),
            fault: Arc::clone(&self.replica_faults[number]),
        }
    }

    /// Returns the initial objects. The scenario's own objects replace the default ones.
    fn all_objects(&self, made: &[DynCheck]) -> Vec<Value> {
        let (mut all, mut checks) = (Vec::new(), Vec::new());
        for (tried, check) in self.simulation.checks.iter().zip(made) {
            if let Some(definition) = check.definition() {
                let definition = json(&definition);
                if !all.contains(&definition) {
                    all.push(definition);
                }
            }
            let controller = check.controller_name().to_string();
            let parameters = tried.parameters.as_ref();
            checks.push(objects::admission_check(
                &tried.name,
                &controller,
                parameters,
            ));
            all.extend(parameters.cloned());
        }
        let names: Vec<&str> = self
            .simulation
            .checks
            .iter()
            .map(|c| c.name.as_str())
            .collect();
        let mut ours = checks;
        ours.extend(objects::defaults(&names, self.simulation.quota));
        ours.push(objects::local_queue("default"));
        let theirs = &self.simulation.objects;
        ours.retain(|own| !theirs.iter().any(|other| objects::same_place(own, other)));
        all.extend(
            theirs
                .iter()
                .filter(|object| object["kind"] == "CustomResourceDefinition")
                .cloned(),
        );
        all.sort_by_key(|object| object["kind"] != "CustomResourceDefinition");
        all.extend(ours);
        all.extend(
            theirs
                .iter()
                .filter(|object| object["kind"] != "CustomResourceDefinition")
                .cloned(),
        );
        all
    }

    /// Waits until Kueue would admit, so that the first job does not wait for its queue.
    pub(crate) async fn begin(&self) {
        for check in &self.simulation.checks {
            self.expect_condition(&check.name).await;
        }
    }

    /// Returns the API server, for operations without a shortcut here.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Advances the time.
    pub async fn advance(&self, by: Duration) {
        sleep(by).await;
    }

    /// Advances the time to `to`. A time in the past does nothing.
    ///
    /// # Panics
    /// If `to` is no RFC 3339 time.
    pub async fn advance_to(&self, to: &str) {
        let wait = time(to).duration_since(self.now());
        sleep(Duration::try_from(wait).unwrap_or_default()).await;
    }

    /// Submits a job. Its Namespace and the LocalQueue there are created if they do not exist.
    pub fn submit(&self, job: Job) {
        let there = |group: &str, version: &str, plural: &str, namespace: &str, name: &str| {
            let resource = Resource::new(group, version, plural);
            self.server.object(&resource, namespace, name).is_some()
        };
        if !there("", "v1", "namespaces", "", &job.namespace) {
            objects::create(&self.server, &objects::namespace(&job.namespace));
        }
        if !there(
            "kueue.x-k8s.io",
            "v1beta2",
            "localqueues",
            &job.namespace,
            QUEUE,
        ) {
            objects::create(&self.server, &objects::local_queue(&job.namespace));
        }
        objects::create(&self.server, &job.to_object());
    }

    /// Changes the number of pods of an [elastic](Job::elastic) job.
    ///
    /// # Panics
    /// If there is no such job, or the API server rejects the change.
    ///
    /// ```
    /// use kueue_check::{Verdict, admission_check};
    /// use kueue_check_sim::{Job, Simulation};
    ///
    /// #[admission_check(controller = "example.com/open")]
    /// async fn open() -> Verdict {
    ///     Verdict::ready("open")
    /// }
    ///
    /// Simulation::new(|| open).run(async |cluster| {
    ///     cluster.submit(Job::new("train").pods(2).elastic());
    ///     cluster.expect("two pods run", |cluster| cluster.running_pods("train") == 2).await;
    ///     cluster.scale("train", 4);
    ///     cluster.expect("four pods run", |cluster| cluster.running_pods("train") == 4).await;
    /// });
    /// ```
    pub fn scale(&self, job: &str, pods: u32) {
        let (namespace, name) = split(job);
        let place = serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": namespace, "name": name}});
        objects::merge(
            &self.server,
            &place,
            &serde_json::json!({"spec": {"parallelism": pods}}),
        );
    }

    /// Returns the number of running pods of an [elastic](Job::elastic) job.
    pub fn running_pods(&self, job: &str) -> usize {
        let (namespace, name) = split(job);
        let pods = self
            .server
            .objects(&Resource::new("", "v1", "pods"), namespace);
        let own = pods.iter().filter(|pod| owner(pod)["name"] == name);
        own.filter(|pod| pod["status"]["phase"] == "Running")
            .count()
    }

    /// Makes the job's pods succeed.
    ///
    /// # Panics
    /// If there is no such job, or the API server rejects the change.
    pub fn complete(&self, job: &str) {
        let (namespace, name) = split(job);
        let response = crate::jobs::finish(&self.server, namespace, name);
        ended(job, "complete", &response);
    }

    /// Makes the job's pods fail, for good.
    ///
    /// # Panics
    /// If there is no such job, or the API server rejects the change.
    pub fn fail(&self, job: &str) {
        let (namespace, name) = split(job);
        let response = crate::jobs::fail(&self.server, namespace, name);
        ended(job, "fail", &response);
    }

    /// Creates an object, or applies the given fields to an existing one. It works as `kubectl
    /// apply --server-side` does.
    ///
    /// # Panics
    /// If the API server rejects it.
    pub fn apply(&self, object: &impl Serialize) {
        objects::apply(&self.server, &json(object));
    }

    /// Changes an object by a merge patch. Of the object, kind, namespace and name are enough.
    ///
    /// # Panics
    /// If the API server rejects it.
    pub fn merge(&self, object: &impl Serialize, patch: &impl Serialize) {
        objects::merge(&self.server, &json(object), &json(patch));
    }

    /// Deletes an object, of which kind, namespace and name are enough. The objects that it owns
    /// are deleted too, as by kubectl.
    ///
    /// # Panics
    /// If the API server rejects it.
    pub fn delete(&self, object: &impl Serialize) {
        objects::delete(&self.server, &json(object));
    }

    /// Changes the Workload of a job by a merge patch, such as `{"spec": {"active": false}}`.
    ///
    /// # Panics
    /// If the job has no Workload, or the API server rejects the change.
    pub fn merge_workload(&self, job: &str, patch: &impl Serialize) {
        match self.workload(job) {
            Some(workload) => objects::merge(&self.server, &workload, &json(patch)),
            None => fail(format!("`{job}` has no Workload")),
        }
    }

    /// Serves other versions of Kueue's API from now on.
    ///
    /// # Panics
    /// If the simulation does not set the [versions](Simulation::kueue_api) that are served at
    /// first.
    pub fn serve(&self, api: KueueApi) {
        if self.simulation.api.is_none() {
            fail("the simulation serves one version of Kueue's API only");
        }
        self.server.offer(Some(api.offered()));
    }

    /// Crashes a replica of the check; it restarts 1 s later. The first is 0.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn crash(&self, replica: usize) {
        match self.replica_faults.get(replica) {
            Some(replica_fault) => replica_fault.dies.notify_one(),
            None => fail(format!("there is no replica {replica}")),
        }
    }

    /// Returns the state of a replica. It is `None` if the replica is not running, waits for
    /// Kueue's API, or is stuck.
    ///
    /// # Panics
    /// If there is no such replica.
    pub async fn diagnostics(&self, replica: usize) -> Option<Diagnostics> {
        match self.replica_faults.get(replica) {
            Some(replica_fault) => replica_fault.handle()?.diagnostics().await,
            None => fail(format!("there is no replica {replica}")),
        }
    }

    /// Returns the metrics of a replica, as it serves them; `None` if it is not running.
    ///
    /// # Panics
    /// If there is no such replica.
    pub async fn metrics(&self, replica: usize) -> Option<String> {
        match self.replica_faults.get(replica) {
            Some(replica_fault) => Some(replica_fault.handle()?.metrics().await),
            None => fail(format!("there is no replica {replica}")),
        }
    }

    /// Gives the Lease to another replica by force. After `away` the first holder regains it, with
    /// its state in memory.
    ///
    /// # Panics
    /// If no replica holds the Lease: with a single one there is none.
    pub fn depose(&self, away: Duration) {
        if lease_holder(&self.server).is_none() {
            fail("no replica holds the Lease");
        }
        self.deposed.store(true, Ordering::Relaxed);
        depose(&self.server, &self.clock, self.simulation.replicas, away);
    }

    /// Returns true if the scenario has taken the Lease from its holder.
    pub(crate) fn deposed(&self) -> bool {
        self.deposed.load(Ordering::Relaxed)
    }

    /// Returns the Workload of a job; for an elastic job that grows, the newest. The job's name is
    /// as in `train`, or `team-a/train` outside of the Namespace `default`.
    pub fn workload(&self, job: &str) -> Option<Arc<Value>> {
        let (namespace, name) = split(job);
        let all = self.server.objects(&workloads(), namespace);
        let replaced = replaced(&all);
        let own = all.iter().filter(|w| owner(w)["name"] == name);
        let current = own.filter(|w| represents_its_job(w, &replaced));
        let newest = current.min_by_key(|w| is_true(w, "Finished"));
        // A Workload's own name also finds a slice that was replaced.
        let named = || all.iter().find(|w| w["metadata"]["name"] == name);
        newest.or_else(named).cloned()
    }

    /// Returns the check's state for a job, `None` if Kueue has not listed it.
    pub fn state(&self, job: &str) -> Option<CheckState> {
        self.state_of(CHECK, job)
    }

    /// Returns the state of one of several checks.
    pub fn state_of(&self, check: &str, job: &str) -> Option<CheckState> {
        let entry = self.entry(check, job)?;
        entry["state"].as_str().map(CheckState::new)
    }

    /// Returns the check's message for a job; empty if there is none.
    pub fn message(&self, job: &str) -> String {
        self.message_of(CHECK, job)
    }

    /// Returns the message of one of several checks.
    pub fn message_of(&self, check: &str, job: &str) -> String {
        let entry = self.entry(check, job);
        let message = entry.as_ref().and_then(|entry| entry["message"].as_str());
        message.unwrap_or_default().to_owned()
    }

    pub(super) fn entry(&self, check: &str, job: &str) -> Option<Value> {
        let workload = self.workload(job)?;
        let entries = workload["status"]["admissionChecks"].as_array()?;
        entries.iter().find(|entry| entry["name"] == check).cloned()
    }

    /// Returns true if Kueue has admitted a job.
    pub fn is_admitted(&self, job: &str) -> bool {
        self.condition(job, "Admitted")
    }

    /// Returns true if a condition of a job's Workload is True. Conditions are `QuotaReserved`,
    /// `Evicted`, `Finished` and others.
    pub fn condition(&self, job: &str, condition: &str) -> bool {
        self.workload(job)
            .is_some_and(|workload| is_true(&workload, condition))
    }

    /// Returns all verdicts of the checks so far.
    pub fn verdicts(&self) -> &VerdictLog {
        &self.verdicts
    }

    /// Returns the service outside the cluster that a check created with
    /// [`CheckContext::external`](super::CheckContext::external).
    ///
    /// # Panics
    /// If no check has created one of this type.
    pub fn external<T: Clone + Send + Sync + 'static>(&self) -> T {
        match self.outside.get() {
            Some(service) => service,
            None => fail(format!(
                "there is no {} outside",
                std::any::type_name::<T>()
            )),
        }
    }

    /// Counts the requests of the check's replicas so far. `what` is the beginning of a request,
    /// such as `apply workloads/status` or `list`; empty counts all.
    pub fn requests(&self, what: &str) -> usize {
        self.injector.requests(what)
    }

    /// Returns the Workloads over time, so far.
    pub fn timeline(&self) -> Timeline {
        Timeline::of(&self.server, self.now())
    }
}

/// Fails unless the API server accepted the end of `job`.
fn ended(job: &str, how: &str, response: &ApiResponse) {
    if response.code != 200 {
        fail(format!("`{job}` can't {how}: {}", response.body["message"]));
    }
}

/// Returns the Workloads that represent their jobs.
pub(crate) fn current(all: &[Arc<Value>]) -> impl Iterator<Item = &Arc<Value>> {
    let replaced = replaced(all);
    all.iter().filter(move |w| represents_its_job(w, &replaced))
}

/// Returns the slices that are or will be replaced, each as `namespace/name`.
fn replaced(all: &[Arc<Value>]) -> BTreeSet<&str> {
    const REPLACES: &str = "kueue.x-k8s.io/workload-slice-replacement-for";
    let annotations = all.iter().map(|w| &w["metadata"]["annotations"]);
    annotations.filter_map(|a| a[REPLACES].as_str()).collect()
}

/// Returns false for slices that are replaced, and for variants, which their parent represents.
fn represents_its_job(workload: &Value, replaced: &BTreeSet<&str>) -> bool {
    let text = |field: &str| workload["metadata"][field].as_str().unwrap_or_default();
    let is_replaced = || replaced.contains(&*format!("{}/{}", text("namespace"), text("name")));
    owner(workload)["kind"] != "Workload" && (replaced.is_empty() || !is_replaced())
}

/// Returns the first owner of an object; `null` if there is none.
pub(crate) fn owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]
}

/// Splits `namespace/name`; a name alone is in `default`.
fn split(job: &str) -> (&str, &str) {
    job.split_once('/').unwrap_or(("default", job))
}

pub(crate) fn workloads() -> Resource {
    Resource::new("kueue.x-k8s.io", "v1beta2", "workloads")
}
