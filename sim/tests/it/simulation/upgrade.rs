//! Kueue's API changes while a process runs.

use std::time::Duration;

use kueue_check::Verdict;
use kueue_check_sim::definitions::KueueApi;
use kueue_check_sim::scenarios::{Depot, Scripted};
use kueue_check_sim::{Job, Simulation};

const MINUTE: Duration = Duration::from_secs(60);

/// Tests a check without a list of unreleased reservations. It depends on the pending cleanup that
/// the runtime will retry.
#[test]
fn a_release_that_takes_time_outlasts_the_replacement_of_the_api() {
    let depot = || Depot::default().stops_in(2 * MINUTE).without_list();
    let simulation = Simulation::with_context(move |tools| tools.external(depot));
    simulation.kueue_api(KueueApi::Both).run(async |cluster| {
        let depot: Depot = cluster.external();
        cluster.submit(Job::new("train"));
        cluster.expect_admitted("train").await;
        cluster.complete("train");
        cluster
            .expect("the machine is stopping", |_| depot.stopping() == 1)
            .await;
        // The API in use disappears, and then it returns: a new session begins.
        cluster.serve(KueueApi::V1beta1);
        cluster.advance(2 * MINUTE).await;
        cluster.serve(KueueApi::Both);
        cluster
            .expect("the machine is stopped", |_| depot.running() == 0)
            .await;
    });
}

/// From 0.15 on Kueue serves both versions: no request fails, but a newer version is served.
#[test]
fn a_newer_version_is_used_although_the_older_one_is_still_served() {
    let open = || Scripted::new(|_| Ok(Verdict::ready("open")));
    let simulation = Simulation::new(open).kueue_api(KueueApi::V1beta1);
    simulation.run(async |cluster| {
        cluster.submit(Job::new("before"));
        cluster.expect_admitted("before").await;
        let version = async || {
            let shown = cluster.diagnostics(0).await.unwrap();
            serde_json::to_value(shown).unwrap()["served"]["version"].clone()
        };
        assert_eq!(version().await, "v1beta1");
        cluster.serve(KueueApi::Both);
        cluster.advance(30 * MINUTE).await;
        assert_eq!(version().await, "v1beta2");
    });
}
