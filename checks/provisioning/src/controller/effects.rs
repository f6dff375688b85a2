//! Effects of a decision on the cluster.

use std::sync::Arc;
use std::time::Duration;

use kueue_check::api::Workload;
use kueue_check::{CheckError, CheckEvent, CheckRequest, Verdict};
use serde_json::Value;

use super::CapacityCheck;
use super::cache::key;
use super::plan::{PlanError, plan};
use crate::backend::{Backend, CreateOutcome, RequestPlan};
use crate::config::ProvisioningRequestConfig;
use crate::decide::{Facts, NewRequest, UNHANDLED_TIMEOUT};
use crate::request::CapacityRequest;

/// The first and the maximum delay after a failed create.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

impl<B: Backend> CapacityCheck<B> {
    pub(super) fn find(&self, workload: &Workload, name: &str) -> Option<Arc<CapacityRequest>> {
        let requests = self.index.requests(workload.namespace(), workload.uid());
        requests.into_iter().find(|request| &*request.name == name)
    }

    /// Deletes the requests `names` of `workload`.
    pub(super) async fn discard(
        &self,
        workload: &Workload,
        names: &[Box<str>],
    ) -> Result<(), kube::Error> {
        for request in self.index.requests(workload.namespace(), workload.uid()) {
            if names.contains(&request.name) {
                self.delete(&request).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn delete(&self, request: &CapacityRequest) -> Result<(), kube::Error> {
        // A template that another request of the Workload names belongs to that request.
        let others = self.index.requests(&request.namespace, &request.workload);
        let is_of_another = |name: &str| {
            let mut others = others
                .iter()
                .filter(|other| other.uid != request.uid && !other.deleting);
            others.any(|other| other.pods.iter().any(|pods| *pods.template == *name))
        };
        // The first template owns the request, so it is deleted last. If a deletion in between
        // fails, no template is left without its request.
        let templates = request.pods.iter().rev().map(|pods| &*pods.template);
        let templates = templates.filter(|name| !is_of_another(name));
        let owner = (&*request.namespace, &request.workload);
        self.templates.delete(owner, templates).await?;
        self.backend.delete(request).await?;
        self.index.going(request);
        tracing::info!(
            namespace = &*request.namespace,
            name = &*request.name,
            kind = B::KIND,
            "deleted"
        );
        Ok(())
    }

    /// Creates a request after its templates. `whole` is the Workload, if it was just read. If the
    /// API server rejects the request, the check's message reports it, and the create is retried.
    pub(super) async fn create(
        &self,
        request: &CheckRequest<ProvisioningRequestConfig>,
        facts: &Facts<'_>,
        new: NewRequest,
        whole: Option<Value>,
    ) -> Result<Verdict, CheckError> {
        let whole = match whole {
            Some(whole) => whole,
            None => request.full_workload().await?,
        };
        let flavors = request.flavors();
        let reservation = request.reservation();
        let planned = plan(
            (&whole, request.family()),
            reservation,
            &new,
            facts.config,
            facts.parameters,
            self.name.as_str(),
            flavors,
        );
        let plan = match planned {
            Ok(plan) => plan,
            Err(PlanError::Inconsistent(error)) => return Err(CheckError::permanent(error)),
            Err(error @ PlanError::Template { .. }) => {
                return Ok(self.refused(request, error.to_string()));
            }
        };
        let existed = match self.carry_out(request, &plan).await {
            Ok(existed) => existed,
            Err(message) => return Ok(self.refused(request, message)),
        };
        self.cache().failures.remove(&key(reservation));
        if let Some(replaced) = new.replaces {
            self.discard(request.workload(), &[replaced]).await?;
        }
        let timeout = facts.config.options.pending_timeout;
        let timeout = timeout.unwrap_or(UNHANDLED_TIMEOUT).min(UNHANDLED_TIMEOUT);
        // The state of one that existed may be decided about at once.
        let again = if existed { Duration::ZERO } else { timeout };
        Ok(Verdict::pending("").recheck_in(again))
    }

    /// Creates the templates and the request. Returns true if the request existed.
    async fn carry_out(
        &self,
        request: &CheckRequest<ProvisioningRequestConfig>,
        plan: &RequestPlan,
    ) -> Result<bool, String> {
        let mut owner = None;
        for pods in &plan.pods {
            let created = self.templates.create(plan, pods).await;
            let template = created.map_err(|error| {
                format!(
                    "Error creating PodTemplate \"{}\": {error}",
                    pods.template_name
                )
            })?;
            owner.get_or_insert(template);
        }
        let owner = owner.ok_or("there are no pods that need capacity")?;
        let refused = |error: &dyn std::fmt::Display| {
            format!("Error creating {} \"{}\": {error}", B::KIND, plan.name)
        };
        let (created, existed) = match self
            .backend
            .create(plan, &owner)
            .await
            .map_err(|error| refused(&error))?
        {
            CreateOutcome::New(created) => {
                let note = format!("Created {}: \"{}\"", B::KIND, plan.name);
                request.record_event(CheckEvent::normal(B::CREATED, note).action("Created"));
                (created, false)
            }
            CreateOutcome::AlreadyExists(present) => (present, true),
        };
        self.cache().add_sufficient(request, created.uid.clone());
        self.index.put(created);
        Ok(existed)
    }

    fn refused(
        &self,
        request: &CheckRequest<ProvisioningRequestConfig>,
        message: String,
    ) -> Verdict {
        tracing::warn!(workload = %request.workload(), message, "refused");
        request.record_event(
            CheckEvent::warning("FailedCreate", message.clone()).action("FailedCreate"),
        );
        let mut memory = self.cache();
        let failures = memory
            .failures
            .entry(key(request.reservation()))
            .or_default();
        *failures = failures.saturating_add(1);
        let factor = 1_u32.checked_shl(*failures - 1).unwrap_or(u32::MAX);
        let pause = BACKOFF.0.saturating_mul(factor).min(BACKOFF.1);
        Verdict::pending(message).recheck_in(pause)
    }
}
