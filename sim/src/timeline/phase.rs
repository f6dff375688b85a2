//! Where a Workload is in its life.

use std::fmt;

use kueue_check::api::CheckState;

/// Where a Workload is in its life, as its conditions tell.
///
/// ```
/// use kueue_check_sim::scenarios::Scenario;
/// use kueue_check_sim::{FaultPlan, timeline::Phase::{self, Evicted, QuotaReserved, Running}};
///
/// // A check says Retry twice.
/// let run = Scenario::named("retry").expect("it is there").run(0, &FaultPlan::none());
/// let phases: Vec<Phase> = run.timeline().tracks[0].phases.iter().map(|span| span.what).collect();
/// assert_eq!(phases, [QuotaReserved, Evicted, QuotaReserved, Evicted, Running]);
/// assert_eq!(QuotaReserved.to_string(), "quota reserved");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// In the queue, without quota.
    Waiting,
    /// Holds quota (`QuotaReserved`) while admission checks decide.
    QuotaReserved,
    /// Admitted: the job may run.
    Running,
    /// Evicted, from the moment Kueue says so until the Workload is back in the queue.
    Evicted,
    /// `spec.active` is false and the quota is released: a person must reactivate it.
    Deactivated,
    /// Done, well or badly.
    Finished,
}

impl Phase {
    /// Every phase, in the order in which a Workload usually meets them.
    pub const ALL: [Self; 6] = [
        Self::Waiting,
        Self::QuotaReserved,
        Self::Running,
        Self::Evicted,
        Self::Deactivated,
        Self::Finished,
    ];

    /// The name that readers see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::QuotaReserved => "quota reserved",
            Self::Running => "running",
            Self::Evicted => "evicted",
            Self::Deactivated => "deactivated",
            Self::Finished => "finished",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a lane shows over time.
pub(super) trait TimelineValue: Clone + PartialEq {
    /// Whether it must be seen even where it lasted no time at all: in virtual time whole evictions
    /// happen within an instant.
    fn is_notable(&self) -> bool;

    /// Whether nothing happens any more: it is marked where it begins.
    fn is_over(&self) -> bool {
        false
    }

    /// The name that readers see.
    fn label(&self) -> &str;

    /// One column of it in a terminal.
    fn glyph(&self) -> char;
}

impl TimelineValue for Phase {
    fn is_notable(&self) -> bool {
        matches!(self, Self::Evicted | Self::Deactivated | Self::Finished)
    }

    fn glyph(&self) -> char {
        match self {
            Self::Waiting => '·',
            Self::QuotaReserved => '▒',
            Self::Running => '█',
            Self::Evicted => '!',
            Self::Deactivated => 'x',
            Self::Finished => '✓',
        }
    }

    fn is_over(&self) -> bool {
        *self == Self::Finished
    }

    fn label(&self) -> &str {
        self.as_str()
    }
}

impl TimelineValue for CheckState {
    fn is_notable(&self) -> bool {
        !matches!(self, Self::Pending | Self::Ready)
    }

    fn label(&self) -> &str {
        self.as_str()
    }

    fn glyph(&self) -> char {
        match self {
            Self::Pending => '?',
            Self::Ready => '+',
            Self::Retry => 'R',
            Self::Rejected => 'X',
            Self::PreemptionRequired => 'P',
            _ => '~',
        }
    }
}
