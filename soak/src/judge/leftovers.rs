//! Objects that remain after all jobs have ended and the checks were stopped.

use std::collections::BTreeMap;

use super::{Finding, Kind};

/// The names of the objects at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// `ProvisioningRequests` and `PodTemplates`.
    pub(crate) objects: Vec<String>,
    /// The accounts of the Budget that have commitments, with their amounts.
    pub(crate) commitments: BTreeMap<String, String>,
    /// The Leases that are held, with their holders.
    pub(crate) leases: BTreeMap<String, String>,
    /// The programs that have not exited.
    pub(crate) processes: Vec<String>,
    /// The files in the programs' temporary folders.
    pub(crate) files: Vec<String>,
}

/// Returns a finding for each of them.
pub(crate) fn leftovers(ends: &Ends) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |text: String| {
        findings.push(Finding {
            kind: Kind::Leftover,
            text,
        });
    };
    for name in &ends.objects {
        add(format!("{name} is left of a job that has ended"));
    }
    for (account, amount) in &ends.commitments {
        add(format!(
            "{amount} is committed in {account}, and all jobs have ended"
        ));
    }
    for (lease, holder) in &ends.leases {
        add(format!("the Lease {lease} is held by {holder}"));
    }
    for name in &ends.processes {
        add(format!("{name} has not ended"));
    }
    for name in &ends.files {
        add(format!("the file {name} is left"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_there_is_left() {
        assert_eq!(leftovers(&Ends::default()), []);
        let ends = Ends {
            objects: vec!["PodTemplate a/b".to_owned()],
            commitments: [("team-a".to_owned(), "3".to_owned())].into(),
            leases: [("budget".to_owned(), "budget-0".to_owned())].into(),
            processes: vec!["budget-1".to_owned()],
            files: vec!["/tmp/x".to_owned()],
        };
        let texts: Vec<String> = leftovers(&ends).into_iter().map(|one| one.text).collect();
        assert_eq!(
            texts,
            [
                "PodTemplate a/b is left of a job that has ended",
                "3 is committed in team-a, and all jobs have ended",
                "the Lease budget is held by budget-0",
                "budget-1 has not ended",
                "the file /tmp/x is left",
            ]
        );
    }
}
