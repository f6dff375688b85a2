//! The binary on a real API server, with the permissions of its manifests, against the stand-in for
//! Datadog.

use kueue_check::Clock;
use serde_json::json;

use super::super::end_to_end::all_output;
use super::super::harness::{stage_alone, unique};
use super::super::program::{Program, install};
use super::{KEYS, Keys, METRIC};
use crate::datadog::service::Datadog;

#[tokio::test]
async fn jobs_start_by_the_spend_in_datadog_and_the_keys_are_nowhere_to_be_seen() {
    let Some(stage) = stage_alone().await else {
        return;
    };
    let rotated = ("canary-api-new", "canary-application-new");
    // At first the service accepts other keys than the program has.
    let service = Datadog::start(rotated.0, rotated.1).await;
    let now = Clock::system().now().as_second();
    let namespace = format!("kube_namespace:{}", stage.namespace);
    // Older than the data that may still change.
    for point in 3..8 {
        service.point(METRIC, now - point * 300, &[&namespace], 0.5);
    }
    let (name, keys) = (unique("budget"), Keys::new());
    let kubeconfig = install(&stage, &name).await;
    // The test is in the middle of a period, whenever it runs.
    let anchor = crate::harness::timestamp() - jiff::SignedDuration::from_hours(10 * 24);
    // Nothing has run before, so its Workloads can be trusted. Otherwise the test would wait until
    // Datadog has data of the time since which the program watches.
    let spec = json!({
        "unit": "USD", "period": {"every": "20d", "anchor": anchor.to_string()}, "takeover": "TrustWorkloads",
        "source": {"datadog": {
            "site": "datadoghq.eu", "url": service.url,
            "query": format!("sum:{METRIC}{{*}} by {{kube_namespace}}.as_count()"),
            "freshness": format!("sum:{METRIC}{{*}}.as_count()"),
        }},
        "namespaceLimits": {"default": "5"},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}], "estimate": {"safetyFactor": "1", "defaultDuration": "59m30s"},
    });
    stage.budget(&name, &spec).await;
    let allowed = Some((keys.folder(), service.url.as_str()));
    let program = Program::start(&name, &kubeconfig, allowed);
    stage
        .wait_condition(&name, "Fresh", "False", "Unauthorized")
        .await;
    keys.write(rotated);
    stage.wait_condition(&name, "Fresh", "True", "Fresh").await;
    // 2.50 of 5 are spent.
    for (job, state, message) in [
        ("a", "Ready", "1.50 left until"),
        ("b", "Ready", "0.50 left until"),
        ("c", "Pending", "0.50 is left of namespace"),
    ] {
        stage.job(job, &name, 1).await;
        stage.wait(job, state, message).await;
    }
    assert_eq!(service.breaches(), [""; 0]);
    assert_eq!(KEYS.0.find("canary"), Some(0));
    let (output, _) = all_output(&program, &stage, &name).await;
    assert!(
        output.contains("Datadog rejected the credentials"),
        "{output}"
    );
    assert!(!output.contains("canary"), "a key was shown");
}
