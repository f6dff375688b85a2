//! The controller: between the SDK, the decision and the backend.

mod act;
mod answer;
mod gather;
mod plan;
mod release;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kueue_check::api::{AdmissionCheck, Uid};
use kueue_check::{
    AdmissionCheckController, AfterAdmission, CheckError, CheckRequest, ControllerName, EventNote,
    Inactive, OnFailure, ParametersProblem, Policy, Preview, ReleaseReason, Released, Reservation,
    StateChange, Verdict, Wake, Watches,
};
use serde_json::Value;

use crate::backend::{Backend, Index, ProvisioningRequests, Templates};
use crate::config::{PARAMETER_ANNOTATIONS, ProvisioningRequestConfig};
use crate::decide::{Step, decide};
use crate::pods;

/// The `spec.controllerName` of the AdmissionChecks that are answered, unless another is chosen.
pub const CONTROLLER_NAME: &str = "kueue-check.dev/provisioning-request";
/// The name of Kueue's own check. Under it, Kueue delays topology assignment until the capacity is there, and keeps the check apart from `MultiKueue`.
pub const KUEUES_CONTROLLER_NAME: &str = "kueue.x-k8s.io/provisioning-request";

/// How often what may be left over is looked at, if there is any.
const SWEEP: Duration = Duration::from_mins(15);

/// The check with ProvisioningRequests.
pub type ProvisioningCheck = CapacityCheck<ProvisioningRequests>;

/// A check that asks for capacity with the requests of a backend.
pub struct CapacityCheck<B> {
    name: ControllerName,
    client: Client,
    backend: B,
    index: Arc<Index>,
    templates: Templates,
    memory: Arc<Mutex<Memory>>,
}

/// What is remembered in this process. Nothing depends on it but the number of requests to the API server.
#[derive(Debug, Default)]
struct Memory {
    /// Whether capacity is needed, by Workload and AdmissionCheck, for a reservation and a generation of the config.
    needed: BTreeMap<(Uid, Box<str>), (i64, i64, bool)>,
    /// Creates that failed in a row.
    failures: BTreeMap<(Uid, Box<str>), u32>,
    /// Those whose quota was lost while their request was kept.
    orphans: BTreeSet<Reservation>,
    /// Whether everything has been asked for once.
    swept: bool,
}

impl ProvisioningCheck {
    /// The check on the cluster of `client`, for AdmissionChecks with the controller name `name`.
    pub fn new(client: Client, name: ControllerName) -> Self {
        let index = Arc::new(Index::default());
        let backend = ProvisioningRequests::new(client.clone(), Arc::clone(&index));
        Self::with_backend(client, name, backend, index)
    }
}

impl<B: Backend> CapacityCheck<B> {
    /// The check with the requests of `backend`, which `index` knows.
    pub fn with_backend(
        client: Client,
        name: ControllerName,
        backend: B,
        index: Arc<Index>,
    ) -> Self {
        Self {
            name,
            templates: Templates::new(client.clone(), Arc::clone(&index)),
            client,
            backend,
            index,
            memory: Arc::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether capacity is needed for the Workload in question, which is not Ready. One request, unless it is known or all resources are managed.
    async fn needed(
        &self,
        request: &CheckRequest<ProvisioningRequestConfig>,
    ) -> Result<bool, CheckError> {
        let workload = request.workload();
        let managed = &request.parameters().spec.managed_resources;
        if managed.is_empty() {
            let mut sets = workload.pod_sets().iter();
            return Ok(sets.any(|set| set.spec_count() > 0 && set.count() > 0));
        }
        let key = key(request.reservation());
        let since = request.reservation().since().as_second();
        let generation = request.parameters_generation();
        let known = self.memory().needed.get(&key).copied();
        if let Some((_, _, needed)) =
            known.filter(|known| (known.0, known.1) == (since, generation))
        {
            return Ok(needed);
        }
        let whole = request.full_workload().await?;
        let needed = pods::is_needed(&whole, managed).map_err(CheckError::permanent)?;
        self.memory()
            .needed
            .insert(key, (since, generation, needed));
        Ok(needed)
    }
}

fn key(reservation: &Reservation) -> (Uid, Box<str>) {
    (
        reservation.uid().clone(),
        reservation.admission_check().into(),
    )
}

impl<B: Backend> AdmissionCheckController for CapacityCheck<B> {
    type Parameters = ProvisioningRequestConfig;

    fn controller_name(&self) -> ControllerName {
        self.name.clone()
    }

    async fn check(
        &self,
        request: CheckRequest<ProvisioningRequestConfig>,
    ) -> Result<Verdict, CheckError> {
        let Some(gathered) = self.gather(&request).await? else {
            return Ok(Verdict::unchanged());
        };
        self.memory().orphans.remove(request.reservation());
        let (workload, config) = (request.workload(), request.parameters());
        let ready = gathered.is_ready();
        let facts = gathered.facts(&request);
        let decision = decide(&facts);
        self.discard(workload.uid(), &decision.discard).await?;
        match decision.step {
            Step::Create(new) => self.create(&request, &facts, new).await,
            Step::Answer {
                answer,
                request: about,
            } => {
                let about = about.and_then(|name| self.find(workload.uid(), &name));
                if let Some(about) = about.as_deref().filter(|_| !ready) {
                    self.hand_over(about).await?;
                }
                answer::verdict(&self.backend, answer, about.as_deref(), workload, config)
            }
        }
    }

    async fn preview(
        &self,
        request: CheckRequest<ProvisioningRequestConfig>,
    ) -> Result<Preview, CheckError> {
        self.foresee(&request).await
    }

    async fn activate(
        &self,
        check: &AdmissionCheck,
        config: &Arc<ProvisioningRequestConfig>,
    ) -> Result<(), Inactive> {
        if self.name.as_str() == KUEUES_CONTROLLER_NAME {
            warn_of_kueue(&self.client, check.name()).await;
        }
        self.backend
            .available(&config.spec.provisioning_class_name)
            .await
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<Released, CheckError> {
        self.release_reservation(reservation, why).await
    }

    async fn outstanding(&self) -> Result<Vec<Reservation>, CheckError> {
        self.index.ready().await;
        Ok(self.left_over())
    }

    fn watches(&self) -> Watches {
        let memory = Arc::clone(&self.memory);
        let sweep = futures::stream::unfold(memory, |memory| async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let any = !memory
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .orphans
                    .is_empty();
                if any {
                    return Some((Wake::Outstanding, memory));
                }
            }
        });
        let requests = self.backend.watches(&self.index);
        self.templates.watch(requests).stream("left over", sweep)
    }

    /// What is revoked stops the job at once: its nodes are gone.
    fn policy(&self) -> Policy {
        Policy {
            after_admission: Some(AfterAdmission {
                on_failure: Some(OnFailure::Evict),
                consecutive: Some(1),
                max_evictions_per_hour: Some(u32::MAX),
            }),
            ..Policy::default()
        }
    }

    fn annotations(&self) -> Vec<String> {
        vec![PARAMETER_ANNOTATIONS.to_owned()]
    }

    /// The request is kept, and used again.
    fn outlives_reservation(&self) -> bool {
        true
    }

    fn without_parameters(&self, problem: &ParametersProblem<'_>) -> Option<String> {
        // What only this check finds wrong, such as a missing definition, does not take away what is asked for already.
        (problem.reason == "ParametersNotFound").then(|| "the check is not active".to_owned())
    }

    fn state_event(&self, change: &StateChange<'_>) -> EventNote {
        answer::state_event(change)
    }

    fn permissions(&self) -> Vec<PolicyRule> {
        let mut permissions = self.backend.permissions();
        permissions.push(Templates::permissions());
        if self.name.as_str() == KUEUES_CONTROLLER_NAME {
            permissions.push(PolicyRule {
                api_groups: Some(vec!["kueue.x-k8s.io".to_owned()]),
                resources: Some(vec!["admissionchecks".to_owned()]),
                verbs: vec!["get".to_owned()],
                ..PolicyRule::default()
            });
        }
        permissions
    }
}

/// Says so if Kueue's own check has answered the AdmissionCheck `name`: two controllers of one name undo each other's work.
async fn warn_of_kueue(client: &Client, name: &str) {
    let resource = kube::core::ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        api_version: "kueue.x-k8s.io/v1beta2".to_owned(),
        kind: "AdmissionCheck".to_owned(),
        plural: "admissionchecks".to_owned(),
    };
    let api = kube::Api::<kube::api::DynamicObject>::all_with(client.clone(), &resource);
    let Ok(object) = api.get(name).await else {
        return;
    };
    for (manager, at) in
        other_answerers(&serde_json::to_value(&object.metadata).unwrap_or_default())
    {
        tracing::warn!(
            check = name,
            manager,
            at,
            "another controller has answered this AdmissionCheck under the same controller name: if it still runs, each undoes what the other does. Switch Kueue's own check off, or use the controller name {CONTROLLER_NAME}"
        );
    }
}

/// Who, other than this SDK, has written the condition `Active`, and when: this SDK applies, Kueue updates.
fn other_answerers(metadata: &Value) -> Vec<(String, String)> {
    let managers = metadata["managedFields"].as_array().into_iter().flatten();
    let wrote = managers.filter(|entry| {
        entry["subresource"] == "status"
            && entry["operation"] == "Update"
            && entry["fieldsV1"]["f:status"].get("f:conditions").is_some()
    });
    wrote
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            (text("manager"), text("time"))
        })
        .collect()
}

impl<B> fmt::Debug for CapacityCheck<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapacityCheck")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn somebody_else_who_answers_under_the_same_name_is_seen() {
        let entry = |operation: &str, subresource: &str, fields: Value| json!({"manager": "kueue", "time": "2026-11-21T09:00:00Z", "operation": operation, "subresource": subresource, "fieldsV1": fields});
        let conditions = json!({"f:status": {"f:conditions": {}}});
        let of = |entry: Value| other_answerers(&json!({"managedFields": [entry]}));
        let seen = of(entry("Update", "status", conditions.clone()));
        assert_eq!(
            seen,
            [("kueue".to_owned(), "2026-11-21T09:00:00Z".to_owned())]
        );
        assert!(of(entry("Apply", "status", conditions.clone())).is_empty());
        assert!(of(entry("Update", "", conditions)).is_empty());
        assert!(of(entry("Update", "status", json!({}))).is_empty());
        assert!(other_answerers(&Value::Null).is_empty());
    }
}
