//! Pauses of replicas.

use jiff::Timestamp;

/// A pause of a replica.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::explore::{RunRecord, PausedReplica, violations};
/// use kueue_check_sim::{Job, Simulation};
///
/// Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
///     let still = PausedReplica { agent: "check-0".to_owned(), from: cluster.now(), until: cluster.now() };
///     let (history, verdicts) = (cluster.server().history(), cluster.verdicts().all());
///     let evidence = RunRecord { checks: &["check"], history: &history, verdicts: &verdicts, pauses: &[still], replicas: 1, ..RunRecord::default() };
///     assert!(violations(&evidence).is_empty());
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausedReplica {
    /// The name of the replica.
    pub agent: String,
    /// The start of the pause.
    pub from: Timestamp,
    /// The end of the pause.
    pub until: Timestamp,
}
