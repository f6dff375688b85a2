//! ProvisioningRequests as read by an autoscaler.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{Condition, ConditionType};
use crate::json::list;

/// The key of a ProvisioningRequest.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/autoscaler/examples.rs")); }
/// # use std::time::Duration;
/// # use example::create_request;
/// use kueue_check_sim::Simulation;
/// use kueue_check_sim::autoscaler::{Autoscaler, CHECK_CAPACITY, ConditionType, Profile, RequestKey, Settings};
///
/// Simulation::new(|| open).run(async |cluster| {
///     let autoscaler = Autoscaler::new(cluster.server().clone(), cluster.clock().clone(), Settings::new(Profile::Oss137, []));
///     create_request(cluster.server(), "train", CHECK_CAPACITY, 8); // a ProvisioningRequest
///     let key = |name: &str| RequestKey::new("default", name);
///     assert!(autoscaler.set(&key("train"), ConditionType::Failed, true, "OutOfStock", "the zone has no more"));
///     assert!(!autoscaler.set(&key("nobody"), ConditionType::Failed, true, "OutOfStock", "the zone has no more"));
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl RequestKey {
    /// Creates the key of the request `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// A pod set: identical pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSet {
    /// The PodTemplate's name.
    pub template: String,
    /// The number of pods.
    pub count: u64,
}

/// The fields of a ProvisioningRequest that decisions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Namespace and name.
    pub key: RequestKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.provisioningClassName`.
    pub class: String,
    /// `spec.parameters`.
    pub parameters: BTreeMap<String, String>,
    /// `spec.podSets`.
    pub pod_sets: Vec<PodSet>,
    /// `status.conditions`, in their order.
    pub conditions: Vec<Condition>,
    /// `status.provisioningClassDetails`.
    pub details: BTreeMap<String, String>,
}

impl Request {
    /// Reads a request from `object`; missing or null fields are empty.
    pub fn read(object: &Value) -> Self {
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        Self {
            key: RequestKey {
                namespace: text(&metadata["namespace"]),
                name: text(&metadata["name"]),
            },
            uid: text(&metadata["uid"]),
            created: text(&metadata["creationTimestamp"])
                .parse()
                .unwrap_or_default(),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            class: text(&spec["provisioningClassName"]),
            parameters: map(&spec["parameters"]),
            pod_sets: list(&spec["podSets"]).map(PodSet::read).collect(),
            conditions: list(&status["conditions"]).map(Condition::read).collect(),
            details: map(&status["provisioningClassDetails"]),
        }
    }

    /// Returns the condition of that type.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.kind == kind.as_str())
    }

    /// Returns true if the condition of that type is True.
    pub fn is(&self, kind: ConditionType) -> bool {
        self.condition(kind).is_some_and(Condition::is_true)
    }

    /// Returns the number of requested pods.
    pub fn pods(&self) -> u64 {
        self.pod_sets.iter().map(|set| set.count).sum()
    }

    /// Replaces the condition of that type in place, or appends it. Conditions are never removed.
    pub(super) fn set(&mut self, condition: Condition) {
        let mut conditions = self.conditions.iter_mut();
        match conditions.find(|old| old.kind == condition.kind) {
            Some(old) => *old = condition,
            None => self.conditions.push(condition),
        }
    }

    /// Returns a parameter in seconds, or its text as `Err` if it is no whole number.
    pub(super) fn seconds(&self, parameter: &str) -> Result<Option<Duration>, String> {
        self.parameters.get(parameter).map_or(Ok(None), |text| {
            let seconds = text.parse().map_err(|_| text.clone())?;
            Ok(Some(Duration::from_secs(seconds)))
        })
    }
}

impl PodSet {
    fn read(value: &Value) -> Self {
        Self {
            template: text(&value["podTemplateRef"]["name"]),
            count: value["count"].as_u64().unwrap_or_default(),
        }
    }
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn map(value: &Value) -> BTreeMap<String, String> {
    let fields = value.as_object().into_iter().flatten();
    fields
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}
