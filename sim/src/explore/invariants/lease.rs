//! The leader, from the history of the Lease.

use jiff::{SignedDuration, Timestamp};

use super::text;
use crate::apiserver::Change;

/// The terms of the Lease, in the order of the writes.
#[derive(Debug, Default)]
pub(super) struct Leases {
    terms: Vec<Term>,
    /// Whether the times in the Lease come from clocks that are off.
    clocks_differ: bool,
}

/// One write of the Lease.
#[derive(Debug)]
struct Term {
    holder: String,
    from: Timestamp,
    until: Timestamp,
}

impl Leases {
    pub(super) fn new(clocks_differ: bool) -> Self {
        Self {
            clocks_differ,
            ..Self::default()
        }
    }

    pub(super) fn read(&mut self, change: &Change) {
        let spec = &change.object["spec"];
        let renewed: Timestamp = text(&spec["renewTime"]).parse().unwrap_or_default();
        let renewed = if self.clocks_differ {
            change.at
        } else {
            renewed
        };
        let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or_default();
        let until = renewed + SignedDuration::from_secs(seconds);
        self.terms.push(Term {
            holder: text(&spec["holderIdentity"]).to_owned(),
            from: change.at,
            until,
        });
    }

    /// Returns the last holder.
    pub(super) fn holder(&self) -> &str {
        self.terms.last().map_or("", |term| &term.holder)
    }

    /// Returns the end of `agent`'s last renewal, independent of later holders.
    pub(super) fn until(&self, agent: &str) -> Timestamp {
        let own = self.terms.iter().rev().find(|term| term.holder == agent);
        own.map(|term| term.until).unwrap_or_default()
    }

    /// Returns true if `agent` had renewed it and could rely on it at that time.
    pub(super) fn could_lead(&self, agent: &str, at: Timestamp) -> bool {
        let mut terms = self.terms.iter();
        terms.any(|term| term.holder == agent && term.from <= at && at <= term.until)
    }
}
