//! The metadata that all slim objects share, and their place in the API.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::Lenient;

/// The part of `metadata` that is decoded. `managedFields` is skipped without being built.
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
    labels: Lenient<Texts>,
    #[serde(default)]
    annotations: Lenient<Texts>,
    #[serde(default)]
    owner_references: Lenient<Vec<Lenient<SlimOwner>>>,
}

/// Texts by key. A value that is not a text is left out.
type Texts = BTreeMap<String, Lenient<Option<String>>>;

/// Returns the texts among `all`.
pub(crate) fn texts(all: Texts) -> BTreeMap<String, String> {
    let texts = all.into_iter();
    texts
        .filter_map(|(key, text)| text.0.map(|text| (key, text)))
        .collect()
}

/// An owner in which each field of another shape is absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimOwner {
    api_version: Lenient<String>,
    kind: Lenient<String>,
    name: Lenient<String>,
    uid: Lenient<String>,
    controller: Lenient<Option<bool>>,
}

impl From<SlimOwner> for OwnerReference {
    fn from(owner: SlimOwner) -> Self {
        Self {
            api_version: owner.api_version.0,
            kind: owner.kind.0,
            name: owner.name.0,
            uid: owner.uid.0,
            controller: owner.controller.0,
            block_owner_deletion: None,
        }
    }
}

impl SlimMeta {
    /// Decodes a `metadata` field (`#[serde(deserialize_with)]`), which kube needs as an
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
            labels: Some(texts(meta.labels.0)).filter(|labels| !labels.is_empty()),
            annotations: Some(texts(meta.annotations.0))
                .filter(|annotations| !annotations.is_empty()),
            owner_references: Some(meta.owner_references.0)
                .filter(|owners| !owners.is_empty())
                .map(|owners| owners.into_iter().map(|owner| owner.0.into()).collect()),
            ..ObjectMeta::default()
        })
    }
}

/// Implements `kube::Resource` for a slim object of Kueue, whose version is found only by
/// discovery.
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
