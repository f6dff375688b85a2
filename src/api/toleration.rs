//! A toleration, decoded field by field.

use k8s_openapi::api::core::v1::Toleration;
use serde::{Deserialize, Deserializer};

use super::Lenient;

/// A toleration in which each field of another shape is absent. The decoder of `Toleration` itself
/// fails within a field, and from there no decoder finds the next field.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlimToleration(pub(crate) Toleration);

impl<'de> Deserialize<'de> for SlimToleration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Fields {
            effect: Lenient<Option<String>>,
            key: Lenient<Option<String>>,
            operator: Lenient<Option<String>>,
            toleration_seconds: Lenient<Option<i64>>,
            value: Lenient<Option<String>>,
        }
        let fields = Fields::deserialize(deserializer)?;
        Ok(Self(Toleration {
            effect: fields.effect.0,
            key: fields.key.0,
            operator: fields.operator.0,
            toleration_seconds: fields.toleration_seconds.0,
            value: fields.value.0,
        }))
    }
}
