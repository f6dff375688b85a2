//! Job integrations: the differences between kinds of jobs.

use serde_json::Value;

use super::construct::{Count, JOB, Owner, POD};
use super::decide::JobView;
use super::labels::{QUEUE, label, labeled, maximum_execution_time};
use super::pod_set_info::{PodSetInfo, with_info};
use super::{job, pod};
use crate::kueue::KueueVersion;
use crate::kueue::objects::Workload;
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

    /// Returns the state of the job that the decision depends on. `workload`: its Workload, with
    /// what it runs with if there is quota.
    pub(super) fn view(
        self,
        object: &Value,
        workload: Option<(&Workload, Option<&Running>)>,
        elastic: bool,
        version: KueueVersion,
    ) -> JobView {
        let view = match self {
            Self::Job => job::view(object, workload.map(|(workload, _)| workload), version),
            Self::Pod | Self::PodGroup => pod::view(object),
        };
        JobView {
            elastic,
            differs: !elastic && workload.is_some_and(|(w, r)| self.differs(object, w, r)),
            ..labeled(object, view)
        }
    }

    /// Returns true if the job does not match its Workload: neither what it runs with nor, while it
    /// waits, what it was created with (Kueue 0.19.2, `EquivalentToWorkload` in
    /// `pkg/controller/jobframework/reconciler.go`, `pkg/util/equality/podset.go`).
    fn differs(self, object: &Value, workload: &Workload, running: Option<&Running>) -> bool {
        let Some(set) = workload.spec.pod_sets.first() else {
            return true;
        };
        let template = self.template(object);
        let count = self.count(object);
        let same = |field: &str| template["spec"][field] == set.template["spec"][field];
        let waits = match self {
            Self::Job => object["spec"]["suspend"] == true && !job::is_stopping(object),
            Self::Pod | Self::PodGroup => pod::has_gate(object),
        };
        let tolerations = tolerations(&template);
        let matches = |pods: i64, tolerated: &[Value]| {
            pods == count.pods && (workload.is_admitted() || tolerated == tolerations)
        };
        let as_created = || matches(set.count, &self::tolerations(&set.template));
        let matched = match running {
            Some(running) => matches(running.pods, &running.tolerations) || (waits && as_created()),
            None => as_created(),
        };
        let limit = workload.spec.maximum_execution_time_seconds;
        !matched
            || count.least != set.min_count
            || limit != maximum_execution_time(object)
            || !same("containers")
            || !same("initContainers")
    }
}

/// What the first pod set of a Workload with quota runs with.
pub(super) struct Running {
    pods: i64,
    tolerations: Vec<Value>,
}

impl Running {
    /// `infos`: the values of each pod set from its flavors, Kueue and the checks. None: the pod
    /// set has no quota, or its values conflict (Kueue 0.19.2, `expectedRunningPodSets` in
    /// `pkg/controller/jobframework/reconciler.go`).
    pub(super) fn of(workload: &Workload, infos: &[PodSetInfo]) -> Option<Self> {
        let set = workload.spec.pod_sets.first()?;
        let info = infos.iter().find(|info| info.name == set.name)?;
        let template = with_info(&set.template, info).ok()?;
        let partly = workload.may_be_partially_admitted() && set.min_count.is_some();
        Some(Self {
            pods: info.count.filter(|_| partly).unwrap_or(set.count),
            tolerations: tolerations(&template),
        })
    }
}

fn tolerations(template: &Value) -> Vec<Value> {
    PodSetInfo::read(&template["spec"]).tolerations
}
