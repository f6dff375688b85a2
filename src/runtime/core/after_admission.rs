//! The condition `AfterAdmission`: the record about admitted jobs for the next leader.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

use crate::api::{StatusCondition, Uid};
use crate::check::Reservation;

/// Time for which a slot is taken: 1 h, plus the longest time from the record to the eviction.
const WINDOW: SignedDuration = SignedDuration::from_mins(61);

/// Age at which a slot that was not used yet is recorded again.
const RENEWAL: SignedDuration = SignedDuration::from_secs(30);

/// Maximum number of evictions in the condition: its message may have 32,768 characters.
const LISTED: usize = 500;

const MONITORS: &str = "monitors admitted jobs";
const EVICTED: &str = "evicted ";

/// The record of one AdmissionCheck: whether it monitors admitted jobs, and its evictions of the
/// last hour.
///
/// A slot is taken when an eviction is concluded, and recorded before the eviction is written. So
/// neither the number of writes in flight nor a change of leader can exceed the limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct AfterAdmission {
    /// Whether the check ever returned a Ready with `recheck_in`.
    pub(super) monitors: bool,
    evictions: VecDeque<Eviction>,
}

/// A slot in the limit on evictions.
#[derive(Clone, Debug)]
struct Eviction {
    /// In whole seconds.
    at: Timestamp,
    uid: Uid,
    /// The reservation that this process ends by it; `None` if another process took the slot.
    reservation: Option<Timestamp>,
    /// Whether the eviction was sent without a reply: it may have been written.
    sent: bool,
    /// Released. It is kept, because the condition still lists it.
    free: bool,
}

impl Eviction {
    fn is(&self, reservation: &Reservation) -> bool {
        !self.free
            && self.uid == *reservation.uid()
            && self.reservation == Some(reservation.since())
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.at, &self.uid) == (other.at, &other.uid)
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.uid)
    }
}

impl FromStr for Eviction {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, uid) = text.split_once(' ').ok_or(())?;
        Ok(Self {
            at: at.parse().map_err(drop)?,
            uid: Uid::new(uid),
            reservation: None,
            sent: false,
            free: false,
        })
    }
}

impl AfterAdmission {
    /// Returns the record in `condition`.
    pub(super) fn read(condition: Option<&StatusCondition>) -> Self {
        let message = condition.map_or("", |condition| &condition.message);
        let evictions = message.split_once(EVICTED).map_or("", |(_, times)| times);
        Self {
            monitors: message.starts_with(MONITORS),
            evictions: evictions
                .split(", ")
                .filter_map(|eviction| eviction.parse().ok())
                .collect(),
        }
    }

    /// Adds records of `condition` that this process lacks: it started with an older copy.
    pub(super) fn merge(&mut self, condition: Option<&StatusCondition>) {
        let Self {
            monitors,
            evictions,
        } = Self::read(condition);
        self.monitors |= monitors;
        for eviction in evictions {
            if !self.evictions.iter().any(|known| known.is_same(&eviction)) {
                self.evictions.push_back(eviction);
            }
        }
    }

    /// Returns the condition's message; `None` if there is nothing to record.
    pub(super) fn message(&self, now: Timestamp) -> Option<String> {
        let recent = self.recent(now).map(Eviction::to_string);
        let recent: Vec<String> = recent.collect();
        let listed = recent[recent.len().saturating_sub(LISTED)..].join(", ");
        let monitors = self.monitors.then(|| MONITORS.to_owned());
        let evicted = (!listed.is_empty()).then(|| format!("{EVICTED}{listed}"));
        let parts: Vec<String> = monitors.into_iter().chain(evicted).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Returns true if `condition` records everything required at `now`. It may list more.
    pub(super) fn is_recorded(&self, condition: Option<&StatusCondition>, now: Timestamp) -> bool {
        let recorded = Self::read(condition);
        let all = self.recent(now).all(|eviction| {
            let mut recorded = recorded.evictions.iter();
            recorded.any(|recorded| recorded.is_same(eviction))
        });
        all && (recorded.monitors || !self.monitors)
    }

    /// Returns the number of slots that other reservations have at `now`. A slot in the future,
    /// because the wall clock was set back, is taken.
    pub(super) fn used(&self, now: Timestamp, reservation: &Reservation) -> u32 {
        let others = self
            .recent(now)
            .filter(|eviction| !eviction.is(reservation));
        u32::try_from(others.count()).unwrap_or(u32::MAX)
    }

    /// Takes a slot for `reservation` if it has none, or renews it.
    pub(super) fn take(&mut self, now: Timestamp, reservation: &Reservation) {
        self.evictions
            .retain(|eviction| now.duration_since(eviction.at) < WINDOW);
        let sent = self.is_sent(reservation);
        self.evictions
            .retain(|known| !known.is(reservation) || now.duration_since(known.at) < RENEWAL);
        if !self.evictions.iter().any(|known| known.is(reservation)) {
            self.evictions.push_back(Eviction {
                at: Timestamp::from_second(now.as_second()).unwrap_or(now),
                uid: reservation.uid().clone(),
                reservation: Some(reservation.since()),
                sent,
                free: false,
            });
        }
    }

    fn is_sent(&self, reservation: &Reservation) -> bool {
        let mut evictions = self.evictions.iter();
        evictions.any(|eviction| eviction.is(reservation) && eviction.sent)
    }

    /// Keeps the slot of `reservation` whatever follows: the eviction may have been written.
    pub(super) fn keep(&mut self, reservation: &Reservation) {
        for eviction in &mut self.evictions {
            eviction.sent |= eviction.is(reservation);
        }
    }

    /// Releases the slot of `reservation` if the eviction was certainly not written. `recorded` is
    /// true if the slot itself was.
    pub(super) fn release(&mut self, reservation: &Reservation, recorded: bool) {
        if self.is_sent(reservation) {
            return;
        }
        if !recorded {
            self.evictions.retain(|eviction| !eviction.is(reservation));
        }
        for eviction in &mut self.evictions {
            eviction.free |= eviction.is(reservation);
        }
    }

    fn recent(&self, now: Timestamp) -> impl Iterator<Item = &Eviction> {
        let recent =
            move |eviction: &&Eviction| !eviction.free && now.duration_since(eviction.at) < WINDOW;
        self.evictions.iter().filter(recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    fn job(name: &str) -> Reservation {
        Reservation::new("n", name, Uid::new(name), "check", at(0))
    }

    fn condition(message: &str) -> StatusCondition {
        StatusCondition {
            status: "True".to_owned(),
            reason: "Recorded".to_owned(),
            message: message.to_owned(),
            observed_generation: None,
            since: None,
        }
    }

    #[test]
    fn a_slot_is_taken_for_more_than_an_hour_and_can_be_released() {
        let mut limit = AfterAdmission::default();
        limit.take(at(0), &job("a"));
        limit.take(at(30), &job("b"));
        limit.take(at(31), &job("b"));
        let used = |limit: &AfterAdmission, minutes| limit.used(at(minutes), &job("c"));
        assert_eq!(
            [30, 60, 61, 92].map(|minutes| used(&limit, minutes)),
            [2, 2, 1, 0]
        );
        assert_eq!(limit.used(at(31), &job("b")), 1, "its own is free for it");
        limit.release(&job("b"), true);
        assert_eq!(used(&limit, 30), 1);
        assert_eq!(
            used(&limit, -180),
            1,
            "a clock that is set back releases no slot"
        );
    }

    #[test]
    fn the_next_leader_reads_what_was_recorded() {
        let mut limit = AfterAdmission::default();
        assert_eq!(limit.message(at(0)), None);
        assert!(limit.is_recorded(None, at(0)));
        limit.monitors = true;
        assert_eq!(limit.message(at(0)).unwrap(), "monitors admitted jobs");
        assert!(!limit.is_recorded(None, at(0)));
        limit.take(at(0), &job("a"));
        limit.take(at(0), &job("b"));
        let message = limit.message(at(1)).unwrap();
        assert_eq!(
            message,
            "monitors admitted jobs; evicted 1970-01-01T00:00:00Z a, 1970-01-01T00:00:00Z b"
        );
        let next = AfterAdmission::read(Some(&condition(&message)));
        assert!(next.monitors);
        assert_eq!(next.used(at(59), &job("a")), 2);
        assert!(limit.is_recorded(Some(&condition(&message)), at(1)));
        let one = "monitors admitted jobs; evicted 1970-01-01T00:00:00Z b";
        assert!(
            !limit.is_recorded(Some(&condition(one)), at(1)),
            "one lacks"
        );
        assert!(
            limit.is_recorded(Some(&condition(one)), at(61)),
            "it is over"
        );
        assert_eq!(
            limit.message(at(61)).as_deref(),
            Some("monitors admitted jobs")
        );
    }

    #[test]
    fn a_leader_that_began_with_an_older_copy_merges_the_rest_once() {
        let mut limit = AfterAdmission::default();
        limit.take(at(1), &job("a"));
        let newer =
            "monitors admitted jobs; evicted 1970-01-01T00:01:00Z x, 1970-01-01T00:01:00Z a";
        for _ in 0..2 {
            limit.merge(Some(&condition(newer)));
            assert!(limit.monitors);
            assert_eq!(limit.used(at(2), &job("b")), 2);
        }
        limit.release(&job("a"), true);
        limit.merge(Some(&condition(newer)));
        assert_eq!(limit.used(at(2), &job("b")), 1, "what was released is free");
        limit.take(at(1), &job("x"));
        limit.release(&job("x"), false);
        limit.merge(Some(&condition(newer)));
        assert_eq!(
            limit.used(at(2), &job("b")),
            1,
            "another process stopped it"
        );
    }

    #[test]
    fn a_message_of_another_client_is_no_record() {
        for message in ["", "evicted at noon, ,", "evicted", "monitors"] {
            let read = AfterAdmission::read(Some(&condition(message)));
            assert!(!read.monitors && read.evictions.is_empty(), "{message:?}");
        }
    }

    #[test]
    fn the_message_fits_whatever_the_limit_is() {
        let mut limit = AfterAdmission::default();
        for number in 0..2 * LISTED {
            limit.take(at(0), &job(&format!("{number:036}")));
        }
        assert!(limit.message(at(0)).unwrap().len() < 32_768);
    }
}
