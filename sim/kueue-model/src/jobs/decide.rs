//! Decides the next action of the job reconciler for a job and its Workload, in Kueue's order.

use std::collections::BTreeMap;

use crate::kueue::KueueVersion;
use crate::kueue::objects::{State, Workload};

/// The message for stopping a running job without a Workload.
pub(super) const MISSING_WORKLOAD: &str = "Missing Workload; unable to restore pod templates";
/// The message for stopping a running job whose Workload does not match it.
pub(super) const NO_MATCHING_WORKLOAD: &str =
    "No matching Workload; restoring pod templates according to existent Workload";

/// The message for stopping a job whose Workload is being deleted.
pub(super) const WORKLOAD_DELETED: &str = "Workload is deleted";

/// The state of a job that the decision depends on.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the job"
)]
pub(super) struct JobView {
    /// Whether it is suspended, or has its gate.
    pub(super) suspended: bool,
    /// Whether it is suspended and its template still has the values from admission.
    pub(super) template_changed: bool,
    /// Whether it is being stopped: its template is not restored yet.
    pub(super) stopping: bool,
    /// Whether it has active Pods.
    pub(super) active: bool,
    /// Whether it may change its size while it runs.
    pub(super) elastic: bool,
    /// Whether it is a single Pod: what stops it deletes it.
    pub(super) single_pod: bool,
    /// The number of Pods by pod set that are done and will not run again.
    pub(super) reclaimable: BTreeMap<String, i64>,
    /// The result if it ended: whether it succeeded, and the message.
    pub(super) finished: Option<(bool, String)>,
    /// Whether all its Pods are ready.
    pub(super) pods_ready: bool,
    /// Whether its Pods differ from those of its Workload.
    pub(super) differs: bool,
    /// Its LocalQueue.
    pub(super) queue: String,
    /// Whether its Workload stays in its LocalQueue, whatever that of the job is.
    pub(super) keeps_queue: bool,
    /// Its `WorkloadPriorityClass`.
    pub(super) priority_class: Option<String>,
    /// The admission gates of its Workload (annotation `admission-gated-by`).
    pub(super) gates: String,
    /// Whether it has Kueue's own finalizer, as Pods have.
    pub(super) held: bool,
}

/// An action of the job reconciler.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JobAction {
    /// Create the Workload.
    Create,
    /// Write the job's pod sets into its Workload.
    Rewrite,
    /// Delete a Workload that no longer matches the job.
    Replace,
    /// Give the Workload the priority of the job's class.
    Prioritise,
    /// Give the Workload the gates of the job.
    Gate,
    /// Put the Workload into the job's queue.
    ChangeQueue,
    /// Remove Kueue's finalizer from the job.
    LetJobGo,
    /// Remove Kueue's finalizer from a finished Workload, and record an event.
    Release,
    /// Remove Kueue's finalizer from a Workload that is being deleted.
    DropFinalizer,
    /// Mark the Workload as finished.
    Finish {
        /// `Succeeded` or `Failed`.
        reason: &'static str,
        /// The message of the job.
        message: String,
    },
    /// Write the number of finished Pods by pod set.
    Reclaim(BTreeMap<String, i64>),
    /// Write the condition `PodsReady`.
    PodsReady(PodsReady),
    /// Suspend the job.
    Suspend {
        /// Why.
        message: String,
    },
    /// Delete the Pod, and with it its Workload.
    StopPod {
        /// Why.
        reason: &'static str,
        /// The message of the reason.
        message: &'static str,
    },
    /// Restore the template.
    Restore {
        /// Why it was suspended.
        message: String,
    },
    /// Restore the template of a Job that was not started by Kueue, and delete its Workload, which
    /// does not match it.
    RestoreAndReplace,
    /// Release the quota.
    Unreserve {
        /// The reason of the eviction.
        reason: String,
        /// Its message.
        message: String,
        /// Whether the Workload is requeued at once.
        requeue: bool,
    },
    /// Start the job.
    Start,
    /// Record an event with the messages of the pending admission checks.
    ReleaseChecks(String),
}

/// The states of the condition `PodsReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodsReady {
    /// The Pods are not ready yet.
    WaitForStart,
    /// All Pods are ready.
    Started,
    /// All Pods were ready, and some no longer are.
    WaitForRecovery,
    /// All Pods are ready again.
    Recovered,
}

impl PodsReady {
    /// Returns true if the condition is `True`.
    pub(super) fn is_true(self) -> bool {
        matches!(self, Self::Started | Self::Recovered)
    }

    /// Returns the reason of the condition.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::WaitForStart => "WaitForStart",
            Self::Started => "Started",
            Self::WaitForRecovery => "WaitForRecovery",
            Self::Recovered => "Recovered",
        }
    }

    /// Returns the message of the condition.
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

/// Returns the next action, or `None` if there is nothing to do.
pub(super) fn decide(
    job: &JobView,
    workload: Option<&Workload>,
    version: KueueVersion,
) -> Option<JobAction> {
    let Some(workload) = workload else {
        return without_workload(job);
    };
    if fails(job, workload, version) {
        return None;
    }
    // A finished Workload must match too (Kueue 0.19.2, `ReconcileGenericJob` in
    // `pkg/controller/jobframework/reconciler.go`).
    if let Some(next) = mismatch(job, workload, version) {
        return Some(next);
    }
    if workload.is_finished() {
        return finished(job, workload);
    }
    if workload.metadata.deletion_timestamp.is_some() {
        if job.single_pod {
            let (reason, message) = ("WorkloadDeleted", WORKLOAD_DELETED);
            return Some(JobAction::StopPod { reason, message });
        }
        let drop = Some(JobAction::DropFinalizer);
        return stop(job, WORKLOAD_DELETED)
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
    if version.wait_for_pods_ready.is_some()
        && let Some(ready) = pods_ready(job, workload)
    {
        return Some(JobAction::PodsReady(ready));
    }
    if let Some(evicted) = workload.eviction() {
        return stop(job, &evicted.message).or_else(|| unreserve(job, workload));
    }
    if job.suspended {
        return suspended(job, workload);
    }
    // The gate keeps the Pods of a waiting slice from running.
    (!workload.is_admitted() && !job.elastic).then(|| JobAction::Suspend {
        message: "Not admitted by cluster queue".to_owned(),
    })
}

/// Returns the number of finished Pods by pod set, or `None` if the Workload has the same numbers.
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
    if !job.suspended || job.stopping {
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

/// Returns the action for a Workload that does not match its job. Without quota it is rewritten;
/// with quota it is replaced.
fn mismatch(job: &JobView, workload: &Workload, version: KueueVersion) -> Option<JobAction> {
    if job.differs {
        let message = || NO_MATCHING_WORKLOAD.to_owned();
        return Some(if !job.suspended && job.finished.is_some() {
            JobAction::Replace
        } else if !job.suspended && job.single_pod {
            let (reason, message) = ("NoMatchingWorkload", NO_MATCHING_WORKLOAD);
            JobAction::StopPod { reason, message }
        } else if !job.suspended {
            JobAction::Suspend { message: message() }
        } else if job.stopping && !workload.is_admitted() {
            JobAction::RestoreAndReplace
        } else if job.stopping {
            JobAction::Restore { message: message() }
        } else if workload.has_quota() {
            JobAction::Replace
        } else {
            JobAction::Rewrite
        });
    }
    // The gates of an elastic job do not change (Kueue 0.19.2, `ensureOneWorkload` in
    // `pkg/controller/jobframework/reconciler.go`).
    if version.admission_gates
        && !job.elastic
        && job.gates != workload.gated_by().unwrap_or_default()
    {
        return Some(JobAction::Gate);
    }
    changes_class(job, workload, version).then_some(JobAction::Prioritise)
}

/// Returns true if the controller fails at each attempt: it gives a Workload with quota a priority
/// class, which the API server refuses.
fn fails(job: &JobView, workload: &Workload, version: KueueVersion) -> bool {
    let none = workload.spec.priority_class_ref.is_none() && workload.has_quota();
    let adds = version.adds_priority_classes && !version.omits_refused_classes;
    adds && none && !job.differs && !job.elastic && job.priority_class.is_some()
}

/// Returns true if the Workload must change to the priority class of the job. A Workload that
/// reserved quota without a class keeps none (Kueue 0.19.2, `classifyWorkloadsForPriorityUpdate` in
/// `pkg/controller/jobframework/reconciler.go`).
pub(super) fn changes_class(job: &JobView, workload: &Workload, version: KueueVersion) -> bool {
    let class = workload.spec.priority_class();
    let none = version.adds_priority_classes && workload.spec.priority_class_ref.is_none();
    let follows = class.is_some() || none;
    let fixed = workload.has_quota() && workload.spec.priority_class_ref.is_none();
    let slice = job.elastic && !version.revised_slices;
    follows && !fixed && !slice && job.priority_class.as_deref() != class
}

/// Returns the next condition `PodsReady`. A Job whose Pods have succeeded in sufficient number has
/// it before it starts (Kueue 0.15.0 to 0.19.2, `generatePodsReadyCondition` in
/// `pkg/controller/jobframework/reconciler.go`).
fn pods_ready(job: &JobView, workload: &Workload) -> Option<PodsReady> {
    let known = workload.status.conditions.get("PodsReady");
    let reason = known.map(|condition| condition.reason.as_str());
    let ready = if !workload.is_admitted() {
        PodsReady::WaitForStart
    } else if job.pods_ready {
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

/// Releases the quota of an evicted Workload. Only after `Preempted` or `NodeFailures` is it
/// requeued at once.
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
    // The messages of pending checks are reported first; with quota reserved, the queue cannot
    // change (Kueue 0.19.2, `ReconcileGenericJob` in `pkg/controller/jobframework/reconciler.go`).
    let released = workload.has_quota().then(|| release_checks(workload));
    let moves = !job.keeps_queue && job.queue != workload.spec.queue_name;
    released
        .flatten()
        .or(moves.then_some(JobAction::ChangeQueue))
}

fn release_checks(workload: &Workload) -> Option<JobAction> {
    let pending = workload.checks_in(State::Pending);
    let messages: Vec<String> = pending
        .filter(|check| !check.message.is_empty())
        .map(|check| format!("{}: {}", check.name, check.message))
        .collect();
    (!messages.is_empty()).then(|| JobAction::ReleaseChecks(messages.join("; ")))
}
