//! Failing attempts, as in Kueue's integration tests, with a base of 2 s.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::Job;
use kueue_check_sim::kueue::KueueVersion;
use serde_json::json;

use crate::harness::*;

#[test]
fn retry_then_succeed() {
    simulation(&retries(1)).run(async |cluster| {
        let first = submitted(cluster).await;
        set_condition(cluster, &first, "Failed", "True", "no nodes");
        cluster
            .expect_message("train", "Retrying after failure: no nodes")
            .await;
        assert_eq!(entry(cluster, "train")["requeueAfterSeconds"], 2);
        let second = requested(cluster, "train", 2).await;
        cluster.advance(Duration::from_secs(1)).await;
        assert_eq!(
            names(cluster),
            std::slice::from_ref(&second),
            "the first went with the eviction"
        );
        assert_eq!(entry(cluster, "train")["retryCount"], 1);
        assert_eq!(
            entry(cluster, "train")["message"],
            "",
            "the message about the first is gone"
        );
        admitted(cluster, &second).await;
    });
}

#[test]
fn retry_then_reject() {
    simulation(&retries(1)).run(async |cluster| {
        cluster.submit(Job::new("train"));
        for attempt in [1, 2] {
            let request = requested(cluster, "train", attempt).await;
            set_condition(cluster, &request, "Failed", "True", "no nodes");
        }
        cluster.expect_deactivated("train").await;
        cluster
            .expect_message(
                "train",
                "Reset to Pending after eviction. Previously: Rejected",
            )
            .await;
        no_requests(cluster).await;
    });
}

#[test]
fn retry_twice_if_a_request_fails_twice() {
    simulation(&retries(2)).run(async |cluster| {
        cluster.submit(Job::new("train"));
        for attempt in [1, 2] {
            let request = requested(cluster, "train", attempt).await;
            set_condition(cluster, &request, "Failed", "True", "no nodes");
        }
        requested(cluster, "train", 3).await;
        assert_eq!(entry(cluster, "train")["retryCount"], 2);
    });
}

#[test]
fn the_first_failure_rejects_where_no_attempt_may_follow() {
    simulation(&retries(0)).run(async |cluster| {
        let request = submitted(cluster).await;
        set_condition(cluster, &request, "Failed", "True", "no nodes");
        cluster.expect_deactivated("train").await;
        let changed =
            "Admission check check updated state from Pending to Rejected with message: no nodes";
        assert_eq!(events(cluster, "AdmissionCheckUpdated"), [changed]);
    });
}

#[test]
fn a_booking_that_expires_before_admission_is_retried() {
    let other = (
        "other",
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "other"}, "spec": {"controllerName": "example.com/nobody"}}),
    );
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {
        "namespaceSelector": {}, "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}, {"name": other.0}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]}],
    }});
    simulation(&retries(1)).object(&other.1).object(&queue).run(async |cluster| {
        // No controller runs for the other check, but it counts as active.
        check_status(cluster, "other", &json!({"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"}]}));
        let first = submitted(cluster).await;
        set_condition(cluster, &first, "Provisioned", "True", "Provisioned");
        cluster.expect_state("train", CheckState::Ready).await;
        set_condition(cluster, &first, "BookingExpired", "True", "booking gone");
        cluster.expect_message("train", "Retrying after booking expired: booking gone").await;
        let second = requested(cluster, "train", 2).await;
        set_condition(cluster, &second, "Provisioned", "True", "Provisioned");
        cluster.expect_state("train", CheckState::Ready).await;
    });
}

#[test]
fn a_rejected_workload_that_is_activated_again_starts_from_the_first() {
    // Kueue after 0.19 requeues it.
    simulation(&retries(1))
        .kueue(KueueVersion::NEXT)
        .run(async |cluster| {
            cluster.submit(Job::new("train"));
            for attempt in [1, 2] {
                let request = requested(cluster, "train", attempt).await;
                set_condition(cluster, &request, "Failed", "True", "no nodes");
            }
            cluster.expect_deactivated("train").await;
            no_requests(cluster).await;
            cluster.merge_workload("train", &json!({"spec": {"active": true}}));
            let again = requested(cluster, "train", 1).await;
            assert_eq!(names(cluster), std::slice::from_ref(&again));
            set_condition(cluster, &again, "Failed", "True", "no nodes");
            // All attempts are available again, not only the remaining ones.
            let second = requested(cluster, "train", 2).await;
            admitted(cluster, &second).await;
            assert_eq!(created(cluster, "provisioningrequests").len(), 4);
        });
}

/// Kueue 0.19 requeues only those that a person deactivated. The check does nothing about the
/// others, which have no quota.
#[test]
fn kueue_0_19_does_not_queue_a_rejected_workload_that_is_activated_again() {
    simulation(&retries(0)).run(async |cluster| {
        let request = submitted(cluster).await;
        set_condition(cluster, &request, "Failed", "True", "no nodes");
        cluster.expect_deactivated("train").await;
        cluster.merge_workload("train", &json!({"spec": {"active": true}}));
        cluster.advance(Duration::from_secs(3600)).await;
        assert!(cluster.condition("train", "Evicted"));
        assert!(!cluster.condition("train", "QuotaReserved"));
        assert!(requests(cluster).is_empty());
    });
}

#[test]
fn a_workload_that_a_person_deactivates_and_activates_starts_from_the_first() {
    simulation(&retries(1)).run(async |cluster| {
        let first = submitted(cluster).await;
        cluster.merge_workload("train", &json!({"spec": {"active": false}}));
        cluster.expect_deactivated("train").await;
        no_requests(cluster).await;
        cluster.merge_workload("train", &json!({"spec": {"active": true}}));
        assert_eq!(requested(cluster, "train", 1).await, first);
        admitted(cluster, &first).await;
        assert_eq!(
            created(cluster, "provisioningrequests"),
            [first.clone(), first]
        );
    });
}
