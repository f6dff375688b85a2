//! How many running jobs an AdmissionCheck may still stop.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// The evictions of one AdmissionCheck in the last hour. A place is taken when an eviction is
/// concluded, before it is written, so that no number of writes in flight passes the limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct EvictionBudget(VecDeque<Timestamp>);

impl EvictionBudget {
    /// How many places are taken at `now`. A place that lies in the future, because the wall clock
    /// was set back, is taken.
    pub(super) fn used(&self, now: Timestamp) -> u32 {
        let recent = self.0.iter().filter(|at| now.duration_since(**at) < HOUR);
        u32::try_from(recent.count()).unwrap_or(u32::MAX)
    }

    /// Takes a place.
    pub(super) fn take(&mut self, now: Timestamp) {
        self.0.retain(|at| now.duration_since(*at) < HOUR);
        self.0.push_back(now);
    }

    /// Gives the last place back: the eviction was certainly not written.
    pub(super) fn give_back(&mut self) {
        self.0.pop_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_for_an_hour_and_can_be_given_back() {
        let start = Timestamp::UNIX_EPOCH;
        let at = |minutes: i64| start + SignedDuration::from_mins(minutes);
        let mut budget = EvictionBudget::default();
        budget.take(at(0));
        budget.take(at(30));
        assert_eq!(
            [at(30), at(59), at(60), at(90)].map(|at| budget.used(at)),
            [2, 2, 1, 0]
        );
        budget.give_back();
        assert_eq!(budget.used(at(30)), 1);
        let before = start - SignedDuration::from_hours(3);
        assert_eq!(
            budget.used(before),
            1,
            "a clock that is set back frees no place"
        );
    }
}
