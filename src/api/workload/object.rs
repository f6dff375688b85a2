//! The Workload as it is decoded: both served versions, every field optional.

use std::collections::BTreeMap;

use kube::core::{DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Deserializer};

use crate::api::lenient::counting_malformed_fields;
use crate::api::{Lenient, Quantity, SlimMeta, SlimToleration, slim_resource};

/// The object as it is decoded, before it is projected to a [`Workload`](super::Workload).
#[derive(Clone, Debug)]
pub(crate) struct WorkloadObject {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Spec,
    pub(super) status: Status,
    /// How many fields had a shape that Kueue does not document.
    pub(crate) malformed_fields: u32,
}

// kube lets only dynamic scopes choose the version at run time.
slim_resource!(
    WorkloadObject,
    "Workload",
    "workloads",
    DynamicResourceScope
);

impl<'de> Deserialize<'de> for WorkloadObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Whole {
            #[serde(deserialize_with = "SlimMeta::object_meta")]
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Lenient<Spec>,
            #[serde(default)]
            status: Lenient<Status>,
        }
        let (whole, odd_fields) = counting_malformed_fields(|| Whole::deserialize(deserializer));
        let whole = whole?;
        Ok(Self {
            metadata: whole.metadata,
            spec: whole.spec.0,
            status: whole.status.0,
            malformed_fields: odd_fields,
        })
    }
}

type Map = Lenient<BTreeMap<String, Lenient<String>>>;
type List<T> = Lenient<Vec<Lenient<T>>>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) queue_name: Lenient<Option<String>>,
    pub(super) priority: Lenient<Option<i32>>,
    pub(super) priority_class_ref: Lenient<PriorityClassRef>,
    pub(super) priority_class_name: Lenient<Option<String>>,
    pub(super) priority_class_source: Lenient<Option<String>>,
    pub(super) active: Lenient<Option<bool>>,
    pub(super) maximum_execution_time_seconds: Lenient<Option<u32>>,
    pub(super) pod_sets: List<SpecPodSet>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PriorityClassRef {
    pub(super) group: Lenient<String>,
    pub(super) kind: Lenient<String>,
    pub(super) name: Lenient<Option<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SpecPodSet {
    pub(super) name: Lenient<String>,
    pub(super) count: Lenient<u32>,
    pub(super) template: Lenient<Template>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Template {
    pub(super) metadata: Lenient<TemplateMeta>,
    pub(super) spec: Lenient<PodSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TemplateMeta {
    pub(super) labels: Map,
    pub(super) annotations: Map,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_selector: Map,
    pub(super) containers: List<Container>,
    pub(super) init_containers: List<Container>,
    pub(super) termination_grace_period_seconds: Lenient<Option<i64>>,
    pub(super) overhead: Amounts,
    pub(super) resources: Lenient<Resources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    pub(super) resources: Lenient<Resources>,
    pub(super) restart_policy: Lenient<Option<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    pub(super) requests: Amounts,
    pub(super) limits: Amounts,
}

pub(super) type Amounts = Lenient<BTreeMap<String, Lenient<Amount>>>;

/// A quantity written as a string or as a bare number; both are legal JSON for one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount(pub(super) Quantity);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Whole(i64),
            Fraction(f64),
        }
        let text = match Form::deserialize(deserializer)? {
            Form::Text(text) => text,
            Form::Whole(number) => number.to_string(),
            Form::Fraction(number) => number.to_string(),
        };
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) conditions: List<Condition>,
    pub(super) admission: Lenient<Option<Admission>>,
    pub(super) admission_checks: List<Entry>,
    pub(super) reclaimable_pods: List<Reclaimable>,
    pub(super) accumulated_past_execution_time_seconds: Lenient<Option<u32>>,
    // The older version has a spelling mistake. No alias: if one object had both spellings,
    // decoding of the whole status would fail.
    #[serde(rename = "accumulatedPastExexcutionTimeSeconds")]
    pub(super) misspelled_past_execution_time_seconds: Lenient<Option<u32>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: Lenient<String>,
    pub(super) status: Lenient<String>,
    pub(super) reason: Lenient<String>,
    pub(super) last_transition_time: Lenient<Option<jiff::Timestamp>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Admission {
    pub(super) cluster_queue: Lenient<String>,
    pub(super) pod_set_assignments: List<Assignment>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Assignment {
    pub(super) name: Lenient<String>,
    pub(super) count: Lenient<Option<u32>>,
    pub(super) flavors: Map,
    pub(super) resource_usage: Amounts,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Entry {
    pub(super) name: Lenient<String>,
    pub(super) state: Lenient<String>,
    pub(super) message: Lenient<String>,
    pub(super) last_transition_time: Lenient<Option<jiff::Timestamp>>,
    pub(super) retry_count: Lenient<Option<u32>>,
    pub(super) pod_set_updates: List<EntryUpdate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EntryUpdate {
    pub(super) name: Lenient<String>,
    pub(super) labels: Map,
    pub(super) annotations: Map,
    pub(super) node_selector: Map,
    pub(super) tolerations: List<SlimToleration>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reclaimable {
    pub(super) name: Lenient<String>,
    pub(super) count: Lenient<u32>,
}
