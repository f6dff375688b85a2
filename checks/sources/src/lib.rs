//! Data sources of the shipped admission checks: HTTP with bounded responses, and Prometheus.
//!
//! A user who may edit the parameters of a check chooses a URL and a file with credentials. The
//! deployment of the check decides by a [`ServerPolicy`] which servers may be queried and which
//! files may be sent to them.
//!
//! | module | contents |
//! | --- | --- |
//! | [`servers`] | which servers may be queried, and which files may be sent to them |
//! | [`http`] | one request, one bounded response, no redirects |
//! | [`auth`] | bearer tokens, and users with passwords, from files |
//! | [`prometheus`] | instant queries, whose samples are read one after another |
//! | [`error`] | why a source returns no usable response |

pub mod auth;
pub mod error;
pub mod http;
pub mod prometheus;
mod samples;
pub mod servers;

pub use auth::{Auth, BasicAuth};
pub use error::{SourceError, brief};
pub use http::{ClientCertificate, Http, HttpRequest, HttpResponse, check_status, secret_header};
pub use prometheus::{PrometheusClient, PrometheusServer};
pub use samples::{LabeledSample, Sample, at_most};
pub use servers::{AllowedServer, Origin, ServerPolicy, Unlisted};
