//! The figures of a ClusterQueue, from the Workloads.

use kueue_check_apiserver::ApiServer;
use serde::Deserialize;

use super::api::kueue;
use super::objects::{Workload, read};
use super::scheduler::{Usage, show, usage_of};

/// What the Workloads of a server hold, as the status of a ClusterQueue shows it. Amounts are
/// flavor, resource and text.
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
///     let usage = QueueUsage::of(cluster.server());
///     assert_eq!((usage.reserving, usage.admitted), (1, 1));
///     assert_eq!(usage.usage[0].2, "4"); // CPUs
/// });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QueueUsage {
    /// How many Workloads hold quota.
    pub reserving: usize,
    /// How many of them are admitted.
    pub admitted: usize,
    /// Quota that is reserved, without zeros.
    pub reservation: Vec<(String, String, String)>,
    /// Quota of admitted Workloads, without zeros.
    pub usage: Vec<(String, String, String)>,
}

impl QueueUsage {
    /// Adds up the Workloads of `server` that are not finished.
    pub fn of(server: &ApiServer) -> Self {
        let (mut reserved, mut admitted) = (Usage::default(), Usage::default());
        let mut figures = Self::default();
        for raw in server.objects(&kueue("workloads"), "") {
            let workload: Workload = read(&raw);
            if workload.is_finished() || !workload.has_quota() {
                continue;
            }
            let usage = usage_of(&workload);
            reserved.add_all(&usage);
            figures.reserving += 1;
            if workload.is_admitted() {
                admitted.add_all(&usage);
                figures.admitted += 1;
            }
        }
        figures.reservation = amounts(&reserved);
        figures.usage = amounts(&admitted);
        figures
    }
}

fn amounts(usage: &Usage) -> Vec<(String, String, String)> {
    let taken = usage.iter().filter(|(_, amount)| **amount != 0);
    taken
        .map(|((flavor, resource), amount)| {
            (flavor.clone(), resource.clone(), show(resource, *amount))
        })
        .collect()
}
