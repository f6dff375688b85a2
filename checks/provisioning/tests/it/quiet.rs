//! What it costs: requests to the API server, and memory.

use std::time::Duration;

use kueue_check_sim::Job;

use crate::stage::*;

#[test]
fn each_thing_is_one_request_and_quiet_costs_none() {
    trial(&retries(1)).run(async |cluster| {
        cluster.submit(Job::new("train"));
        let request = requested(cluster, "train", 1).await;
        cluster.advance(Duration::from_secs(30)).await;
        assert_eq!(cluster.requests("create provisioningrequests"), 1);
        assert_eq!(cluster.requests("create podtemplates"), 1);
        assert_eq!(
            cluster.requests("get workloads"),
            1,
            "the templates are read once"
        );
        says(cluster, &request, "Accepted", "True", "");
        says(cluster, &request, "Provisioned", "True", "Provisioned");
        cluster.expect_admitted("train").await;
        assert_eq!(
            cluster.requests("apply workloads/status"),
            1,
            "one write for one change of state"
        );
        cluster.advance(Duration::from_secs(60)).await;
        let before = cluster.requests("");
        let watches = cluster.requests("watch");
        cluster.advance(Duration::from_secs(3600)).await;
        let others = (cluster.requests("") - before) - (cluster.requests("watch") - watches);
        assert_eq!(others, 0, "an hour in which nothing changes");
        assert_eq!(cluster.requests("get workloads"), 1);
    });
}
