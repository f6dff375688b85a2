//! The state that the sender of a request had observed.

use std::collections::BTreeMap;

use kueue_check_sim::apiserver::ApiServer;
use kueue_check_sim::kueue;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::object::list;
use super::project::projection;
use super::trace::{RecordedCall, Step, Trace};
use super::{NAMESPACE, names};

/// The recorded states of the Workloads before a step, by name.
#[derive(Debug, Default)]
pub(super) struct Preconditions(BTreeMap<String, Value>);

impl Preconditions {
    /// Returns the states at the beginning of a recording.
    pub(super) fn of(trace: &Trace) -> Self {
        let initial = trace.objects.iter().filter(|o| o["kind"] == "Workload");
        let named = initial.filter_map(|object| {
            let name = object["metadata"]["name"].as_str()?;
            Some((name.to_owned(), inputs(&projection("Workload", object))))
        });
        Self(named.collect())
    }

    /// Updates the states with those observed after a step.
    pub(super) fn update(&mut self, step: &Step) {
        for seen in step.observed.iter().filter(|o| o.kind == "Workload") {
            if seen.change == "DELETED" {
                self.0.remove(&seen.name);
            } else {
                self.0.insert(seen.name.clone(), inputs(&seen.state));
            }
        }
    }

    /// Waits at most 1 s until the Workload of a request has the quota and the admission check
    /// states that it had in the recording. A real Kueue may be faster than the model. The
    /// comparison reports a state that was not reached. Returns [`names::present`] as it is then.
    pub(super) async fn wait(
        &self,
        call: &RecordedCall,
        trace: &Trace,
        server: &ApiServer,
    ) -> BTreeMap<String, String> {
        const ROUNDS: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(10);
        let place = call.path.split_once("/workloads/");
        let name = place.and_then(|(_, place)| place.split(['/', '?']).next());
        let mut names = names::present(trace, server);
        let Some((name, recorded)) = name.and_then(|name| Some((name, self.0.get(name)?))) else {
            return names;
        };
        for _ in 0..ROUNDS {
            let here = names.get(name).map_or(name, String::as_str);
            let present = server.object(&kueue::resource("workloads"), NAMESPACE, here);
            let present = present.map(|object| inputs(&projection("Workload", &object)));
            if present.as_ref() == Some(recorded) {
                break;
            }
            sleep(PAUSE).await;
            names = names::present(trace, server);
        }
        names
    }
}

/// Returns quota and admission check states, the inputs of checks and users.
fn inputs(state: &Value) -> Value {
    let checks = list(&state["checks"]).map(|entry| json!([entry["name"], entry["state"]]));
    let mut checks: Vec<Value> = checks.collect();
    checks.sort_by_key(Value::to_string);
    json!({"quota": !state["admission"].is_null(), "checks": checks})
}
