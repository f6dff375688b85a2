//! Every single fault in the scenarios: no second request for one attempt, none left over, no wrong
//! state, and each run converges.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::Cluster;
use serde_json::{Value, json};

use crate::harness::*;

/// Checks that no request was created while an equal one existed, and that none is left at the end.
async fn nothing_twice_and_nothing_left(cluster: &Cluster) {
    no_requests(cluster).await;
    cluster
        .expect("no template is left", |cluster| {
            templates(cluster).is_empty()
        })
        .await;
    let mut there: Vec<Value> = Vec::new();
    for change in cluster.server().history() {
        if change.resource.plural != "provisioningrequests" {
            continue;
        }
        let name = change.object["metadata"]["name"].clone();
        match change.verb {
            kueue_check_sim::apiserver::ChangeVerb::Added => {
                assert!(!there.contains(&name), "{name} is created twice");
                there.push(name);
                assert!(there.len() <= 2, "{there:?} at once");
            }
            kueue_check_sim::apiserver::ChangeVerb::Deleted => there.retain(|known| *known != name),
            kueue_check_sim::apiserver::ChangeVerb::Modified => {}
        }
    }
}

#[test]
fn provisioned_and_finished() {
    simulation(&retries(1)).every_single_fault(async |cluster| {
        let request = submitted(cluster).await;
        set_condition(cluster, &request, "Accepted", "True", "");
        admitted(cluster, &request).await;
        cluster.complete("train");
        cluster.expect_finished("train").await;
        nothing_twice_and_nothing_left(cluster).await;
    });
}

#[test]
fn retried() {
    simulation(&retries(1)).every_single_fault(async |cluster| {
        let first = submitted(cluster).await;
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        let second = requested(cluster, "train", 2).await;
        admitted(cluster, &second).await;
        cluster.complete("train");
        cluster.expect_finished("train").await;
        nothing_twice_and_nothing_left(cluster).await;
    });
}

#[test]
fn evicted() {
    simulation(&retries(1)).every_single_fault(async |cluster| {
        submitted(cluster).await;
        cluster.merge_workload("train", &json!({"spec": {"active": false}}));
        cluster.expect_deactivated("train").await;
        nothing_twice_and_nothing_left(cluster).await;
    });
}

#[test]
fn revoked_after_admission() {
    simulation(&retries(1)).every_single_fault(async |cluster| {
        let request = submitted(cluster).await;
        admitted(cluster, &request).await;
        set_condition(cluster, &request, "CapacityRevoked", "True", "gone");
        cluster.expect_deactivated("train").await;
        nothing_twice_and_nothing_left(cluster).await;
    });
}

#[test]
fn the_config_changed() {
    let config = retries(1);
    simulation(&config).every_single_fault(async |cluster| {
        submitted(cluster).await;
        cluster.merge(
            &config,
            &json!({"spec": {"provisioningClassName": "class2"}}),
        );
        let changed = |cluster: &Cluster| {
            let all = requests(cluster);
            all.len() == 1 && all[0]["spec"]["provisioningClassName"] == "class2"
        };
        cluster.expect("the request is another one", changed).await;
        let name = names(cluster)[0].clone();
        cluster.advance(Duration::from_secs(60)).await;
        admitted(cluster, &name).await;
        cluster.complete("train");
        cluster.expect_finished("train").await;
        nothing_twice_and_nothing_left(cluster).await;
    });
}

#[test]
fn expired() {
    simulation(&retries(1))
        .signed_off()
        .every_single_fault(async |cluster| {
            let first = submitted(cluster).await;
            set_condition(cluster, &first, "Provisioned", "True", "Provisioned");
            cluster.expect_state("train", CheckState::Ready).await;
            set_condition(cluster, &first, "BookingExpired", "True", "booking gone");
            let second = requested(cluster, "train", 2).await;
            sign(cluster);
            admitted(cluster, &second).await;
            // After admission it has no effect.
            set_condition(cluster, &second, "BookingExpired", "True", "booking gone");
            cluster.advance(Duration::from_secs(60)).await;
            assert!(cluster.is_admitted("train"));
            cluster.complete("train");
            cluster.expect_finished("train").await;
            nothing_twice_and_nothing_left(cluster).await;
        });
}

#[test]
fn revoked_before_admission() {
    simulation(&retries(1))
        .signed_off()
        .every_single_fault(async |cluster| {
            let request = submitted(cluster).await;
            set_condition(cluster, &request, "Provisioned", "True", "Provisioned");
            cluster.expect_state("train", CheckState::Ready).await;
            set_condition(cluster, &request, "CapacityRevoked", "True", "gone");
            cluster.expect_deactivated("train").await;
            nothing_twice_and_nothing_left(cluster).await;
        });
}
