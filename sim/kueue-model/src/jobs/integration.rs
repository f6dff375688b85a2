//! What is particular to each kind of job.

use serde_json::Value;

use super::construct::{Count, JOB, Owner, POD};
use super::decide::JobView;
use super::labels::{QUEUE, label, labeled, maximum_execution_time};
use super::{job, pod};
use crate::kueue::objects::{PodSet, Workload};
use kueue_check_apiserver::Resource;

/// A kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Integration {
    Job,
    Pod,
    /// Pods that have one Workload together.
    PodGroup,
}

impl Integration {
    /// Those with objects of their own.
    pub(super) const ALL: [Self; 2] = [Self::Job, Self::Pod];

    pub(super) fn owner(self) -> Owner<'static> {
        match self {
            Self::Job => JOB,
            Self::Pod | Self::PodGroup => POD,
        }
    }

    pub(super) fn resource(self) -> Resource {
        match self {
            Self::Job => crate::kueue::api::jobs(),
            Self::Pod | Self::PodGroup => pod::pods(),
        }
    }

    /// The reporter of its events.
    pub(super) fn reporter(self) -> &'static str {
        match self {
            Self::Job => "batch/job-kueue-controller",
            Self::Pod | Self::PodGroup => "pod-kueue-controller",
        }
    }

    /// Whether Kueue manages this object.
    pub(super) fn manages(self, object: &Value) -> bool {
        match self {
            Self::Job => label(object, QUEUE).is_some(),
            Self::Pod | Self::PodGroup => pod::is_managed(object),
        }
    }

    /// Whether the job is gone, as far as Kueue is concerned.
    pub(super) fn is_deleted(object: &Value) -> bool {
        !object["metadata"]["deletionTimestamp"].is_null()
    }

    /// The Pod template of its only pod set.
    pub(super) fn template(self, object: &Value) -> Value {
        match self {
            Self::Job => object["spec"]["template"].clone(),
            Self::Pod | Self::PodGroup => {
                serde_json::json!({"metadata": {}, "spec": object["spec"]})
            }
        }
    }

    /// How many Pods the pod set has.
    pub(super) fn count(self, object: &Value) -> Count {
        match self {
            Self::Job => job::count(object),
            Self::Pod | Self::PodGroup => Count {
                pods: 1,
                least: None,
            },
        }
    }

    /// What the decision depends on.
    pub(super) fn view(self, object: &Value, workload: Option<&Workload>) -> JobView {
        let view = match self {
            Self::Job => job::view(object, workload),
            Self::Pod | Self::PodGroup => pod::view(object),
        };
        JobView {
            differs: !view.elastic
                && workload.is_some_and(|workload| self.differs(object, workload)),
            ..labeled(object, view)
        }
    }

    /// Counts, containers, tolerations and the limit of time tell jobs from their Workloads; what
    /// admission changes does not (Kueue 0.19.2, `EquivalentToWorkload` in
    /// `pkg/controller/jobframework/reconciler.go`, `pkg/util/equality/podset.go`).
    fn differs(self, object: &Value, workload: &Workload) -> bool {
        let Some(set) = workload.spec.pod_sets.first() else {
            return true;
        };
        let template = self.template(object);
        let same = |field: &str| template["spec"][field] == set.template["spec"][field];
        let waits = object["spec"]["suspend"] == true || self != Self::Job;
        let stopped = self == Self::Job && waits && !job::is_stopping(object);
        let tolerations =
            |spec: &Value| spec["tolerations"].as_array().cloned().unwrap_or_default();
        let same_count = match running_count(workload, set) {
            Some(running) if running == self.count(object).pods => true,
            Some(_) if !waits => false,
            _ => set.count == self.count(object).pods,
        };
        let tolerated = workload.is_admitted()
            || !stopped
            || tolerations(&template["spec"]) == tolerations(&set.template["spec"]);
        let limit = workload.spec.maximum_execution_time_seconds;
        !same_count
            || !tolerated
            || self.count(object).least != set.min_count
            || limit != maximum_execution_time(object)
            || !same("containers")
            || !same("initContainers")
    }
}

/// How many Pods of a pod set run once it has quota (Kueue 0.19.2, `expectedRunningPodSets` in
/// `pkg/controller/jobframework/reconciler.go`).
fn running_count(workload: &Workload, set: &PodSet) -> Option<i64> {
    let admission = workload.status.admission.as_ref()?;
    let mut assigned = admission.pod_set_assignments.iter();
    let assigned = assigned.find(|assigned| assigned.name == set.name)?;
    let partly = workload.may_be_partially_admitted() && set.min_count.is_some();
    Some(assigned.count.filter(|_| partly).unwrap_or(set.count))
}
