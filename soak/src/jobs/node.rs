//! A stand-in for the scheduler and the kubelets: runs and stops pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::cluster::{Failure, How, Writer};
use crate::driver::Phase;
use crate::meter::{Meter, Seconds};
use crate::plan::JobPlan;
use crate::witness::{Kind, Witness};

const TICK: Duration = Duration::from_millis(250);

/// All nodes.
pub(crate) struct Node {
    pub(crate) writer: Writer,
    pub(crate) witness: Witness,
    pub(crate) meter: Arc<Mutex<Meter>>,
    pub(crate) seed: u64,
    pub(crate) phase: watch::Receiver<Phase>,
}

/// The next step with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wait,
    Bind,
    Run,
    Succeed,
    /// It received the signal to stop.
    Stop,
    /// It has stopped.
    Remove,
}

/// Returns the next step with `pod`. Its process runs until `until` if it was started, and ends now
/// if `drain`.
fn step(pod: &Value, until: Option<Seconds>, now: Seconds, drain: bool) -> Step {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let is_over = matches!(phase, "Succeeded" | "Failed");
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return match until {
            Some(until) if until > now && !is_over => Step::Stop,
            _ => Step::Remove,
        };
    }
    if is_over {
        return Step::Wait;
    }
    if pod["spec"]["nodeName"].is_null() {
        let gates = pod["spec"]["schedulingGates"].as_array();
        let is_gated = gates.is_some_and(|gates| !gates.is_empty());
        return if is_gated { Step::Wait } else { Step::Bind };
    }
    match until {
        None => Step::Run,
        Some(_) if phase != "Running" => Step::Run,
        Some(until) if now >= until || drain => Step::Succeed,
        Some(_) => Step::Wait,
    }
}

impl Node {
    /// Runs pods, until it is dropped.
    pub(crate) async fn run(self) {
        // Until when each pod runs, and whether it received the signal to stop.
        let mut running: BTreeMap<String, (Seconds, bool)> = BTreeMap::new();
        loop {
            let now = self.writer.now();
            let drain = *self.phase.borrow() == Phase::Drain;
            let pods: Vec<Arc<Value>> = {
                let seen = self.witness.seen();
                seen.all(Kind::Pod)
                    .map(|(_, pod)| Arc::clone(pod))
                    .collect()
            };
            for pod in pods {
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                let until = running.get(uid).map(|(until, _)| *until);
                let next = step(&pod, until, now, drain);
                // The next pass will retry.
                drop(self.act(&pod, next, uid, &mut running, now).await);
            }
            sleep(TICK).await;
        }
    }

    async fn act(
        &self,
        pod: &Value,
        step: Step,
        uid: &str,
        running: &mut BTreeMap<String, (Seconds, bool)>,
        now: Seconds,
    ) -> Result<(), Failure> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let job = pod["metadata"]["ownerReferences"][0]["name"].as_str();
        let job = job.unwrap_or_default();
        let key = format!("{namespace}/{job}");
        let number = job
            .rsplit('-')
            .next()
            .and_then(|number| number.parse().ok());
        let plan = JobPlan::draw(self.seed, number.unwrap_or_default());
        match step {
            Step::Wait => Ok(()),
            Step::Bind => self.writer.bind(pod).await,
            Step::Run => {
                if !running.contains_key(uid) {
                    let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
                    let until = now + (plan.work - meter.worked(&key, now)).max(1.0);
                    meter.start(&key, namespace, plan.rate(), (now, until));
                    running.insert(uid.to_owned(), (until, false));
                }
                self.phase(pod, "Running").await
            }
            Step::Succeed => {
                self.stop(&key, now);
                self.phase(pod, "Succeeded").await
            }
            Step::Stop => {
                if let Some((until, stopping)) =
                    running.get_mut(uid).filter(|(_, stopping)| !stopping)
                {
                    *stopping = true;
                    *until = until.min(now + plan.stops);
                    let until = *until;
                    self.stop(&key, until);
                }
                Ok(())
            }
            Step::Remove => {
                self.stop(&key, now);
                self.writer.delete_now(pod).await
            }
        }
    }

    fn stop(&self, job: &str, until: Seconds) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        meter.stop(job, until);
    }

    async fn phase(&self, pod: &Value, phase: &str) -> Result<(), Failure> {
        let ready = if phase == "Running" { "True" } else { "False" };
        let time = self.writer.time();
        let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": time});
        let status = json!({"phase": phase, "startTime": time, "conditions": [ready]});
        let body = json!({"status": status});
        self.writer.patch(pod, How::Merge, true, &body).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_of_a_pod_has_its_next_step() {
        let pod = |phase: &str, bound: bool, deleted: bool| {
            let node = if bound { json!("node") } else { Value::Null };
            let deleted = if deleted { json!("t") } else { Value::Null };
            json!({"metadata": {"deletionTimestamp": deleted}, "spec": {"nodeName": node}, "status": {"phase": phase}})
        };
        let mut gated = pod("Pending", false, false);
        gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
        for (pod, until, drain, expected) in [
            (gated, None, false, Step::Wait),
            (pod("Pending", false, false), None, false, Step::Bind),
            (pod("Pending", true, false), None, false, Step::Run),
            (pod("Pending", true, false), Some(20.0), false, Step::Run),
            (pod("Running", true, false), Some(20.0), false, Step::Wait),
            (pod("Running", true, false), Some(20.0), true, Step::Succeed),
            (pod("Running", true, false), Some(9.0), false, Step::Succeed),
            (pod("Succeeded", true, false), Some(9.0), false, Step::Wait),
            (pod("Running", true, true), Some(20.0), false, Step::Stop),
            (pod("Running", true, true), Some(9.0), false, Step::Remove),
            (pod("Pending", false, true), None, false, Step::Remove),
        ] {
            assert_eq!(step(&pod, until, 10.0, drain), expected, "{pod} {until:?}");
        }
    }
}
