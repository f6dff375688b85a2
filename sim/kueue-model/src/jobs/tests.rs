//! Names, starts and conflicts.

use std::collections::BTreeMap;

use serde_json::json;

use super::construct::{JOB, workload_name};
use super::pod_set_info::pod_set_infos;
use crate::kueue::KueueVersion;
use crate::kueue::objects::Workload;

#[test]
fn a_workload_is_named_after_its_job() {
    let name = workload_name(JOB, "wl", "5b8c3ba7-45c2-49f3-984f-cd9bcc0e3503", None);
    assert_eq!(name, "job-wl-b841f");
}

#[test]
fn updates_that_conflict_are_reported() {
    let update = |n: &str| json!([{"name": "main", "nodeSelector": {"n": n}}]);
    let workload: Workload = serde_json::from_value(json!({
        "metadata": {"name": "wl"},
        "status": {
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main"}]},
            "admissionChecks": [
                {"name": "c1", "state": "Ready", "podSetUpdates": update("1")},
                {"name": "c2", "state": "Ready", "podSetUpdates": update("2")},
            ],
        },
    }))
    .unwrap();
    assert_eq!(
        pod_set_infos(&workload, &BTreeMap::new(), KueueVersion::V0_19).unwrap_err(),
        "in admission check \"c2\": invalid admission check PodSetUpdate: conflict for nodeSelector: conflict for key=n, value1=1, value2=2"
    );
}
