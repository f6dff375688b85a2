//! Kueue's two steps around admission checks: it reserves quota, and admits when all checks are
//! ready.
//!
//! Quota is unlimited here, and nothing is evicted: a Workload with a Retry stays as it is.

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::Failure;
use crate::playground::{api, array, list, text};

/// Applies the next step of each Workload.
pub(crate) async fn step(client: &Client) -> Result<(), Failure> {
    let (cluster, local) = (
        list(client, "ClusterQueue").await?,
        list(client, "LocalQueue").await?,
    );
    let checks = list(client, "AdmissionCheck").await?;
    let queues = Queues {
        cluster: &cluster,
        local: &local,
        checks: &checks,
    };
    for workload in &list(client, "Workload").await? {
        if let Some(status) = next(workload, &queues, &now()) {
            let (name, owner) = (
                text(&workload["metadata"]["name"]),
                PatchParams::apply("kueue-admission"),
            );
            let patch = Patch::Merge(json!({"status": status}));
            api(client, "Workload")
                .patch_status(&name, &owner, &patch)
                .await?;
        }
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a real server is on the other side"
)]
fn now() -> String {
    k8s_openapi::jiff::Timestamp::now()
        .strftime("%FT%TZ")
        .to_string()
}

/// The ClusterQueues and LocalQueues, as the API server returned them.
struct Queues<'a> {
    cluster: &'a [Value],
    local: &'a [Value],
    checks: &'a [Value],
}

/// Returns Kueue's next step for `workload`, as a patch of its status; `None` where it waits. `now`
/// is in RFC 3339.
fn next(workload: &Value, queues: &Queues<'_>, now: &str) -> Option<Value> {
    let mut conditions = array(&workload["status"]["conditions"]).to_vec();
    let is = |kind: &str| {
        array(&workload["status"]["conditions"])
            .iter()
            .any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let mut add = |kind: &str, reason: &str| {
        conditions.push(json!({"type": kind, "status": "True", "reason": reason, "message": reason, "lastTransitionTime": now}));
        json!(conditions)
    };
    if !is("QuotaReserved") {
        let (queue, checks) = queues.checks_of(workload)?;
        let pod_sets = array(&workload["spec"]["podSets"]).iter();
        let assignments: Vec<Value> = pod_sets
            .map(|pod_set| json!({"name": pod_set["name"], "count": pod_set["count"], "flavors": {"cpu": "default"}}))
            .collect();
        let entries: Vec<Value> = checks
            .iter()
            .map(|check| json!({"name": check, "state": "Pending", "message": "", "lastTransitionTime": now}))
            .collect();
        return Some(json!({
            "conditions": add("QuotaReserved", "QuotaReserved"),
            "admission": {"clusterQueue": queue, "podSetAssignments": assignments},
            "admissionChecks": entries,
        }));
    }
    let entries = array(&workload["status"]["admissionChecks"]);
    if !is("Admitted") && entries.iter().all(|entry| entry["state"] == "Ready") {
        return Some(json!({"conditions": add("Admitted", "Admitted")}));
    }
    None
}

impl Queues<'_> {
    /// Returns the ClusterQueue of `workload` and its checks; `None` if one of them is inactive,
    /// which makes the ClusterQueue inactive.
    fn checks_of(&self, workload: &Value) -> Option<(String, Vec<String>)> {
        let local = self.local.iter().find(|queue| {
            queue["metadata"]["name"] == workload["spec"]["queueName"]
                && queue["metadata"]["namespace"] == workload["metadata"]["namespace"]
        })?;
        let cluster = self
            .cluster
            .iter()
            .find(|queue| queue["metadata"]["name"] == local["spec"]["clusterQueue"])?;
        let checks: Vec<String> =
            array(&cluster["spec"]["admissionChecksStrategy"]["admissionChecks"])
                .iter()
                .filter_map(|check| check["name"].as_str().map(str::to_owned))
                .collect();
        let active = |name: &String| {
            self.checks.iter().any(|check| {
                check["metadata"]["name"] == **name
                    && array(&check["status"]["conditions"])
                        .iter()
                        .any(|condition| {
                            condition["type"] == "Active" && condition["status"] == "True"
                        })
            })
        };
        checks
            .iter()
            .all(active)
            .then(|| (text(&cluster["metadata"]["name"]), checks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn step_of(status: Value, check_active: &str) -> Option<Value> {
        let cluster = [
            json!({"metadata": {"name": "cq"}, "spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}}}),
        ];
        let local = [
            json!({"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}),
        ];
        let checks = [
            json!({"metadata": {"name": "c"}, "status": {"conditions": [{"type": "Active", "status": check_active}]}}),
        ];
        let queues = Queues {
            cluster: &cluster,
            local: &local,
            checks: &checks,
        };
        let workload = json!({"metadata": {"namespace": "ns"}, "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 2}]}, "status": status});
        next(&workload, &queues, NOW)
    }

    #[test]
    fn quota_is_reserved_when_the_check_is_active() {
        assert_eq!(step_of(json!({}), "False"), None);
        let patch = step_of(json!({}), "True").unwrap();
        assert_eq!(patch["admission"]["clusterQueue"], "cq");
        assert_eq!(patch["admissionChecks"][0]["state"], "Pending");
    }

    #[test]
    fn admitted_when_all_are_ready() {
        let status = |state: &str| json!({"conditions": [{"type": "QuotaReserved", "status": "True"}], "admissionChecks": [{"name": "c", "state": state}]});
        assert_eq!(step_of(status("Pending"), "True"), None);
        let patch = step_of(status("Ready"), "True").unwrap();
        assert_eq!(patch["conditions"][1]["type"], "Admitted");
    }
}
