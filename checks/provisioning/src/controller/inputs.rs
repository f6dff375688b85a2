//! Inputs of a decision, and the decision without its effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use kueue_check::api::{AdmissionCheckState, CheckState};
use kueue_check::{CheckError, CheckRequest, FamilyRole, Preview, Verdict};
use serde_json::Value;

use super::cache::key;
use super::plan::{PlanError, plan};
use super::{CapacityCheck, verdict};
use crate::backend::Backend;
use crate::config::ProvisioningRequestConfig;
use crate::decide::{Facts, Step, UNHANDLED_TIMEOUT, decide};
use crate::request::{CapacityRequest, FailureCounts};

type EvaluationRequest = CheckRequest<ProvisioningRequestConfig>;

/// The inputs of a decision besides those in the check request.
pub(super) struct DecisionInputs<'a> {
    entry: &'a AdmissionCheckState,
    checks: Vec<&'a str>,
    parameters: BTreeMap<String, String>,
    requests: Vec<Arc<CapacityRequest>>,
    /// The requests of the pods that the job ran before it grew to this Workload.
    earlier: Vec<Arc<CapacityRequest>>,
    /// The requests that are too small, by name, and what is missing.
    pub(super) insufficient: BTreeMap<Box<str>, String>,
    tally: Option<(u32, FailureCounts)>,
    needed: bool,
}

impl<'a> DecisionInputs<'a> {
    pub(super) fn facts(&'a self, request: &'a EvaluationRequest) -> Facts<'a> {
        let workload = request.workload();
        Facts {
            workload: workload.name(),
            created: workload.created(),
            check: request.admission_check(),
            checks: &self.checks,
            state: self.entry.state(),
            state_since: self.entry.since(),
            retry_count: self.entry.retry_count().unwrap_or_default(),
            reserved: request.reservation().since(),
            admitted: workload.is_admitted(),
            growth: *request.family().role() == FamilyRole::Growth,
            needed: self.needed,
            config: request.parameters(),
            parameters: &self.parameters,
            requests: &self.requests,
            earlier: &self.earlier,
            insufficient: &self.insufficient,
            tally: self.tally,
            now: request.now(),
        }
    }
}

impl<B: Backend> CapacityCheck<B> {
    /// Reads the inputs of the decision, and returns the whole Workload too if it was read. Returns
    /// `None` if the Workload does not need this check.
    pub(super) async fn gather<'a>(
        &self,
        request: &'a EvaluationRequest,
    ) -> Result<Option<(DecisionInputs<'a>, Option<Value>)>, CheckError> {
        self.index.ready().await;
        let workload = request.workload();
        let Some(entry) = workload.check(request.admission_check()) else {
            return Ok(None);
        };
        let ready = *entry.state() == CheckState::Ready;
        let mut whole = None;
        let parameters = request
            .parameters()
            .effective_parameters(workload.annotations());
        let needed = ready || self.needed(request, &mut whole).await?;
        let requests = self.index.requests(workload.namespace(), workload.uid());
        let running = ready && workload.is_admitted();
        let insufficient = if needed && !running {
            let of_check = |own: &&Arc<CapacityRequest>| {
                let class = &request.parameters().spec.provisioning_class_name;
                let attempt = own.attempt_of(workload.name(), request.admission_check());
                !own.deleting && attempt.is_some() && own.matches(class, &parameters)
            };
            let candidates: Vec<_> = requests.iter().filter(of_check).collect();
            self.insufficient(request, entry.state(), &candidates, &mut whole)
                .await?
        } else {
            BTreeMap::new()
        };
        let gathered = DecisionInputs {
            entry,
            checks: workload
                .checks()
                .iter()
                .map(AdmissionCheckState::name)
                .collect(),
            parameters,
            requests,
            earlier: self.earlier(request),
            insufficient,
            tally: self
                .cache()
                .tallies
                .get(&key(request.reservation()))
                .copied(),
            needed,
        };
        Ok(Some((gathered, whole)))
    }

    /// Returns the requests of the Workloads that this one has replaced. They were created before
    /// it was admitted; those of a pending growth were created later.
    fn earlier(&self, request: &EvaluationRequest) -> Vec<Arc<CapacityRequest>> {
        let (workload, check) = (request.workload(), request.admission_check());
        let family = request.family();
        // Variants run on their own requests.
        let is_variant = matches!(family.role(), FamilyRole::Variant { .. });
        if !family.may_have_several_workloads() || is_variant {
            return Vec::new();
        }
        let admitted = workload.conditions().admitted().last_transition_time();
        let (true, Some(admitted)) = (workload.is_admitted(), admitted) else {
            return Vec::new();
        };
        let mut of_job = self.index.of_family(workload.namespace(), family.key());
        of_job.retain(|own| {
            let is_ours = own.attempt_of(&own.workload_name, check).is_some();
            is_ours && own.workload != *workload.uid() && own.created <= admitted && !own.deleting
        });
        of_job
    }

    /// Returns the verdict that would be returned, or the request that would be created.
    pub(super) async fn forecast(
        &self,
        request: &EvaluationRequest,
    ) -> Result<Preview, CheckError> {
        let Some((gathered, whole)) = self.gather(request).await? else {
            return Ok(Preview::of(Verdict::unchanged()));
        };
        let (workload, config) = (request.workload(), request.parameters());
        let step = decide(&gathered.facts(request)).step;
        let verdict = match step {
            Step::Create(new) => {
                let whole = match whole {
                    Some(whole) => whole,
                    None => request.full_workload().await?,
                };
                let planned = plan(
                    (&whole, request.family()),
                    request.reservation(),
                    &new,
                    config,
                    &gathered.parameters,
                    self.name.as_str(),
                    request.flavors(),
                );
                let message = match planned {
                    Ok(plan) => format!("would create the {} \"{}\"", B::KIND, plan.name),
                    Err(PlanError::Inconsistent(error)) => {
                        return Err(CheckError::permanent(error));
                    }
                    Err(error @ PlanError::Template { .. }) => error.to_string(),
                };
                Verdict::pending(message).recheck_in(UNHANDLED_TIMEOUT)
            }
            Step::Verdict {
                result,
                request: about,
            } => {
                let about = about.and_then(|name| self.find(workload, &name));
                verdict::verdict(&self.backend, result, about.as_deref(), workload, config)?
            }
        };
        Ok(Preview::of(verdict))
    }
}
