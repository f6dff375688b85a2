//! Injected misbehaviour of the autoscaler, and the requests it applies to.

use std::time::Duration;

use super::Request;

/// Injected misbehaviour, or an outcome that does not depend on capacity.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::written_conditions;
/// use std::time::Duration;
/// use kueue_check_sim::autoscaler::{Misbehaviour, CHECK_CAPACITY, NodePool, Profile, Selector, Settings};
///
/// let settings = Settings::new(Profile::GkeQueued, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .misbehave(Selector::all(), Misbehaviour::Revoked(Duration::from_secs(300)));
/// // The conditions written in ten minutes for a request for four pods of one CPU; there is a scan every ten seconds.
/// assert_eq!(written_conditions(settings, &[("train", CHECK_CAPACITY, 4)], 10), [
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
    /// The request is accepted, and then nothing is written, permanently.
    StuckAccepted,
    /// The request fails instead of being accepted.
    Fails {
        /// One word, such as `Failed`.
        reason: String,
        /// A message for people.
        message: String,
    },
    /// No attempt finds capacity.
    Infeasible,
    /// The outcome of each attempt, in order; after the last one, capacity decides.
    Attempts(Vec<Outcome>),
    /// The duration of an attempt, instead of the settings' `provision_delay`.
    Takes(Duration),
    /// Messages of Provisioned=False while nothing is provisioned. Each applies from the given time
    /// after the request's creation.
    Messages(Vec<(Duration, String)>),
    /// Provisioned alternates between False and True at this period.
    Flapping(Duration),
    /// The booking expires this long after Provisioned, instead of the settings' `booking_ttl`.
    BookingExpires(Duration),
    /// Added nodes never become ready.
    NodesNeverReady,
    /// Ordinary pods use the booked capacity: later requests find less.
    CapacityStolen,
    /// `CapacityRevoked` is written this long after Provisioned, with any profile.
    Revoked(Duration),
    /// The request is deleted this long after Provisioned.
    Deleted(Duration),
    /// The number of status writes after Accepted that are rejected with a conflict. Their content
    /// is lost until the autoscaler retries. Server-side applies are never rejected.
    Conflicts(u32),
    /// Every condition is written twice.
    WritesTwice,
}

impl Misbehaviour {
    /// Returns the misbehaviour whose first `failures` attempts find nothing.
    pub fn flaky(failures: usize) -> Self {
        Self::Attempts(vec![Outcome::NotFound; failures])
    }
}

/// The outcome of one attempt.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::written_conditions;
/// use kueue_check_sim::autoscaler::{Misbehaviour, CHECK_CAPACITY, NodePool, Outcome, Profile, Selector, Settings};
///
/// // There is capacity, and yet the first two attempts find none.
/// let outcomes = vec![Outcome::NotFound, Outcome::NotFound, Outcome::ByCapacity];
/// let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .misbehave(Selector::all(), Misbehaviour::Attempts(outcomes));
/// // The conditions written in ten minutes for a request for four pods of one CPU.
/// let written = written_conditions(settings, &[("train", CHECK_CAPACITY, 4)], 10);
/// assert_eq!(written.last().unwrap(), "09:03:20 train Provisioned=True CapacityIsFound");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The outcome by actual capacity.
    ByCapacity,
    /// Capacity is found, regardless of the nodes.
    Found,
    /// No capacity is found, regardless of the nodes.
    NotFound,
    /// An error while checking capacity (best-effort-atomic-scale-up; otherwise like `NotFound`).
    CannotCheck,
    /// A permanent failure.
    Failed {
        /// One word, such as `Failed`.
        reason: String,
        /// A message for people.
        message: String,
    },
}

/// A selector of requests. All its conditions must hold.
///
/// ```
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use example::written_conditions;
/// use kueue_check_sim::autoscaler::{Misbehaviour, CHECK_CAPACITY, NodePool, Profile, Selector, Settings};
///
/// let second = Selector::all().class(CHECK_CAPACITY).name("train-*").nth(2);
/// let settings = Settings::new(Profile::Oss137, [NodePool::new("pool", &[("cpu", "8")], 1, 4)])
///     .misbehave(second, Misbehaviour::Unresponsive);
/// // The conditions written in ten minutes for two requests, each for one pod.
/// let written = written_conditions(settings, &[("train-a", CHECK_CAPACITY, 1), ("train-b", CHECK_CAPACITY, 1)], 10);
/// assert!(written.iter().any(|line| line.contains("train-a Provisioned=True")));
/// assert!(!written.iter().any(|line| line.contains("train-b")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    class: Option<String>,
    name: Option<String>,
    nth: Option<usize>,
}

impl Selector {
    /// Selects all requests.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects requests of a class.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.class = Some(class.into());
        self
    }

    /// Selects requests whose name matches `pattern`, where `*` matches any characters.
    #[must_use]
    pub fn name(mut self, pattern: impl Into<String>) -> Self {
        self.name = Some(pattern.into());
        self
    }

    /// Selects the `number`th request that the autoscaler observed; the first is 1.
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
