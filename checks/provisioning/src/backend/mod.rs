//! The kind of object that requests capacity on the cluster. The decision does not depend on it:
//! CapacityBuffers come next.

mod index;
mod provisioning_request;
mod templates;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kueue_check::api::Uid;
use kueue_check::{Check, Inactive};
use serde_json::Value;

pub use index::{Index, OwnTemplate};
pub use provisioning_request::ProvisioningRequests;
pub(crate) use templates::Templates;

use crate::config::ProvisioningRequestConfig;
use crate::request::{CapacityRequest, RequestAnnotations};

/// A kind of object that requests capacity.
pub trait Backend: Send + Sync + 'static {
    /// The kind, as shown to people.
    const KIND: &'static str;
    /// The reason of the event for a created request.
    const CREATED: &'static str;

    /// Returns the RBAC rules that the backend needs besides those of its watches.
    fn permissions(&self) -> Vec<PolicyRule>;

    /// Adds the watches that keep `index` up to date.
    fn watch(
        check: Check<ProvisioningRequestConfig>,
        index: &Arc<Index>,
    ) -> Check<ProvisioningRequestConfig>;

    /// Returns an error unless requests of `class` can be made on this cluster.
    ///
    /// # Errors
    /// The error names what is missing.
    fn available(&self, class: &str) -> impl Future<Output = Result<(), Inactive>> + Send;

    /// Creates a request whose templates exist. `owner` is the owner reference of one of them.
    ///
    /// # Errors
    /// The API server's error, or [`CreateError::OwnedByAnother`] if another object has the name.
    fn create(
        &self,
        plan: &RequestPlan,
        owner: &Value,
    ) -> impl Future<Output = Result<CreateOutcome, CreateError>> + Send;

    /// Deletes `request`. Succeeds if it does not exist.
    ///
    /// # Errors
    /// The API server's error.
    fn delete(
        &self,
        request: &CapacityRequest,
    ) -> impl Future<Output = Result<(), kube::Error>> + Send;

    /// Returns the annotations with which pods consume the capacity of `request`.
    fn consume(&self, request: &CapacityRequest) -> Vec<(&'static str, String)>;
}

/// A request to create.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The Workload that the request is for.
    pub workload: Owner,
    /// The annotations of the request.
    pub mark: RequestAnnotations,
    /// The provisioning class.
    pub class: String,
    /// The parameters of the class.
    pub parameters: BTreeMap<String, String>,
    /// The pods that need capacity.
    pub pods: Vec<Pods>,
}

/// The Workload that owns created objects.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Group and version.
    pub api_version: String,
    /// The name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
}

impl Owner {
    /// Returns the owner reference to the Workload.
    pub fn reference(&self) -> Value {
        owner_reference(&self.api_version, "Workload", &self.name, &self.uid)
    }
}

/// A number of pods with one template.
#[derive(Clone, Debug)]
pub struct Pods {
    /// The PodTemplate's name.
    pub template_name: String,
    /// The pods' template.
    pub template: Value,
    /// The number of pods.
    pub count: u64,
}

/// The outcome of a create.
#[derive(Clone, Debug)]
pub enum CreateOutcome {
    /// The request was created.
    New(CapacityRequest),
    /// The request existed: an earlier reply was lost, or the watch has not delivered the request
    /// yet.
    AlreadyExists(CapacityRequest),
}

/// Why a request or a template was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The API server's error.
    #[error("{}", brief(.0))]
    Api(#[from] kube::Error),
    /// Another object has the name.
    #[error("{kind} \"{name}\" already exists and belongs to another owner")]
    OwnedByAnother {
        /// The kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// An earlier object of this name is still being deleted.
    #[error("{kind} \"{name}\" is being deleted")]
    Going {
        /// The kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

/// Returns the API server's message without what kube adds.
fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// Returns an owner reference without `blockOwnerDeletion`, which may require the permission to
/// update the owner's finalizers (admission plugin `OwnerReferencesPermissionEnforcement`).
fn owner_reference(api_version: &str, kind: &str, name: &str, uid: &Uid) -> Value {
    serde_json::json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid.to_string(), "controller": true,
    })
}

/// Returns the UID and name of the Workload that controls an object.
fn owner(metadata: &kube::core::ObjectMeta) -> Option<(Uid, &str)> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| {
        owner.kind == "Workload"
            && owner.api_version.starts_with("kueue.x-k8s.io/")
            && owner.controller == Some(true)
    })?;
    Some((Uid::new(&owner.uid), &owner.name))
}

/// The label that Kueue and this check set on the objects that they create.
const MANAGED: (&str, &str) = ("kueue.x-k8s.io/managed", "true");

/// The annotations with the AdmissionCheck and the attempt number of a request or template.
const CHECK: &str = "provisioning.kueue-check.dev/admission-check";
const ATTEMPT: &str = "provisioning.kueue-check.dev/attempt";

/// Defines a watched resource of which only the fields that decisions use are decoded, so that
/// other fields may have any shape.
macro_rules! watched_resource {
    ($object:ty, $group:literal, $version:literal, $kind:literal, $plural:literal) => {
        impl kube::Resource for $object {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
use watched_resource;
