//! Kinds of objects in a recording.

use kueue_check::kube::api::{ApiResource, GroupVersionKind};

use crate::replay::NAMESPACE;

/// A watched kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    ResourceFlavor,
    Cohort,
    PriorityClass,
    WorkloadPriorityClass,
    AdmissionCheck,
    ClusterQueue,
    LocalQueue,
    Job,
    Workload,
}

impl Kind {
    /// All kinds, each after the kinds that its objects refer to.
    pub(super) const ALL: [Self; 9] = [
        Self::ResourceFlavor,
        Self::Cohort,
        Self::PriorityClass,
        Self::WorkloadPriorityClass,
        Self::AdmissionCheck,
        Self::ClusterQueue,
        Self::LocalQueue,
        Self::Job,
        Self::Workload,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ResourceFlavor => "ResourceFlavor",
            Self::Cohort => "Cohort",
            Self::PriorityClass => "PriorityClass",
            Self::WorkloadPriorityClass => "WorkloadPriorityClass",
            Self::AdmissionCheck => "AdmissionCheck",
            Self::ClusterQueue => "ClusterQueue",
            Self::LocalQueue => "LocalQueue",
            Self::Job => "Job",
            Self::Workload => "Workload",
        }
    }

    /// The prefix of pseudonyms of this kind.
    pub(super) fn pseudonym(self) -> &'static str {
        match self {
            Self::ResourceFlavor => "flavor",
            Self::Cohort => "cohort",
            Self::PriorityClass => "pod-class",
            Self::WorkloadPriorityClass => "class",
            Self::AdmissionCheck => "check",
            Self::ClusterQueue => "cluster-queue",
            Self::LocalQueue => "queue",
            Self::Job => "job",
            Self::Workload => "workload",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::ResourceFlavor => "resourceflavors",
            Self::Cohort => "cohorts",
            Self::PriorityClass => "priorityclasses",
            Self::WorkloadPriorityClass => "workloadpriorityclasses",
            Self::AdmissionCheck => "admissionchecks",
            Self::ClusterQueue => "clusterqueues",
            Self::LocalQueue => "localqueues",
            Self::Job => "jobs",
            Self::Workload => "workloads",
        }
    }

    pub(super) fn is_namespaced(self) -> bool {
        matches!(self, Self::LocalQueue | Self::Job | Self::Workload)
    }

    fn group_and_version(self) -> (&'static str, &'static str) {
        match self {
            Self::Job => ("batch", "v1"),
            Self::PriorityClass => ("scheduling.k8s.io", "v1"),
            _ => ("kueue.x-k8s.io", "v1beta2"),
        }
    }

    pub(super) fn api_version(self) -> String {
        let (group, version) = self.group_and_version();
        format!("{group}/{version}")
    }

    pub(super) fn resource(self) -> ApiResource {
        let (group, version) = self.group_and_version();
        let kind = GroupVersionKind::gvk(group, version, self.name());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }

    /// The path of the collection, in the only namespace of a trace.
    pub(super) fn path(self) -> String {
        let (api, plural) = (self.api_version(), self.plural());
        if self.is_namespaced() {
            format!("/apis/{api}/namespaces/{NAMESPACE}/{plural}")
        } else {
            format!("/apis/{api}/{plural}")
        }
    }
}
