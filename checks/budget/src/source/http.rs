//! HTTP as a source needs it: one question, one bounded answer, no redirects, and credentials from
//! files only.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Credentials, SourceError, brief};

/// The largest answer that is read: 20,000 namespaces take less.
const LARGEST: usize = 4 * 1024 * 1024;
/// How many answers are in memory at once.
const AT_ONCE: usize = 4;
/// How long a question may take in all, unless it is said otherwise.
const DEADLINE: Duration = Duration::from_secs(30);

/// Asks over HTTP. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Http {
    credentials: Arc<Credentials>,
    deadline: Duration,
    room: Arc<Semaphore>,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Until it is dropped, the answer takes room.
    _room: Option<OwnedSemaphorePermit>,
}

impl HttpResponse {
    #[cfg(test)]
    pub(crate) fn new(status: StatusCode, headers: HeaderMap, body: &str) -> Self {
        Self {
            status,
            headers,
            body: body.into(),
            _room: None,
        }
    }
}

/// One question.
pub(crate) struct HttpRequest<'a> {
    /// What is asked, in a word for errors.
    pub(crate) who: &'static str,
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: String,
    pub(crate) ca_file: Option<&'a str>,
}

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

impl Http {
    /// With `credentials`.
    pub fn new(credentials: Credentials) -> Self {
        Self {
            credentials: Arc::new(credentials),
            deadline: DEADLINE,
            room: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// How long a question may take in all. Default: 30 seconds.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Asks, and reads the whole answer. Redirects are not followed: credentials would follow them.
    pub(crate) async fn send(&self, ask: HttpRequest<'_>) -> Result<HttpResponse, SourceError> {
        let who = ask.who;
        match tokio::time::timeout(self.deadline, self.send_with_retries(ask)).await {
            Ok(reply) => reply,
            Err(_) => Err(SourceError::TimedOut(who, self.deadline)),
        }
    }

    async fn send_with_retries(&self, ask: HttpRequest<'_>) -> Result<HttpResponse, SourceError> {
        let who = ask.who;
        let unreachable = |problem: String| SourceError::Unreachable(who, brief(&problem));
        let uri: http::Uri = ask
            .url
            .parse()
            .map_err(|_| unreachable("its URL makes no sense".to_owned()))?;
        self.credentials.allow_request(&uri).map_err(unreachable)?;
        // Nothing secret leaves for another server than the one that it was read for.
        if ask.headers.iter().any(|(_, value)| value.is_sensitive()) {
            self.credentials
                .allow_sending(&uri)
                .map_err(SourceError::Credentials)?;
        }
        let mut request = Request::builder().method(ask.method).uri(uri);
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::from(ask.body))
            .map_err(|error| unreachable(error.to_string()))?;
        let client = self.client(ask.ca_file).await?;
        let response = client
            .request(request)
            .await
            .map_err(|error| unreachable(chain(&error)))?;
        let (head, body) = response.into_parts();
        if head.headers.contains_key(http::header::CONTENT_ENCODING) {
            return Err(SourceError::BadResponse(
                who,
                "it is compressed, which was not asked for".to_owned(),
            ));
        }
        let room = Arc::clone(&self.room).acquire_owned().await.ok();
        Ok(HttpResponse {
            status: head.status,
            headers: head.headers,
            body: whole(body).await.map_err(|problem| {
                let problem = format!("its body cannot be read: {problem}");
                SourceError::BadResponse(who, brief(&problem))
            })?,
            _room: room,
        })
    }

    /// A client for one question: once a minute, nothing is gained by keeping a connection.
    async fn client(&self, ca_file: Option<&str>) -> Result<HttpsClient, SourceError> {
        let builder = HttpsConnectorBuilder::new();
        let builder = match ca_file {
            None => builder
                .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
                .map_err(|error| {
                    SourceError::Credentials(format!("the system's certificates: {error}"))
                })?,
            Some(file) => builder.with_tls_config(trusting(&self.authorities(file).await?)?),
        };
        let connector = builder.https_or_http().enable_http1().build();
        Ok(Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector))
    }

    async fn authorities(&self, file: &str) -> Result<Vec<u8>, SourceError> {
        let refuse = |problem: String| SourceError::Credentials(format!("{file}: {problem}"));
        let path = self
            .credentials
            .local(Path::new(file))
            .await
            .map_err(refuse)?;
        tokio::fs::read(path)
            .await
            .map_err(|error| refuse(error.kind().to_string()))
    }
}

/// All of `body`, in one piece of memory.
async fn whole(mut body: Incoming) -> Result<Vec<u8>, String> {
    let too_large = || format!("it is larger than {} MiB", LARGEST >> 20);
    let expected = body.size_hint().exact().unwrap_or_default();
    let expected = usize::try_from(expected).unwrap_or(usize::MAX);
    if expected > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > LARGEST {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn trusting(pem: &[u8]) -> Result<ClientConfig, SourceError> {
    let refuse = |problem: &dyn std::fmt::Display| {
        SourceError::Credentials(format!("the certificates of caFile: {problem}"))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| refuse(&error))?;
        roots.add(certificate).map_err(|error| refuse(&error))?;
    }
    if roots.is_empty() {
        return Err(refuse(&"there is none"));
    }
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(&error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// An error with its causes; the outermost alone says only that something failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// A header whose value is not shown by `Debug`.
pub(crate) fn secret_header(
    name: HeaderName,
    value: &str,
) -> Result<(HeaderName, HeaderValue), SourceError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| SourceError::Credentials("they cannot stand in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// What a status means that no API of ours explains: authentication, throttling, outage, and
/// anything that is no answer.
pub(crate) fn check_status(who: &'static str, reply: &HttpResponse) -> Result<(), SourceError> {
    let text = || {
        brief(&String::from_utf8_lossy(
            &reply.body[..reply.body.len().min(1024)],
        ))
    };
    let status = reply.status;
    match status.as_u16() {
        200 => Ok(()),
        401 | 403 => Err(SourceError::Unauthorized(who, status.as_u16())),
        429 => Err(SourceError::Throttled(
            who,
            pause(&reply.headers).unwrap_or(Duration::from_secs(60)),
        )),
        503 if pause(&reply.headers).is_some() => Err(SourceError::Throttled(
            who,
            pause(&reply.headers).unwrap_or_default(),
        )),
        500..=599 => Err(SourceError::Unavailable(who, status.as_u16(), text())),
        300..=399 => Err(SourceError::BadResponse(
            who,
            format!("it redirects ({}), which is not followed", status.as_u16()),
        )),
        _ => Err(SourceError::BadResponse(
            who,
            format!("{} {}", status.as_u16(), text()),
        )),
    }
}

/// The pause that an answer asks for.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |name: &str| {
        headers
            .get(name)?
            .to_str()
            .ok()?
            .trim()
            .parse()
            .ok()
            .map(Duration::from_secs)
    };
    seconds("retry-after").or_else(|| seconds("x-ratelimit-reset"))
}
