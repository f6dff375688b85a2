//! The plan: the objects to create for a Workload. Pure.

use std::collections::BTreeMap;

use kueue_check::api::ResourceFlavor;
use kueue_check::{Family, Reservation};
use serde_json::Value;

use crate::backend::{Owner, Pods, RequestPlan};
use crate::config::ProvisioningRequestConfig;
use crate::decide::NewRequest;
use crate::names::{request_name, template_name};
use crate::pods::{MissingAssignment, TemplateError, merge, pod_template, wanted};
use crate::request::RequestAnnotations;

/// The reason why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    /// Nothing can be planned for this Workload.
    #[error(transparent)]
    Inconsistent(#[from] MissingAssignment),
    /// A template can't be made.
    #[error("Error creating PodTemplate \"{name}\": {source}")]
    Template { name: String, source: TemplateError },
}

/// Returns the request to create for `reservation` of the Workload `whole`, which is of `family`.
pub(super) fn plan(
    (whole, family): (&Value, &Family),
    reservation: &Reservation,
    new: &NewRequest,
    config: &ProvisioningRequestConfig,
    parameters: &BTreeMap<String, String>,
    controller: &str,
    flavors: &BTreeMap<String, ResourceFlavor>,
) -> Result<RequestPlan, PlanError> {
    let check = reservation.admission_check();
    let name = request_name(reservation.name(), check, new.attempt);
    let spec = &config.spec;
    let groups = merge(
        wanted(whole, family, &spec.managed_resources)?,
        spec.pod_set_merge_policy,
    );
    let mut pods = Vec::with_capacity(groups.len());
    let mut merged = BTreeMap::new();
    for group in groups {
        let template_name = template_name(&name, group.first.name);
        let template =
            pod_template(&group.first, flavors).map_err(|source| PlanError::Template {
                name: template_name.clone(),
                source,
            })?;
        if !group.others.is_empty() {
            let others = group.others.iter().map(|name| Box::from(*name)).collect();
            merged.insert(group.first.name.into(), others);
        }
        pods.push(Pods {
            template_name,
            template,
            count: group.count,
        });
    }
    let api_version = whole["apiVersion"]
        .as_str()
        .unwrap_or("kueue.x-k8s.io/v1beta2");
    Ok(RequestPlan {
        namespace: reservation.namespace().to_owned(),
        name,
        workload: Owner {
            api_version: api_version.to_owned(),
            name: reservation.name().to_owned(),
            uid: reservation.uid().clone(),
        },
        mark: RequestAnnotations {
            controller: controller.into(),
            check: check.into(),
            attempt: new.attempt,
            reserved: reservation.since().as_second(),
            family: family
                .may_have_several_workloads()
                .then(|| family.key().clone()),
            tally: new.tally,
            keep_failed: config.options.no_capacity_limit.is_some(),
            merged,
        },
        class: spec.provisioning_class_name.clone(),
        parameters: parameters.clone(),
        pods,
    })
}
