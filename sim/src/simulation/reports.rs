//! Gauges of the replicas, compared with the final state.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
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
        let mut leads = false;
        for (number, replica_fault) in self.replica_faults.iter().enumerate() {
            let Some(handle) = replica_fault.handle() else {
                continue;
            };
            let replica = agent(number);
            let shown = handle.diagnostics().await;
            let Some(shown) = shown.and_then(|shown| serde_json::to_value(shown).ok()) else {
                wrong.push(format!("gauges: {replica} shows no diagnostics"));
                continue;
            };
            leads |= shown["leading"] == true;
            let differ = self.compared(&handle, &shown).await;
            let differ = differ.into_iter().filter(|(_, found, is)| found != is);
            wrong.extend(differ.map(|(what, found, is)| {
                format!("gauges: {replica} shows {what} {found}, expected {is}")
            }));
        }
        if !leads {
            wrong.push("gauges: no replica leads".to_owned());
        }
        wrong
    }

    /// Returns what a replica shows: its name, the shown value, the expected one. Only the leader
    /// has values for checks, one for each that it serves; a standby keeps ended reservations for
    /// 1 min.
    async fn compared(
        &self,
        handle: &RuntimeHandle,
        shown: &Value,
    ) -> Vec<(String, String, String)> {
        let metrics = Samples::read(&handle.metrics().await);
        let leads = shown["leading"] == true;
        let tracked = self.holding_quota().len();
        let mut all = vec![(
            "workloads".to_owned(),
            shown["workloads"].to_string(),
            tracked.to_string(),
        )];
        let mut compare = |metric: &str, check: &str, expected: Option<i64>| {
            let expected = expected.map_or("none".to_owned(), |value| value.to_string());
            let found = metrics.value(metric, check);
            all.push((format!("{metric} of `{check}`"), found, expected));
        };
        let (served, pending) = (self.served(), self.pending());
        let unserved = metrics
            .checks()
            .filter(|check| !served.contains_key(*check));
        for check in unserved {
            compare(ACTIVE, check, None);
            compare(PENDING, check, None);
        }
        for (check, active) in &served {
            let waiting = pending.get(check).copied().unwrap_or_default();
            if !leads || active.is_some() {
                compare(ACTIVE, check, active.filter(|_| leads).map(i64::from));
            }
            compare(PENDING, check, leads.then_some(waiting));
        }
        let mut releases: BTreeMap<&str, i64> = BTreeMap::new();
        let cleanups = shown["pendingCleanups"].as_array().into_iter().flatten();
        let cleanups: Vec<&str> = cleanups.filter_map(Value::as_str).collect();
        for check in cleanups.iter().filter_map(|cleanup| check_of(cleanup)) {
            *releases.entry(check).or_default() += 1;
        }
        let known: BTreeSet<&str> = metrics.checks().chain(releases.keys().copied()).collect();
        for check in known {
            let expected = releases.get(check).filter(|_| leads);
            compare(RELEASES, check, expected.copied());
        }
        let held = self.held(&served);
        let premature = cleanups.iter().filter(|cleanup| {
            let mut held = held.iter();
            held.any(|reservation| {
                let rest = cleanup.strip_prefix(&**reservation);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        });
        let premature = premature.map(|cleanup| {
            let what = format!("a pending cleanup of {cleanup},");
            (what, "which holds quota".to_owned(), "none".to_owned())
        });
        all.extend(premature);
        all
    }

    /// Returns the reservations that served checks decide about, as diagnostics show them.
    fn held(&self, served: &BTreeMap<String, Option<bool>>) -> Vec<String> {
        let mut held = Vec::new();
        for workload in self.holding_quota() {
            let metadata = &workload["metadata"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let conditions = workload["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let reserved = conditions.find(|condition| condition["type"] == "QuotaReserved");
            let since = reserved.map(|reserved| text(&reserved["lastTransitionTime"]));
            let since = since.and_then(|since| since.parse::<Timestamp>().ok());
            let Some(since) = since.filter(|_| !is_over(&workload)) else {
                continue;
            };
            let entries = workload["status"]["admissionChecks"].as_array();
            let entries = entries.into_iter().flatten();
            let names = entries.filter_map(|entry| entry["name"].as_str());
            held.extend(names.filter(|name| served.contains_key(*name)).map(|name| {
                let [namespace, workload, uid] =
                    ["namespace", "name", "uid"].map(|field| text(&metadata[field]));
                format!("{namespace}/{workload}/{uid}/{name}/{}", since.as_second())
            }));
        }
        held
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
            let over = is_over(&workload);
            let entries = workload["status"]["admissionChecks"].as_array();
            let waits = entries.into_iter().flatten();
            for entry in waits.filter(|entry| !over && entry["state"] == "Pending") {
                let name = entry["name"].as_str().unwrap_or_default().to_owned();
                *pending.entry(name).or_default() += 1;
            }
        }
        pending
    }

    /// Returns the AdmissionChecks of the simulated checks, and whether each is active; `None` if
    /// it has no such condition.
    fn served(&self) -> BTreeMap<String, Option<bool>> {
        let traits = self.verdicts.traits();
        let mut all = self.server.objects(&resource("admissionchecks"), "");
        all.retain(|check| {
            let of = &check["spec"]["controllerName"];
            traits.keys().any(|(controller, _)| of == controller)
        });
        let active = |check: &Value| {
            let conditions = check["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let active = conditions.find(|condition| condition["type"] == "Active")?;
            Some(active["status"] == "True")
        };
        let name = |check: &Value| check["metadata"]["name"].as_str().map(str::to_owned);
        let named = |check: &Value| Some((name(check)?, active(check)));
        all.iter().filter_map(|check| named(check)).collect()
    }
}

/// Returns true for a Workload whose reservation is about to end.
fn is_over(workload: &Value) -> bool {
    is_true(workload, "Evicted") || workload["spec"]["active"] == false
}

/// Returns the AdmissionCheck of a reservation, which diagnostics show as
/// `NAMESPACE/NAME/UID/CHECK/SECONDS`.
fn check_of(reservation: &str) -> Option<&str> {
    reservation.split('/').nth(3)
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

    /// Returns the names of the checks, each once.
    fn checks(&self) -> impl Iterator<Item = &str> {
        let checks: BTreeSet<&str> = self.0.iter().map(|(_, check, _)| &**check).collect();
        checks.into_iter()
    }

    /// Returns the value of `check`, or all if it has several; `none` without any.
    fn value(&self, metric: &str, check: &str) -> String {
        let own = |(name, of, _): &&(String, String, i64)| name == metric && of == check;
        let values = self.0.iter().filter(own);
        let values: Vec<String> = values.map(|(_, _, value)| value.to_string()).collect();
        if values.is_empty() {
            return "none".to_owned();
        }
        values.join(", ")
    }
}
