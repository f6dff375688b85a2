//! Reads from the cluster for an explanation: only those that the generated ClusterRole allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use super::target::{Candidate, Found, Target};
use crate::api::{
    AdmissionCheck, AdmissionCheckObject, ApiVersion, DiscoveryError, GROUP, Projection,
    ResourceFlavor, ResourceFlavorObject, ServedApi, Workload, WorkloadObject, discover,
};
use crate::check::{Family, ParametersKind};
use crate::cli::{Error, Result};
use crate::runtime::error_text::public;
use crate::runtime::{Failure, StoredParameters, parameters_resource};

/// The number of names in a page.
const PAGE: u32 = 500;

/// Returns what the cluster serves of Kueue's API.
pub(super) async fn served(client: &Client) -> Result<ServedApi> {
    match discover(client).await {
        Ok(probed) => Ok(probed.served),
        Err(DiscoveryError::Client(error)) => {
            let what = Selection::get("the API groups", "");
            Err(what.failed(&error))
        }
        Err(error) => Err(Error::Kueue(error.to_string())),
    }
}

/// Returns the whole Workload of `target`.
pub(super) async fn workload(
    client: &Client,
    version: ApiVersion,
    namespace: &str,
    target: &Target,
) -> Result<Value> {
    let resource = ApiResource {
        group: GROUP.to_owned(),
        version: version.as_str().to_owned(),
        api_version: version.group_version(),
        kind: "Workload".to_owned(),
        plural: "workloads".to_owned(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    if let Some(name) = target.workload()
        && let Some(found) = get(&api, namespace, name).await?
    {
        return Ok(found);
    }
    let candidates = candidates(&api, namespace).await?;
    match target.find(&candidates) {
        Found::One(name) => {
            let found = get(&api, namespace, &name).await?;
            found.ok_or_else(|| missing(target, namespace, &[], candidates.len()))
        }
        Found::Several(names) => Err(Error::SeveralWorkloads {
            target: target.to_string(),
            names: names.join(", "),
        }),
        Found::None { near } => Err(missing(target, namespace, &near, candidates.len())),
    }
}

async fn get(api: &Api<DynamicObject>, namespace: &str, name: &str) -> Result<Option<Value>> {
    let wanted = Selection::get("workloads", GROUP).within(namespace);
    let found = api
        .get_opt(name)
        .await
        .map_err(|error| wanted.failed(&error))?;
    Ok(found.map(|object| serde_json::to_value(object).unwrap_or_default()))
}

/// Returns the Workloads of the job of `workload`, which may have others in its namespace.
pub(super) async fn family(
    client: &Client,
    version: ApiVersion,
    workload: &Workload,
) -> Result<Family> {
    let alone = Family::of(workload, []);
    if !alone.may_have_several_workloads() {
        return Ok(alone);
    }
    let namespace = workload.namespace();
    let api: Api<WorkloadObject> = Api::namespaced_with(client.clone(), namespace, &version);
    let wanted = Selection::list("workloads", GROUP).within(namespace);
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.map_err(|error| wanted.failed(&error))?;
    let mut projection = Projection::new(BTreeSet::new());
    let all = listed.items.into_iter();
    let all: Vec<Workload> = all.map(|object| projection.project(object)).collect();
    Ok(Family::of(workload, &all))
}

/// Returns the names and owners of all Workloads of the namespace.
async fn candidates(api: &Api<DynamicObject>, namespace: &str) -> Result<Vec<Candidate>> {
    let wanted = Selection::list("workloads", GROUP).within(namespace);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api
            .list_metadata(&parameters)
            .await
            .map_err(|error| wanted.failed(&error))?;
        all.extend(page.items.into_iter().map(|object| Candidate {
            name: object.metadata.name.unwrap_or_default(),
            owners: object.metadata.owner_references.unwrap_or_default(),
        }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

fn missing(target: &Target, namespace: &str, near: &[String], known: usize) -> Error {
    let hint = if !near.is_empty() {
        format!("did you mean {}?", near.join(", "))
    } else if known == 0 {
        format!("namespace {namespace} has no Workloads at all: choose another with -n")
    } else if target.is_job() {
        "Kueue makes one for a job that names a queue: is its label kueue.x-k8s.io/queue-name set?"
            .to_owned()
    } else {
        format!("list them with `kubectl get workloads -n {namespace}`")
    };
    Error::NoSuchWorkload {
        target: target.to_string(),
        namespace: namespace.to_owned(),
        hint,
    }
}

/// Returns all AdmissionChecks.
pub(super) async fn admission_checks(
    client: &Client,
    version: ApiVersion,
) -> Result<Vec<AdmissionCheck>> {
    let api: Api<AdmissionCheckObject> = Api::all_with(client.clone(), &version);
    let listed = api.list(&ListParams::default()).await;
    let wanted = Selection::list("admissionchecks", GROUP);
    let listed = listed.map_err(|error| wanted.failed(&error))?;
    Ok(listed.items.into_iter().map(Into::into).collect())
}

/// Returns all ResourceFlavors.
pub(super) async fn flavors(
    client: &Client,
    version: ApiVersion,
) -> Result<Arc<BTreeMap<String, ResourceFlavor>>> {
    let api: Api<ResourceFlavorObject> = Api::all_with(client.clone(), &version);
    let listed = api.list(&ListParams::default()).await;
    let wanted = Selection::list("resourceflavors", GROUP);
    let listed = listed.map_err(|error| wanted.failed(&error))?;
    let flavors = listed.items.into_iter().map(ResourceFlavor::from);
    Ok(Arc::new(
        flavors
            .map(|flavor| (flavor.name().to_owned(), flavor))
            .collect(),
    ))
}

/// Returns the parameters to which an AdmissionCheck refers, if they are of `kind`.
///
/// # Errors
/// If they may not be read. If their kind is not served, that is a result, not an error.
pub(super) async fn parameters(
    client: &Client,
    kind: Option<&ParametersKind>,
    check: &AdmissionCheck,
) -> Result<Result<Option<StoredParameters>, Failure>> {
    let (Some(kind), Some(reference)) = (kind, check.parameters()) else {
        return Ok(Ok(None));
    };
    if reference.kind != kind.kind || reference.group != kind.group || reference.name.is_empty() {
        return Ok(Ok(None));
    }
    // A list, because the program has permission to list and to watch.
    let listed = async {
        let resource = parameters_resource(client, kind).await?;
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let selected = format!("metadata.name={}", reference.name);
        api.list(&ListParams::default().fields(&selected)).await
    };
    match listed.await {
        Ok(list) => Ok(Ok(list.items.into_iter().next().map(Into::into))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(Failure {
            code: 404,
            message: status.message.clone(),
            lists: true,
        })),
        Err(error) => Err(Selection::list(&kind.plural, &kind.group).failed(&error)),
    }
}

/// The object of a read, for the error.
struct Selection<'a> {
    verb: &'static str,
    resource: &'a str,
    group: &'a str,
    namespace: Option<&'a str>,
}

impl<'a> Selection<'a> {
    fn get(resource: &'a str, group: &'a str) -> Self {
        Self {
            verb: "get",
            resource,
            group,
            namespace: None,
        }
    }

    fn list(resource: &'a str, group: &'a str) -> Self {
        Self {
            verb: "list",
            ..Self::get(resource, group)
        }
    }

    fn within(self, namespace: &'a str) -> Self {
        Self {
            namespace: Some(namespace),
            ..self
        }
    }

    fn failed(&self, error: &kube::Error) -> Error {
        let Self {
            verb,
            resource,
            group,
            namespace,
        } = *self;
        let place = namespace
            .map(|namespace| format!(" in namespace {namespace}"))
            .unwrap_or_default();
        match error {
            kube::Error::Api(status) if status.code == 403 => Error::Forbidden {
                verb,
                resource: if group.is_empty() {
                    resource.to_owned()
                } else {
                    format!("{resource}.{group}")
                },
                place,
            },
            kube::Error::Api(status) if status.code == 401 => Error::Unauthorized,
            error => Error::Read {
                what: format!("{resource}{place}"),
                why: public(error),
            },
        }
    }
}
