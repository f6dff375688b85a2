//! Playback of the writes of Kueue's built-in provisioning check in a recording.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::names;
use super::object::is_reset;
use super::player::{CONTROLLER, Player, REPORTER, Recorded, Write};
use super::trace::{Observed, Trace, at};
use kueue_check_sim::apiserver::ApiServer;

/// Returns the writes of the check, in order.
///
/// These are the observed changes of its own kinds, the condition Active of its AdmissionChecks,
/// and its events. Changes of its entries are included, unless Kueue's eviction reset them.
fn writes(trace: &Trace) -> Vec<Recorded> {
    let mut reading = Reading {
        checks: checks(trace),
        ..Reading::default()
    };
    let observed = trace.steps.iter().flat_map(|step| &step.observed);
    observed.for_each(|observed| reading.read(observed));
    reading.found
}

/// Returns the names of the AdmissionChecks of the check.
fn checks(trace: &Trace) -> BTreeSet<String> {
    let bodies = trace.steps.iter().flat_map(|step| &step.calls);
    let bodies = bodies.map(|call| &call.body);
    let own = bodies.filter(|body| body["spec"]["controllerName"] == CONTROLLER);
    own.filter_map(|body| body["metadata"]["name"].as_str().map(str::to_owned))
        .collect()
}

#[derive(Default)]
struct Reading {
    checks: BTreeSet<String>,
    found: Vec<Recorded>,
    /// The last state of each object, by kind and name.
    last: BTreeMap<(String, String), Value>,
}

impl Reading {
    fn read(&mut self, seen: &Observed) {
        let key = (seen.kind.clone(), seen.name.clone());
        let before = match seen.change.as_str() {
            "DELETED" => self.last.remove(&key),
            _ => self.last.insert(key, seen.state.clone()),
        };
        match (seen.kind.as_str(), seen.change.as_str()) {
            ("ProvisioningRequest" | "PodTemplate", "ADDED") => self.push(
                seen,
                Write::Create {
                    kind: seen.kind.clone(),
                    state: seen.state.clone(),
                },
            ),
            ("ProvisioningRequest" | "PodTemplate", "DELETED") => {
                let kind = seen.kind.clone();
                self.push(seen, Write::Delete { kind });
            }
            ("PodTemplate", _) => {
                let state = seen.state.clone();
                self.push(seen, Write::Own { state });
            }
            ("AdmissionCheck", "MODIFIED") if self.checks.contains(&seen.name) => {
                let active = seen.state["conditions"].as_array().into_iter().flatten();
                let active = active.filter(|c| c["type"] == "Active").cloned();
                active.for_each(|condition| self.push(seen, Write::Active(condition)));
            }
            ("Workload", "MODIFIED") => self.entries(seen, &before.unwrap_or_default()),
            ("Event", _) if seen.state["controller"] == REPORTER => {
                self.push(seen, Write::Event(seen.state.clone()));
            }
            _ => {}
        }
    }

    fn push(&mut self, seen: &Observed, write: Write) {
        self.found.push(Recorded {
            t: seen.t,
            name: seen.name.clone(),
            write,
        });
    }

    /// Adds changes of entries. Kueue adds, removes and resets entries; the check makes all other
    /// changes of its entries.
    fn entries(&mut self, seen: &Observed, before: &Value) {
        let list = |state: &Value| state["checks"].as_array().cloned().unwrap_or_default();
        let old = list(before);
        for after in list(&seen.state) {
            let name = after["name"].as_str().unwrap_or_default();
            let known = old.iter().find(|entry| entry["name"] == name);
            let Some(before) = known.filter(|before| **before != after) else {
                continue;
            };
            let message = after["message"].as_str().unwrap_or_default();
            let reset = is_reset(message) && before["message"] != after["message"];
            if self.checks.contains(name) && !reset {
                let before = before.clone();
                self.push(seen, Write::Entry { before, after });
            }
        }
    }
}

/// Plays the writes back. Writes of one object keep their order; between objects, the recording has
/// no reliable order.
pub(super) fn play_back(trace: &Arc<Trace>, server: &ApiServer, zero: Instant) {
    let mut objects: BTreeMap<(bool, String), Vec<Recorded>> = BTreeMap::new();
    for one in writes(trace) {
        let key = (matches!(one.write, Write::Event(_)), one.name.clone());
        objects.entry(key).or_default().push(one);
    }
    for (_, writes) in objects {
        tokio::spawn(play_one(writes, server.clone(), Arc::clone(trace), zero));
    }
}

/// Sends each write at its time, or as soon after it as the state that it changed exists. After a
/// wait of 1 s it is sent anyhow, or left out if its object does not exist. The comparison reports
/// it.
async fn play_one(recorded: Vec<Recorded>, server: ApiServer, trace: Arc<Trace>, zero: Instant) {
    const ROUNDS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for one in recorded {
        sleep_until(at(zero, one.t)).await;
        for _ in 0..ROUNDS {
            let names = names::present(&trace, &server);
            let player = Player {
                server: &server,
                names: &names,
                recorded: &trace.workload_names,
            };
            if player.is_due(&one) {
                break;
            }
            sleep(PAUSE).await;
        }
        let names = names::present(&trace, &server);
        let player = Player {
            server: &server,
            names: &names,
            recorded: &trace.workload_names,
        };
        player.write(&one);
    }
}
