//! The check's parameters: Kueue's own ProvisioningRequestConfig, as stored.

mod options;
mod retry;

use std::collections::BTreeMap;

use kueue_check::{CustomResourceDefinition, Parameters, ParametersKind};
use serde::Deserialize;

pub use options::{AfterFailure, BackoffFrom, Limit, OnFailedAfterAdmission, Options, PREFIX};
pub use retry::RetryStrategy;

/// The prefix of Workload annotations that are parameters of the request:
/// `provreq.kueue.x-k8s.io/NAME`.
pub const PARAMETER_ANNOTATIONS: &str = "provreq.kueue.x-k8s.io/";

/// A ProvisioningRequestConfig (cluster-scoped, `kueue.x-k8s.io`, v1beta2 or v1beta1, which differ
/// only in their validation).
#[derive(Clone, Debug, PartialEq)]
pub struct ProvisioningRequestConfig {
    /// The fields that Kueue defines.
    pub spec: Spec,
    /// The options that this check adds, in annotations.
    pub options: Options,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The provisioning class: free text that an autoscaler handles.
    pub provisioning_class_name: String,
    /// Parameters of the class.
    #[serde(default, deserialize_with = "null_is_default")]
    pub parameters: BTreeMap<String, String>,
    /// The resources for which capacity is requested. None: all.
    #[serde(default, deserialize_with = "null_is_default")]
    pub managed_resources: Vec<String>,
    /// The retries after a failure.
    #[serde(default, deserialize_with = "null_is_default")]
    pub retry_strategy: RetryStrategy,
    /// The pod set updates besides the annotations that consume the capacity.
    #[serde(default, deserialize_with = "null_is_default")]
    pub pod_set_updates: PodSetUpdateRules,
    /// The pod sets that are requested as one. None: each by itself.
    #[serde(default)]
    pub pod_set_merge_policy: Option<MergePolicy>,
}

/// `spec.podSetUpdates`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSetUpdateRules {
    /// Node selectors whose values the autoscaler reports.
    #[serde(default, deserialize_with = "null_is_default")]
    pub node_selector: Vec<NodeSelectorRule>,
}

/// A node selector whose value is a detail of the provisioned request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRule {
    /// The node label.
    pub key: String,
    /// The key in `status.provisioningClassDetails`. If it is missing, the selector is left out.
    pub value_from_provisioning_class_detail: String,
}

/// Which pod sets count as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum MergePolicy {
    /// Those whose whole templates are equal.
    IdenticalPodTemplates,
    /// Those that the scheduler treats alike: requests, node selectors, tolerations, affinity,
    /// resource claims.
    IdenticalWorkloadSchedulingRequirements,
}

impl ProvisioningRequestConfig {
    /// Returns the parameters of a request: those of the config, overridden by the Workload's
    /// annotations.
    pub fn effective_parameters<'a>(
        &self,
        annotations: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> BTreeMap<String, String> {
        let own = annotations.filter_map(|(key, value)| {
            let name = key.strip_prefix(PARAMETER_ANNOTATIONS)?;
            Some((name.to_owned(), value.to_owned()))
        });
        let mut parameters = self.spec.parameters.clone();
        parameters.extend(own);
        parameters
    }
}

impl Parameters for ProvisioningRequestConfig {
    fn kind() -> Option<ParametersKind> {
        Some(ParametersKind {
            group: "kueue.x-k8s.io".to_owned(),
            kind: "ProvisioningRequestConfig".to_owned(),
            plural: "provisioningrequestconfigs".to_owned(),
            versions: vec!["v1beta2".to_owned(), "v1beta1".to_owned()],
        })
    }

    fn decode(object: serde_json::Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Stored {
            spec: Spec,
            #[serde(default)]
            metadata: Metadata,
        }
        #[derive(Default, Deserialize)]
        struct Metadata {
            #[serde(default, deserialize_with = "null_is_default")]
            annotations: BTreeMap<String, String>,
        }
        let stored: Stored = ParametersKind::decode(object)?;
        let options = Options::read(&stored.metadata.annotations)?;
        Ok(Self {
            spec: stored.spec,
            options,
        })
    }

    fn validate(&self) -> Result<(), String> {
        self.spec.retry_strategy.validate()
    }

    /// Returns the definition of Kueue 0.19.2, without descriptions (`cargo xtask crds`).
    fn defined_elsewhere() -> Option<CustomResourceDefinition> {
        serde_json::from_str(include_str!("definition.json")).ok()
    }
}

/// Decodes `null` as the default. Go writes `null` for an empty list or map.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
