//! Start and stop of a job.

use std::collections::BTreeMap;

use super::decide::unreserve;
use super::integration::{Integration, Running};
use super::pod_set_info::{PodSetInfo, pod_set_infos};
use super::step::{Owned, Step};
use super::{job, pod, role};
use crate::kueue::api::kueue;
use crate::kueue::objects::{ResourceFlavor, Workload, read};
use serde_json::Value;

/// Returns the info for a Pod of a group: that of its pod set.
fn info_of(pod: &Value, infos: Vec<PodSetInfo>) -> Result<PodSetInfo, String> {
    let role = role::role(pod);
    let found = infos.into_iter().find(|info| info.name == role);
    found.ok_or_else(|| {
        format!("invalid podset infos: podSetInfo with the name '{role}' is not found")
    })
}

impl Step<'_> {
    pub(super) fn start(&mut self, object: &Value, workload: &Workload) {
        // Kueue tries it again (0.19.2, `FromAssignment` in `pkg/podset/podset.go`: not found is no
        // permanent error).
        let Some(flavors) = self.flavors(workload) else {
            self.failed = true;
            return;
        };
        let infos = pod_set_infos(workload, &flavors, self.version);
        let started = infos.and_then(|infos| {
            let info = match self.integration {
                Integration::PodGroup => info_of(object, infos)?,
                Integration::Job | Integration::Pod => infos.into_iter().next().unwrap_or_default(),
            };
            let started = match self.integration {
                Integration::Job => job::started(object, &info),
                Integration::Pod | Integration::PodGroup => pod::started(object, &info),
            };
            started.map_err(|conflict| format!("invalid admission check PodSetUpdate: {conflict}"))
        });
        match started {
            Err(conflict) => {
                self.finish(workload, "FailedToStart", &conflict);
            }
            Ok(started) => {
                let response = self.api.update(&self.integration.resource(), started, "");
                let queue = workload
                    .status
                    .admission
                    .as_ref()
                    .map(|a| a.cluster_queue.as_str());
                if response.code == 200 {
                    let text = format!("Admitted by clusterQueue {}", queue.unwrap_or_default());
                    self.record_event(&response.body, "Started", &text);
                } else {
                    tracing::warn!(code = response.code, body = %response.body, "the start of a job was refused");
                }
            }
        }
    }

    /// Returns what the job of a Workload with quota runs with.
    pub(super) fn running(&self, workload: &Workload) -> Option<Running> {
        let infos = pod_set_infos(workload, &self.flavors(workload)?, self.version).ok()?;
        Running::of(workload, &infos).filter(|_| workload.has_quota())
    }

    /// Returns the flavors of a Workload with quota by name, or `None` if one does not exist.
    fn flavors(&self, workload: &Workload) -> Option<BTreeMap<String, ResourceFlavor>> {
        let admission = workload.status.admission.iter();
        let sets = admission.flat_map(|admission| &admission.pod_set_assignments);
        let names = sets.flat_map(|set| set.flavors.values());
        names
            .map(|name| {
                let raw = self.api.get(&kueue("resourceflavors"), "", name)?;
                Some((name.clone(), read(&raw)))
            })
            .collect()
    }

    /// Suspends a Job or stops a Pod. The event `Stopped` is recorded at once for a Pod, and for a
    /// Job once its template is restored, or at once if it has no Workload.
    pub(super) fn suspend(&mut self, object: &Value, owned: Option<Owned<'_>>, message: &str) {
        if self.integration == Integration::Job {
            if owned.is_some() {
                job::suspend(self.api, object);
            } else if let Some(stopped) = job::suspend_without_workload(self.api, object) {
                self.record_event(&stopped, "Stopped", message);
            }
            return;
        }
        let eviction = owned.and_then(|owned| owned.workload.eviction());
        let reason = match eviction {
            Some(evicted) => format!("WorkloadEvictedDueTo{}", evicted.reason),
            None if owned.is_none() => "NoMatchingWorkload".to_owned(),
            None => "NotAdmitted".to_owned(),
        };
        pod::stop(self.api, object, &reason, message);
        self.record_event(object, "Stopped", message);
        // In the same pass, before the deletion of the Pod is observed.
        if let Some(owned) = owned
            && self.integration == Integration::Pod
            && let Some(next) = unreserve(&pod::view(object), owned.workload)
        {
            self.carry_out(next, object, Some(owned));
        }
    }
}
