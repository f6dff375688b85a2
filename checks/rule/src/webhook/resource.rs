//! The custom resource `WebhookCheck`, to which an AdmissionCheck refers.

use std::time::Duration;

use kube::CustomResource;
use kueue_check::{HumanDuration, Parameters, Policy};
use kueue_check_sources::{Auth, Origin, PrometheusServer};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds::within;

/// The largest number of Workloads in one request.
pub const MAX_ITEMS: u32 = 500;
/// The default number of reviews in a minute, if a request may have several Workloads.
const REQUESTS_PER_MINUTE: u32 = 10;
/// The default recheck interval of a Workload whose verdict has none.
const RECHECK: Duration = Duration::from_mins(5);
/// The default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP service that decides when Workloads may start.
#[derive(
    CustomResource, Parameters, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "kueue-check.dev",
    version = "v1alpha1",
    kind = "WebhookCheck",
    derive = "PartialEq",
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.url"}"#,
    printcolumn = r#"{"name":"Batch","type":"integer","jsonPath":".spec.batch.maxItems"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[parameters(validate = WebhookCheckSpec::check)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.heldPath) || has(self.releasePath)", "message": "heldPath needs releasePath: what is held is released by it"}
]))]
pub struct WebhookCheckSpec {
    /// Where Workloads are reviewed: the URL to which an `AdmissionCheckReview` is posted. The deployment of the check must allow its server.
    #[schemars(length(min = 8, max = 1024), regex(pattern = r"^https?://[^@?#\s]+$"))]
    pub url: String,
    /// Several Workloads in one request. Default: one in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// The path, on the same server, of the call that allocates for a Workload which the service called Ready. It is called before Ready is written. Default: no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^/[^?#\s]*$"))]
    pub activate_path: Option<String>,
    /// The path, on the same server, of the call for each reservation that is over. It is repeated until the service returns 2xx, 404 or 410. Default: no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^/[^?#\s]*$"))]
    pub release_path: Option<String>,
    /// The path, on the same server, that lists the reservations for which something is allocated, so that those that ended while no check ran are released. Default: no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^/[^?#\s]*$"))]
    pub held_path: Option<String>,
    /// How long a request may take, from 100ms to 1m. Default: 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<HumanDuration>,
    /// How soon a Workload is reviewed again whose result sets no delay, from 10s to 1d. Default: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck_after: Option<HumanDuration>,
    /// How to authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// A file with the certificates of the authorities to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub ca_file: Option<String>,
    /// The certificate by which the check authenticates in TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<ClientCertificateFiles>,
    /// A file with a key of at least 16 characters, by which each request is signed (HMAC-SHA256, header `Kueue-Check-Signature`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub signing_key_file: Option<String>,
    /// Sent to the service with each request: free-form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub config: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(flatten)]
    policy: Policy,
}

/// Several Workloads in one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// How many at most, from 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    pub max_items: u32,
    /// How many reviews are sent in any minute at most, from 2 to 6000: half of them at once, the others evenly. Default: 10; no limit if `maxItems` is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 6000))]
    pub requests_per_minute: Option<u32>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificateFiles {
    /// A file with the certificate, and the intermediate ones, in PEM.
    #[schemars(length(min = 1, max = 1024))]
    pub certificate_file: String,
    /// A file with the private key, in PEM.
    #[schemars(length(min = 1, max = 1024))]
    pub key_file: String,
}

fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "description": "Sent to the service with each request: free-form.",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

impl WebhookCheckSpec {
    /// Creates a check with a service at `url` and defaults.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            batch: None,
            activate_path: None,
            release_path: None,
            held_path: None,
            timeout: None,
            recheck_after: None,
            auth: None,
            ca_file: None,
            client_certificate: None,
            signing_key_file: None,
            config: None,
            policy: Policy::default(),
        }
    }

    /// Validates what a schema cannot express.
    fn check(&self) -> Result<(), String> {
        PrometheusServer::validate_url(&self.url)
            .map_err(|problem| format!("`spec.url`: {problem}"))?;
        let paths = [
            ("activatePath", &self.activate_path),
            ("releasePath", &self.release_path),
            ("heldPath", &self.held_path),
        ];
        for (field, path) in paths {
            if let Some(path) = path {
                let uri = path.parse::<http::uri::PathAndQuery>();
                if !path.starts_with('/') || uri.is_err() {
                    return Err(format!("`spec.{field}`: `{path}` is not a path"));
                }
            }
        }
        within(
            "timeout",
            self.timeout,
            Duration::from_millis(100),
            Duration::from_mins(1),
        )?;
        within(
            "recheckAfter",
            self.recheck_after,
            Duration::from_secs(10),
            Duration::from_hours(24),
        )?;
        if self.held_path.is_some() && self.release_path.is_none() {
            return Err(
                "`spec.heldPath` needs `spec.releasePath`: what is held is released by it"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Returns the maximum number of Workloads in one request.
    pub(crate) fn max_items(&self) -> usize {
        let items = self.batch.as_ref().map_or(1, |batch| batch.max_items);
        usize::try_from(items.clamp(1, MAX_ITEMS)).unwrap_or(1)
    }

    /// Returns the maximum number of reviews in a minute, if there is any.
    pub(crate) fn requests_per_minute(&self) -> Option<u32> {
        let batch = self.batch.as_ref()?;
        let default = (batch.max_items > 1).then_some(REQUESTS_PER_MINUTE);
        let requests = batch.requests_per_minute.or(default)?;
        Some(requests.clamp(2, 6000))
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.map_or(TIMEOUT, Duration::from)
    }

    pub(crate) fn recheck_after(&self) -> Duration {
        self.recheck_after.map_or(RECHECK, Duration::from)
    }

    /// Returns true if credentials are sent.
    pub(crate) fn has_credentials(&self) -> bool {
        self.auth.is_some() || self.signing_key_file.is_some() || self.client_certificate.is_some()
    }

    /// Returns the server.
    pub(crate) fn origin(&self) -> Result<Origin, String> {
        let uri: http::Uri = self
            .url
            .parse()
            .map_err(|_| "its URL is invalid".to_owned())?;
        Origin::of(&uri)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_limit_of_reviews_applies_to_requests_with_one_workload_too() {
        for (batch, expected) in [
            (json!(null), None),
            (json!({"maxItems": 1}), None),
            (json!({"maxItems": 1, "requestsPerMinute": 30}), Some(30)),
            (json!({"maxItems": 2}), Some(10)),
            (json!({"maxItems": 2, "requestsPerMinute": 1}), Some(2)),
        ] {
            let mut spec = WebhookCheckSpec::new("https://a");
            spec.batch = serde_json::from_value(batch).unwrap();
            assert_eq!(spec.requests_per_minute(), expected);
        }
    }

    #[test]
    fn what_the_schema_cannot_express_is_reported_with_the_field() {
        for (patch, expected) in [
            (json!({}), None),
            (
                json!({"batch": {"maxItems": 500}, "timeout": "1m", "recheckAfter": "1d"}),
                None,
            ),
            (
                json!({"activatePath": "/a", "releasePath": "/r", "heldPath": "/h"}),
                None,
            ),
            (
                json!({"url": "ftp://a"}),
                Some("`spec.url`: expected http or https"),
            ),
            (
                json!({"url": "https://u@a"}),
                Some("neither a user nor a query"),
            ),
            (
                json!({"url": "https://a?q"}),
                Some("neither a user nor a query"),
            ),
            (
                json!({"releasePath": "release"}),
                Some("`spec.releasePath`: `release` is not a path"),
            ),
            (
                json!({"timeout": "61s"}),
                Some("`spec.timeout` must be from 100ms to 1m"),
            ),
            (
                json!({"recheckAfter": "9s"}),
                Some("`spec.recheckAfter` must be from 10s to 1d"),
            ),
            (
                json!({"heldPath": "/h"}),
                Some("`spec.heldPath` needs `spec.releasePath`"),
            ),
        ] {
            let mut spec = json!({"url": "https://a.example/review"});
            for (key, value) in patch.as_object().unwrap() {
                spec[key] = value.clone();
            }
            let object = json!({"apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "w"}, "spec": spec});
            let result = WebhookCheck::decode(object).unwrap().validate();
            match expected {
                None => assert_eq!(result, Ok(()), "{patch}"),
                Some(part) => assert!(
                    result.clone().unwrap_err().contains(part),
                    "{patch}: {result:?}"
                ),
            }
        }
    }
}
