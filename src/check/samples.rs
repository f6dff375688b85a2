//! A check, and parameters of two kinds, for tests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::builder::call;
use super::{Check, Parameters, ParametersKind, Verdict};

/// Returns a check without a configuration, to which every Workload is Ready.
pub(crate) fn check<P: Parameters>(name: &str) -> Check<P> {
    let ready = call(|_| async { Ok(Verdict::ready("ok")) });
    Check::evaluating(name.parse().unwrap(), ready)
}

/// Parameters, with their name.
pub(crate) struct Limit(pub(crate) String);
/// Parameters of another kind.
pub(crate) struct Quota;

pub(crate) fn kind(kind: &str) -> ParametersKind {
    ParametersKind {
        group: "example.com".into(),
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()),
        versions: vec!["v1".into()],
    }
}

fn definition(plural: &str) -> CustomResourceDefinition {
    let mut definition = CustomResourceDefinition::default();
    definition.metadata.name = Some(format!("{plural}.example.com"));
    definition
}

impl Parameters for Limit {
    fn kind() -> Option<ParametersKind> {
        Some(kind("Limit"))
    }

    fn decode(object: serde_json::Value) -> Result<Self, String> {
        Ok(Self(object["metadata"]["name"].to_string()))
    }

    fn custom_resource_definition() -> Option<CustomResourceDefinition> {
        Some(definition("limits"))
    }
}

impl Parameters for Quota {
    fn kind() -> Option<ParametersKind> {
        Some(kind("Quota"))
    }

    fn decode(_: serde_json::Value) -> Result<Self, String> {
        Ok(Self)
    }

    fn custom_resource_definition() -> Option<CustomResourceDefinition> {
        Some(definition("quotas"))
    }
}
