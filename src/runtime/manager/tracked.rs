//! What is known of each Workload that holds quota.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::api::{Name, Uid, Workload};
use crate::check::{ReleaseReason, Reservation};
use crate::runtime::decide::Memory;
use crate::runtime::queue::Lane;
use crate::runtime::writer::EntryDigest;

/// One Workload and one of our AdmissionChecks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) uid: Uid,
    pub(super) check: Name,
}

/// A Workload, and where each of our checks stands with it.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    /// `None` once it is gone and something is still owed.
    pub(super) workload: Option<Workload>,
    pub(super) keys: Vec<KeyState>,
}

/// Where one check stands with one Workload.
#[derive(Debug)]
pub(super) struct KeyState {
    pub(super) check: Name,
    /// Which of our controllers answers the check.
    pub(super) controller: usize,
    /// The reservation being decided about (when it began).
    pub(super) reservation: Option<Timestamp>,
    /// What should stand in the entry; `None` until the check has been asked about this reservation in this term.
    pub(super) expected: Option<EntryDigest>,
    /// Whether the check may have started something for the reservation.
    pub(super) started: bool,
    /// Whether a job is at work on it.
    pub(super) busy: bool,
    /// Look again when that job is done.
    pub(super) again: Option<Lane>,
    /// Writes in a row that did not succeed.
    pub(super) stumbles: u32,
    pub(super) timer: Option<Instant>,
    pub(super) asked_at: Option<Instant>,
    pub(super) memory: Memory,
    /// What has to be done about an earlier reservation first.
    pub(super) owed: Option<Box<Owed>>,
}

/// What has to be done about a reservation that is over.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) reservation: Reservation,
    /// Why it is over; `None` until that has been found out.
    pub(super) why: Option<ReleaseReason>,
    /// The Workload on which an answer is to be withdrawn.
    pub(super) withdraw: Option<Workload>,
    /// Whether the author's release is to be called.
    pub(super) release: bool,
    pub(super) failures: u32,
    pub(super) since: Instant,
}

impl KeyState {
    pub(super) fn new(check: Name, controller: usize) -> Self {
        Self {
            check,
            controller,
            reservation: None,
            expected: None,
            started: false,
            busy: false,
            again: None,
            stumbles: 0,
            timer: None,
            asked_at: None,
            memory: Memory::default(),
            owed: None,
        }
    }

    /// A new reservation: nothing of the old one counts.
    pub(super) fn begin(&mut self, since: Timestamp, started: bool) {
        self.reservation = Some(since);
        self.forget();
        self.started = started;
    }

    /// What was learnt by asking, in this term.
    pub(super) fn forget(&mut self) {
        self.expected = None;
        self.asked_at = None;
        self.stumbles = 0;
        self.memory = Memory::default();
    }

    /// How urgent a look at it is; `undecided` says whether a job waits for the first word.
    pub(super) fn lane(&self, undecided: bool) -> Lane {
        match (undecided, self.expected) {
            (true, _) => Lane::Fresh,
            (false, None) => Lane::Restore,
            (false, Some(_)) => Lane::Recheck,
        }
    }

    /// Whether nothing depends on it any more.
    pub(super) fn is_idle(&self) -> bool {
        self.reservation.is_none() && self.owed.is_none() && !self.busy
    }
}

impl Tracked {
    pub(super) fn key(&self, check: &str) -> Option<&KeyState> {
        self.keys.iter().find(|key| &*key.check == check)
    }

    pub(super) fn key_mut(&mut self, check: &str) -> Option<&mut KeyState> {
        self.keys.iter_mut().find(|key| &*key.check == check)
    }

    /// The key of `check`, made if it is new.
    pub(super) fn key_or_new(&mut self, check: &Name, controller: usize) -> &mut KeyState {
        let at = self
            .keys
            .iter()
            .position(|key| key.check == *check)
            .unwrap_or_else(|| {
                self.keys.reserve_exact(1);
                self.keys.push(KeyState::new(check.clone(), controller));
                self.keys.len() - 1
            });
        &mut self.keys[at]
    }
}
