//! What the job reconciler does next with a job and its Workload, in Kueue's order.

use crate::kueue::objects::{State, Workload};

/// A job, as far as the order of things depends on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobView {
    /// Whether it is suspended.
    pub suspended: bool,
    /// Whether it is suspended and its template still has what admission put in.
    pub template_changed: bool,
    /// Whether Pods of it are there.
    pub active: bool,
    /// Whether and how it ended: whether well, and the message.
    pub finished: Option<(bool, String)>,
    /// Whether all its Pods are ready.
    pub pods_ready: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Make the Workload.
    Create,
    /// Take Kueue's finalizer off a finished Workload, and say so.
    Release,
    /// Mark the Workload as finished.
    Finish {
        /// `Succeeded` or `Failed`.
        reason: &'static str,
        /// What the job says.
        message: String,
    },
    /// Write the condition `PodsReady`.
    PodsReady(bool),
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
    TellChecks(String),
}

/// The next thing to do; `None` if all is as it should be.
pub fn decide(job: &JobView, workload: Option<&Workload>) -> Option<Move> {
    let Some(workload) = workload else {
        return job.finished.is_none().then_some(Move::Create);
    };
    if workload.is_finished() {
        return (!workload.metadata.finalizers.is_empty()).then_some(Move::Release);
    }
    if let Some((well, message)) = &job.finished {
        let reason = if *well { "Succeeded" } else { "Failed" };
        let message = message.clone();
        return Some(Move::Finish { reason, message });
    }
    let conditions = &workload.status.conditions;
    let ready = conditions.get("PodsReady").map(|c| c.is_true());
    let ready_now = job.pods_ready && !job.suspended;
    if ready != Some(ready_now) && (ready.is_none() || ready_now) {
        return Some(Move::PodsReady(ready_now));
    }
    if let Some(evicted) = conditions.get("Evicted").filter(|c| c.is_true()) {
        return stop(job, &evicted.message).or_else(|| unreserve(job, workload));
    }
    if !job.suspended {
        let admitted = workload.is_admitted();
        return (!admitted).then(|| Move::Suspend {
            message: "Not admitted by cluster queue".to_owned(),
        });
    }
    if workload.is_admitted() {
        return Some(Move::Start);
    }
    if job.template_changed {
        let message = "Not admitted by cluster queue".to_owned();
        return Some(Move::Restore { message });
    }
    workload
        .has_quota()
        .then(|| tell_checks(workload))
        .flatten()
}

fn stop(job: &JobView, message: &str) -> Option<Move> {
    let message = message.to_owned();
    if !job.suspended {
        return Some(Move::Suspend { message });
    }
    job.template_changed.then_some(Move::Restore { message })
}

/// Only a Workload that was preempted, or whose node failed, may be tried again at once.
fn unreserve(job: &JobView, workload: &Workload) -> Option<Move> {
    let evicted = workload.status.conditions.get("Evicted")?;
    if job.active || !workload.has_quota() {
        return None;
    }
    Some(Move::Unreserve {
        reason: evicted.reason.clone(),
        message: evicted.message.clone(),
        requeue: matches!(evicted.reason.as_str(), "Preempted" | "NodeFailures"),
    })
}

fn tell_checks(workload: &Workload) -> Option<Move> {
    let pending = workload.checks_in(State::Pending);
    let told: Vec<String> = pending
        .filter(|check| !check.message.is_empty())
        .map(|check| format!("{}: {}", check.name, check.message))
        .collect();
    (!told.is_empty()).then(|| Move::TellChecks(told.join("; ")))
}
