//! What a committed Workload costs the ledger in memory, counted by the allocator. A binary of its own, because it counts everything.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::sync::Arc;

use kueue_check::api::Workload;
use kueue_check::{Family, Seen};
use kueue_check_budget::ledger::Books;
use kueue_check_budget::terms::Terms;
use peak_alloc::PeakAlloc;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const WORKLOADS: usize = 10_000;
/// What the ledger may keep of a Workload besides the runtime's own view of it, which it shares.
/// A priority class with its kind, by which exemptions are decided, takes a pointer of it.
const BAR: usize = 208;

/// A job that runs, in one of fifty namespaces. Uids are random, as a cluster's are.
fn workload(number: usize) -> Workload {
    let random = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let uid = format!("{:08x}-0000-4000-8000-{number:012x}", random >> 32);
    Workload::from_json(json!({
        "metadata": {"namespace": format!("team-{}", number % 50), "name": format!("job-{number}"), "uid": uid},
        "spec": {"maximumExecutionTimeSeconds": 3600, "podSets": [{"name": "main", "count": 1, "template": {}}]},
        "status": {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"},
                {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-11-21T09:00:01Z"}],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]},
            "admissionChecks": [{"name": "check", "state": "Ready"}]},
    }))
    .unwrap()
}

#[test]
fn a_committed_workload_costs_little() {
    let spec = json!({"unit": "USD", "period": {"calendar": "Week"}, "source": {"fixed": {}}, "namespaceLimits": {"default": "10"},
        "prices": [{"flavor": "*", "resources": {"cpu": "1"}}]});
    let terms = Terms::of_spec("b", &serde_json::from_value(spec).unwrap()).unwrap();
    let now = "2026-11-21T09:00:02Z".parse().unwrap();
    let mut books = Books::default();
    books.adopt(Arc::new(terms), now);
    books.refer("check", Some("b"), now);
    let workloads: Vec<Workload> = (0..WORKLOADS).map(workload).collect();
    let before = ALLOCATOR.current_usage();
    for workload in &workloads {
        books.see(Seen::Workload(workload, &Family::of(workload, [])), now);
    }
    let each = (ALLOCATOR.current_usage() - before) / WORKLOADS;
    let period = books.book("b").unwrap().period(now).unwrap();
    let account = kueue_check_budget::terms::Account::Namespace("team-7".into());
    let balance = books.book("b").unwrap().balance(&account, period, now);
    assert_eq!(balance.committed.jobs, 200, "all are committed");
    println!("{each} bytes for each of {WORKLOADS} committed Workloads");
    assert!(each <= BAR, "{each} bytes");
}
