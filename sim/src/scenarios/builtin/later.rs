//! Scenarios in which a release returns [`RetryAfter`](kueue_check::ReleaseOutcome::RetryAfter)
//! while its check, its parameters or its leader change.

use std::time::Duration;

use kueue_check::api::{CheckState, PodSet};
use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, PodSetUpdates,
    ReleaseOutcome, ReleaseReason, Reservation, Verdict,
};
use serde_json::json;

use super::deleted::{ended, named};
use super::{MINUTE, SECOND, terms};
use crate::scenarios::{Depot, Scripted, Word};
use crate::simulation::{CHECK, CheckContext, Cluster, Job, QUEUE, Simulation};

/// A [`Depot`] whose machines are in the zone that its parameters name.
struct ZonedDepot(Depot);

impl AdmissionCheckController for ZonedDepot {
    type Parameters = Word;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/zoned-depot") }
    }

    async fn evaluate(&self, request: CheckRequest<Word>) -> Result<Verdict, CheckError> {
        self.0.start(request.reservation()).await;
        let zone = &request.parameters().0;
        let names = request.workload().pod_sets().iter().map(PodSet::name);
        let updates = PodSetUpdates::builder()
            .pod_sets(names, |pods| pods.node_selector("zone", zone))
            .build()?;
        Ok(Verdict::ready(format!("in zone {zone}")).with_updates(updates))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        self.0.release(reservation, why).await
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        self.0.unreleased_reservations().await
    }
}

/// Returns a simulation of machines in zone a, with parameters for zone b beside. They take longer
/// to stop than an event may be delayed.
pub(super) fn zoned() -> Simulation {
    let depot = || Depot::default().stops_in(2 * MINUTE);
    let check = move |tools: &CheckContext| ZonedDepot(tools.external(depot));
    Simulation::with_context(check)
        .parameters(&Word::object("zone-a", "a"))
        .object(&Word::object("zone-b", "b"))
        .invariant("all stopped", Depot::stops_all)
}

/// Returns the same with a second check, which requires zone b and takes longer than the first.
pub(super) fn two_zones() -> Simulation {
    zoned().and("second", |_| {
        Scripted::new(|r| terms::in_zone(r, "b")).latency(|_| 15 * SECOND)
    })
}

/// Returns two replicas with machines that take 5 min to stop.
pub(super) fn slow_to_stop() -> Simulation {
    let depot = || Depot::default().stops_in(5 * MINUTE);
    Simulation::with_context(move |tools| tools.external(depot))
        .invariant("all stopped", Depot::stops_all)
        .replicas(2)
}

/// Returns machines that have not stopped by the end of a run.
pub(super) fn never_stopped() -> Simulation {
    let depot = || Depot::default().stops_in(60 * MINUTE);
    Simulation::with_context(move |tools| tools.external(depot))
}

fn switches_to_zone_b(cluster: &Cluster) {
    let other = json!({"spec": {"parameters": {"name": "zone-b"}}});
    cluster.merge(&named("AdmissionCheck", CHECK), &other);
}

/// Waits until the machine of `job`, which is the only one, stops.
async fn expect_stopping(cluster: &Cluster) {
    let depot: Depot = cluster.external();
    cluster
        .expect("the machine stops", |_| depot.stopping() == 1)
        .await;
    cluster.advance(Duration::from_secs(5)).await;
}

/// The parameters are switched while the machine of an evicted job stops. The job starts again
/// meanwhile, and waits for that.
pub(super) async fn switched(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    cluster.expect_admitted("train").await;
    cluster.expect_message("train", "in zone a").await;
    cluster.merge_workload("train", &json!({"spec": {"active": false}}));
    expect_stopping(cluster).await;
    switches_to_zone_b(cluster);
    cluster.merge_workload("train", &json!({"spec": {"active": true}}));
    cluster.expect_admitted("train").await;
    cluster.expect_message("train", "in zone b").await;
    cluster.complete("train");
    ended(cluster).await;
}

/// Two checks require two zones. The quota is lost, and while the machine in the first zone stops,
/// the parameters are switched to the other one.
pub(super) async fn zones(cluster: &Cluster) {
    cluster.submit(Job::new("train"));
    cluster.expect_state("train", CheckState::Ready).await;
    cluster.expect_waiting("train", 3 * MINUTE).await;
    let queue = named("ClusterQueue", QUEUE);
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "Hold"}}));
    expect_stopping(cluster).await;
    switches_to_zone_b(cluster);
    cluster.merge(&queue, &json!({"spec": {"stopPolicy": "None"}}));
    cluster.expect_admitted("train").await;
    cluster.expect_message("train", "in zone b").await;
    cluster.complete("train");
    ended(cluster).await;
}

/// The leader loses the Lease while a machine stops, and leads again before it has stopped.
pub(super) async fn led_again(cluster: &Cluster) {
    stopping(cluster).await;
    cluster.depose(2 * MINUTE);
    continued(cluster).await;
}

/// Each replica dies while a machine stops, one after the other.
pub(super) async fn taken_over(cluster: &Cluster) {
    stopping(cluster).await;
    cluster.crash(0);
    cluster.advance(30 * SECOND).await;
    cluster.crash(1);
    continued(cluster).await;
}

/// Submits and completes a job, whose machine stops.
pub(super) async fn stopping(cluster: &Cluster) {
    cluster.submit(Job::new("first"));
    cluster.expect_admitted("first").await;
    cluster.complete("first");
    expect_stopping(cluster).await;
}

async fn continued(cluster: &Cluster) {
    cluster.submit(Job::new("second"));
    cluster.expect_admitted("second").await;
    let depot: Depot = cluster.external();
    cluster
        .expect("the machine of `first` is stopped", |_| {
            depot.running() == 1
        })
        .await;
}
