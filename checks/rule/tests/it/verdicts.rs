//! Verdicts on the simulated cluster.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::Job;
use serde_json::json;

use crate::service::*;

fn returns(response: serde_json::Value) -> impl Fn() -> Service + Clone + Send + Sync + 'static {
    move || {
        let service = Service::new(0, None);
        service.state().fixed_response = Some(response.clone());
        service
    }
}

#[test]
fn each_verdict_is_written() {
    let ready = returns(
        json!({"state": "Ready", "message": "go", "podSetUpdates": [{"name": "main", "annotations": {"example.com/seat": "7"}}]}),
    );
    simulation(&webhook(&json!({})), ready).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_admitted("train").await;
        let entry = &cluster.workload("train").unwrap()["status"]["admissionChecks"][0];
        assert_eq!(
            entry["podSetUpdates"][0]["annotations"]["example.com/seat"],
            "7"
        );
    });
    let rejected = returns(json!({"state": "Rejected", "message": "never"}));
    simulation(&webhook(&json!({})), rejected).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_deactivated("train").await;
    });
    let retry = returns(json!({"state": "Retry", "message": "later", "retryAfterSeconds": 60}));
    simulation(&webhook(&json!({})), retry).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_state("train", CheckState::Retry).await;
    });
}

#[test]
fn a_pending_job_is_reviewed_again_after_its_recheck_interval() {
    let pending =
        returns(json!({"state": "Pending", "message": "wait", "recheckAfterSeconds": 20}));
    simulation(&webhook(&json!({})), pending).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "wait").await;
        cluster.advance(Duration::from_secs(110)).await;
        let service: Service = cluster.external();
        let reviews = service.state().reviews.len();
        assert!((5..=7).contains(&reviews), "{reviews}");
        service.state().fixed_response = Some(json!({"state": "Ready", "message": "go"}));
        cluster.expect_admitted("train").await;
    });
}

/// A running job is reviewed only if its Ready set a recheck, also after a restart of the check,
/// and evicted only by a verdict.
#[test]
fn a_running_job_is_reviewed_if_its_ready_set_a_recheck() {
    for (recheck, reviewed) in [(None, false), (Some(60), true)] {
        let mut response = json!({"state": "Ready", "message": "go"});
        if let Some(recheck) = recheck {
            response["recheckAfterSeconds"] = json!(recheck);
        }
        simulation(&webhook(&json!({})), returns(response)).run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.expect_admitted("train").await;
            let service: Service = cluster.external();
            let before = service.state().reviews.len();
            cluster.advance(Duration::from_mins(10)).await;
            let later = service.state().reviews.len() - before;
            assert_eq!(later >= 9, reviewed, "{later}");
            cluster.crash(0);
            cluster.advance(Duration::from_mins(3)).await;
            service.state().fixed_response =
                Some(json!({"state": "Rejected", "message": "no more"}));
            cluster.advance(Duration::from_mins(10)).await;
            assert_eq!(!cluster.is_admitted("train"), reviewed);
        });
    }
}

#[test]
fn a_service_that_is_not_allowed_makes_the_check_inactive() {
    let webhook = webhook(&json!({"url": "http://169.254.169.254/latest/meta-data"}));
    simulation(&webhook, || Service::new(1, None)).run(async |cluster| {
        let what = "add `--allow-host http://169.254.169.254:80`";
        cluster.expect_inactive("check", what).await;
        let service: Service = cluster.external();
        assert_eq!(service.state().requests, 0);
    });
}

/// A valid verdict is not requested again. One about a changed Workload is.
#[test]
fn a_changed_workload_is_reviewed_again() {
    let pending =
        returns(json!({"state": "Pending", "message": "wait", "recheckAfterSeconds": 3600}));
    simulation(&webhook(&json!({})), pending).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "wait").await;
        let service: Service = cluster.external();
        assert_eq!(service.state().reviews.len(), 1);
        cluster.advance(Duration::from_mins(10)).await;
        assert_eq!(service.state().reviews.len(), 1);
        cluster.merge_workload("train", &json!({"metadata": {"labels": {"urgent": "yes"}}}));
        cluster.advance(Duration::from_secs(10)).await;
        assert_eq!(service.state().reviews.len(), 2);
    });
}
