//! The controller: connects the SDK, the decision and the backend.

mod cache;
mod comparison;
mod competing_controllers;
mod effects;
mod inputs;
mod kueue;
mod plan;
mod release;
mod topology;
mod verdict;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kueue_check::api::AdmissionCheck;
use kueue_check::{
    AdmissionCheckController, AfterAdmission, Check, CheckError, CheckRequest, ControllerName,
    Inactive, OnFailure, Policy, Preview, ReleaseOutcome, ReleaseReason, Reservation, Trigger,
    Verdict,
};

use self::cache::{Cache, key};
use self::topology::Topologies;
use crate::backend::{Backend, Index, ProvisioningRequests, Templates};
use crate::config::{PARAMETER_ANNOTATIONS, ProvisioningRequestConfig};
use crate::decide::{Step, decide};

/// The default `spec.controllerName` of this check's AdmissionChecks.
pub const CONTROLLER_NAME: &str = "kueue-check.dev/provisioning-request";
/// The name of Kueue's own check. For this name, Kueue delays topology assignment until the
/// capacity exists, and keeps the check apart from `MultiKueue`.
pub const KUEUES_CONTROLLER_NAME: &str = "kueue.x-k8s.io/provisioning-request";

/// The interval between scans for leftover requests, if there may be any.
const SWEEP: Duration = Duration::from_mins(15);

/// The maximum delay of an activation by the read of queues and flavors for its message.
const AT_ACTIVATION: Duration = Duration::from_secs(5);

/// The check that uses ProvisioningRequests.
pub type ProvisioningCheck = CapacityCheck<ProvisioningRequests>;

/// A check that requests capacity through a backend.
pub struct CapacityCheck<B> {
    name: ControllerName,
    client: Client,
    backend: B,
    index: Arc<Index>,
    templates: Templates,
    cache: Arc<Mutex<Cache>>,
    topologies: Topologies,
}

impl ProvisioningCheck {
    /// Creates the check on the cluster of `client`, for AdmissionChecks with the controller name
    /// `name`.
    pub fn new(client: Client, name: ControllerName) -> Self {
        let index = Arc::new(Index::default());
        let backend = ProvisioningRequests::new(client.clone(), Arc::clone(&index));
        Self::with_backend(client, name, backend, index)
    }
}

impl<B: Backend> CapacityCheck<B> {
    /// Creates the check with a backend, whose requests `index` stores.
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
            cache: Arc::default(),
            topologies: Topologies::default(),
        }
    }
}

impl<B: Backend> AdmissionCheckController for CapacityCheck<B> {
    type Parameters = ProvisioningRequestConfig;

    fn controller_name(&self) -> ControllerName {
        self.name.clone()
    }

    async fn evaluate(
        &self,
        request: CheckRequest<ProvisioningRequestConfig>,
    ) -> Result<Verdict, CheckError> {
        let Some((gathered, whole)) = self.gather(&request).await? else {
            return Ok(Verdict::unchanged());
        };
        self.cache().orphans.remove(&key(request.reservation()));
        let (workload, config) = (request.workload(), request.parameters());
        let facts = gathered.facts(&request);
        let decision = decide(&facts);
        self.discard(workload, &decision.delete).await?;
        Self::report_insufficient(&request, &gathered.insufficient);
        match decision.step {
            Step::Create(new) => self.create(&request, &facts, new, whole).await,
            Step::Verdict {
                result,
                request: about,
            } => {
                let about = about.and_then(|name| self.find(workload, &name));
                verdict::verdict(&self.backend, result, about.as_deref(), workload, config)
            }
        }
    }

    async fn preview(
        &self,
        request: CheckRequest<ProvisioningRequestConfig>,
    ) -> Result<Preview, CheckError> {
        self.forecast(&request).await
    }

    async fn activate(
        &self,
        check: &AdmissionCheck,
        config: &Arc<ProvisioningRequestConfig>,
    ) -> Result<(), Inactive> {
        if self.name.as_str() == KUEUES_CONTROLLER_NAME {
            competing_controllers::warn_if_kueue_writes(&self.client, check.name()).await;
        } else {
            self.topologies.read(&self.client, AT_ACTIVATION).await;
        }
        self.backend
            .available(&config.spec.provisioning_class_name)
            .await
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        self.release_reservation(reservation, why).await
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        self.index.ready().await;
        Ok(self.orphaned())
    }

    fn configure(
        self: &Arc<Self>,
        check: Check<ProvisioningRequestConfig>,
    ) -> Check<ProvisioningRequestConfig> {
        let check = Templates::watch(B::watch(check, &self.index), &self.index);
        let check = self.name_topologies(check);
        let cache = Arc::clone(&self.cache);
        check
            .watches_stream("left over", move || sweep(Arc::clone(&cache)))
            // Revoked capacity evicts the job at once: its nodes are gone.
            .policy(Policy {
                after_admission: Some(AfterAdmission {
                    on_failure: Some(OnFailure::Evict),
                    consecutive: Some(1),
                    max_evictions_per_hour: Some(u32::MAX),
                }),
                ..Policy::default()
            })
            .annotations([PARAMETER_ANNOTATIONS])
            // The request is kept and used again.
            .outlives_reservation()
            // A request is deleted when its job is evicted, as Kueue's own check does.
            .release_at_eviction()
            .on_parameters_unavailable(|problem| {
                // A problem that only this check finds, such as a missing definition, does not
                // delete existing requests.
                (problem.reason() == "ParametersNotFound")
                    .then(|| "the check is not active".to_owned())
            })
            .state_change_event(verdict::state_event)
            .permissions(self.permissions())
    }
}

impl<B: Backend> CapacityCheck<B> {
    /// Reports the flavors that Kueue does not delay for this check, unless it has Kueue's name.
    fn name_topologies(
        &self,
        check: Check<ProvisioningRequestConfig>,
    ) -> Check<ProvisioningRequestConfig> {
        if self.name.as_str() == KUEUES_CONTROLLER_NAME {
            return check;
        }
        let (read, messages) = (self.topologies.clone(), self.topologies.clone());
        let client = self.client.clone();
        check
            .watches_stream("topologies", move || read.follow(client.clone()))
            .active_message(move |check| messages.message(check.name()))
            .permissions([Topologies::permissions()])
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

/// Triggers a scan for leftover requests at each interval, if there may be any.
fn sweep(cache: Arc<Mutex<Cache>>) -> impl Stream<Item = Trigger> {
    futures::stream::unfold(cache, |cache| async move {
        loop {
            tokio::time::sleep(SWEEP).await;
            let any = !cache
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .orphans
                .is_empty();
            if any {
                return Some((Trigger::UnreleasedReservations, cache));
            }
        }
    })
}

impl<B> fmt::Debug for CapacityCheck<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapacityCheck")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
