//! Lease decisions of one replica. No clock, no client.

use std::time::Duration;

use tokio::time::Instant;

use super::{LeaseTimes, Stamp};

/// The Lease as last read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) version: String,
    pub(super) holder: String,
    pub(super) duration: Duration,
    pub(super) transitions: i32,
    pub(super) acquired: Stamp,
    pub(super) renewed: Stamp,
}

/// The next step of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Read the record.
    Read,
    /// No record exists: create it.
    Create,
    /// No replica holds it: acquire it.
    Acquire,
    /// This replica holds it: renew it.
    Renew,
    /// Do nothing until then.
    Wait(Instant),
}

/// The state of a replica.
#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    times: LeaseTimes,
    seen: ObservedLease,
    /// The time of the last read.
    looked_at: Option<Instant>,
    /// The time at which the request was sent that last made or kept this replica the holder.
    renewed_at: Option<Instant>,
    /// The record's count of transitions at this replica's first write; `None` before.
    led_at: Option<i32>,
    /// Whether another replica has led since.
    lost: bool,
}

#[derive(Debug)]
enum ObservedLease {
    /// Nothing yet, or a record that is known to be stale.
    Unknown,
    /// No record exists.
    Absent,
    /// A record, unchanged since the instant.
    Record { record: Record, since: Instant },
}

impl Candidate {
    pub(super) fn new(identity: &str, times: LeaseTimes) -> Self {
        Self {
            identity: identity.to_owned(),
            times,
            seen: ObservedLease::Unknown,
            looked_at: None,
            renewed_at: None,
            led_at: None,
            lost: false,
        }
    }

    /// Returns the last record observed.
    pub(super) fn record(&self) -> Option<&Record> {
        match &self.seen {
            ObservedLease::Record { record, .. } => Some(record),
            ObservedLease::Unknown | ObservedLease::Absent => None,
        }
    }

    /// Returns true if this replica has led.
    pub(super) fn has_led(&self) -> bool {
        self.led_at.is_some()
    }

    /// Returns true if another replica has led since this one did, also if it holds the Lease no
    /// more. This replica never acquires it again.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Returns the end of this replica's leadership, if it leads at `now`.
    pub(super) fn valid_until(&self, now: Instant) -> Option<Instant> {
        let until = self.renewed_at? + self.times.renew_deadline;
        (now < until).then_some(until)
    }

    /// Returns the next step at `now`.
    pub(super) fn next_step(&self, now: Instant) -> NextStep {
        if self.lost {
            return NextStep::Wait(now + self.times.retry_period);
        }
        match &self.seen {
            ObservedLease::Unknown => NextStep::Read,
            ObservedLease::Absent => NextStep::Create,
            ObservedLease::Record { record, .. } if record.holder == self.identity => {
                match self.renewed_at {
                    Some(renewed) if now < renewed + self.times.renew_interval => {
                        NextStep::Wait(renewed + self.times.renew_interval)
                    }
                    // A record of this identity that this process did not write is from an earlier
                    // process: it is renewed.
                    _ => NextStep::Renew,
                }
            }
            ObservedLease::Record { record, since } => {
                let expires = *since + record.duration;
                let next_look = self.looked_at.unwrap_or(*since) + self.times.retry_period;
                if record.holder.is_empty() || now >= expires {
                    NextStep::Acquire
                } else if now >= next_look {
                    NextStep::Read
                } else {
                    NextStep::Wait(next_look.min(expires))
                }
            }
        }
    }

    /// Stores the record, whose read returned at `now`: it may have been written as late as that.
    pub(super) fn on_read(&mut self, record: Option<Record>, now: Instant) {
        self.looked_at = Some(now);
        let Some(record) = record else {
            self.renewed_at = None;
            self.seen = ObservedLease::Absent;
            return;
        };
        let others = record.holder != self.identity;
        self.lost |= self
            .led_at
            .is_some_and(|led_at| others || record.transitions != led_at);
        if others || self.lost {
            self.renewed_at = None;
        }
        let unchanged = match &self.seen {
            ObservedLease::Record {
                record: known,
                since,
            } if *known == record => Some(*since),
            _ => None,
        };
        self.seen = ObservedLease::Record {
            record,
            since: unchanged.unwrap_or(now),
        };
    }

    /// Stores the record, written by a request of this replica sent at `sent`. Other replicas
    /// cannot take over before `sent` plus the Lease's duration.
    pub(super) fn on_written(&mut self, record: Record, sent: Instant) {
        self.renewed_at = Some(sent);
        self.led_at.get_or_insert(record.transitions);
        self.seen = ObservedLease::Record {
            record,
            since: sent,
        };
    }

    /// Handles a rejected write: another replica wrote first, or the Lease is gone. The record is
    /// stale; this replica's own leadership stays valid until `valid_until`.
    pub(super) fn on_conflict(&mut self) {
        self.seen = ObservedLease::Unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn record(holder: &str, version: &str) -> Record {
        Record {
            version: version.to_owned(),
            holder: holder.to_owned(),
            duration: 10 * SECOND,
            ..Record::default()
        }
    }

    fn candidate() -> (Candidate, Instant) {
        (Candidate::new("me", LeaseTimes::default()), Instant::now())
    }

    #[test]
    fn a_missing_lease_is_created_and_then_renewed() {
        let (mut candidate, start) = candidate();
        assert_eq!(candidate.next_step(start), NextStep::Read);
        candidate.on_read(None, start);
        assert_eq!(candidate.next_step(start), NextStep::Create);
        candidate.on_written(record("me", "1"), start);
        assert_eq!(candidate.valid_until(start), Some(start + 7 * SECOND));
        assert_eq!(
            candidate.next_step(start + SECOND),
            NextStep::Wait(start + 2 * SECOND)
        );
        assert_eq!(candidate.next_step(start + 2 * SECOND), NextStep::Renew);
    }

    #[test]
    fn a_lease_that_is_renewed_is_not_acquired() {
        let (mut candidate, start) = candidate();
        for round in 0..100 {
            let now = start + round * SECOND;
            candidate.on_read(Some(record("other", &round.to_string())), now);
            assert_eq!(candidate.next_step(now), NextStep::Wait(now + SECOND));
            assert_eq!(candidate.valid_until(now), None);
        }
    }

    #[test]
    fn a_lease_is_acquired_when_its_duration_has_passed_since_the_last_observed_change() {
        let (mut candidate, start) = candidate();
        for round in 0..10 {
            let now = start + round * SECOND;
            candidate.on_read(Some(record("other", "1")), now);
            assert_ne!(
                candidate.next_step(now),
                NextStep::Acquire,
                "after {round} s"
            );
        }
        assert_eq!(
            candidate.next_step(start + 9 * SECOND + SECOND / 2),
            NextStep::Wait(start + 10 * SECOND),
            "not a moment too late"
        );
        assert_eq!(candidate.next_step(start + 10 * SECOND), NextStep::Acquire);
    }

    #[test]
    fn a_released_lease_is_acquired_at_once() {
        let (mut candidate, start) = candidate();
        candidate.on_read(Some(record("", "1")), start);
        assert_eq!(candidate.next_step(start), NextStep::Acquire);
    }

    #[test]
    fn the_holder_stops_leading_before_another_may_acquire_the_lease() {
        let times = LeaseTimes::default();
        assert!(
            times.renew_deadline < times.duration && times.renew_interval < times.renew_deadline
        );
        let (mut candidate, start) = candidate();
        candidate.on_written(record("me", "1"), start);
        assert_eq!(candidate.valid_until(start + 7 * SECOND), None);
        assert_eq!(
            candidate.next_step(start + 7 * SECOND),
            NextStep::Renew,
            "it still tries"
        );
    }

    #[test]
    fn after_a_conflict_the_lease_is_read_and_leadership_continues() {
        let (mut candidate, start) = candidate();
        candidate.on_written(record("me", "1"), start);
        candidate.on_conflict();
        assert_eq!(candidate.next_step(start + SECOND), NextStep::Read);
        assert!(candidate.valid_until(start + SECOND).is_some());
        candidate.on_read(Some(record("other", "2")), start + SECOND);
        assert_eq!(
            candidate.valid_until(start + SECOND),
            None,
            "now it is known to be lost"
        );
    }

    #[test]
    fn a_lease_of_the_same_identity_is_renewed_after_a_restart() {
        let (mut candidate, start) = candidate();
        candidate.on_read(Some(record("me", "1")), start);
        assert_eq!(candidate.valid_until(start), None);
        assert_eq!(candidate.next_step(start), NextStep::Renew);
    }

    #[test]
    fn a_deleted_lease_ends_leadership() {
        let (mut candidate, start) = candidate();
        candidate.on_written(record("me", "1"), start);
        candidate.on_read(None, start + SECOND);
        assert_eq!(
            (
                candidate.valid_until(start + SECOND),
                candidate.next_step(start + SECOND)
            ),
            (None, NextStep::Create)
        );
    }

    #[test]
    fn a_lease_that_another_replica_has_held_is_not_acquired_again() {
        for holder in ["", "other", "me"] {
            let (mut candidate, start) = candidate();
            candidate.on_written(record("me", "1"), start);
            candidate.on_conflict();
            let later = start + 20 * SECOND;
            let found = Record {
                transitions: 1,
                ..record(holder, "3")
            };
            candidate.on_read(Some(found), later);
            assert!(candidate.is_lost(), "held by {holder:?}");
            for later in [later, later + 60 * SECOND] {
                let next_step = candidate.next_step(later);
                assert!(
                    matches!(next_step, NextStep::Wait(_)),
                    "held by {holder:?}: {next_step:?}"
                );
            }
        }
    }
}
