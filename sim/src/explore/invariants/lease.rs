//! Who leads, by the history of the Lease.

use jiff::{SignedDuration, Timestamp};

use super::text;
use crate::apiserver::Change;

/// The times for which the Lease was held, in the order of the writes.
#[derive(Debug, Default)]
pub(super) struct Leases {
    terms: Vec<Term>,
    /// Whether the times in the Lease are of clocks that are off.
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

    /// Who holds it.
    pub(super) fn holder(&self) -> &str {
        self.terms.last().map_or("", |term| &term.holder)
    }

    /// Until when the last renewal of `agent` lasts, independent of the holder since.
    pub(super) fn until(&self, agent: &str) -> Timestamp {
        let own = self.terms.iter().rev().find(|term| term.holder == agent);
        own.map(|term| term.until).unwrap_or_default()
    }

    /// Whether `agent` had renewed it and could rely on it at that time.
    pub(super) fn could_lead(&self, agent: &str, at: Timestamp) -> bool {
        let mut terms = self.terms.iter();
        terms.any(|term| term.holder == agent && term.from <= at && at <= term.until)
    }
}
