//! Gauges of the replicas, compared with the final state.

use std::collections::BTreeMap;

use kueue_check::runtime::RuntimeHandle;
use serde_json::Value;

use super::cluster::{Cluster, workloads};
use super::replica::agent;
use crate::kueue::resource;
use crate::timeline::is_true;

/// The compared metrics with a value for each AdmissionCheck.
const ACTIVE: &str = "kueue_check_admission_check_active";
const PENDING: &str = "kueue_check_pending_workloads";
const RELEASES: &str = "kueue_check_pending_cleanups";

impl Cluster {
    /// Returns the differences of diagnostics and gauges from the state of the cluster.
    pub(crate) async fn misreported(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (number, replica_fault) in self.replica_faults.iter().enumerate() {
            let Some(handle) = replica_fault.handle() else {
                continue;
            };
            let replica = agent(number);
            let shown = handle.diagnostics().await;
            let shown = shown.and_then(|shown| serde_json::to_value(shown).ok());
            match shown {
                Some(shown) => self.compare(&replica, &handle, &shown, &mut wrong).await,
                None => wrong.push(format!("gauges: {replica} shows no diagnostics")),
            }
        }
        wrong
    }

    async fn compare(
        &self,
        replica: &str,
        handle: &RuntimeHandle,
        shown: &Value,
        wrong: &mut Vec<String>,
    ) {
        let mut same = |what: &str, found: String, expected: String| {
            if found != expected {
                wrong.push(format!(
                    "gauges: {replica} shows {what} {found}, expected {expected}"
                ));
            }
        };
        let tracked = self.holding_quota().len();
        same(
            "workloads",
            shown["workloads"].to_string(),
            tracked.to_string(),
        );
        let metrics = Samples::read(&handle.metrics().await);
        // Only the leader has values for checks; a standby keeps ended reservations for 1 min.
        let leads = shown["leading"] == true;
        let pending = shown["pendingCleanups"].as_array().map_or(0, Vec::len);
        let pending = if leads { pending } else { 0 };
        let released: i64 = metrics.of(RELEASES).map(|(_, value)| value).sum();
        same(RELEASES, released.to_string(), pending.to_string());
        let active = self.active();
        for (check, value) in metrics.of(ACTIVE) {
            let what = format!("{ACTIVE} of `{check}`");
            let is = active.get(check).map(|active| i64::from(*active));
            let is = is.map_or("none: it is deleted".to_owned(), |is| is.to_string());
            same(&what, value.to_string(), is);
        }
        if leads {
            let pending = self.pending();
            for (check, value) in metrics.of(PENDING) {
                let is = pending.get(check).copied().unwrap_or_default();
                same(
                    &format!("{PENDING} of `{check}`"),
                    value.to_string(),
                    is.to_string(),
                );
            }
        }
    }

    /// Returns the Workloads that hold quota and are not finished.
    fn holding_quota(&self) -> Vec<std::sync::Arc<Value>> {
        let mut all = self.server.objects(&workloads(), "");
        all.retain(|workload| {
            is_true(workload, "QuotaReserved")
                && !workload["status"]["admission"].is_null()
                && !is_true(workload, "Finished")
        });
        all
    }

    /// Returns the number of Workloads that wait for each check.
    fn pending(&self) -> BTreeMap<String, i64> {
        let mut pending: BTreeMap<String, i64> = BTreeMap::new();
        for workload in self.holding_quota() {
            let over = is_true(&workload, "Evicted") || workload["spec"]["active"] == false;
            let entries = workload["status"]["admissionChecks"].as_array();
            let waits = entries.into_iter().flatten();
            for entry in waits.filter(|entry| !over && entry["state"] == "Pending") {
                let name = entry["name"].as_str().unwrap_or_default().to_owned();
                *pending.entry(name).or_default() += 1;
            }
        }
        pending
    }

    /// Returns for each AdmissionCheck whether it is active.
    fn active(&self) -> BTreeMap<String, bool> {
        let all = self.server.objects(&resource("admissionchecks"), "");
        let name = |check: &Value| {
            check["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        all.iter()
            .map(|check| (name(check), is_true(check, "Active")))
            .collect()
    }
}

/// Samples with the label `check`: metric, check, value.
struct Samples(Vec<(String, String, i64)>);

impl Samples {
    /// Reads the OpenMetrics text format, as far as it is compared.
    fn read(text: &str) -> Self {
        let samples = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (metric, labels) = series.split_once('{')?;
            let (_, check) = labels.split_once("check=\"")?;
            let (check, _) = check.split_once('"')?;
            Some((metric.to_owned(), check.to_owned(), value.parse().ok()?))
        });
        Self(samples.collect())
    }

    fn of(&self, metric: &str) -> impl Iterator<Item = (&str, i64)> {
        let samples = self.0.iter().filter(move |(name, _, _)| name == metric);
        samples.map(|(_, check, value)| (check.as_str(), *value))
    }
}
