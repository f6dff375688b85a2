//! The next step of a user with a Job. Pure.

use crate::judge::View;
use crate::meter::Seconds;
use crate::plan::{Interruption, JobPlan};

/// How long a user waits for a job to start, in seconds.
const START_TIMEOUT: f64 = 200.0;

/// The progress of a Job.
#[expect(clippy::struct_excessive_bools, reason = "each is seen or done apart")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Whether it was submitted.
    pub(crate) submitted: bool,
    /// Whether it was observed, and whether it exists.
    seen: bool,
    there: bool,
    deleted: bool,
    /// Since when its Workload first holds quota.
    reserved: Option<Seconds>,
    /// Whether its fault has happened, and when it is undone.
    undo: Option<(Seconds, Step)>,
    interruption: bool,
    /// Since when it has ended, or the user has given it up.
    pub(crate) ended: Option<Seconds>,
}

/// A step of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Wait,
    /// Submits it.
    Submit,
    /// Stops it.
    Deactivate,
    /// Stops it for some time.
    Pause,
    /// Activates it again.
    Activate,
    /// Stops its ClusterQueue.
    StopQueue,
    /// Starts the ClusterQueue again.
    OpenQueue,
    /// Deletes it.
    Delete,
    /// It is gone.
    Drop,
}

impl Step {
    /// Returns its name in the counts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wait => "waiting",
            Self::Submit => "submitted",
            Self::Deactivate => "deactivated",
            Self::Pause => "paused",
            Self::Activate => "activated",
            Self::StopQueue => "queue stopped",
            Self::OpenQueue => "queue opened",
            Self::Delete => "deleted",
            Self::Drop => "gone",
        }
    }
}

impl Progress {
    /// Records the observed state.
    pub(crate) fn follow(&mut self, is_there: bool, workload: Option<&View>, now: Seconds) {
        self.seen |= is_there;
        self.there = is_there;
        let Some(view) = workload else { return };
        if view.reservation.is_some() {
            self.reserved.get_or_insert(now);
        }
        let stopped = !view.active && !matches!(self.undo, Some((_, Step::Activate)));
        if view.finished || stopped {
            self.ended.get_or_insert(now);
        }
    }

    /// Records a step.
    pub(crate) fn done(&mut self, step: Step, now: Seconds) {
        match step {
            Step::Submit => self.submitted = true,
            Step::Pause => self.undo = Some((now + 6.0, Step::Activate)),
            Step::StopQueue => self.undo = Some((now + 4.0, Step::OpenQueue)),
            Step::Activate | Step::OpenQueue => self.undo = None,
            Step::Delete => {
                self.deleted = true;
                self.ended.get_or_insert(now);
            }
            Step::Deactivate | Step::Wait | Step::Drop => {}
        }
        self.interruption |= matches!(
            step,
            Step::Pause | Step::StopQueue | Step::Deactivate | Step::Delete
        );
    }
}

/// Returns the next step with the Job of `plan`, whose Workload is `view`.
pub(crate) fn step(
    plan: &JobPlan,
    progress: &Progress,
    view: Option<&View>,
    now: Seconds,
    drain: bool,
) -> Step {
    if let Some((at, undo)) = progress.undo
        && (now >= at || drain || !progress.there)
        && (undo == Step::OpenQueue || view.is_some())
    {
        return undo;
    }
    if !progress.submitted {
        return if drain { Step::Drop } else { Step::Submit };
    }
    if !progress.there {
        return if progress.seen {
            Step::Drop
        } else {
            Step::Wait
        };
    }
    if progress.deleted {
        return Step::Wait;
    }
    let is_finished = view.is_some_and(|view| view.finished);
    let is_admitted = view.is_some_and(|view| view.admitted);
    if drain {
        let goes_on = is_finished || is_admitted;
        return if goes_on { Step::Wait } else { Step::Delete };
    }
    if let Some(ended) = progress.ended {
        let goes = now - ended > plan.stays;
        return if goes { Step::Delete } else { Step::Wait };
    }
    let held = progress.reserved.map_or(0.0, |since| now - since);
    if let Some((after, interruption)) = plan.interruption
        && !progress.interruption
        && progress.reserved.is_some()
        && held > after
        && view.is_some()
    {
        return match interruption {
            Interruption::LoseQuota if !is_admitted => Step::StopQueue,
            Interruption::Preempt | Interruption::LoseQuota => Step::Pause,
            Interruption::Delete => Step::Delete,
            Interruption::Deactivate => Step::Deactivate,
        };
    }
    if held > START_TIMEOUT && !is_admitted {
        return Step::Delete;
    }
    Step::Wait
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_next_step() {
        let plan = |interruption| JobPlan {
            interruption,
            ..JobPlan::draw(1, 1)
        };
        let calm = plan(None);
        let view = View {
            active: true,
            reservation: Some("r".to_owned()),
            ..View::default()
        };
        let admitted = View {
            admitted: true,
            ..view.clone()
        };
        let finished = View {
            finished: true,
            ..admitted.clone()
        };
        let there = Progress {
            submitted: true,
            seen: true,
            there: true,
            reserved: Some(100.0),
            ..Progress::default()
        };
        let gone = Progress {
            there: false,
            ..there.clone()
        };
        let ended = Progress {
            ended: Some(100.0),
            ..there.clone()
        };
        let stopped = Progress {
            undo: Some((110.0, Step::OpenQueue)),
            interruption: true,
            ..there.clone()
        };
        let fresh = Progress::default();
        for (number, (plan, progress, view, now, drain, expected)) in [
            (&calm, &fresh, None, 0.0, false, Step::Submit),
            (&calm, &fresh, None, 0.0, true, Step::Drop),
            (&calm, &gone, None, 0.0, false, Step::Drop),
            (&calm, &there, Some(&view), 150.0, false, Step::Wait),
            (&calm, &there, Some(&view), 301.0, false, Step::Delete),
            (&calm, &there, Some(&admitted), 301.0, false, Step::Wait),
            (&calm, &there, Some(&admitted), 301.0, true, Step::Wait),
            (&calm, &there, Some(&view), 101.0, true, Step::Delete),
            (&calm, &ended, Some(&finished), 101.0, false, Step::Wait),
            (&calm, &ended, Some(&finished), 200.0, false, Step::Delete),
            (&calm, &ended, Some(&finished), 200.0, true, Step::Wait),
            (&calm, &stopped, Some(&view), 105.0, false, Step::Wait),
            (&calm, &stopped, Some(&view), 111.0, false, Step::OpenQueue),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(
                step(plan, progress, view, now, drain),
                expected,
                "case {number}"
            );
        }
        for (interruption, view, now, expected) in [
            (Interruption::Preempt, &view, 139.0, Step::Wait),
            (Interruption::Preempt, &view, 141.0, Step::Pause),
            (Interruption::LoseQuota, &view, 141.0, Step::StopQueue),
            (Interruption::LoseQuota, &admitted, 141.0, Step::Pause),
            (Interruption::Delete, &view, 141.0, Step::Delete),
            (Interruption::Deactivate, &view, 141.0, Step::Deactivate),
        ] {
            let plan = plan(Some((40.0, interruption)));
            let next = step(&plan, &there, Some(view), now, false);
            assert_eq!(next, expected, "{interruption:?} at {now}");
        }
    }

    #[test]
    fn what_is_done_is_undone() {
        let mut progress = Progress::default();
        progress.done(Step::Pause, 10.0);
        assert_eq!(progress.undo, Some((16.0, Step::Activate)));
        let stopped = View::default();
        progress.follow(true, Some(&stopped), 11.0);
        assert_eq!(progress.ended, None, "it is to start again");
        progress.done(Step::Activate, 16.0);
        assert!(progress.undo.is_none() && progress.interruption);
        progress.follow(true, Some(&stopped), 17.0);
        assert_eq!(progress.ended, Some(17.0));
    }
}
