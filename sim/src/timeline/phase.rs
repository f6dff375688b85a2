//! The phases of a Workload.

use std::fmt;

use kueue_check::api::CheckState;

/// The phase of a Workload, derived from its conditions.
///
/// ```
/// use kueue_check_sim::scenarios::Scenario;
/// use kueue_check_sim::{FaultPlan, timeline::Phase::{self, Evicted, QuotaReserved, Running}};
///
/// // A check returns Retry twice.
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
    /// Evicted, from the `Evicted` condition until the Workload is requeued.
    Evicted,
    /// `spec.active` is false and the quota is released: a person must reactivate it.
    Deactivated,
    /// Finished, successfully or not.
    Finished,
}

impl Phase {
    /// All phases, in the usual order.
    pub const ALL: [Self; 6] = [
        Self::Waiting,
        Self::QuotaReserved,
        Self::Running,
        Self::Evicted,
        Self::Deactivated,
        Self::Finished,
    ];

    /// Returns the name for people.
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

/// The value of a lane over time.
pub(super) trait TimelineValue: Clone + PartialEq {
    /// Returns true if a span without duration is shown too. In virtual time whole evictions happen
    /// within an instant.
    fn is_notable(&self) -> bool;

    /// Returns true for a final value, which is drawn only at its beginning.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns the name for people.
    fn label(&self) -> &str;

    /// Returns the character for one column in a terminal.
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
