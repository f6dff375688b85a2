//! What is particular to each kind of job.

use serde_json::Value;

use super::construct::{JOB, Owner, POD};
use super::decide::JobView;
use super::{job, pod};
use crate::apiserver::Resource;
use crate::kueue::objects::Workload;

/// The annotation and label keys of Kueue.
pub(super) const QUEUE: &str = "kueue.x-k8s.io/queue-name";
const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";

/// A kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Integration {
    Job,
    Pod,
}

impl Integration {
    pub(super) const ALL: [Self; 2] = [Self::Job, Self::Pod];

    pub(super) fn owner(self) -> Owner<'static> {
        match self {
            Self::Job => JOB,
            Self::Pod => POD,
        }
    }

    pub(super) fn resource(self) -> Resource {
        match self {
            Self::Job => crate::kueue::api::jobs(),
            Self::Pod => Resource::new("", "v1", "pods"),
        }
    }

    /// The reporter of its events.
    pub(super) fn reporter(self) -> &'static str {
        match self {
            Self::Job => "batch/job-kueue-controller",
            Self::Pod => "pod-kueue-controller",
        }
    }

    /// Whether Kueue manages this object.
    pub(super) fn manages(self, object: &Value) -> bool {
        match self {
            Self::Job => label(object, QUEUE).is_some(),
            Self::Pod => pod::is_managed(object),
        }
    }

    /// Whether the job is gone, as far as Kueue is concerned.
    pub(super) fn is_gone(object: &Value) -> bool {
        !object["metadata"]["deletionTimestamp"].is_null()
    }

    /// The Pod template of its only pod set.
    pub(super) fn template(self, object: &Value) -> Value {
        match self {
            Self::Job => object["spec"]["template"].clone(),
            Self::Pod => serde_json::json!({"metadata": {}, "spec": object["spec"]}),
        }
    }

    /// How many Pods the pod set has.
    pub(super) fn count(self, object: &Value) -> i64 {
        match self {
            Self::Job => object["spec"]["parallelism"].as_i64().unwrap_or(1),
            Self::Pod => 1,
        }
    }

    /// What the decision depends on.
    pub(super) fn view(self, object: &Value, workload: Option<&Workload>) -> JobView {
        let view = match self {
            Self::Job => job::view(object, workload),
            Self::Pod => pod::view(object),
        };
        JobView {
            differs: workload.is_some_and(|workload| self.differs(object, workload)),
            queue: label(object, QUEUE).unwrap_or_default().to_owned(),
            priority_class: priority_class(object).map(str::to_owned),
            ..view
        }
    }

    /// Count and containers tell pod sets apart; what admission changes does not.
    fn differs(self, object: &Value, workload: &Workload) -> bool {
        let Some(set) = workload.spec.pod_sets.first() else {
            return true;
        };
        let template = self.template(object);
        let same = |field: &str| template["spec"][field] == set.template["spec"][field];
        set.count != self.count(object) || !same("containers") || !same("initContainers")
    }
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

pub(super) fn priority_class(object: &Value) -> Option<&str> {
    label(object, PRIORITY_CLASS)
}
