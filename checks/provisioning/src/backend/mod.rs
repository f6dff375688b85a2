//! What stands for a request for capacity on the cluster. The decision depends on none of it:
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

/// A kind of object that asks for capacity.
pub trait Backend: Send + Sync + 'static {
    /// The kind, as people know it.
    const KIND: &'static str;
    /// The reason of the event that one was created.
    const CREATED: &'static str;

    /// What is done with the API besides watching.
    fn permissions(&self) -> Vec<PolicyRule>;

    /// Adds the watches that keep `index` up to date.
    fn watch(
        check: Check<ProvisioningRequestConfig>,
        index: &Arc<Index>,
    ) -> Check<ProvisioningRequestConfig>;

    /// Whether requests of `class` can be made on this cluster.
    ///
    /// # Errors
    /// Says what is missing.
    fn available(&self, class: &str) -> impl Future<Output = Result<(), Inactive>> + Send;

    /// Creates a request whose templates are there; `owner` is the owner reference of one of them.
    ///
    /// # Errors
    /// The API server's; [`CreateError::OwnedByAnother`] if another object has the name.
    fn create(
        &self,
        plan: &Plan,
        owner: &Value,
    ) -> impl Future<Output = Result<CreateOutcome, CreateError>> + Send;

    /// Deletes `request`. One that is gone already is deleted.
    ///
    /// # Errors
    /// The API server's.
    fn delete(
        &self,
        request: &CapacityRequest,
    ) -> impl Future<Output = Result<(), kube::Error>> + Send;

    /// The annotations with which pods consume the capacity of `request`.
    fn consume(&self, request: &CapacityRequest) -> Vec<(&'static str, String)>;
}

/// A request that is to be created.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// For whom.
    pub workload: Owner,
    /// What is written on it.
    pub mark: RequestAnnotations,
    /// Who is to provision.
    pub class: String,
    /// The class's parameters.
    pub parameters: BTreeMap<String, String>,
    /// For what.
    pub pods: Vec<Pods>,
}

/// The Workload.
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
    /// The owner reference of what belongs to the Workload.
    pub fn reference(&self) -> Value {
        owner_reference(&self.api_version, "Workload", &self.name, &self.uid)
    }
}

/// Some pods alike.
#[derive(Clone, Debug)]
pub struct Pods {
    /// The PodTemplate's name.
    pub template_name: String,
    /// The pods' template.
    pub template: Value,
    /// How many.
    pub count: u64,
}

/// What became of a create.
#[derive(Clone, Debug)]
pub enum CreateOutcome {
    /// It was created.
    New(CapacityRequest),
    /// It was there: an earlier answer was lost, or was not seen yet.
    AlreadyExists(CapacityRequest),
}

/// Why a request or a template was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The API server's answer.
    #[error("{}", brief(.0))]
    Api(#[from] kube::Error),
    /// Another object has the name.
    #[error("{kind} \"{name}\" already exists and belongs to somebody else")]
    OwnedByAnother {
        /// The kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// An earlier object of the name is still being deleted.
    #[error("{kind} \"{name}\" is being deleted")]
    Going {
        /// The kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

/// What the API server said, without what kube adds.
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

fn owner_reference(api_version: &str, kind: &str, name: &str, uid: &Uid) -> Value {
    serde_json::json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid.to_string(), "controller": true, "blockOwnerDeletion": true,
    })
}

/// UID and name of the Workload that controls an object.
fn owner(metadata: &kube::core::ObjectMeta) -> Option<(Uid, &str)> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| {
        owner.kind == "Workload"
            && owner.api_version.starts_with("kueue.x-k8s.io/")
            && owner.controller == Some(true)
    })?;
    Some((Uid::new(&owner.uid), &owner.name))
}

/// The label that Kueue, and this check, put on what they create.
const MANAGED: (&str, &str) = ("kueue.x-k8s.io/managed", "true");

/// The annotations that say for which AdmissionCheck a request or a template was made, and its
/// number.
const CHECK: &str = "provisioning.kueue-check.dev/admission-check";
const ATTEMPT: &str = "provisioning.kueue-check.dev/attempt";

/// A resource of which only what is decided on is decoded, whatever shape the rest has.
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
