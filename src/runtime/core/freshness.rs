//! Freshness of a verdict, and whether it is the first one.

use super::cleanup::WITHDRAWN;
use crate::api::{AdmissionCheckState, CheckState, short_digest};

/// The freshness of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// All its inputs are unchanged.
    Current,
    /// An input changed: the check is evaluated again.
    Stale { why: &'static str },
    /// The reservation ended, or this replica no longer leads.
    Over,
}

impl Freshness {
    /// Returns Stale, because of the first of these that changed: parameters, flavors, the other
    /// Workloads of the job, the admission of the Workload. Otherwise the Workload itself changed.
    pub(super) fn stale(same: [bool; 4]) -> Self {
        let changes = [
            "parameters changed",
            "flavors changed",
            "other Workloads of the job changed",
            "the Workload was admitted",
        ];
        let changed = changes.iter().zip(same).find(|(_, same)| !same);
        Self::Stale {
            why: changed.map_or("the Workload changed", |(change, _)| change),
        }
    }

    /// Returns why the verdict is dropped, if it is.
    pub(super) fn dropped(self) -> Option<&'static str> {
        match self {
            Self::Current => None,
            Self::Stale { why } => Some(why),
            Self::Over => Some("the reservation ended, or the replica does not lead"),
        }
    }
}

/// Returns true if an entry has no verdict of its reservation yet. It is as Kueue creates it, as
/// Kueue resets it after an eviction (measured on 0.19.2), or as the runtime withdraws it.
pub(super) fn has_no_verdict(entry: &AdmissionCheckState) -> bool {
    let messages = [
        "",
        WITHDRAWN,
        "Reset to Pending after eviction. Previously: Ready",
        "Reset to Pending after eviction. Previously: Retry",
        "Reset to Pending after eviction. Previously: Rejected",
    ];
    let is = |message: &&str| short_digest(*message) == entry.message_digest;
    *entry.state() == CheckState::Pending && messages.iter().any(is)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Workload;

    #[test]
    fn a_verdict_is_dropped_for_the_first_thing_that_changed() {
        let why = |same| Freshness::stale(same).dropped();
        assert_eq!(why([true; 4]), Some("the Workload changed"));
        assert_eq!(why([true, false, false, true]), Some("flavors changed"));
        assert_eq!(
            why([true, true, true, false]),
            Some("the Workload was admitted")
        );
        assert_eq!(Freshness::Current.dropped(), None);
    }

    #[test]
    fn an_entry_that_a_check_has_written_has_a_verdict() {
        for (state, message, none) in [
            ("Pending", "", true),
            (
                "Pending",
                "Reset to Pending after eviction. Previously: Retry",
                true,
            ),
            ("Pending", WITHDRAWN, true),
            ("Pending", "seats are taken", false),
            ("Ready", "", false),
        ] {
            let entry = json!({"name": "c", "state": state, "message": message});
            let workload = json!({"metadata": {"name": "w", "uid": "u"}, "status": {"admissionChecks": [entry]}});
            let workload = Workload::from_json(workload).unwrap();
            let entry = workload.check("c").unwrap();
            assert_eq!(has_no_verdict(entry), none, "{state} {message}");
        }
    }
}
