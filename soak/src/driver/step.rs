//! The next step of Kueue, the user and the node with a job. Pure.

use crate::judge::View;
use crate::meter::Seconds;
use crate::plan::{Interruption, JobPlan};

/// How long a job may hold quota without being admitted, in seconds: then Kueue preempts it.
const ADMISSION_TIMEOUT: f64 = 150.0;

/// The progress of a job, besides its Workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Whether its Workload was created.
    pub(crate) created: bool,
    /// Whether its Workload was observed.
    pub(crate) seen: bool,
    /// The reservation of its quota, and since when it holds it.
    pub(crate) reserved: Option<(String, Seconds)>,
    /// The reservation in which its pods were started.
    pub(crate) started: Option<String>,
    /// When its pods have completed.
    pub(crate) until: Seconds,
    /// The earliest time at which it gets quota.
    pub(crate) queued_until: Seconds,
    /// Whether its fault has happened.
    pub(crate) interruption: bool,
    /// Since when it is finished or inactive.
    pub(crate) ended: Option<Seconds>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Wait,
    /// Its user submits it.
    Create,
    /// Kueue adds the states of its checks.
    AddChecks,
    /// Kueue reserves quota.
    Reserve,
    /// Kueue admits it.
    Admit,
    /// Its pods start.
    Start,
    /// Its pods complete.
    Finish,
    /// Kueue evicts it, for this reason.
    Evict(&'static str),
    /// Its pods are gone, and Kueue releases the quota.
    Release,
    /// It loses its quota without an eviction.
    LoseQuota,
    /// It is deactivated.
    Deactivate,
    /// Its user deletes it.
    Delete,
    /// It is gone.
    Drop,
}

/// The surroundings of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// Now.
    pub(crate) now: Seconds,
    /// Whether its pods run.
    pub(crate) runs: bool,
    /// Whether there is quota for one more in its namespace.
    pub(crate) quota: bool,
    /// Whether all jobs are to end.
    pub(crate) drain: bool,
}

/// Returns the next step with a job whose Workload is `view`.
pub(crate) fn step(
    plan: &JobPlan,
    progress: &Progress,
    view: Option<&View>,
    around: Around,
) -> Step {
    let Around { now, runs, .. } = around;
    let Some(view) = view else {
        return match (progress.seen, progress.created) {
            (true, _) => Step::Drop,
            (false, true) => Step::Wait,
            (false, false) => Step::Create,
        };
    };
    if view.deleting {
        return Step::Wait;
    }
    let ended_for = progress.ended.map_or(0.0, |ended| now - ended);
    if view.finished {
        let goes = ended_for > plan.stays && !around.drain;
        return if goes { Step::Delete } else { Step::Wait };
    }
    let Some(reservation) = &view.reservation else {
        return without_quota(plan, progress, view, around, ended_for);
    };
    if view.evicted {
        return if runs { Step::Wait } else { Step::Release };
    }
    if !view.active {
        return Step::Evict("Deactivated");
    }
    if view.checks.values().any(|check| check.state == "Rejected") {
        return Step::Deactivate;
    }
    let held = progress
        .reserved
        .as_ref()
        .filter(|(of, _)| of == reservation);
    let held = held.map_or(0.0, |(_, since)| now - since);
    let mut retries = view
        .checks
        .values()
        .filter(|check| check.state == "Retry")
        .peekable();
    if retries.peek().is_some() {
        // Kueue holds the quota until the delay of the check has passed.
        let over = retries.all(|check| waited(&check.since, now) > check.requeue_after);
        return if over {
            Step::Evict("AdmissionCheck")
        } else {
            Step::Wait
        };
    }
    let started = progress.started.as_ref() == Some(reservation);
    if view.admitted && started && (now >= progress.until || around.drain) {
        return Step::Finish;
    }
    if let Some((after, interruption)) = plan.interruption
        && !progress.interruption
        && held > after
    {
        return match interruption {
            Interruption::Preempt => Step::Evict("Preempted"),
            Interruption::LoseQuota if view.admitted => Step::Evict("Preempted"),
            Interruption::LoseQuota => Step::LoseQuota,
            Interruption::Delete => Step::Delete,
            Interruption::Deactivate => Step::Deactivate,
        };
    }
    if view.admitted {
        return if started { Step::Wait } else { Step::Start };
    }
    if plan
        .queue
        .checks
        .iter()
        .all(|name| view.state(name) == "Ready")
    {
        return Step::Admit;
    }
    if held > ADMISSION_TIMEOUT && !around.drain {
        return Step::Evict("Preempted");
    }
    Step::Wait
}

fn without_quota(
    plan: &JobPlan,
    progress: &Progress,
    view: &View,
    around: Around,
    ended_for: f64,
) -> Step {
    if around.drain || !view.active && ended_for > plan.waits {
        return Step::Delete;
    }
    if !view.active {
        return Step::Wait;
    }
    if plan
        .queue
        .checks
        .iter()
        .any(|name| !view.checks.contains_key(*name))
    {
        return Step::AddChecks;
    }
    if around.quota && around.now >= progress.queued_until {
        return Step::Reserve;
    }
    Step::Wait
}

/// Returns the number of whole seconds since the RFC 3339 time `since`.
fn waited(since: &str, now: Seconds) -> u64 {
    let since: jiff::Timestamp = since.parse().unwrap_or_default();
    let past = now - since.as_duration().as_secs_f64();
    let seconds = std::time::Duration::try_from_secs_f64(past).unwrap_or_default();
    seconds.as_secs()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::super::judge::CheckState;
    use super::*;

    fn plan(interruption: Option<(f64, Interruption)>) -> JobPlan {
        JobPlan {
            interruption,
            ..JobPlan::draw(1, 1)
        }
    }

    fn view(plan: &JobPlan, state: &str) -> View {
        let state = |name: &&str| {
            let state = CheckState {
                state: state.to_owned(),
                since: "1970-01-01T00:01:30Z".to_owned(),
                requeue_after: 5,
                ..CheckState::default()
            };
            ((*name).to_owned(), state)
        };
        View {
            active: true,
            reservation: Some("r".to_owned()),
            checks: plan.queue.checks.iter().map(state).collect(),
            ..View::default()
        }
    }

    #[test]
    fn each_state_has_its_next_step() {
        let calm = plan(None);
        let (pending, ready) = (view(&calm, "Pending"), view(&calm, "Ready"));
        let admitted = View {
            admitted: true,
            ..ready.clone()
        };
        let queued = View {
            reservation: None,
            ..pending.clone()
        };
        let progress = Progress {
            seen: true,
            reserved: Some(("r".to_owned(), 50.0)),
            ..Progress::default()
        };
        let running = Progress {
            started: Some("r".to_owned()),
            until: 120.0,
            ..progress.clone()
        };
        let ended = Progress {
            ended: Some(10.0),
            ..progress.clone()
        };
        let at = |now: f64| Around {
            now,
            runs: false,
            quota: true,
            drain: false,
        };
        let drain = Around {
            drain: true,
            ..at(100.0)
        };
        let evicted = View {
            evicted: true,
            ..admitted.clone()
        };
        let finished = View {
            finished: true,
            ..admitted.clone()
        };
        let stopped = View {
            active: false,
            ..queued.clone()
        };
        let preempt = plan(Some((40.0, Interruption::Preempt)));
        let lose = plan(Some((40.0, Interruption::LoseQuota)));
        let retried = view(&calm, "Retry");
        let rejected = view(&calm, "Rejected");
        let without_checks = View {
            checks: BTreeMap::new(),
            ..queued.clone()
        };
        let deactivated = View {
            active: false,
            ..admitted.clone()
        };
        let (preempted, losing) = (view(&preempt, "Pending"), view(&lose, "Pending"));
        let lost = View {
            admitted: true,
            ..view(&lose, "Ready")
        };
        let fresh = Progress::default();
        let created = Progress {
            created: true,
            ..Progress::default()
        };
        let delayed = Progress {
            queued_until: 9.0,
            ..progress.clone()
        };
        let interrupted = Progress {
            interruption: true,
            ..progress.clone()
        };
        let full = Around {
            quota: false,
            ..at(1.0)
        };
        let late_drain = Around {
            drain: true,
            ..at(201.0)
        };
        let runs = Around {
            runs: true,
            ..at(100.0)
        };
        for (number, (plan, progress, view, around, expected)) in [
            (&calm, &fresh, None, at(1.0), Step::Create),
            (&calm, &created, None, at(1.0), Step::Wait),
            (&calm, &progress, None, at(1.0), Step::Drop),
            (
                &calm,
                &progress,
                Some(&without_checks),
                at(1.0),
                Step::AddChecks,
            ),
            (&calm, &progress, Some(&queued), at(1.0), Step::Reserve),
            (&calm, &progress, Some(&queued), full, Step::Wait),
            (&calm, &delayed, Some(&queued), at(1.0), Step::Wait),
            (&calm, &progress, Some(&queued), drain, Step::Delete),
            (&calm, &progress, Some(&pending), at(100.0), Step::Wait),
            (
                &calm,
                &progress,
                Some(&pending),
                at(201.0),
                Step::Evict("Preempted"),
            ),
            (&calm, &progress, Some(&pending), late_drain, Step::Wait),
            (&calm, &progress, Some(&ready), at(100.0), Step::Admit),
            (&calm, &progress, Some(&admitted), at(100.0), Step::Start),
            (&calm, &running, Some(&admitted), at(100.0), Step::Wait),
            (&calm, &running, Some(&admitted), at(120.0), Step::Finish),
            (&calm, &running, Some(&admitted), drain, Step::Finish),
            (&calm, &running, Some(&evicted), runs, Step::Wait),
            (&calm, &running, Some(&evicted), at(100.0), Step::Release),
            (&calm, &ended, Some(&finished), at(11.0), Step::Wait),
            (&calm, &ended, Some(&finished), at(99.0), Step::Delete),
            (&calm, &ended, Some(&finished), drain, Step::Wait),
            (&calm, &progress, Some(&retried), at(95.0), Step::Wait),
            (
                &calm,
                &progress,
                Some(&retried),
                at(97.0),
                Step::Evict("AdmissionCheck"),
            ),
            (
                &calm,
                &progress,
                Some(&rejected),
                at(97.0),
                Step::Deactivate,
            ),
            (
                &calm,
                &progress,
                Some(&deactivated),
                at(97.0),
                Step::Evict("Deactivated"),
            ),
            (&calm, &ended, Some(&stopped), at(11.0), Step::Wait),
            (&calm, &ended, Some(&stopped), at(99.0), Step::Delete),
            (&preempt, &progress, Some(&preempted), at(89.0), Step::Wait),
            (
                &preempt,
                &progress,
                Some(&preempted),
                at(91.0),
                Step::Evict("Preempted"),
            ),
            (
                &preempt,
                &interrupted,
                Some(&preempted),
                at(91.0),
                Step::Wait,
            ),
            (&lose, &progress, Some(&losing), at(91.0), Step::LoseQuota),
            (
                &lose,
                &progress,
                Some(&lost),
                at(91.0),
                Step::Evict("Preempted"),
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let next = step(plan, progress, view, around);
            assert_eq!(next, expected, "case {number}");
        }
    }
}
