//! The check without the features that require permissions of their own.

use std::time::Duration;

use kueue_check_budget::controller::Feature;
use kueue_check_sim::Job;
use kueue_check_sim::apiserver::Resource;
use serde_json::json;

use super::{spec, with_features};

/// Without the permission the API server would reject the check's requests again and again.
#[test]
fn without_a_feature_nothing_of_it_is_requested_and_a_budget_that_needs_it_is_inactive() {
    for (quota, features, active) in [
        ("Hold", &[][..], "True"),
        ("CloseLocalQueues", &[Feature::ClusterQueues], "False"),
        ("CloseLocalQueues", &[Feature::CloseLocalQueues], "True"),
        ("Yield", &[Feature::CloseLocalQueues], "False"),
        ("Yield", &[Feature::ClusterQueues], "True"),
    ] {
        let mut spec = spec("1.5");
        spec["onExhausted"] = json!({"quota": quota});
        with_features(&spec, features).run(async |cluster| {
            for job in ["first", "second"] {
                cluster.submit(Job::new(job));
            }
            cluster.advance(Duration::from_secs(300)).await;
            let checks = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
            let check = cluster.server().object(&checks, "", "check").unwrap();
            let mut conditions = check["status"]["conditions"].as_array().unwrap().iter();
            let shown = conditions.find(|condition| condition["type"] == "Active");
            let shown = shown.unwrap();
            assert_eq!(
                shown["status"], active,
                "{quota} with {features:?}: {shown}"
            );
            if active == "False" {
                assert!(shown.to_string().contains("FeatureOff"), "{shown}");
                assert!(
                    shown.to_string().contains("run budget-check with --with="),
                    "{shown}"
                );
            }
            for (feature, request) in [
                (Feature::CloseLocalQueues, "list localqueues"),
                (Feature::ClusterQueues, "list clusterqueues"),
            ] {
                let is_on = features.contains(&feature);
                let requested = cluster.requests(request) > 0;
                assert!(
                    is_on || !requested,
                    "{quota} with {features:?}: {feature:?}"
                );
            }
        });
    }
}
