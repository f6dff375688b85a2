//! The verdict and the event of a decision.

use kueue_check::api::{PodSet, Workload};
use kueue_check::{CheckError, CheckEvent, PodSetUpdates, StateChange, Verdict};

use crate::backend::Backend;
use crate::config::ProvisioningRequestConfig;
use crate::decide::CheckResult;
use crate::names::template_name;
use crate::request::CapacityRequest;

/// Returns the verdict for `result`, which is about `request`.
pub(super) fn verdict<B: Backend>(
    backend: &B,
    result: CheckResult,
    request: Option<&CapacityRequest>,
    workload: &Workload,
    config: &ProvisioningRequestConfig,
) -> Result<Verdict, CheckError> {
    let again = |verdict: Verdict, delay: Option<std::time::Duration>| match delay {
        Some(delay) => verdict.recheck_in(delay),
        None => verdict,
    };
    Ok(match result {
        CheckResult::Ready { message } => {
            let updates = match request {
                Some(request) => updates(backend, request, workload, config)?,
                None => PodSetUpdates::default(),
            };
            Verdict::ready(message).with_updates(updates)
        }
        CheckResult::Pending {
            message,
            recheck_in,
        } => again(Verdict::pending(message), recheck_in),
        CheckResult::Unchanged { recheck_in } => again(Verdict::unchanged(), recheck_in),
        CheckResult::Retry { delay, message } if delay.is_zero() => Verdict::retry_now(message),
        CheckResult::Retry { delay, message } => Verdict::retry_after(delay, message),
        CheckResult::Rejected { message } => Verdict::rejected(message),
    })
}

/// Returns the updates with which pods consume the capacity of `request`: one for each of its pod
/// sets, merged ones included.
fn updates<B: Backend>(
    backend: &B,
    request: &CapacityRequest,
    workload: &Workload,
    config: &ProvisioningRequestConfig,
) -> Result<PodSetUpdates, CheckError> {
    let annotations = backend.consume(request);
    let rules = config.spec.pod_set_updates.node_selector.iter();
    let selectors: Vec<(&str, &str)> = rules
        .filter_map(|rule| {
            let detail = rule.value_from_provisioning_class_detail.as_str();
            let value = request.details.get(detail);
            if value.is_none() {
                tracing::info!(%workload, request = &*request.name, detail, "the provider has not set this detail; its node selector is left out");
            }
            Some((rule.key.as_str(), &**value?))
        })
        .collect();
    let names = workload.pod_sets().iter().map(PodSet::name);
    let served = names.filter(|name| is_for(request, name));
    let updates = PodSetUpdates::builder().pod_sets(served, |pods| {
        let pods = annotations
            .iter()
            .fold(pods, |pods, (key, value)| pods.annotation(*key, value));
        selectors
            .iter()
            .fold(pods, |pods, (key, value)| pods.node_selector(*key, *value))
    });
    Ok(updates.build()?)
}

/// Returns true if `request` is for the pods of `pod_set`, alone or merged into another one.
fn is_for(request: &CapacityRequest, pod_set: &str) -> bool {
    let own = template_name(&request.name, pod_set);
    let merged = request
        .mark
        .iter()
        .flat_map(|mark| mark.merged.values().flatten());
    request.pods.iter().any(|pods| *pods.template == own)
        || merged.into_iter().any(|member| &**member == pod_set)
}

/// Returns the event of a state change, with the same text as Kueue's own check.
pub(super) fn state_event(change: &StateChange<'_>) -> CheckEvent {
    let StateChange {
        admission_check,
        from,
        to,
        message,
        ..
    } = change;
    let with = if message.is_empty() {
        String::new()
    } else {
        format!(" with message: {message}")
    };
    let note = format!("Admission check {admission_check} updated state from {from} to {to}{with}");
    CheckEvent::normal("AdmissionCheckUpdated", note).action("AdmissionCheckUpdated")
}
