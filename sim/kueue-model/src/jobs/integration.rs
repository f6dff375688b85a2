//! Job integrations: the differences between kinds of jobs.

use serde_json::Value;

use super::construct::{Count, JOB, Owner, POD};
use super::decide::JobView;
use super::labels::{QUEUE, label, labeled, maximum_execution_time};
use super::{job, pod};
use crate::kueue::objects::{PodSet, Workload};
use kueue_check_apiserver::Resource;

/// The integration of one kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Integration {
    Job,
    Pod,
    /// Pods that share one Workload.
    PodGroup,
}

impl Integration {
    /// Integrations with their own objects.
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

    /// Returns the reporter of its events.
    pub(super) fn reporter(self) -> &'static str {
        match self {
            Self::Job => "batch/job-kueue-controller",
            Self::Pod | Self::PodGroup => "pod-kueue-controller",
        }
    }

    /// Returns true if Kueue manages the object.
    pub(super) fn manages(self, object: &Value) -> bool {
        match self {
            Self::Job => label(object, QUEUE).is_some(),
            Self::Pod | Self::PodGroup => pod::is_managed(object),
        }
    }

    /// Returns true if the job is being deleted, which Kueue treats as gone.
    pub(super) fn is_deleted(object: &Value) -> bool {
        !object["metadata"]["deletionTimestamp"].is_null()
    }

    /// Returns the Pod template of its only pod set.
    pub(super) fn template(self, object: &Value) -> Value {
        match self {
            Self::Job => object["spec"]["template"].clone(),
            Self::Pod | Self::PodGroup => {
                serde_json::json!({"metadata": {}, "spec": object["spec"]})
            }
        }
    }

    /// Returns the number of Pods of the pod set.
    pub(super) fn count(self, object: &Value) -> Count {
        match self {
            Self::Job => job::count(object),
            Self::Pod | Self::PodGroup => Count {
                pods: 1,
                least: None,
            },
        }
    }

    /// Returns the state of the job that the decision depends on.
    pub(super) fn view(
        self,
        object: &Value,
        workload: Option<&Workload>,
        elastic: bool,
    ) -> JobView {
        let view = match self {
            Self::Job => job::view(object, workload),
            Self::Pod | Self::PodGroup => pod::view(object),
        };
        JobView {
            elastic,
            differs: !elastic && workload.is_some_and(|workload| self.differs(object, workload)),
            ..labeled(object, view)
        }
    }

    /// Returns true if the job does not match its Workload: counts, containers, tolerations or the
    /// maximum execution time differ. Values changed by admission do not count (Kueue 0.19.2,
    /// `EquivalentToWorkload` in `pkg/controller/jobframework/reconciler.go`,
    /// `pkg/util/equality/podset.go`).
    fn differs(self, object: &Value, workload: &Workload) -> bool {
        let Some(set) = workload.spec.pod_sets.first() else {
            return true;
        };
        let template = self.template(object);
        let same = |field: &str| template["spec"][field] == set.template["spec"][field];
        let waits = object["spec"]["suspend"] == true || self != Self::Job;
        let stopped = match self {
            Self::Job => waits && !job::is_stopping(object),
            Self::Pod | Self::PodGroup => pod::has_gate(object),
        };
        let tolerations =
            |spec: &Value| spec["tolerations"].as_array().cloned().unwrap_or_default();
        let same_count = match running_count(workload, set) {
            Some(running) if running == self.count(object).pods => true,
            Some(_) if !waits => false,
            _ => set.count == self.count(object).pods,
        };
        let tolerated = workload.is_admitted()
            || !(stopped || workload.is_finished())
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

/// Returns the number of Pods of a pod set that run once it has quota (Kueue 0.19.2,
/// `expectedRunningPodSets` in `pkg/controller/jobframework/reconciler.go`).
fn running_count(workload: &Workload, set: &PodSet) -> Option<i64> {
    let admission = workload.status.admission.as_ref()?;
    let mut assigned = admission.pod_set_assignments.iter();
    let assigned = assigned.find(|assigned| assigned.name == set.name)?;
    let partly = workload.may_be_partially_admitted() && set.min_count.is_some();
    Some(assigned.count.filter(|_| partly).unwrap_or(set.count))
}
