//! What the author of a request had seen.

use std::collections::BTreeMap;

use kueue_check_sim::apiserver::ApiServer;
use kueue_check_sim::kueue;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::object::list;
use super::project::projection;
use super::trace::{RecordedCall, Step, Trace};
use super::{NAMESPACE, names};

/// The Workloads of a recording as they are before a step, by name.
#[derive(Debug, Default)]
pub(super) struct Causes(BTreeMap<String, Value>);

impl Causes {
    /// Those that are there when the recording begins.
    pub(super) fn of(trace: &Trace) -> Self {
        let there = trace.objects.iter().filter(|o| o["kind"] == "Workload");
        let named = there.filter_map(|object| {
            let name = object["metadata"]["name"].as_str()?;
            Some((name.to_owned(), decided_by(&projection("Workload", object))))
        });
        Self(named.collect())
    }

    /// Takes note of what was seen after a step.
    pub(super) fn note(&mut self, step: &Step) {
        for seen in step.observed.iter().filter(|o| o.kind == "Workload") {
            if seen.change == "DELETED" {
                self.0.remove(&seen.name);
            } else {
                self.0.insert(seen.name.clone(), decided_by(&seen.state));
            }
        }
    }

    /// Waits until what a Workload is decided by is here as it was in the recording, if the request
    /// is about one: a real Kueue may have been faster than the model. The wait is bounded; the
    /// comparison shows what did not come.
    pub(super) async fn wait(&self, call: &RecordedCall, trace: &Trace, server: &ApiServer) {
        const ROUNDS: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(10);
        let Some((_, place)) = call.path.split_once("/workloads/") else {
            return;
        };
        let name = place.split(['/', '?']).next().unwrap_or_default();
        let Some(recorded) = self.0.get(name) else {
            return;
        };
        for _ in 0..ROUNDS {
            let names = names::present(trace, server);
            let here = names.get(name).map_or(name, String::as_str);
            let present = server.object(&kueue::resource("workloads"), NAMESPACE, here);
            let present = present.map(|object| decided_by(&projection("Workload", &object)));
            if present.as_ref() == Some(recorded) {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}

/// What a check and a user decide by: quota, and the states of the checks.
fn decided_by(state: &Value) -> Value {
    let checks = list(&state["checks"]).map(|entry| json!([entry["name"], entry["state"]]));
    let mut checks: Vec<Value> = checks.collect();
    checks.sort_by_key(Value::to_string);
    json!({"quota": !state["admission"].is_null(), "checks": checks})
}
