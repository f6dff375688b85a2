//! Users for the real Kueue: they submit Jobs, stop and delete them, and stop queues.

mod bodies;
mod node;
mod step;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

pub(crate) use self::node::Node;
use self::step::{Progress, Step, step};
use crate::cluster::{Failure, How, Writer};
use crate::driver::Phase;
use crate::meter::Seconds;
use crate::plan::JobPlan;
use crate::random::Random;
use crate::witness::{Kind, Witness};

const TICK: Duration = Duration::from_millis(300);
/// The maximum number of jobs of a namespace that have not ended.
const JOBS: usize = 12;

/// The users.
pub(crate) struct Users {
    pub(crate) writer: Writer,
    pub(crate) witness: Witness,
    pub(crate) seed: u64,
    /// The number of operations, by name.
    pub(crate) counts: Arc<Mutex<BTreeMap<&'static str, u64>>>,
    pub(crate) phase: watch::Receiver<Phase>,
}

struct Job {
    plan: JobPlan,
    progress: Progress,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Users {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut jobs: BTreeMap<String, Job> = BTreeMap::new();
        let mut random = Random::new(self.seed, "submissions");
        let (mut number, mut next) = (0, 0.0);
        loop {
            let (phase, now) = (*self.phase.borrow(), self.writer.now());
            if phase == Phase::Work && now >= next {
                next = now + random.between(0.5, 2.5);
                let plan = JobPlan::draw(self.seed, number);
                let there = jobs
                    .values()
                    .filter(|job| job.plan.namespace == plan.namespace);
                if there.filter(|job| job.progress.ended.is_none()).count() < JOBS {
                    number += 1;
                    let key = format!("{}/{}", plan.namespace, plan.name);
                    let progress = Progress::default();
                    jobs.insert(key, Job { plan, progress });
                }
            }
            self.tick(&mut jobs, now, phase == Phase::Drain).await;
            sleep(TICK).await;
        }
    }

    async fn tick(&self, jobs: &mut BTreeMap<String, Job>, now: Seconds, drain: bool) {
        let mut steps = Vec::new();
        {
            let seen = self.witness.seen();
            for (key, job) in jobs.iter_mut() {
                let is_there = seen.get(Kind::Job, key).is_some();
                let workload = seen.workload_of(job.plan.namespace, &job.plan.name);
                job.progress.follow(is_there, workload, now);
                let next = step(&job.plan, &job.progress, workload, now, drain);
                if next != Step::Wait {
                    steps.push((key.clone(), next, workload.map(|view| view.name.clone())));
                }
            }
        }
        let all = &*jobs;
        let done: Vec<(String, Step, bool)> = stream::iter(steps)
            .map(async |(key, step, workload)| {
                let done = match all.get(&key) {
                    Some(job) => self.act(&job.plan, step, workload).await.is_ok(),
                    None => false,
                };
                (key, step, done)
            })
            .buffer_unordered(8)
            .collect()
            .await;
        for (key, step, _) in done.iter().filter(|(.., done)| *done) {
            *lock(&self.counts).entry(step.name()).or_default() += 1;
            if *step == Step::Drop {
                jobs.remove(key);
            } else if let Some(job) = jobs.get_mut(key) {
                job.progress.done(*step, now);
            }
        }
    }

    async fn act(
        &self,
        plan: &JobPlan,
        step: Step,
        workload: Option<String>,
    ) -> Result<(), Failure> {
        let workload = json!({
            "apiVersion": crate::scene::KUEUE, "kind": "Workload",
            "metadata": {"namespace": plan.namespace, "name": workload},
        });
        let activate = async |active: bool| {
            let body = json!({"spec": {"active": active}});
            self.writer.patch(&workload, How::Merge, false, &body).await
        };
        let stop = async |policy: &str| {
            let body = json!({"spec": {"stopPolicy": policy}});
            let queue = json!({
                "apiVersion": crate::scene::KUEUE, "kind": "ClusterQueue",
                "metadata": {"name": plan.queue.name},
            });
            self.writer.patch(&queue, How::Merge, false, &body).await
        };
        match step {
            Step::Submit => self.writer.create(&bodies::job(plan)).await,
            Step::Deactivate | Step::Pause => activate(false).await,
            Step::Activate => activate(true).await,
            Step::StopQueue => stop("Hold").await,
            Step::OpenQueue => stop("None").await,
            Step::Delete => self.writer.delete(&bodies::job(plan)).await,
            Step::Drop | Step::Wait => Ok(()),
        }
    }
}
