//! ProvisioningRequests (`autoscaling.x-k8s.io/v1`), which Cluster Autoscaler 1.31 and later and
//! GKE handle.

mod available;
mod construct;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use kueue_check::api::Uid;
use kueue_check::{Check, Inactive};
use serde_json::Value;

use self::view::RequestObject;
use super::{Backend, CreateError, CreateOutcome, Index, MANAGED, RequestPlan, code};
use crate::config::ProvisioningRequestConfig;
use crate::request::CapacityRequest;

const GROUP: &str = "autoscaling.x-k8s.io";
const API_VERSION: &str = "autoscaling.x-k8s.io/v1";
const KIND: &str = "ProvisioningRequest";
const CONSUME: &str = "autoscaling.x-k8s.io/consume-provisioning-request";
const CLASS: &str = "autoscaling.x-k8s.io/provisioning-class-name";

/// The backend that creates ProvisioningRequests on a cluster.
#[derive(Clone)]
pub struct ProvisioningRequests {
    client: Client,
    index: Arc<Index>,
}

impl std::fmt::Debug for ProvisioningRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProvisioningRequests")
            .finish_non_exhaustive()
    }
}

impl ProvisioningRequests {
    /// Creates a backend for the cluster of `client`, whose requests `index` stores.
    pub fn new(client: Client, index: Arc<Index>) -> Self {
        Self { client, index }
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<RequestObject>(&());
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// Returns the object that already has the name. It is this check's if it was created for this
    /// Workload and requests what is planned.
    async fn present(&self, plan: &RequestPlan) -> Result<CreateOutcome, CreateError> {
        let (kind, name) = (KIND, plan.name.clone());
        let present = self.api(&plan.namespace).get(&name).await?;
        let present = view::view(&RequestObject::from(present));
        let is_own = |request: &CapacityRequest| {
            let attempt = request.attempt_of(&plan.workload.name, &plan.mark.check);
            request.workload == plan.workload.uid && attempt.is_some()
        };
        match present.filter(is_own) {
            Some(request) if request.deleting => Err(CreateError::Going { kind, name }),
            Some(request) if matches_plan(&request, plan) => {
                Ok(CreateOutcome::AlreadyExists(request))
            }
            _ => Err(CreateError::OwnedByAnother { kind, name }),
        }
    }
}

fn matches_plan(request: &CapacityRequest, plan: &RequestPlan) -> bool {
    let requested = request
        .pods
        .iter()
        .map(|pods| (&*pods.template, pods.count));
    let planned = plan.pods.iter();
    let planned = planned.map(|pods| (pods.template_name.as_str(), pods.count));
    request.matches(&plan.class, &plan.parameters) && requested.eq(planned)
}

impl Backend for ProvisioningRequests {
    const KIND: &'static str = KIND;
    const CREATED: &'static str = "ProvisioningRequestCreated";

    fn permissions(&self) -> Vec<PolicyRule> {
        vec![PolicyRule {
            api_groups: Some(vec![GROUP.to_owned()]),
            resources: Some(vec!["provisioningrequests".to_owned()]),
            verbs: ["get", "create", "delete"].map(str::to_owned).into(),
            ..PolicyRule::default()
        }]
    }

    fn watch(
        check: Check<ProvisioningRequestConfig>,
        index: &Arc<Index>,
    ) -> Check<ProvisioningRequestConfig> {
        let index = Arc::clone(index);
        let config = Config::default().labels(&format!("{}={}", MANAGED.0, MANAGED.1));
        check.watches_events::<RequestObject>(config, move |event| {
            if let Event::Apply(object) | Event::Delete(object) = &event
                && view::view(object).is_none()
            {
                let uid = object.metadata.uid.as_deref().unwrap_or_default();
                return index.remove_by_uid(&Uid::new(uid));
            }
            index.take(match event {
                Event::Init => Event::Init,
                Event::InitDone => Event::InitDone,
                Event::InitApply(object) => Event::InitApply(view::view(&object)),
                Event::Apply(object) => Event::Apply(view::view(&object)),
                Event::Delete(object) => Event::Delete(view::view(&object)),
            })
        })
    }

    async fn available(&self, class: &str) -> Result<(), Inactive> {
        available::served(&self.client).await?;
        available::known(class, self.index.is_class_handled(class))
    }

    async fn create(
        &self,
        plan: &RequestPlan,
        owner: &Value,
    ) -> Result<CreateOutcome, CreateError> {
        let object = construct::object(plan, owner);
        let object: DynamicObject =
            serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let created = self
            .api(&plan.namespace)
            .create(&PostParams::default(), &object)
            .await;
        let request = match created {
            Ok(object) => view::view(&RequestObject::from(object)),
            Err(error) if code(&error) == 409 => return self.present(plan).await,
            Err(error) => return Err(error.into()),
        };
        // The object just created has the Workload's annotations, unless a webhook changed them.
        request
            .map(CreateOutcome::New)
            .ok_or_else(|| CreateError::OwnedByAnother {
                kind: KIND,
                name: plan.name.clone(),
            })
    }

    async fn delete(&self, request: &CapacityRequest) -> Result<(), kube::Error> {
        let only = kube::api::Preconditions {
            uid: Some(request.uid.to_string()),
            resource_version: None,
        };
        let params = DeleteParams::background().preconditions(only);
        match self
            .api(&request.namespace)
            .delete(&request.name, &params)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if code(&error) == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn consume(&self, request: &CapacityRequest) -> Vec<(&'static str, String)> {
        vec![
            (CONSUME, request.name.to_string()),
            (CLASS, request.class.to_string()),
        ]
    }
}
