//! A stand-in for Kueue: submits jobs, and reserves, runs and ends them by Kueue's API contract.

mod bodies;
mod step;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use self::step::{Around, Progress, Step, step};
use crate::cluster::{Failure, How, Writer};
use crate::meter::{Meter, Seconds};
use crate::plan::JobPlan;
use crate::random::Random;
use crate::witness::{Kind, Witness};

/// The interval between reconciliations of all jobs.
const TICK: Duration = Duration::from_millis(250);
/// The maximum number of jobs of a namespace that hold quota.
const QUOTA: usize = 10;
/// The maximum number of unfinished jobs of a namespace.
const JOBS: usize = 16;

/// The phase of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Jobs are submitted.
    Work,
    /// No job is submitted.
    Finish,
    /// All jobs end.
    Drain,
}

/// A job of the run.
struct Job {
    plan: JobPlan,
    progress: Progress,
}

impl Job {
    fn key(&self) -> String {
        format!("{}/{}", self.plan.namespace, self.plan.name)
    }
}

/// A stand-in for Kueue, the users and the nodes.
pub(crate) struct Driver {
    pub(crate) writer: Writer,
    pub(crate) witness: Witness,
    pub(crate) meter: Arc<Mutex<Meter>>,
    pub(crate) seed: u64,
    /// The number of operations, by name.
    pub(crate) counts: Arc<Mutex<BTreeMap<&'static str, u64>>>,
    pub(crate) phase: watch::Receiver<Phase>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut jobs: BTreeMap<String, Job> = BTreeMap::new();
        let mut random = Random::new(self.seed, "submissions");
        let (mut number, mut next) = (0, 0.0);
        loop {
            let phase = *self.phase.borrow();
            let now = self.writer.now();
            if phase == Phase::Work && now >= next {
                next = now + random.between(0.3, 1.6);
                let job = JobPlan::draw(self.seed, number);
                let unfinished = jobs.values().filter(|one| {
                    one.plan.namespace == job.namespace && one.progress.ended.is_none()
                });
                if unfinished.count() < JOBS {
                    number += 1;
                    let progress = Progress::default();
                    let job = Job {
                        plan: job,
                        progress,
                    };
                    jobs.insert(job.key(), job);
                }
            }
            self.tick(&mut jobs, phase == Phase::Drain).await;
            sleep(TICK).await;
        }
    }

    async fn tick(&self, jobs: &mut BTreeMap<String, Job>, drain: bool) {
        let now = self.writer.now();
        let mut steps = Vec::new();
        let mut quota: BTreeMap<&'static str, usize> = BTreeMap::new();
        {
            let seen = self.witness.seen();
            for (key, job) in jobs.iter_mut() {
                let view = seen.workload(key);
                job.follow(view, now);
                if view.is_some_and(|view| view.reservation.is_some() && !view.finished) {
                    *quota.entry(job.plan.namespace).or_default() += 1;
                }
            }
            for (key, job) in jobs.iter() {
                let taken = quota.entry(job.plan.namespace).or_default();
                let around = Around {
                    now,
                    runs: lock(&self.meter).runs(key, now),
                    quota: *taken < QUOTA,
                    drain,
                };
                let next = step(&job.plan, &job.progress, seen.workload(key), around);
                if next == Step::Reserve {
                    *taken += 1;
                }
                if next != Step::Wait {
                    let object = seen.get(Kind::Workload, key).cloned();
                    steps.push((key.clone(), next, object.unwrap_or_default()));
                }
            }
        }
        let all = &*jobs;
        let done: Vec<(String, Step, bool)> = stream::iter(steps)
            .map(async |(key, step, object)| {
                let done = match all.get(&key) {
                    Some(job) => self.act(job, step, &object).await.is_ok(),
                    None => false,
                };
                (key, step, done)
            })
            .buffer_unordered(8)
            .collect()
            .await;
        for (key, step, _) in done.iter().filter(|(.., done)| *done) {
            *lock(&self.counts).entry(counted_as(*step)).or_default() += 1;
            if *step == Step::Drop {
                jobs.remove(key);
            } else if let Some(job) = jobs.get_mut(key) {
                self.done(job, *step);
            }
        }
    }

    /// Carries out the next step of `job`. A failed write is retried with the next pass.
    async fn act(&self, job: &Job, step: Step, object: &Value) -> Result<(), Failure> {
        let (plan, key) = (&job.plan, job.key());
        let time = self.writer.time();
        let stops = || {
            let gone = self.writer.now() + plan.stops;
            lock(&self.meter).stop(&key, gone);
        };
        let apply = How::Apply(bodies::ADMISSION);
        let status = async |body: Value| self.writer.patch(object, apply, true, &body).await;
        match step {
            Step::Create => self.writer.create(&bodies::workload(plan)).await,
            Step::AddChecks => {
                let version = &object["metadata"]["resourceVersion"];
                let body = json!({
                    "metadata": {"resourceVersion": version},
                    "status": {"admissionChecks": bodies::checks(plan, &time)},
                });
                self.writer.patch(object, How::Merge, true, &body).await
            }
            Step::Reserve => status(bodies::reserved(object, plan, &time)).await,
            Step::Admit => status(bodies::admitted(object, &time)).await,
            // The pods are stopped before the write, so they never continue to run because the API
            // server does not respond.
            Step::Evict(reason) => {
                stops();
                status(bodies::evicted(object, reason, &time)).await
            }
            Step::Release => {
                let ran = crate::judge::condition(object, "Admitted").map_or(0, |since| {
                    let ran = self.writer.now() - seconds(Some(since));
                    Duration::try_from_secs_f64(ran)
                        .unwrap_or_default()
                        .as_secs()
                });
                status(bodies::released(object, ran, &time)).await
            }
            Step::LoseQuota => status(bodies::released(object, 0, &time)).await,
            Step::Finish => {
                stops();
                let body = bodies::finished(object, &time);
                let manager = How::Apply("kueue-job-controller-Finished");
                self.writer.patch(object, manager, true, &body).await
            }
            Step::Deactivate => {
                let body = json!({"spec": {"active": false}});
                self.writer.patch(object, How::Merge, false, &body).await
            }
            Step::Delete => {
                stops();
                self.writer.delete(object).await
            }
            Step::Start | Step::Drop | Step::Wait => Ok(()),
        }
    }

    /// Records the consequences of a step.
    fn done(&self, job: &mut Job, step: Step) {
        let now = self.writer.now();
        let key = job.key();
        match step {
            Step::Create => job.progress.created = true,
            Step::Start => {
                let seen = self.witness.seen();
                let view = seen.workload(&key).cloned().unwrap_or_default();
                let object = seen.get(Kind::Workload, &key).cloned().unwrap_or_default();
                drop(seen);
                let worked = lock(&self.meter).worked(&key, now);
                // Kueue stops it at its time limit, which counts from the admission.
                let past = object["status"]["accumulatedPastExecutionTimeSeconds"].as_f64();
                let left = f64::from(job.plan.longest) - past.unwrap_or(0.0);
                let latest = seconds(crate::judge::condition(&object, "Admitted")) + left;
                let until = (now + job.plan.work - worked).min(latest).max(now);
                let namespace = job.plan.namespace;
                let rate = job.plan.rate();
                lock(&self.meter).start(&key, namespace, rate, (now, until));
                job.progress.started = view.reservation;
                job.progress.until = until;
            }
            Step::Release | Step::LoseQuota => {
                job.progress.queued_until = now + job.plan.waits;
            }
            _ => {}
        }
        let interruptions = [Step::Delete, Step::LoseQuota, Step::Deactivate];
        if interruptions.contains(&step) || matches!(step, Step::Evict(_)) {
            job.progress.interruption = true;
        }
    }
}

impl Job {
    /// Records the observed state of its Workload.
    fn follow(&mut self, view: Option<&crate::judge::View>, now: Seconds) {
        let progress = &mut self.progress;
        let Some(view) = view else {
            return;
        };
        progress.seen = true;
        if view.finished || !view.active {
            progress.ended.get_or_insert(now);
        }
        match &view.reservation {
            None => progress.reserved = None,
            Some(of)
                if progress
                    .reserved
                    .as_ref()
                    .is_none_or(|(known, _)| known != of) =>
            {
                progress.reserved = Some((of.clone(), now));
            }
            Some(_) => {}
        }
    }
}

/// Returns the RFC 3339 time `text` in seconds since 1970.
fn seconds(text: Option<&str>) -> Seconds {
    let time = text.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    time.unwrap_or_default().as_duration().as_secs_f64()
}

fn counted_as(step: Step) -> &'static str {
    match step {
        Step::Create => "submitted",
        Step::AddChecks => "queued",
        Step::Reserve => "reserved",
        Step::Admit => "admitted",
        Step::Start => "started",
        Step::Finish => "finished",
        Step::Evict("AdmissionCheck") => "evicted by a check",
        Step::Evict(_) => "evicted",
        Step::Release => "released",
        Step::LoseQuota => "lost quota",
        Step::Deactivate => "deactivated",
        Step::Delete => "deleted",
        Step::Drop => "gone",
        Step::Wait => "waiting",
    }
}
