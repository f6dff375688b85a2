//! Parameters of two kinds, for tests.

use super::{Parameters, ParametersKind};

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

impl Parameters for Limit {
    fn kind() -> Option<ParametersKind> {
        Some(kind("Limit"))
    }

    fn decode(object: serde_json::Value) -> Result<Self, String> {
        Ok(Self(object["metadata"]["name"].to_string()))
    }
}

impl Parameters for Quota {
    fn kind() -> Option<ParametersKind> {
        Some(kind("Quota"))
    }

    fn decode(_: serde_json::Value) -> Result<Self, String> {
        Ok(Self)
    }
}
