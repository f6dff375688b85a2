//! A WebhookCheck whose service is a real Open Policy Agent with the policy of `sdk/rego`.

use std::path::Path;

use futures::future::join_all;
use kueue_check::api::Workload;
use kueue_check::{Check, Parameters, Verdict};
use kueue_check_rule::WebhookCheck;
use kueue_check_rule::webhook::resource;
use kueue_check_testenv::{Folder, opa, or_skipped};
use serde_json::{Value, json};

use crate::mock::{run, verdict};
use crate::prometheus::Process;
use crate::server::open;

/// Starts Open Policy Agent, if it is available.
pub(crate) async fn start() -> Option<Process> {
    let program = or_skipped("a policy on a real Open Policy Agent", opa)?;
    let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/rego/review.rego");
    let folder = Folder::new("rule").unwrap();
    folder
        .write("review.rego", &std::fs::read_to_string(policy).unwrap())
        .unwrap();
    let arguments = [
        "run",
        "--server",
        "--addr=ADDRESS",
        "--skip-version-check",
        "review.rego",
    ];
    let server = Process::start(&program, folder, &arguments);
    server.listens().await;
    Some(server)
}

fn check(url: &str) -> Check<resource::WebhookCheck> {
    Check::new(WebhookCheck::new(open(&[url])))
}

fn parameters(url: &str, max_items: u32) -> resource::WebhookCheck {
    resource::WebhookCheck::decode(json!({
        "apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck",
        "metadata": {"name": "policy", "generation": 1},
        "spec": {"url": url, "batch": {"maxItems": max_items, "requestsPerMinute": 6000}},
    }))
    .unwrap()
}

/// Returns a Workload with a pod set for each of `pods`.
fn workload(name: &str, labels: &Value, priority: i32, pods: &[u32]) -> Workload {
    let sets = pods.iter().enumerate();
    let sets = sets.map(|(number, count)| json!({"name": format!("set-{number}"), "count": count}));
    let sets: Vec<Value> = sets.collect();
    let with_template = sets.iter().cloned().map(|mut set| {
        set["template"] = json!({});
        set
    });
    Workload::from_json(json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": labels},
        "spec": {"priority": priority, "podSets": with_template.collect::<Vec<_>>()},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
            "admission": {"clusterQueue": "c", "podSetAssignments": sets},
            "admissionChecks": [{"name": "seats", "state": "Pending"}]},
    }))
    .unwrap()
}

const ALLOWED: Result<&str, &str> = Ok("allowed by policy");
const NO_TEAM: &str = "the label `team` is missing";
const LARGE: &str = "65 pods are more than 64";

/// Labels, priority, pods, and the verdict: Ready, or Pending with its message.
type Case = (
    Value,
    i32,
    &'static [u32],
    Result<&'static str, &'static str>,
);

fn table() -> Vec<Case> {
    let team = || json!({"team": "vision"});
    vec![
        (team(), 0, &[1], ALLOWED),
        (team(), 0, &[64], ALLOWED),
        (team(), 0, &[65], Err(LARGE)),
        (team(), 99, &[65], Err(LARGE)),
        (team(), 100, &[65], ALLOWED),
        (team(), 0, &[32, 32], ALLOWED),
        (team(), 0, &[32, 33], Err(LARGE)),
        (team(), -1, &[60, 4, 1], Err(LARGE)),
        (json!({}), 0, &[1], Err(NO_TEAM)),
        (json!({"team": ""}), 1000, &[1], Err(NO_TEAM)),
        (json!({"squad": "vision"}), 1000, &[65], Err(NO_TEAM)),
        (
            json!({}),
            0,
            &[65],
            Err("the label `team` is missing; 65 pods are more than 64"),
        ),
    ]
}

fn what(verdict: &Verdict) -> Result<&str, &str> {
    match (verdict.is_ready(), verdict.is_pending()) {
        (true, false) => Ok(verdict.message()),
        (false, true) => Err(verdict.message()),
        _ => panic!("{verdict:?}"),
    }
}

#[tokio::test]
async fn a_policy_decides_on_a_real_open_policy_agent() {
    let Some(server) = start().await else {
        return;
    };
    let review = format!("{}/v0/data/kueue/review", server.url());
    for max_items in [1, 500] {
        let check = check(&server.url());
        let parameters = parameters(&review, max_items);
        let _work = run(&check, "seats", &parameters).await;
        let verdicts = table().into_iter().enumerate().map(
            async |(number, (labels, priority, pods, expected))| {
                let workload = workload(&format!("job-{number}"), &labels, priority, pods);
                let verdict = verdict(&check, &workload, &parameters).await.unwrap();
                let case = format!("{labels}, priority {priority}, {pods:?} pods");
                assert_eq!(what(&verdict), expected, "{case}, {max_items} at once");
            },
        );
        join_all(verdicts).await;
    }
    // A document that is none of a policy gives no verdict.
    let missing = parameters(&format!("{}/v0/data/kueue/rview", server.url()), 1);
    let one = workload("one", &json!({"team": "vision"}), 0, &[1]);
    let checked = check(&server.url());
    let _work = run(&checked, "seats", &missing).await;
    let error = verdict(&checked, &one, &missing).await.unwrap_err();
    assert!(error.contains("404"), "{error}");
}
