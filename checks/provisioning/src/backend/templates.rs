//! PodTemplates: the planned pods, for the provisioner. They are created before the request and
//! deleted before it; the Workload owns them.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use kueue_check::Check;
use kueue_check::api::Uid;
use serde::Deserialize;
use serde_json::{Value, json};

use super::index::{CachedTemplate, OwnTemplate};
use super::{
    ATTEMPT, CHECK, CreateError, Index, MANAGED, Pods, RequestPlan, code, owner, owner_reference,
    watched_resource,
};
use crate::config::ProvisioningRequestConfig;

const KIND: &str = "PodTemplate";

/// PodTemplates on the cluster.
#[derive(Clone)]
pub(crate) struct Templates {
    client: Client,
    index: Arc<Index>,
}

/// A PodTemplate of which only the metadata is decoded.
#[derive(Clone, Debug, Deserialize)]
struct TemplateMeta {
    metadata: ObjectMeta,
}

watched_resource!(TemplateMeta, "", "v1", "PodTemplate", "podtemplates");

impl Templates {
    pub(crate) fn new(client: Client, index: Arc<Index>) -> Self {
        Self { client, index }
    }

    pub(crate) fn permissions() -> PolicyRule {
        // `list` and `watch` are among the rules of the watch.
        let verbs = ["get", "create", "update", "delete"];
        PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["podtemplates".to_owned()]),
            verbs: verbs.map(str::to_owned).into(),
            ..PolicyRule::default()
        }
    }

    /// Adds a watch that stores the existing templates in the index.
    pub(crate) fn watch(
        check: Check<ProvisioningRequestConfig>,
        index: &Arc<Index>,
    ) -> Check<ProvisioningRequestConfig> {
        let index = Arc::clone(index);
        let config = Config::default().labels(&format!("{}={}", MANAGED.0, MANAGED.1));
        check.watches_events::<TemplateMeta>(config, move |event| {
            index.take_template(match event {
                Event::Init => Event::Init,
                Event::InitDone => Event::InitDone,
                Event::InitApply(template) => Event::InitApply(seen(template.metadata)),
                Event::Apply(template) => Event::Apply(seen(template.metadata)),
                Event::Delete(template) => Event::Delete(seen(template.metadata)),
            })
        })
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<TemplateMeta>(&());
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// Creates the template of `pods`, a part of `plan`, owned by the Workload. Returns the owner
    /// reference for objects that are deleted with it. A template of an earlier attempt is reused.
    pub(crate) async fn create(
        &self,
        plan: &RequestPlan,
        pods: &Pods,
    ) -> Result<Value, CreateError> {
        let api = self.api(&plan.namespace);
        let created = api
            .create(&PostParams::default(), &object(plan, pods)?)
            .await;
        let template = match created {
            Ok(template) => template,
            Err(error) if code(&error) == 409 => self.take_over(&api, plan, pods).await?,
            Err(error) => return Err(error.into()),
        };
        let own = OwnTemplate {
            namespace: plan.namespace.as_str().into(),
            name: pods.template_name.as_str().into(),
            check: Some(plan.mark.check.clone()),
        };
        self.index.put_template(&plan.workload.uid, own);
        let uid = Uid::new(template.metadata.uid.as_deref().unwrap_or_default());
        Ok(owner_reference("v1", KIND, &pods.template_name, &uid))
    }

    /// Replaces the content of the template that already has the name. It may belong to an earlier
    /// request, or to a deleted Workload of the same name.
    async fn take_over(
        &self,
        api: &Api<DynamicObject>,
        plan: &RequestPlan,
        pods: &Pods,
    ) -> Result<DynamicObject, CreateError> {
        let name = pods.template_name.clone();
        let present = api.get(&name).await?;
        if present.metadata.deletion_timestamp.is_some() {
            return Err(CreateError::Going { kind: KIND, name });
        }
        let labels = present.metadata.labels.as_ref();
        let managed = labels.and_then(|labels| labels.get(MANAGED.0));
        if managed.map(String::as_str) != Some(MANAGED.1) {
            return Err(CreateError::OwnedByAnother { kind: KIND, name });
        }
        let mut wanted = object(plan, pods)?;
        wanted.metadata.resource_version = present.metadata.resource_version;
        Ok(api.replace(&name, &PostParams::default(), &wanted).await?)
    }

    /// Returns the pods' template of the PodTemplate `name`, or `None` if it does not exist.
    pub(crate) async fn read(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, kube::Error> {
        let mut present = self.api(namespace).get_opt(name).await?;
        Ok(present
            .as_mut()
            .map(|template| template.data["template"].take()))
    }

    /// Deletes the templates `names` that `workload` owns in its `namespace`, in this order.
    pub(crate) async fn delete(
        &self,
        (namespace, workload): (&str, &Uid),
        names: impl Iterator<Item = &str>,
    ) -> Result<(), kube::Error> {
        let own = self.index.templates(workload);
        for name in names {
            if !own.iter().any(|own| own.is(namespace, name)) {
                continue;
            }
            let params = DeleteParams::background();
            match self.api(namespace).delete(name, &params).await {
                Ok(_) => {}
                Err(error) if code(&error) == 404 => {}
                Err(error) => return Err(error),
            }
            self.index.drop_template(workload, namespace, name);
        }
        Ok(())
    }
}

fn object(plan: &RequestPlan, pods: &Pods) -> Result<DynamicObject, CreateError> {
    let object = json!({
        "apiVersion": "v1",
        "kind": KIND,
        "metadata": {
            "name": pods.template_name,
            "labels": {MANAGED.0: MANAGED.1},
            "annotations": {CHECK: plan.mark.check, ATTEMPT: plan.mark.attempt.to_string()},
            "ownerReferences": [plan.workload.reference()],
        },
        "template": pods.template,
    });
    serde_json::from_value(object).map_err(|error| CreateError::Api(kube::Error::SerdeError(error)))
}

fn seen(metadata: ObjectMeta) -> CachedTemplate {
    let going = metadata.deletion_timestamp.is_some();
    let workload = owner(&metadata).map(|(uid, _)| uid).filter(|_| !going);
    let check = metadata
        .annotations
        .and_then(|mut annotations| annotations.remove(CHECK));
    CachedTemplate {
        workload,
        template: OwnTemplate {
            namespace: metadata.namespace.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
            check: check.map(Into::into),
        },
    }
}
