//! One Workload in a review.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use jiff::Timestamp;
use kueue_check::api::{PodSet, Workload};
use kueue_check::{Family, FamilyRole, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One Workload that holds quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The quota reservation that the verdict is for: the key of the result.
    pub uid: String,
    /// The Workload.
    pub workload: ItemWorkload,
    /// When quota was reserved, RFC 3339.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub reserved_at: Timestamp,
    /// For how long the Workload has held quota.
    pub waited_seconds: u64,
    /// Which attempt it is: 1, and one more for each Retry.
    pub attempt: u32,
    /// The states of the Workload's other checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckEntry>,
}

/// A Workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemWorkload {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// What all Workloads of one job have in common: the UID of the job, or of a Workload without
    /// one its own.
    pub job_uid: String,
    /// The job's object, which owns the Workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ItemOwner>,
    /// What it is to the job: `Whole`; `Growth`, of an elastic job that runs and needs more pods;
    /// `Variant`, one of several Workloads by which the job may start.
    pub role: String,
    /// When it was created, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub created_at: Option<Timestamp>,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Those of its annotations that the deployment of the check names.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// The LocalQueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The ClusterQueue whose quota it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// Its priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Whether the job runs already, so that the verdict is about a running job.
    pub admitted: bool,
    /// `spec.maximumExecutionTimeSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum_execution_time_seconds: Option<u64>,
    /// Its pod sets.
    pub pod_sets: Vec<ItemPodSet>,
}

/// The object that owns a Workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemOwner {
    /// Its group and version, such as `batch/v1`.
    pub api_version: String,
    /// Its kind, such as `Job`.
    pub kind: String,
    /// Its name, in the Workload's namespace.
    pub name: String,
}

/// A pod set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemPodSet {
    /// Its name.
    pub name: String,
    /// How many pods.
    pub count: u32,
    /// How many of them do not run yet: all, but for a growth.
    pub increase: u32,
    /// What is requested, by resource.
    pub resources: BTreeMap<String, ItemResource>,
}

/// A resource of a pod set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemResource {
    /// What one pod requests: a decimal number.
    pub per_pod: String,
    /// What all its pods use of the quota: a decimal number.
    pub total: String,
    /// The flavor that Kueue assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
}

/// The state of another check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckEntry {
    /// The AdmissionCheck.
    pub name: String,
    /// Its state.
    pub state: String,
}

impl Item {
    /// Returns the item of `request` at `now`.
    pub(crate) fn of(request: &Request, now: Timestamp) -> Self {
        let (workload, reservation) = (request.workload(), request.reservation());
        let others = workload.checks().iter();
        let others = others.filter(|entry| entry.name() != request.admission_check());
        Self {
            uid: reservation.to_string(),
            workload: ItemWorkload::of(workload, request.family()),
            reserved_at: reservation.since(),
            waited_seconds: reservation.held_for(now).as_secs(),
            attempt: request.attempt(),
            checks: others
                .map(|entry| CheckEntry {
                    name: entry.name().to_owned(),
                    state: entry.state().to_string(),
                })
                .collect(),
        }
    }
}

impl ItemWorkload {
    /// Returns the document of `workload` with this family.
    pub(crate) fn of(workload: &Workload, family: &Family) -> Self {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self {
            namespace: workload.namespace().to_owned(),
            name: workload.name().to_owned(),
            uid: workload.uid().to_string(),
            job_uid: family.key().to_string(),
            owner: workload.owner().map(|owner| ItemOwner {
                api_version: owner.api_version().to_owned(),
                kind: owner.kind().to_owned(),
                name: owner.name().to_owned(),
            }),
            role: match family.role() {
                FamilyRole::Growth => "Growth",
                FamilyRole::Variant { .. } => "Variant",
                _ => "Whole",
            }
            .to_owned(),
            created_at: workload.created(),
            labels: workload.labels().map(owned).collect(),
            annotations: workload.annotations().map(owned).collect(),
            queue: workload.queue().map(str::to_owned),
            cluster_queue: workload.cluster_queue().map(str::to_owned),
            priority: workload.priority(),
            priority_class: workload.priority_class().map(str::to_owned),
            admitted: workload.is_admitted(),
            maximum_execution_time_seconds: workload
                .max_execution_time()
                .map(|limit| limit.as_secs()),
            pod_sets: workload
                .pod_sets()
                .iter()
                .map(|pod_set| ItemPodSet::of(pod_set, family.increase(pod_set)))
                .collect(),
        }
    }
}

impl ItemPodSet {
    fn of(pod_set: &PodSet, increase: u32) -> Self {
        let resources = pod_set.resources().map(|resource| {
            let of_pods = ItemResource {
                per_pod: resource.per_pod().to_string(),
                total: resource.usage().to_string(),
                flavor: resource.flavor().map(str::to_owned),
            };
            (resource.name().to_owned(), of_pods)
        });
        Self {
            name: pod_set.name().to_owned(),
            count: pod_set.count(),
            increase,
            resources: resources.collect(),
        }
    }
}

/// Returns a hash of all parts of the item of `request` that do not depend on the time. While it is
/// the same, a verdict is about the same facts. `version`: the UID and the generation of the
/// WebhookCheck.
pub(crate) fn fingerprint(request: &Request, version: (Option<&str>, Option<i64>)) -> u64 {
    let workload: &Workload = request.workload();
    let mut hasher = DefaultHasher::new();
    (version, request.attempt(), request.reservation()).hash(&mut hasher);
    for pair in workload.labels().chain(workload.annotations()) {
        pair.hash(&mut hasher);
    }
    (workload.queue(), workload.cluster_queue()).hash(&mut hasher);
    (workload.priority(), workload.priority_class()).hash(&mut hasher);
    (workload.is_admitted(), workload.max_execution_time()).hash(&mut hasher);
    for entry in workload.checks() {
        if entry.name() != request.admission_check() {
            (entry.name(), entry.state().as_str()).hash(&mut hasher);
        }
    }
    let family = request.family();
    format!("{:?}", family.role()).hash(&mut hasher);
    for pod_set in workload.pod_sets() {
        (pod_set.name(), pod_set.count(), family.increase(pod_set)).hash(&mut hasher);
        for resource in pod_set.resources() {
            let amounts = (resource.per_pod().to_string(), resource.usage().to_string());
            (resource.name(), resource.flavor(), amounts).hash(&mut hasher);
        }
    }
    hasher.finish()
}
