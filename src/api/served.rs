//! Discovery: which versions and fields of Kueue's API the cluster serves.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::Request;
use kube::Client;
use serde::{Deserialize, Serialize};

use super::{GROUP, Lenient};

/// A version of Kueue's API that this SDK supports.
///
/// ```
/// use kueue_check::api::ApiVersion;
///
/// assert_eq!(ApiVersion::default().group_version(), "kueue.x-k8s.io/v1beta2");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiVersion {
    /// `v1beta1`: the only one of Kueue ≤ 0.14, deprecated since.
    V1beta1,
    /// `v1beta2`: Kueue ≥ 0.15.
    #[default]
    V1beta2,
}

impl ApiVersion {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1beta1 => "v1beta1",
            Self::V1beta2 => "v1beta2",
        }
    }

    /// Returns group and version, as in `apiVersion`.
    pub fn group_version(self) -> String {
        format!("{GROUP}/{}", self.as_str())
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The served API: what the cluster serves, read from its schema at start. Shown in `/diagnostics`.
///
/// ```
/// use kueue_check::api::{ApiVersion, ServedApi};
///
/// let old = ServedApi::fallback(ApiVersion::V1beta1);
/// assert!(!old.requeue_after, "Kueue 0.14 has no requeueAfterSeconds: the SDK waits itself");
/// assert!(!ServedApi::fallback(ApiVersion::V1beta2).preemption_required, "no released Kueue accepts it");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServedApi {
    /// The version used.
    pub version: ApiVersion,
    /// Whether the state PreemptionRequired is accepted (KEP-993; no released Kueue accepts it).
    /// Otherwise the runtime writes Pending with the reason.
    pub preemption_required: bool,
    /// Whether Workloads can be selected by `status.admission.clusterQueue` (Kueue ≥ 0.18), so that
    /// the API server never sends those without quota.
    pub selects_reserved: bool,
    /// Whether entries have `requeueAfterSeconds` (Kueue ≥ 0.15). Otherwise a Retry evicts at once,
    /// and the runtime waits for its delay.
    pub requeue_after: bool,
}

impl ServedApi {
    /// Returns what a version serves if its schema cannot be read: every field that the version
    /// always had. The runtime tries the selector, and stops using it if the API server rejects it.
    pub fn fallback(version: ApiVersion) -> Self {
        let current = version == ApiVersion::V1beta2;
        Self {
            version,
            preemption_required: false,
            selects_reserved: current,
            requeue_after: current,
        }
    }
}

/// Why discovery failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    #[error("Kueue is not installed: the API server does not serve the group {GROUP}")]
    NotInstalled,
    #[error(
        "the API server serves {GROUP} in {served:?}, but this build supports v1beta2 and v1beta1 only"
    )]
    OtherVersions { served: Vec<String> },
    #[error("cannot read which versions of {GROUP} the API server serves: {0}")]
    Client(#[source] Box<kube::Error>),
}

/// The number of requests for a schema that is not published yet, and the delay between them: a new
/// CRD is served a moment before its schema is.
const SCHEMA_TRIES: u32 = 10;
const SCHEMA_PAUSE: Duration = Duration::from_millis(500);

/// The result of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probed {
    pub(crate) served: ServedApi,
    /// Whether the schema was read; otherwise it is what the version always had.
    pub(crate) certain: bool,
}

/// Discovers what the cluster serves. Two requests, once the schema is published.
pub(crate) async fn discover(client: &Client) -> Result<Probed, DiscoveryError> {
    let assumed = |version| Probed {
        served: ServedApi::fallback(version),
        certain: false,
    };
    let version = newest_version(client).await?;
    for _ in 0..SCHEMA_TRIES {
        match read_schema(client, version).await {
            Ok(Some(served)) => {
                return Ok(Probed {
                    served,
                    certain: true,
                });
            }
            Ok(None) => tokio::time::sleep(SCHEMA_PAUSE).await,
            Err(error) => {
                tracing::warn!(%error, "the schema of {} cannot be read; assuming what the version always had", version.group_version());
                return Ok(assumed(version));
            }
        }
    }
    tracing::warn!(
        "the API server publishes no schema of Workload in {}; assuming what the version always had",
        version.group_version()
    );
    Ok(assumed(version))
}

async fn newest_version(client: &Client) -> Result<ApiVersion, DiscoveryError> {
    let served = match served_versions(client, GROUP).await {
        Ok(served) => served,
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(DiscoveryError::NotInstalled);
        }
        Err(error) => return Err(DiscoveryError::Client(Box::new(error))),
    };
    let known = [ApiVersion::V1beta2, ApiVersion::V1beta1];
    let newest = known
        .into_iter()
        .find(|known| served.iter().any(|version| version == known.as_str()));
    newest.ok_or(DiscoveryError::OtherVersions { served })
}

/// Returns the versions of `group` that the API server serves.
pub(crate) async fn served_versions(client: &Client, group: &str) -> kube::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Group {
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let group: Group = get(client, &format!("/apis/{group}")).await?;
    let versions = group.versions.into_iter();
    Ok(versions.map(|version| version.version).collect())
}

async fn read_schema(
    client: &Client,
    version: ApiVersion,
) -> Result<Option<ServedApi>, kube::Error> {
    match get::<Document>(client, &format!("/openapi/v3/apis/{GROUP}/{version}")).await {
        Ok(document) => Ok(document.served(version)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

async fn get<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
) -> Result<T, kube::Error> {
    client
        .request(
            Request::get(path)
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?,
        )
        .await
}

/// The few needed parts of an OpenAPI document; the rest, over a megabyte, is skipped without being
/// built.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    components: Lenient<Components>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Components {
    schemas: Lenient<BTreeMap<String, Lenient<ObjectSchema>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectSchema {
    properties: Lenient<ObjectProperties>,
    #[serde(rename = "x-kubernetes-selectable-fields")]
    selectable: Lenient<Vec<Lenient<SelectableField>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectableField {
    field_path: Lenient<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectProperties {
    status: Lenient<StatusSchema>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusSchema {
    properties: Lenient<StatusProperties>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusProperties {
    admission_checks: Lenient<Option<ListSchema>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListSchema {
    items: Lenient<EntrySchema>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EntrySchema {
    properties: Lenient<EntryProperties>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EntryProperties {
    state: Lenient<StateSchema>,
    requeue_after_seconds: Lenient<Option<Present>>,
}

#[derive(Default, Deserialize)]
struct Present {}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StateSchema {
    r#enum: Lenient<Vec<Lenient<String>>>,
}

impl Document {
    fn served(self, version: ApiVersion) -> Option<ServedApi> {
        let schemas = self.components.0.schemas.0;
        let workload = schemas
            .into_iter()
            .find(|(name, _)| name.ends_with(".Workload"))?
            .1
            .0;
        let entry = workload
            .properties
            .0
            .status
            .0
            .properties
            .0
            .admission_checks
            .0?
            .items
            .0
            .properties
            .0;
        Some(ServedApi {
            version,
            preemption_required: entry
                .state
                .0
                .r#enum
                .0
                .iter()
                .any(|state| state.0 == "PreemptionRequired"),
            selects_reserved: workload.selectable.0.iter().any(|field| {
                field.0.field_path.0.trim_start_matches('.') == "status.admission.clusterQueue"
            }),
            requeue_after: entry.requeue_after_seconds.0.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(
        states: &[&str],
        requeue: bool,
        selectable: &serde_json::Value,
    ) -> serde_json::Value {
        let mut entry = json!({"state": {"type": "string", "enum": states}});
        if requeue {
            entry["requeueAfterSeconds"] = json!({"type": "integer"});
        }
        json!({"components": {"schemas": {
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string"},
            "sh.x-k8s.kueue.v1beta2.Workload": {
                "properties": {"status": {"properties": {"admissionChecks": {"type": "array", "items": {"properties": entry}}}}},
                "x-kubernetes-selectable-fields": selectable,
            },
        }}})
    }

    fn served(document: serde_json::Value) -> Option<ServedApi> {
        serde_json::from_value::<Document>(document)
            .unwrap()
            .served(ApiVersion::V1beta2)
    }

    #[test]
    fn the_schema_determines_what_is_served() {
        let plain = ["Pending", "Ready", "Retry", "Rejected"];
        let extended = [
            "Pending",
            "Ready",
            "Retry",
            "Rejected",
            "PreemptionRequired",
        ];
        let selectable = json!([{"fieldPath": "status.admission.clusterQueue"}]);
        let expect = |preemption_required, selects_reserved, requeue_after| {
            Some(ServedApi {
                version: ApiVersion::V1beta2,
                preemption_required,
                selects_reserved,
                requeue_after,
            })
        };
        assert_eq!(
            served(document(&plain, true, &selectable)),
            expect(false, true, true)
        );
        assert_eq!(
            served(document(&extended, true, &selectable)),
            expect(true, true, true)
        );
        assert_eq!(
            served(document(&plain, false, &json!(null))),
            expect(false, false, false)
        );
        assert_eq!(
            served(document(
                &plain,
                true,
                &json!([{"fieldPath": ".spec.queueName"}])
            )),
            expect(false, false, true)
        );
    }

    #[test]
    fn a_document_without_workloads_is_not_published_yet() {
        assert_eq!(served(json!({})), None);
        assert_eq!(
            served(json!({"components": {"schemas": {"a.Workload": {}}}})),
            None
        );
    }
}
