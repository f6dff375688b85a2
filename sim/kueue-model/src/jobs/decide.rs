//! What the job reconciler does next with a job and its Workload, in Kueue's order.

use std::collections::BTreeMap;

use crate::kueue::objects::{State, Workload};

/// Why a job that runs is stopped which has no Workload.
pub(super) const MISSING_WORKLOAD: &str = "Missing Workload; unable to restore pod templates";
/// Why a job that runs is stopped whose Workload is another job's.
pub(super) const NO_MATCHING_WORKLOAD: &str =
    "No matching Workload; restoring pod templates according to existent Workload";

/// A job, as far as the order of things depends on it.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the job"
)]
pub(super) struct JobView {
    /// Whether it is suspended, or has its gate.
    pub(super) suspended: bool,
    /// Whether it is suspended and its template still has what admission put in.
    pub(super) template_changed: bool,
    /// Whether it is being stopped: its template is still to be put back.
    pub(super) stopping: bool,
    /// Whether Pods of it are there.
    pub(super) active: bool,
    /// Whether it may change its size while it runs.
    pub(super) elastic: bool,
    /// How many Pods of which pod set are done and will not run again.
    pub(super) reclaimable: BTreeMap<String, i64>,
    /// Whether and how it ended: whether well, and the message.
    pub(super) finished: Option<(bool, String)>,
    /// Whether all its Pods are ready.
    pub(super) pods_ready: bool,
    /// Whether its Pods are other ones than those of its Workload.
    pub(super) differs: bool,
    /// Its LocalQueue.
    pub(super) queue: String,
    /// Its `WorkloadPriorityClass`.
    pub(super) priority_class: Option<String>,
    /// Before when its Workload is not to be tried.
    pub(super) gates: String,
    /// Whether it has Kueue's own finalizer, as Pods have.
    pub(super) held: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JobAction {
    /// Make the Workload.
    Create,
    /// Write the job's pod sets into its Workload.
    Rewrite,
    /// Delete a Workload that is not the job's any more.
    Replace,
    /// Give the Workload the priority of the job's class.
    Prioritise,
    /// Give the Workload the gates of the job.
    Gate,
    /// Put the Workload into the job's queue.
    ChangeQueue,
    /// Take Kueue's finalizer off the job.
    LetJobGo,
    /// Take Kueue's finalizer off a finished Workload, and say so.
    Release,
    /// Take Kueue's finalizer off a Workload that is being deleted.
    DropFinalizer,
    /// Mark the Workload as finished.
    Finish {
        /// `Succeeded` or `Failed`.
        reason: &'static str,
        /// What the job says.
        message: String,
    },
    /// Write how many Pods of which pod set are done.
    Reclaim(BTreeMap<String, i64>),
    /// Write the condition `PodsReady`.
    PodsReady(PodsReady),
    /// Suspend the job.
    Suspend {
        /// Why.
        message: String,
    },
    /// Put the template back as it was.
    Restore {
        /// Why it was suspended.
        message: String,
    },
    /// Give the quota back.
    Unreserve {
        /// The reason of the eviction.
        reason: String,
        /// Its message.
        message: String,
        /// Whether the Workload may be tried again at once.
        requeue: bool,
    },
    /// Start the job.
    Start,
    /// Tell what checks are waited for.
    ReleaseChecks(String),
}

/// What the condition `PodsReady` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodsReady {
    /// Not yet.
    WaitForStart,
    /// All are.
    Started,
    /// All were.
    WaitForRecovery,
    /// All are again.
    Recovered,
}

impl PodsReady {
    /// Whether it is `True`.
    pub(super) fn is_true(self) -> bool {
        matches!(self, Self::Started | Self::Recovered)
    }

    /// As the API writes it.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::WaitForStart => "WaitForStart",
            Self::Started => "Started",
            Self::WaitForRecovery => "WaitForRecovery",
            Self::Recovered => "Recovered",
        }
    }

    /// For people.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::WaitForStart => "Not all pods are ready or succeeded",
            Self::Started | Self::Recovered => {
                "All pods reached readiness and the workload is running"
            }
            Self::WaitForRecovery => "At least one pod has failed, waiting for recovery",
        }
    }
}

/// The next thing to do; `None` if all is as it should be.
pub(super) fn decide(job: &JobView, workload: Option<&Workload>) -> Option<JobAction> {
    let Some(workload) = workload else {
        return without_workload(job);
    };
    if workload.is_finished() {
        return finished(job, workload);
    }
    if let Some(next) = mismatch(job, workload) {
        return Some(next);
    }
    if workload.metadata.deletion_timestamp.is_some() {
        let drop = Some(JobAction::DropFinalizer);
        return stop(job, "Workload is deleted")
            .or_else(|| drop.filter(|_| !workload.metadata.finalizers.is_empty()));
    }
    if let Some((well, message)) = &job.finished {
        let reason = if *well { "Succeeded" } else { "Failed" };
        let message = message.clone();
        return Some(JobAction::Finish { reason, message });
    }
    if let Some(done) = reclaimed(job, workload) {
        return Some(JobAction::Reclaim(done));
    }
    if let Some(ready) = pods_ready(job, workload) {
        return Some(JobAction::PodsReady(ready));
    }
    if let Some(evicted) = workload.eviction() {
        return stop(job, &evicted.message).or_else(|| unreserve(job, workload));
    }
    if job.suspended {
        return suspended(job, workload);
    }
    // The Pods of a slice that waits are kept back by their gate.
    (!workload.is_admitted() && !job.elastic).then(|| JobAction::Suspend {
        message: "Not admitted by cluster queue".to_owned(),
    })
}

/// How many Pods are done, if the Workload says something else.
fn reclaimed(job: &JobView, workload: &Workload) -> Option<BTreeMap<String, i64>> {
    let known = workload.status.reclaimable_pods.iter();
    let known: BTreeMap<String, i64> = known.map(|set| (set.name.clone(), set.count)).collect();
    let done = workload.spec.pod_sets.iter().filter_map(|set| {
        let done = job.reclaimable.get(&set.name)?;
        Some((set.name.clone(), set.count.min(*done)))
    });
    let done: BTreeMap<String, i64> = done.filter(|(_, done)| *done > 0).collect();
    (known != done).then_some(done)
}

fn without_workload(job: &JobView) -> Option<JobAction> {
    if job.finished.is_some() {
        return job.held.then_some(JobAction::LetJobGo);
    }
    if job.elastic {
        return Some(JobAction::Create);
    }
    if !job.suspended {
        let message = MISSING_WORKLOAD.to_owned();
        return Some(JobAction::Suspend { message });
    }
    (!job.active).then_some(JobAction::Create)
}

fn finished(job: &JobView, workload: &Workload) -> Option<JobAction> {
    if job.held {
        return Some(JobAction::LetJobGo);
    }
    (!workload.metadata.finalizers.is_empty()).then_some(JobAction::Release)
}

/// A Workload follows its job as long as it has no quota; then it is replaced.
fn mismatch(job: &JobView, workload: &Workload) -> Option<JobAction> {
    if job.differs {
        let message = || NO_MATCHING_WORKLOAD.to_owned();
        return Some(if !job.suspended {
            JobAction::Suspend { message: message() }
        } else if job.stopping {
            JobAction::Restore { message: message() }
        } else if workload.has_quota() {
            JobAction::Replace
        } else {
            JobAction::Rewrite
        });
    }
    if job.gates != workload.gated_by().unwrap_or_default() {
        return Some(JobAction::Gate);
    }
    changes_class(job, workload).then_some(JobAction::Prioritise)
}

/// Whether the Workload is to follow the job to another class. One that got quota without a class
/// can't be given one (Kueue 0.19.2, `classifyWorkloadsForPriorityUpdate` in
/// `pkg/controller/jobframework/reconciler.go`).
fn changes_class(job: &JobView, workload: &Workload) -> bool {
    let class = workload.spec.priority_class();
    let follows = class.is_some() || workload.spec.priority_class_ref.is_none();
    let fixed = workload.has_quota() && workload.spec.priority_class_ref.is_none();
    follows && !fixed && job.priority_class.as_deref() != class
}

fn pods_ready(job: &JobView, workload: &Workload) -> Option<PodsReady> {
    let known = workload.status.conditions.get("PodsReady");
    let reason = known.map(|condition| condition.reason.as_str());
    let ready = if !workload.is_admitted() {
        PodsReady::WaitForStart
    } else if job.pods_ready && !job.suspended {
        match reason {
            Some("WaitForRecovery" | "Recovered") => PodsReady::Recovered,
            _ => PodsReady::Started,
        }
    } else {
        match known {
            Some(condition) if condition.is_true() => PodsReady::WaitForRecovery,
            Some(_) => return None,
            None => PodsReady::WaitForStart,
        }
    };
    (reason != Some(ready.reason())).then_some(ready)
}

fn stop(job: &JobView, message: &str) -> Option<JobAction> {
    let message = message.to_owned();
    if !job.suspended {
        return Some(JobAction::Suspend { message });
    }
    job.template_changed
        .then_some(JobAction::Restore { message })
}

/// Only a Workload that was preempted, or whose node failed, may be tried again at once.
pub(super) fn unreserve(job: &JobView, workload: &Workload) -> Option<JobAction> {
    let evicted = workload.eviction()?;
    if job.active || !workload.has_quota() {
        return None;
    }
    Some(JobAction::Unreserve {
        reason: evicted.reason.clone(),
        message: evicted.message.clone(),
        requeue: matches!(evicted.reason.as_str(), "Preempted" | "NodeFailures"),
    })
}

fn suspended(job: &JobView, workload: &Workload) -> Option<JobAction> {
    if workload.is_admitted() {
        return Some(JobAction::Start);
    }
    if job.stopping {
        let message = "Not admitted by cluster queue".to_owned();
        return Some(JobAction::Restore { message });
    }
    // What checks are waited for is told first; with quota the queue can't be changed anyhow (Kueue
    // 0.19.2, `ReconcileGenericJob` in `pkg/controller/jobframework/reconciler.go`).
    let told = workload.has_quota().then(|| release_checks(workload));
    let moves = job.queue != workload.spec.queue_name;
    told.flatten().or(moves.then_some(JobAction::ChangeQueue))
}

fn release_checks(workload: &Workload) -> Option<JobAction> {
    let pending = workload.checks_in(State::Pending);
    let told: Vec<String> = pending
        .filter(|check| !check.message.is_empty())
        .map(|check| format!("{}: {}", check.name, check.message))
        .collect();
    (!told.is_empty()).then(|| JobAction::ReleaseChecks(told.join("; ")))
}
