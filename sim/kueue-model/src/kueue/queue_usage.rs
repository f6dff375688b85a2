//! Counts and quota from the status of ClusterQueues.

use kueue_check_apiserver::ApiServer;
use serde::Deserialize;

use super::api::kueue;
use super::objects::{ClusterQueue, FlavorUsage, read};

/// Counts of Workloads and their quota, from the status of the ClusterQueues. Amounts are flavor,
/// resource and quantity.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// use kueue_check_kueue_model::kueue::QueueUsage;
/// use kueue_check_sim::{Job, Simulation};
///
/// Simulation::new(|| open).run(async |cluster| {
///     cluster.submit(Job::new("train").pods(4));
///     cluster.expect_admitted("train").await;
///     cluster.advance(std::time::Duration::from_secs(2)).await;
///     let usage = QueueUsage::of(cluster.server());
///     assert_eq!((usage.reserving, usage.admitted), (1, 1));
///     assert_eq!(usage.usage[0].2, "4"); // CPUs
/// });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QueueUsage {
    /// The number of Workloads that hold quota.
    pub reserving: usize,
    /// The number of them that are admitted.
    pub admitted: usize,
    /// The reserved quota, without zeros.
    pub reservation: Vec<(String, String, String)>,
    /// The quota of admitted Workloads, without zeros.
    pub usage: Vec<(String, String, String)>,
}

impl QueueUsage {
    /// Returns the sums of the counts in the status of all ClusterQueues of `server`.
    ///
    /// The model of Kueue counts up to 1 s after a change.
    pub fn of(server: &ApiServer) -> Self {
        let mut figures = Self::default();
        for raw in server.objects(&kueue("clusterqueues"), "") {
            let status = read::<ClusterQueue>(&raw).status;
            figures.reserving += status.reserving_workloads;
            figures.admitted += status.admitted_workloads;
            figures
                .reservation
                .extend(amounts(&status.flavors_reservation));
            figures.usage.extend(amounts(&status.flavors_usage));
        }
        figures
    }
}

/// Returns the amounts without zeros.
fn amounts(usage: &[FlavorUsage]) -> impl Iterator<Item = (String, String, String)> {
    let all = usage.iter().flat_map(|flavor| {
        let resources = flavor.resources.iter();
        resources.map(|used| (flavor.name.clone(), used.name.clone(), used.total.clone()))
    });
    all.filter(|(.., total)| total != "0")
}
