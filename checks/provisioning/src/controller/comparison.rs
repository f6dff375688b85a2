//! Requests that are too small for their Workload.
//!
//! The annotations of a request prove nothing. A user who may create requests in the namespace of a
//! Workload can mark a small one as its next attempt. So a request that this process has not
//! created is compared with the needs of the Workload before its status counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use kueue_check::api::CheckState;
use kueue_check::{CheckError, CheckEvent, CheckRequest};
use serde_json::Value;

use super::CapacityCheck;
use crate::backend::Backend;
use crate::config::ProvisioningRequestConfig;
use crate::pods::{Group, RequestedPods, merge, shortfall, wanted};
use crate::request::CapacityRequest;

type EvaluationRequest = CheckRequest<ProvisioningRequestConfig>;

impl<B: Backend> CapacityCheck<B> {
    /// Returns the names of the requests among `candidates` that are too small for the Workload,
    /// and what is missing. The Workload that was read is stored in `whole`.
    pub(super) async fn insufficient(
        &self,
        evaluation: &EvaluationRequest,
        state: &CheckState,
        candidates: &[&Arc<CapacityRequest>],
        whole: &mut Option<Value>,
    ) -> Result<BTreeMap<Box<str>, String>, CheckError> {
        let mut insufficient = BTreeMap::new();
        // Ready follows a comparison, and the only request is the compared one.
        if *state != CheckState::Pending && candidates.len() < 2 {
            return Ok(insufficient);
        }
        let unknown: Vec<_> = {
            let cache = self.cache();
            let known = cache.sufficient(evaluation);
            let is_known =
                |request: &CapacityRequest| known.is_some_and(|known| known.contains(&request.uid));
            let unknown = candidates.iter().filter(|request| !is_known(request));
            unknown.copied().collect()
        };
        if unknown.is_empty() {
            return Ok(insufficient);
        }
        let read = match whole {
            Some(whole) => whole,
            None => whole.insert(evaluation.full_workload().await?),
        };
        let spec = &evaluation.parameters().spec;
        let needed = wanted(read, evaluation.family(), &spec.managed_resources)
            .map_err(CheckError::permanent)?;
        let needed = merge(needed, spec.pod_set_merge_policy);
        for request in unknown {
            if let Some(missing) = self.missing(request, &needed).await? {
                insufficient.insert(request.name.clone(), missing);
                continue;
            }
            self.cache().add_sufficient(evaluation, request.uid.clone());
        }
        Ok(insufficient)
    }

    /// Returns the part of `needed` that `request` does not cover.
    async fn missing(
        &self,
        request: &CapacityRequest,
        needed: &[Group<'_>],
    ) -> Result<Option<String>, kube::Error> {
        let mut requested = Vec::with_capacity(request.pods.len());
        for pods in &request.pods {
            let template = self.templates.read(&request.namespace, &pods.template);
            if let Some(template) = template.await? {
                let count = pods.count;
                requested.push(RequestedPods { count, template });
            }
        }
        Ok(shortfall(needed, &requested))
    }

    /// Reports that requests were deleted because they were too small.
    pub(super) fn report_insufficient(
        evaluation: &EvaluationRequest,
        insufficient: &BTreeMap<Box<str>, String>,
    ) {
        for (name, missing) in insufficient {
            let kind = B::KIND;
            let note = format!(
                "Deleted {kind} \"{name}\", which requests less than the Workload needs: {missing}"
            );
            tracing::warn!(workload = %evaluation.workload(), note, "request deleted");
            let event = CheckEvent::warning("InsufficientRequest", note).action("Deleted");
            evaluation.record_event(event);
        }
    }
}
