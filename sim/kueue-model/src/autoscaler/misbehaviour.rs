//! What goes wrong, and for whom.

use std::time::Duration;

use super::Request;

/// What goes wrong, or otherwise than by capacity.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::told;
/// use std::time::Duration;
/// use kueue_check_sim::autoscaler::{Misbehaviour, CHECK_CAPACITY, NodePool, Profile, Selector, Settings};
///
/// let settings = Settings::new(Profile::GkeQueued, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .misbehave(Selector::all(), Misbehaviour::Revoked(Duration::from_secs(300)));
/// // What is said in ten minutes about a request for four pods of one CPU; there is a scan every ten seconds.
/// assert_eq!(told(settings, &[("train", CHECK_CAPACITY, 4)], 10), [
///     "09:00:00 train Accepted=True Accepted",
///     "09:00:00 train Provisioned=True CapacityIsFound",
///     "09:05:10 train BookingExpired=True BookingExpired",
///     "09:05:10 train CapacityRevoked=True CapacityRevoked",
/// ]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// No condition is ever written.
    Unresponsive,
    /// Accepted, and then nothing, for ever.
    StuckAccepted,
    /// Fails at the first look.
    Fails {
        /// One word.
        reason: String,
        /// For people.
        message: String,
    },
    /// No attempt finds capacity.
    Infeasible,
    /// What each attempt finds; after the last one capacity decides.
    Attempts(Vec<Outcome>),
    /// Attempts take so long, instead of the settings' `provision_delay`.
    Takes(Duration),
    /// While nothing is provisioned, Provisioned=False tells these messages, each from so long
    /// after the request's creation on.
    Messages(Vec<(Duration, String)>),
    /// Provisioned turns to False and back again each time so much time has passed.
    Flapping(Duration),
    /// The booking expires so long after Provisioned, instead of the settings' `booking_ttl`.
    BookingExpires(Duration),
    /// Nodes that are added never become ready.
    NodesNeverReady,
    /// Ordinary pods take the capacity that is booked: the next ones find less.
    CapacityStolen,
    /// `CapacityRevoked` so long after Provisioned, whatever the profile.
    Revoked(Duration),
    /// The request is deleted so long after Provisioned.
    Deleted(Duration),
    /// So many status writes after Accepted are refused with a conflict; what they said is lost
    /// until it is tried again. Writes that are applied cannot be refused.
    Conflicts(u32),
    /// Every condition is written twice.
    WritesTwice,
}

impl Misbehaviour {
    /// The first `failures` attempts find nothing.
    pub fn flaky(failures: usize) -> Self {
        Self::Attempts(vec![Outcome::NotFound; failures])
    }
}

/// What one attempt finds.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::told;
/// use kueue_check_sim::autoscaler::{Misbehaviour, CHECK_CAPACITY, NodePool, Outcome, Profile, Selector, Settings};
///
/// // There is room, and yet the first two attempts find none.
/// let outcomes = vec![Outcome::NotFound, Outcome::NotFound, Outcome::ByCapacity];
/// let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .misbehave(Selector::all(), Misbehaviour::Attempts(outcomes));
/// // What is said in ten minutes about a request for four pods of one CPU.
/// let told = told(settings, &[("train", CHECK_CAPACITY, 4)], 10);
/// assert_eq!(told.last().unwrap(), "09:03:20 train Provisioned=True CapacityIsFound");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What there is room for.
    ByCapacity,
    /// Capacity, whatever there is.
    Found,
    /// None, whatever there is.
    NotFound,
    /// An error while looking (best-effort-atomic-scale-up; otherwise as none).
    CannotCheck,
    /// A failure for good.
    Failed {
        /// One word.
        reason: String,
        /// For people.
        message: String,
    },
}

/// Which requests are meant. All that is said must hold.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::told;
/// use kueue_check_sim::autoscaler::{Misbehaviour, CHECK_CAPACITY, NodePool, Profile, Selector, Settings};
///
/// let second = Selector::all().class(CHECK_CAPACITY).name("train-*").nth(2);
/// let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .misbehave(second, Misbehaviour::Unresponsive);
/// // What is said in ten minutes about two requests, each for one pod.
/// let told = told(settings, &[("train-a", CHECK_CAPACITY, 1), ("train-b", CHECK_CAPACITY, 1)], 10);
/// assert!(told.iter().any(|line| line.contains("train-a Provisioned=True")));
/// assert!(!told.iter().any(|line| line.contains("train-b")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    class: Option<String>,
    name: Option<String>,
    nth: Option<usize>,
}

impl Selector {
    /// All requests.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those of a class.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.class = Some(class.into());
        self
    }

    /// Those whose name looks like `pattern`, where `*` stands for any characters.
    #[must_use]
    pub fn name(mut self, pattern: impl Into<String>) -> Self {
        self.name = Some(pattern.into());
        self
    }

    /// The one that was the `number`th to be seen; the first is 1.
    #[must_use]
    pub fn nth(mut self, number: usize) -> Self {
        self.nth = Some(number);
        self
    }

    pub(super) fn selects(&self, request: &Request, number: usize) -> bool {
        self.class
            .as_ref()
            .is_none_or(|class| *class == request.class)
            && self.nth.is_none_or(|nth| nth == number)
            && self
                .name
                .as_ref()
                .is_none_or(|pattern| looks_like(&request.key.name, pattern))
    }
}

fn looks_like(name: &str, pattern: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return name == pattern;
    };
    let Some(rest) = name.strip_prefix(head) else {
        return false;
    };
    let mut ends = rest
        .char_indices()
        .map(|(place, _)| place)
        .chain([rest.len()]);
    ends.any(|place| looks_like(&rest[place..], tail))
}

#[cfg(test)]
mod tests {
    use super::looks_like;

    #[test]
    fn a_star_stands_for_any_characters() {
        let table = [
            ("job-pr-1", "job-pr-1", true),
            ("job-pr-1", "job-pr-2", false),
            ("job-pr-1", "*-1", true),
            ("job-pr-1", "job-*", true),
            ("job-pr-1", "*pr*", true),
            ("job-pr-1", "*pr", false),
            ("job-pr-1", "*", true),
            ("", "*", true),
            ("aab", "*ab", true),
        ];
        for (name, pattern, expected) in table {
            assert_eq!(looks_like(name, pattern), expected, "{name} {pattern}");
        }
    }
}
