//! Start and stop of a job.

use std::collections::BTreeMap;

use super::integration::Integration;
use super::pod_set_info::{PodSetInfo, pod_set_infos};
use super::step::{Owned, Step};
use super::{job, pod};
use crate::kueue::api::kueue;
use crate::kueue::objects::{ResourceFlavor, Workload, read};
use serde_json::Value;

impl Step<'_> {
    pub(super) fn start(&mut self, object: &Value, workload: &Workload) {
        let infos = pod_set_infos(workload, &self.flavors(workload));
        let started = infos.and_then(|infos| {
            let info: PodSetInfo = infos.into_iter().next().unwrap_or_default();
            let started = match self.integration {
                Integration::Job => job::started(object, &info),
                Integration::Pod => pod::started(object, &info),
            };
            started.map_err(|conflict| conflict.to_string())
        });
        match started {
            Err(conflict) => {
                self.finish(workload, "FailedToStart", &conflict);
            }
            Ok(started) => {
                let answer = self.api.update(&self.integration.resource(), &started, "");
                let queue = workload
                    .status
                    .admission
                    .as_ref()
                    .map(|a| a.cluster_queue.as_str());
                if answer.code == 200 {
                    let text = format!("Admitted by clusterQueue {}", queue.unwrap_or_default());
                    self.tell(&answer.body, "Started", &text);
                } else {
                    tracing::warn!(code = answer.code, body = %answer.body, "the start of a job was refused");
                }
            }
        }
    }

    fn flavors(&self, workload: &Workload) -> BTreeMap<String, ResourceFlavor> {
        let admission = workload.status.admission.iter();
        let sets = admission.flat_map(|admission| &admission.pod_set_assignments);
        let names = sets.flat_map(|set| set.flavors.values());
        names
            .filter_map(|name| {
                let raw = self.api.get(&kueue("resourceflavors"), "", name)?;
                Some((name.clone(), read(&raw)))
            })
            .collect()
    }

    /// A Job says `Stopped` once its template is back; a Pod at once.
    pub(super) fn suspend(&mut self, object: &Value, owned: Option<Owned<'_>>, message: &str) {
        if self.integration == Integration::Job {
            job::suspend(self.api, object);
            return;
        }
        let eviction = owned.and_then(|owned| owned.workload.eviction());
        let reason = eviction.map_or_else(
            || "NotAdmitted".to_owned(),
            |evicted| format!("WorkloadEvictedDueTo{}", evicted.reason),
        );
        pod::stop(self.api, object, &reason, message);
        self.tell(object, "Stopped", message);
    }
}
