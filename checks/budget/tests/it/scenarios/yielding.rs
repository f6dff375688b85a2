//! `onExhausted.quota: Yield`: a job that waits for money releases its quota while another job
//! waits for quota.

use std::time::Duration;

use kueue_check::api::CheckState;
use kueue_check_sim::{Cluster, Job};
use serde_json::{Value, json};

use super::{of_spec, spec, try_out};

fn yielding() -> Value {
    let mut spec = spec("1");
    spec["namespaceLimits"] = json!({"namespaces": [{"name": "default", "limit": "1"}]});
    spec["onExhausted"] = json!({"quota": "Yield", "every": "2m", "max": "10m"});
    spec["onUngoverned"] = json!("Admit");
    spec
}

#[test]
fn quota_that_waits_for_money_is_released_for_jobs_that_can_use_it() {
    // Two CPUs: one runs, one is held by a job without money, and then a rich namespace waits for
    // quota.
    let simulation = of_spec(&yielding()).quota(2);
    try_out("yield", &simulation, async |cluster: &Cluster| {
        cluster.submit(Job::new("a"));
        cluster.expect_admitted("a").await;
        cluster.submit(Job::new("b"));
        cluster.expect_message("b", "needs about 1.00 USD").await;
        // No Workload waits for quota: idle quota harms no other job.
        cluster.advance(Duration::from_secs(600)).await;
        assert_eq!(cluster.state("b"), Some(CheckState::Pending));
        assert!(cluster.condition("b", "QuotaReserved"));
        cluster.submit(Job::new("c").namespace("rich"));
        cluster.expect_admitted("rich/c").await;
        assert!(!cluster.is_admitted("b") && cluster.is_admitted("a"));
        // It starts when there is both quota and money.
        cluster.complete("rich/c");
        cluster.expect_message("b", "needs about 1.00 USD").await;
        cluster.complete("a");
        cluster.expect_admitted("b").await;
    });
}
