//! The cost of idle Workloads in requests to the API server. Memory is in `tests/heap.rs`.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::Cluster;
use serde_json::json;

use crate::harness::*;

#[test]
fn each_step_is_one_request_and_an_idle_hour_sends_none() {
    simulation(&retries(1)).run(async |cluster| {
        let request = submitted(cluster).await;
        cluster.advance(Duration::from_secs(30)).await;
        assert_eq!(cluster.requests("create provisioningrequests"), 1);
        assert_eq!(cluster.requests("create podtemplates"), 1);
        assert_eq!(
            cluster.requests("get workloads"),
            1,
            "the templates are read once"
        );
        set_condition(cluster, &request, "Accepted", "True", "");
        admitted(cluster, &request).await;
        assert_eq!(
            cluster.requests("apply workloads/status"),
            1,
            "one write for one change of state"
        );
        cluster.advance(Duration::from_secs(60)).await;
        let others = in_an_hour(cluster).await;
        assert_eq!(others, 0, "an hour in which nothing changes");
        assert_eq!(cluster.requests("get workloads"), 1);
    });
}

/// Returns the number of requests that the check sends in an hour, without restarted watches and
/// the lists of the resync.
async fn in_an_hour(cluster: &Cluster) -> usize {
    let sent = |cluster: &Cluster| {
        cluster.requests("") - cluster.requests("watch") - cluster.requests("list")
    };
    let before = sent(cluster);
    cluster.advance(Duration::from_secs(3600)).await;
    sent(cluster) - before
}

#[test]
fn each_change_of_state_is_one_write() {
    simulation(&retries(1)).run(async |cluster| {
        let writes = || cluster.requests("apply workloads/status");
        let first = submitted(cluster).await;
        set_condition(cluster, &first, "Accepted", "True", "");
        cluster.advance(Duration::from_secs(5)).await;
        assert_eq!(writes(), 0, "that it was accepted is nothing to say");
        set_condition(cluster, &first, "Provisioned", "False", "ETA: soon");
        cluster.expect_message("train", "ETA: soon").await;
        cluster.advance(Duration::from_secs(5)).await;
        assert_eq!(writes(), 1, "the ETA");
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        cluster.expect_state("train", CheckState::Retry).await;
        assert_eq!(writes(), 2, "Retry");
        let second = requested(cluster, "train", 2).await;
        cluster.advance(Duration::from_secs(5)).await;
        assert_eq!(writes(), 3, "the message of the first attempt is over");
        set_condition(cluster, &second, "Failed", "True", "no nodes");
        cluster.expect_deactivated("train").await;
        no_requests(cluster).await;
        assert_eq!(writes(), 4, "Rejected");
        let counted = [
            "create podtemplates",
            "create provisioningrequests",
            "delete provisioningrequests",
            "delete podtemplates",
            "get workloads",
        ];
        let counted = counted.map(|what| (what, cluster.requests(what)));
        assert!(
            counted.iter().all(|(_, times)| *times == 2),
            "once for each attempt: {counted:?}"
        );
    });
}

#[test]
fn a_pending_request_costs_nothing() {
    for managed in [json!([]), json!(["cpu"])] {
        let config = config(&json!({"managedResources": managed}), &json!({}));
        simulation(&config).run(async |cluster| {
            let request = submitted(cluster).await;
            set_condition(cluster, &request, "Accepted", "True", "");
            set_condition(cluster, &request, "Provisioned", "False", "queued");
            cluster.expect_message("train", "queued").await;
            cluster.advance(Duration::from_secs(60)).await;
            assert_eq!(in_an_hour(cluster).await, 0);
            assert_eq!(cluster.requests("get workloads"), 1, "read once");
        });
    }
}

#[test]
fn a_request_that_no_autoscaler_handles_costs_one_write() {
    simulation(&retries(1)).run(async |cluster| {
        submitted(cluster).await;
        cluster.advance(Duration::from_secs(60)).await;
        let writes = cluster.requests("apply workloads/status");
        assert_eq!(
            in_an_hour(cluster).await,
            1,
            "the missing autoscaler is reported once"
        );
        assert_eq!(cluster.requests("apply workloads/status"), writes + 1);
        assert_eq!(in_an_hour(cluster).await, 0);
    });
}
