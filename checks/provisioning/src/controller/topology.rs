//! The message of the condition `Active` about flavors with a topology. Kueue does not delay their
//! assignment for a check with another name than Kueue's.
//!
//! Kueue delays the assignment of a topology until the check is Ready only for its own controller
//! name (`pkg/cache/scheduler/clusterqueue.go` of 0.19.2, `flavorsWithProvReqAdmissionCheck`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kube::api::ListParams;
use kueue_check::Trigger;
use serde_json::Value;

use super::kueue::served;

/// The interval between reads of queues and flavors. They are not watched, because Kueue writes the
/// status of a ClusterQueue with each job.
const EVERY: Duration = Duration::from_mins(5);
/// The maximum duration of a read.
const AT_MOST: Duration = Duration::from_secs(30);
/// The maximum number of flavors in a message.
const NAMED: usize = 3;

/// The message of each AdmissionCheck, by its name.
type Messages = BTreeMap<String, String>;

#[derive(Clone, Default)]
pub(super) struct Topologies(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The messages of the last successful read.
    now: Messages,
    /// The message for a read that RBAC forbids. It stays until an administrator changes the
    /// permissions.
    forbidden: Option<String>,
    /// The message last reported to the runtime, by AdmissionCheck.
    reported: BTreeMap<String, Option<String>>,
}

impl State {
    fn message(&mut self, check: &str) -> Option<String> {
        let message = self.current(check);
        self.reported.insert(check.to_owned(), message.clone());
        message
    }

    fn current(&self, check: &str) -> Option<String> {
        let forbidden = self.forbidden.as_ref();
        forbidden.or_else(|| self.now.get(check)).cloned()
    }

    /// Returns the AdmissionChecks whose reported message is outdated.
    fn outdated(&self) -> Vec<String> {
        let outdated = self
            .reported
            .iter()
            .filter(|(check, reported)| **reported != self.current(check));
        outdated.map(|(check, _)| check.clone()).collect()
    }
}

impl Topologies {
    /// Returns the message for the condition `Active` of the AdmissionCheck `check`.
    pub(super) fn message(&self, check: &str) -> Option<String> {
        self.state().message(check)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn permissions() -> PolicyRule {
        PolicyRule {
            api_groups: Some(vec!["kueue.x-k8s.io".to_owned()]),
            resources: Some(
                ["clusterqueues", "resourceflavors"]
                    .map(str::to_owned)
                    .into(),
            ),
            verbs: vec!["list".to_owned()],
            ..PolicyRule::default()
        }
    }

    /// Reads queues and flavors, within `limit`. After a failed read the messages stay as they
    /// were.
    pub(super) async fn read(&self, client: &Client, limit: Duration) {
        let problem = match tokio::time::timeout(limit, read(client)).await {
            Ok(Ok(messages)) => {
                let mut state = self.state();
                state.now = messages;
                state.forbidden = None;
                return;
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                let problem = status.message.clone();
                self.state().forbidden = Some(format!(
                    "flavors with a topology, on which it may request no capacity, can't be named: {problem}"
                ));
                problem
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "timed out".to_owned(),
        };
        tracing::warn!(
            problem,
            "ClusterQueues and ResourceFlavors can't be listed, so that the condition Active does not name those with a topology"
        );
    }

    /// Reads at each interval, and triggers the AdmissionChecks whose reported message is outdated.
    pub(super) fn follow(&self, client: Client) -> impl Stream<Item = Trigger> + use<> {
        let topologies = self.clone();
        let reads = stream::unfold(topologies, move |topologies| {
            let client = client.clone();
            async move {
                tokio::time::sleep(EVERY).await;
                topologies.read(&client, AT_MOST).await;
                let outdated = topologies.state().outdated();
                Some((stream::iter(outdated), topologies))
            }
        });
        reads.flatten().map(Trigger::AdmissionCheck)
    }
}

async fn read(client: &Client) -> kube::Result<Messages> {
    // The API server may serve this from its cache.
    let list = async |kind| {
        let objects = served(client, kind, |api| async move {
            api.list(&ListParams::default().match_any()).await
        });
        let objects = objects.await?.items.into_iter();
        let objects = objects.map(|object| (object.metadata.name.unwrap_or_default(), object.data));
        Ok::<_, kube::Error>(objects.collect::<Vec<_>>())
    };
    let (queues, flavors) = (list("ClusterQueue").await?, list("ResourceFlavor").await?);
    Ok(messages(&queues, &flavors))
}

/// Returns the message of each AdmissionCheck that applies to a flavor with a topology.
fn messages(queues: &[(String, Value)], flavors: &[(String, Value)]) -> Messages {
    let with_topology: BTreeSet<&str> = flavors
        .iter()
        .filter(|(_, flavor)| flavor["spec"]["topologyName"].is_string())
        .map(|(name, _)| name.as_str())
        .collect();
    let mut never_evaluated: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (queue, object) in queues {
        let groups = items(&object["spec"]["resourceGroups"]);
        let of_queue = groups
            .flat_map(|group| items(&group["flavors"]))
            .filter_map(|flavor| flavor["name"].as_str());
        let of_queue: BTreeSet<&str> = of_queue
            .filter(|name| with_topology.contains(name))
            .collect();
        for (check, only_on) in checks(&object["spec"]) {
            let meant = of_queue
                .iter()
                .filter(|flavor| only_on.is_empty() || only_on.contains(flavor))
                .map(|flavor| (queue.as_str(), *flavor));
            never_evaluated.entry(check).or_default().extend(meant);
        }
    }
    never_evaluated.retain(|_, flavors| !flavors.is_empty());
    let unevaluated = never_evaluated.into_iter();
    unevaluated
        .map(|(check, flavors)| (check.to_owned(), message(&flavors)))
        .collect()
}

/// Returns the checks of a ClusterQueue with the flavors that each applies to; an empty list is
/// all.
fn checks(spec: &Value) -> impl Iterator<Item = (&str, Vec<&str>)> {
    // Only v1beta1 has the first list.
    let all = items(&spec["admissionChecks"]).filter_map(Value::as_str);
    let all = all.map(|name| (name, Vec::new()));
    let rules = items(&spec["admissionChecksStrategy"]["admissionChecks"]);
    let rules = rules.filter_map(|rule| {
        let only_on = items(&rule["onFlavors"]).filter_map(Value::as_str);
        Some((rule["name"].as_str()?, only_on.collect()))
    });
    all.chain(rules)
}

/// Returns the items of a list that may be missing.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn message(flavors: &BTreeSet<(&str, &str)>) -> String {
    let named = flavors.iter().take(NAMED);
    let named = named.map(|(queue, flavor)| format!("{flavor} of ClusterQueue {queue}"));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if let more @ 1.. = flavors.len().saturating_sub(NAMED) {
        named = format!("{named} and {more} more");
    }
    format!(
        "it requests no capacity on flavors with a topology whose nodes are not there yet, because Kueue reserves their quota only on nodes that exist, so that a job may wait for ever: {named}. Take this check off them (onFlavors), or use flavors without spec.topologyName"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flavor(name: &str, spec: Value) -> (String, Value) {
        (name.to_owned(), json!({ "spec": spec }))
    }

    fn queue(name: &str, flavors: &[&str], rest: Value) -> (String, Value) {
        let flavors: Vec<Value> = flavors.iter().map(|name| json!({ "name": name })).collect();
        let mut spec = rest;
        spec["resourceGroups"] = json!([{"flavors": flavors}]);
        (name.to_owned(), json!({ "spec": spec }))
    }

    #[test]
    fn flavors_with_a_topology_are_named_with_the_queues_that_send_their_jobs_to_the_check() {
        let flavors = [
            flavor("racks", json!({"topologyName": "dc"})),
            flavor("blocks", json!({"topologyName": "dc"})),
            flavor("plain", json!({})),
        ];
        let on = |only: Value| json!({"admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": only}]}});
        let table: [(&str, &[&str], Value, &str); 8] = [
            (
                "none of its flavors has one",
                &["plain"],
                on(json!(null)),
                "",
            ),
            (
                "one has",
                &["plain", "racks"],
                on(json!(null)),
                "racks of ClusterQueue q",
            ),
            (
                "all flavors by an empty list",
                &["racks"],
                on(json!([])),
                "racks of ClusterQueue q",
            ),
            (
                "only on another flavor",
                &["plain", "racks"],
                on(json!(["plain"])),
                "",
            ),
            (
                "only on that flavor",
                &["blocks", "racks"],
                on(json!(["racks"])),
                "racks of ClusterQueue q",
            ),
            (
                "two",
                &["blocks", "racks"],
                on(json!(null)),
                "blocks of ClusterQueue q, racks of ClusterQueue q",
            ),
            (
                "the list of v1beta1",
                &["racks"],
                json!({"admissionChecks": ["c"]}),
                "racks of ClusterQueue q",
            ),
            (
                "another check",
                &["racks"],
                json!({"admissionChecks": ["d"]}),
                "",
            ),
        ];
        for (name, of_queue, rest, expected) in table {
            let found = messages(&[queue("q", of_queue, rest)], &flavors);
            let found = found.get("c").map(String::as_str).unwrap_or_default();
            let (_, named) = found.split_once("for ever: ").unwrap_or_default();
            let (named, _) = named.split_once(". Take").unwrap_or_default();
            assert_eq!(named, expected, "{name}: {found}");
        }
    }

    #[test]
    fn a_message_names_a_few_of_many() {
        let flavors = [flavor("racks", json!({"topologyName": "dc"}))];
        let queues = ["a", "b", "c", "d", "e"];
        let queues = queues.map(|name| queue(name, &["racks"], json!({"admissionChecks": ["c"]})));
        let message = &messages(&queues, &flavors)["c"];
        assert!(
            message.contains("racks of ClusterQueue c and 2 more"),
            "{message}"
        );
    }

    #[test]
    fn malformed_objects_give_no_message() {
        let odd = [
            json!(null),
            json!({"spec": 1}),
            json!({"spec": {"resourceGroups": [1], "admissionChecks": [null]}}),
        ];
        let queues = odd.map(|object| ("q".to_owned(), object));
        let flavors = [
            flavor("racks", json!({"topologyName": 7})),
            flavor("f", json!(null)),
        ];
        assert!(messages(&queues, &flavors).is_empty());
    }

    #[test]
    fn an_admission_check_is_outdated_until_its_message_is_reported() {
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        let mut state = State::default();
        let messages = |all: Pairs<'_>| {
            let all = all.iter();
            all.map(|(check, message)| ((*check).to_owned(), (*message).to_owned()))
                .collect::<Messages>()
        };
        assert_eq!(state.message("a"), None);
        assert_eq!(state.message("b"), None);
        let table: [(Pairs<'_>, &[&str]); 5] = [
            (&[("a", "1"), ("b", "1"), ("of another", "1")], &["a", "b"]),
            (&[("a", "1"), ("b", "2")], &["b"]),
            (&[("a", "2")], &["a", "b"]),
            (&[], &["a", "b"]),
            (&[("b", "2")], &[]),
        ];
        for (now, outdated) in table {
            state.now = messages(now);
            assert_eq!(state.outdated(), outdated, "{now:?}");
            // The runtime requests the message of the first one only.
            if let Some(first) = outdated.first() {
                let message = state.message(first);
                assert_eq!(message.as_ref(), state.now.get(*first));
            }
        }
        state.forbidden = Some("may not list".to_owned());
        assert_eq!(state.outdated(), ["a", "b"]);
        assert_eq!(state.message("b").as_deref(), Some("may not list"));
        assert_eq!(state.outdated(), ["a"]);
    }
}
