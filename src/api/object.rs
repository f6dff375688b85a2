//! What all slim objects share: their metadata and their place in the API.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::Lenient;

/// The part of `metadata` that is read. `managedFields` is passed over without being built.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    #[serde(default)]
    creation_timestamp: Lenient<Option<jiff::Timestamp>>,
    #[serde(default)]
    deletion_timestamp: Lenient<Option<jiff::Timestamp>>,
    #[serde(default)]
    labels: Lenient<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Lenient<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Lenient<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>>,
}

impl SlimMeta {
    /// For `#[serde(deserialize_with)]` on a `metadata` field, which kube needs as an
    /// [`ObjectMeta`].
    pub(crate) fn object_meta<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ObjectMeta, D::Error> {
        let meta = SlimMeta::deserialize(deserializer)?;
        Ok(ObjectMeta {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            creation_timestamp: meta
                .creation_timestamp
                .0
                .map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time),
            deletion_timestamp: meta
                .deletion_timestamp
                .0
                .map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time),
            labels: Some(meta.labels.0).filter(|labels| !labels.is_empty()),
            annotations: Some(meta.annotations.0).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(meta.owner_references.0).filter(|owners| !owners.is_empty()),
            ..ObjectMeta::default()
        })
    }
}

/// Implements `kube::Resource` for a slim object of Kueue, whose version is known only when the
/// cluster has been asked.
macro_rules! slim_resource {
    ($object:ty, $kind:literal, $plural:literal, $scope:ty) => {
        impl kube::Resource for $object {
            type DynamicType = $crate::api::ApiVersion;
            type Scope = $scope;

            fn kind(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                $crate::api::GROUP.into()
            }

            fn version(version: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                version.as_str().into()
            }

            fn plural(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
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
pub(crate) use slim_resource;
