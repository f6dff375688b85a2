//! The transport of requests to a service.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use kueue_check_sources::{
    ClientCertificate, Http, HttpRequest, ServerPolicy, SourceError, secret_header,
};

use super::resource::WebhookCheckSpec;
use super::signature::{SIGNATURE, sign};

/// The name of a service in errors.
pub(crate) const WHO: &str = "the webhook";
/// The maximum size of a response, in bytes.
const LARGEST: usize = 8 * 1024 * 1024;
/// The header with the reservation.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// One request to a service.
#[derive(Clone, Debug)]
pub struct ServiceCall {
    /// The WebhookCheck that it is for.
    pub spec: Arc<WebhookCheckSpec>,
    /// The operation.
    pub operation: Operation,
    /// The body: a document in JSON, or empty.
    pub body: String,
    /// The reservation, for a call that has an effect.
    pub idempotency_key: Option<String>,
    /// When it is sent.
    pub time: Timestamp,
}

/// An operation of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A review.
    Review,
    /// The call that allocates.
    Activate,
    /// The call that releases.
    Release,
    /// The list of held reservations.
    Held,
}

/// The reply of a service.
#[derive(Clone, Debug)]
pub struct ServiceReply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// A transport to services: HTTP, or a stand-in.
pub trait Transport: Send + Sync + 'static {
    /// Sends `call`, and returns the reply, whatever its status is.
    ///
    /// An error is an outage, or a request that may not be sent.
    fn send(&self, call: ServiceCall) -> BoxFuture<'static, Result<ServiceReply, SourceError>>;
}

/// A transport over HTTP.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    http: Http,
}

impl Operation {
    /// Returns its name in metrics and errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Review => "review",
            Self::Activate => "activate",
            Self::Release => "release",
            Self::Held => "held",
        }
    }

    /// Returns its URL, if the WebhookCheck has one.
    pub(crate) fn url(self, spec: &WebhookCheckSpec) -> Option<String> {
        let path = match self {
            Self::Review => return Some(spec.url.clone()),
            Self::Activate => spec.activate_path.as_deref()?,
            Self::Release => spec.release_path.as_deref()?,
            Self::Held => spec.held_path.as_deref()?,
        };
        let uri: http::Uri = spec.url.parse().ok()?;
        let authority = uri.authority()?;
        Some(format!("{}://{authority}{path}", uri.scheme_str()?))
    }
}

impl HttpTransport {
    /// Creates a transport for the servers that the deployment allows.
    pub fn new(servers: ServerPolicy) -> Self {
        Self {
            http: Http::new(servers).largest(LARGEST),
        }
    }

    async fn headers(
        &self,
        call: &ServiceCall,
        url: &str,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, SourceError> {
        let (spec, servers) = (&call.spec, self.http.servers());
        let json = HeaderValue::from_static("application/json");
        let mut headers = vec![(CONTENT_TYPE, json.clone()), (ACCEPT, json)];
        if let Some(auth) = &spec.auth {
            headers.push(auth.header(servers, url).await?);
        }
        if let Some(file) = &spec.signing_key_file {
            let key = servers.read(file, url).await?;
            let signature = sign(&key, call.time.as_second(), &call.body);
            let signature = signature
                .map_err(|problem| SourceError::Credentials(format!("{file}: {problem}")))?;
            headers.push(secret_header(
                HeaderName::from_static(SIGNATURE),
                &signature,
            )?);
        }
        if let Some(key) = &call.idempotency_key {
            let key = HeaderValue::from_str(key);
            let key = key.map_err(|_| {
                SourceError::BadQuery(WHO, "the reservation cannot stand in a header".to_owned())
            })?;
            headers.push((IDEMPOTENCY_KEY, key));
        }
        Ok(headers)
    }

    async fn post(&self, call: ServiceCall) -> Result<ServiceReply, SourceError> {
        let missing = || SourceError::BadQuery(WHO, "the WebhookCheck has no such path".to_owned());
        let url = call.operation.url(&call.spec).ok_or_else(missing)?;
        let headers = self.headers(&call, &url).await?;
        let spec = &call.spec;
        let certificate = spec.client_certificate.as_ref();
        let method = match call.operation {
            Operation::Held => Method::GET,
            _ => Method::POST,
        };
        let http = self.http.clone().deadline(spec.timeout());
        let reply = http
            .send(HttpRequest {
                who: WHO,
                method,
                url: &url,
                headers,
                body: call.body,
                ca_file: spec.ca_file.as_deref(),
                certificate: certificate.map(|files| ClientCertificate {
                    certificate_file: &files.certificate_file,
                    key_file: &files.key_file,
                }),
            })
            .await?;
        Ok(ServiceReply {
            status: reply.status,
            headers: reply.headers,
            body: reply.body,
        })
    }
}

impl Transport for HttpTransport {
    fn send(&self, call: ServiceCall) -> BoxFuture<'static, Result<ServiceReply, SourceError>> {
        let transport = self.clone();
        async move { transport.post(call).await }.boxed()
    }
}
