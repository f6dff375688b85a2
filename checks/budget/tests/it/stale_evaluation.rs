//! An evaluation that starts after newer state was observed.

use std::time::Duration;

use kueue_check::api::Workload;
use kueue_check::{AdmissionCheckController, Check, Family, RequestBuilder, WorkloadEvent};
use kueue_check_budget::controller::BudgetCheck;
use kueue_check_budget::resource::Budget;
use kueue_check_budget::source::Credentials;
use kueue_check_sim::apiserver::{ApiServer, Resource};
use serde_json::json;
use tokio::time::sleep;

use super::replicas::{Replica, server};

/// Returns a Workload that has been running since 10:00.
fn workload(finished: bool) -> Workload {
    let condition = |kind: &str, at: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at, "reason": "Tested", "message": ""});
    let mut conditions = vec![
        condition("QuotaReserved", "2020-11-21T10:00:00Z"),
        condition("Admitted", "2020-11-21T10:00:00Z"),
    ];
    conditions.extend(finished.then(|| condition("Finished", "2020-11-21T10:30:00Z")));
    Workload::from_json(json!({
        "metadata": {"namespace": "default", "name": "job", "uid": "u1"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {}}]},
        "status": {
            "conditions": conditions,
            "admission": {"clusterQueue": "queue", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}]},
            "admissionChecks": [{"name": "check", "state": "Ready", "message": "", "lastTransitionTime": "2020-11-21T10:00:00Z"}],
        },
    }))
    .unwrap()
}

fn parameters(server: &ApiServer) -> Budget {
    let budgets = Resource::new("budget.kueue-check.dev", "v1alpha1", "budgets");
    serde_json::from_value(server.get(&budgets, "", "budget").unwrap()).unwrap()
}

/// Found by closing a watch while a job ended: an evaluation with the state before its end made it
/// count as running forever.
#[tokio::test(start_paused = true)]
async fn a_job_that_has_ended_is_not_counted_again() {
    let (server, clock) = server(&json!({"default": "1"}));
    let check = BudgetCheck::new(Credentials::default());
    // Only a leader shows what is committed.
    let replica = Replica::new(check, &server, &clock, true);
    let (check, called) = (&replica.check, &replica.called);
    sleep(Duration::from_secs(60)).await;
    let parameters = parameters(&server);
    let evaluate = async |check: &Check<Budget>| {
        let request = RequestBuilder::new(workload(false), "check").build(parameters.clone());
        check.evaluate(request).await.unwrap()
    };
    let committed = |text: &str| {
        let account = "budget_committed{budget=\"budget\",account=\"default\",kind=\"namespace\"} ";
        let amount = text.lines().find_map(|line| line.strip_prefix(account));
        amount.unwrap().parse::<f64>().unwrap()
    };
    called.observe(WorkloadEvent::ListStarted);
    let seen = workload(false);
    called.observe(WorkloadEvent::Applied(&seen, &Family::of(&seen, [])));
    called.observe(WorkloadEvent::ListCompleted { continuous: false });
    let _ = evaluate(check).await;
    let begun = committed(&called.metrics());
    let seen = workload(true);
    called.observe(WorkloadEvent::Applied(&seen, &Family::of(&seen, [])));
    let ended = called.metrics();
    assert!(committed(&ended) < 1.0 && begun >= 1.0, "{begun}, {ended}");
    let _ = evaluate(check).await;
    assert_eq!(called.metrics(), ended);
}
