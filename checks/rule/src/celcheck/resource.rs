//! The custom resource `CELCheck`, to which an AdmissionCheck refers.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Toleration;
use kube::CustomResource;
use kueue_check::{HumanDuration, OnFailure, Parameters, Policy};
use kueue_check_sources::Auth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::memo::Memo;
use super::path::{DocumentPath, LARGEST};

/// The default interval between queries of a data source.
const INTERVAL: Duration = Duration::from_secs(30);
/// The minimum of the default maximum age of a response.
const MAX_AGE: Duration = Duration::from_mins(5);
/// The default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The default recheck interval of a Workload whose rule uses the time.
const RECHECK: Duration = Duration::from_mins(1);

/// Expressions in CEL that decide when Workloads may start.
#[derive(
    CustomResource, Parameters, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "kueue-check.dev",
    version = "v1alpha1",
    kind = "CELCheck",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Rule","type":"string","jsonPath":".spec.ready"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[parameters(validate = CELCheckSpec::check)]
#[serde(rename_all = "camelCase")]
pub struct CELCheckSpec {
    /// When the job may start: an expression that is true or false. While it is false, the Workload is Pending.
    #[schemars(length(min = 1, max = 8192))]
    pub ready: String,
    /// Whether Kueue is to release the quota and requeue the Workload: an expression that is true or false. It takes precedence over `ready`. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8192))]
    pub retry: Option<String>,
    /// After how long Kueue queues a Workload again about which `retry` is true. Default: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<HumanDuration>,
    /// Whether Kueue is to deactivate the Workload: an expression that is true or false. It takes precedence over the others. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8192))]
    pub reject: Option<String>,
    /// What people read while the job does not start: an expression that is a string. Default: the expression that is not met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8192))]
    pub message: Option<String>,
    /// Values with a name, which the other expressions, and later ones of these, use as `variables.NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub variables: Vec<Variable>,
    /// Data of other servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub data: Vec<DataSource>,
    /// What is added to the pods of a job that may start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 18))]
    pub pod_set_updates: Vec<PodSetTemplate>,
    /// When a Workload that waits is evaluated again although nothing changed, from 1s to 1d. Default: 1m if an expression uses `now` or `waited`, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck_after: Option<HumanDuration>,
    #[serde(flatten)]
    policy: Policy,
    /// The compiled rule.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) compiled: Memo,
}

/// A value with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    /// Its name: letters, digits and `_`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$")
    )]
    pub name: String,
    /// Its value: an expression.
    #[schemars(length(min = 1, max = 8192))]
    pub expression: String,
}

/// Data of another server: of `prometheus` or of `http`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.prometheus) != has(self.http)", "message": "a data source is either prometheus or http"}
]))]
pub struct DataSource {
    /// The name by which expressions use it: `prometheus('NAME')`, `http('NAME')`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// A query of a Prometheus server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusQuery>,
    /// A JSON document of an HTTP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpQuery>,
    /// How often it is queried, from 5s to 1d. Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<HumanDuration>,
    /// The maximum age of a response. Without a younger one there is no verdict. Default: three intervals, at least 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<HumanDuration>,
    /// How long a request may take, from 100ms to 1m. Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<HumanDuration>,
    /// The maximum size of a response, in bytes, at most 1048576 (1 MiB). Default: 262144 (256 KiB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_bytes: Option<u32>,
}

/// A query of a Prometheus server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusQuery {
    /// The server's address, without a path of the API. The deployment of the check must allow it.
    #[schemars(length(min = 8, max = 1024), regex(pattern = r"^https?://[^@?#\s]+$"))]
    pub url: String,
    /// An instant query that returns a vector, of at most 1,000 samples.
    #[schemars(length(min = 1, max = 8192))]
    pub query: String,
    /// How to authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// A file with the certificates of the authorities to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub ca_file: Option<String>,
}

/// A JSON document of an HTTP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpQuery {
    /// Its URL, which may have a query. The deployment of the check must allow its server.
    #[schemars(length(min = 8, max = 2048), regex(pattern = r"^https?://[^@#\s]+$"))]
    pub url: String,
    /// The method of the request. Default: POST if it has a body, else GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<HttpMethod>,
    /// The body of the request, as it is written. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8192))]
    pub body: Option<String>,
    /// The body of the request, instead of `body`: an expression that is a string. Of the variables it has `now` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8192))]
    pub body_expression: Option<String>,
    /// The part of the document that expressions see, at most 256 KiB: a JSONPath (RFC 9535) of names, indexes and `*`, such as `$.data[0].price`. A path without `*` gives the value at that place, and an error if there is none; a path with `*` gives a list. Default: the whole document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub json_path: Option<String>,
    /// How to authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// A file with the certificates of the authorities to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub ca_file: Option<String>,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// GET, with a body where one is given.
    Get,
    /// POST.
    Post,
}

/// What is added to pods. Keys are as they are written; values are expressions that are strings, and
/// may use `podSet`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetTemplate {
    /// The pod set. Default: all that no other template names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
    /// Labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Node labels that the pods' nodes must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations to add, as they are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub tolerations: Vec<Toleration>,
}

impl CELCheckSpec {
    /// Creates a rule by which jobs start when `ready` is true.
    pub fn new(ready: &str) -> Self {
        Self {
            ready: ready.to_owned(),
            retry: None,
            retry_after: None,
            reject: None,
            message: None,
            variables: Vec::new(),
            data: Vec::new(),
            pod_set_updates: Vec::new(),
            recheck_after: None,
            policy: Policy::default(),
            compiled: Memo::default(),
        }
    }

    /// Returns the recheck interval of a waiting Workload; `uses_time` is true if its rule uses the
    /// time.
    pub(crate) fn recheck(&self, uses_time: bool) -> Option<Duration> {
        let default = uses_time.then_some(RECHECK);
        self.recheck_after.map(Duration::from).or(default)
    }

    /// Returns true if jobs are evicted for which the rule is no longer met.
    pub(crate) fn stops_jobs(&self) -> bool {
        let after = self.policy.after_admission;
        after.and_then(|after| after.on_failure) == Some(OnFailure::Evict)
    }
}

impl DataSource {
    /// Returns the interval between queries.
    pub(crate) fn interval(&self) -> Duration {
        self.interval.map_or(INTERVAL, Duration::from)
    }

    /// Returns the maximum age of a response.
    pub(crate) fn max_age(&self) -> Duration {
        let default = (3 * self.interval()).max(MAX_AGE);
        self.max_age.map_or(default, Duration::from)
    }

    /// Returns the timeout of a request.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.map_or(TIMEOUT, Duration::from)
    }

    /// Returns the maximum size of a response, in bytes.
    pub(crate) fn max_bytes(&self) -> usize {
        let bytes = self.max_bytes.map(usize::try_from);
        bytes.and_then(Result::ok).unwrap_or(LARGEST)
    }

    /// Returns its URL, and whether credentials are sent there.
    pub(crate) fn server(&self) -> (&str, bool) {
        match (&self.prometheus, &self.http) {
            (Some(query), _) => (&query.url, query.auth.is_some()),
            (_, Some(query)) => (&query.url, query.auth.is_some()),
            _ => ("", false),
        }
    }
}

impl HttpQuery {
    /// Returns its `jsonPath`.
    pub(crate) fn path(&self) -> Result<Option<DocumentPath>, String> {
        self.json_path.as_deref().map(DocumentPath::new).transpose()
    }
}
