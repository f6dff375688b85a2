//! An HTTP client for sources: one request, one bounded response, no redirects, and credentials
//! from files only.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{ServerPolicy, SourceError, brief};

/// The default maximum size of a response, in bytes: 20,000 samples take less.
const LARGEST: usize = 4 * 1024 * 1024;
/// The maximum number of responses larger than [`SMALL`] in memory at once.
const AT_ONCE: usize = 4;
/// The maximum size of a response that does not count in [`AT_ONCE`], in bytes. So a server that
/// is slow with a few bytes does not delay the responses of others.
const SMALL: usize = 64 * 1024;
/// The default deadline of a request.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// An HTTP client. Cheap to clone; clones share the limit on responses in memory.
#[derive(Clone, Debug)]
pub struct Http {
    servers: Arc<ServerPolicy>,
    deadline: Duration,
    largest: usize,
    permits: Arc<Semaphore>,
}

/// A response.
#[derive(Debug)]
pub struct HttpResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// All of its body.
    pub body: Vec<u8>,
    /// The permit of a large response to be in memory, released when it is dropped.
    _permit: Option<OwnedSemaphorePermit>,
}

impl HttpResponse {
    /// Creates a response without a server or a permit: for tests.
    pub fn new(status: StatusCode, headers: HeaderMap, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers,
            body: body.into(),
            _permit: None,
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct HttpRequest<'a> {
    /// The name of the queried system, for errors.
    pub who: &'static str,
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: &'a str,
    /// The headers. Those that are sensitive are sent only where credentials may be sent.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: String,
    /// The file with the authorities to trust instead of the system's.
    pub ca_file: Option<&'a str>,
    /// The certificate with which the client authenticates in TLS.
    pub certificate: Option<ClientCertificate<'a>>,
}

/// The files of a certificate by which a client authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCertificate<'a> {
    /// The certificate, and the intermediate ones.
    pub certificate_file: &'a str,
    /// Its private key.
    pub key_file: &'a str,
}

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

impl Http {
    /// Creates a client for the servers that the deployment allows.
    pub fn new(servers: impl Into<ServerPolicy>) -> Self {
        Self {
            servers: Arc::new(servers.into()),
            deadline: DEFAULT_DEADLINE,
            largest: LARGEST,
            permits: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Sets the deadline of a request. Default: 30 s.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the maximum size of a response body, in bytes. Default: 4 MiB.
    #[must_use]
    pub fn largest(mut self, bytes: usize) -> Self {
        self.largest = bytes;
        self
    }

    /// Returns the policy for the servers that may be queried.
    pub fn servers(&self) -> &ServerPolicy {
        &self.servers
    }

    /// Sends `request` and reads the whole response, whatever its status is. Redirects are not
    /// followed, because credentials would follow them.
    ///
    /// # Errors
    /// There is no whole response in time, or the request may not be sent.
    pub async fn send(&self, request: HttpRequest<'_>) -> Result<HttpResponse, SourceError> {
        let who = request.who;
        match tokio::time::timeout(self.deadline, self.send_with_retries(request)).await {
            Ok(reply) => reply,
            Err(_) => Err(SourceError::TimedOut(who, self.deadline)),
        }
    }

    async fn send_with_retries(
        &self,
        request: HttpRequest<'_>,
    ) -> Result<HttpResponse, SourceError> {
        let who = request.who;
        let unreachable = |problem: String| SourceError::Unreachable(who, brief(&problem));
        let uri: http::Uri = request
            .url
            .parse()
            .map_err(|_| unreachable("its URL is invalid".to_owned()))?;
        self.servers.allow_request(&uri).map_err(unreachable)?;
        // A secret is sent only to the server for which it was read.
        if request
            .headers
            .iter()
            .any(|(_, value)| value.is_sensitive())
        {
            self.servers
                .allow_sending(&uri)
                .map_err(SourceError::Credentials)?;
        }
        let identity = match request.certificate {
            None => None,
            Some(files) => Some(self.identity(files, &uri).await?),
        };
        let mut builder = Request::builder().method(request.method).uri(uri);
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        let http_request = builder
            .body(Full::from(request.body))
            .map_err(|error| unreachable(error.to_string()))?;
        let client = self.client(request.ca_file, identity).await?;
        let response = client
            .request(http_request)
            .await
            .map_err(|error| unreachable(chain(&error)))?;
        let (head, body) = response.into_parts();
        if head.headers.contains_key(http::header::CONTENT_ENCODING) {
            return Err(SourceError::BadResponse(
                who,
                "it is compressed, which was not requested".to_owned(),
            ));
        }
        let read = whole(body, self.largest, &self.permits).await;
        let (body, permit) = read.map_err(|problem| {
            let problem = format!("its body cannot be read: {problem}");
            SourceError::BadResponse(who, brief(&problem))
        })?;
        Ok(HttpResponse {
            status: head.status,
            headers: head.headers,
            body,
            _permit: permit,
        })
    }

    /// Creates a client for one request. At one request a minute, keeping a connection has no
    /// benefit.
    async fn client(
        &self,
        ca_file: Option<&str>,
        identity: Option<Identity>,
    ) -> Result<HttpsClient, SourceError> {
        let builder = HttpsConnectorBuilder::new();
        let builder = match (ca_file, identity) {
            (None, None) => builder
                .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
                .map_err(|error| {
                    SourceError::Credentials(format!("the system's certificates: {error}"))
                })?,
            (None, Some(identity)) => {
                let with_roots = ConfigBuilderExt::with_native_roots(versions()?)
                    .map_err(|error| refuse("the system's certificates", &error))?;
                builder.with_tls_config(identity.authenticate(with_roots)?)
            }
            (Some(file), identity) => {
                let roots = authorities(&self.authorities(file).await?)?;
                let with_roots = versions()?.with_root_certificates(roots);
                builder.with_tls_config(match identity {
                    None => with_roots.with_no_client_auth(),
                    Some(identity) => identity.authenticate(with_roots)?,
                })
            }
        };
        let connector = builder.https_or_http().enable_http1().build();
        Ok(Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector))
    }

    /// Reads the certificate in `files`, for the server of `uri`.
    async fn identity(
        &self,
        files: ClientCertificate<'_>,
        uri: &http::Uri,
    ) -> Result<Identity, SourceError> {
        if uri.scheme_str() != Some("https") {
            return Err(SourceError::Credentials(
                "a client certificate needs https".to_owned(),
            ));
        }
        let read = async |file| self.servers.read_file(file, uri).await;
        let certificates = read(files.certificate_file).await?;
        let key = read(files.key_file).await?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificates).collect();
        let chain = chain.map_err(|error| refuse(files.certificate_file, &error))?;
        if chain.is_empty() {
            return Err(refuse(files.certificate_file, &"it has no certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(&key);
        let key = key.map_err(|_| refuse(files.key_file, &"it has no private key"))?;
        Ok(Identity { chain, key })
    }

    async fn authorities(&self, file: &str) -> Result<Vec<u8>, SourceError> {
        let refuse = |problem: String| SourceError::Credentials(format!("{file}: {problem}"));
        let path = self.servers.local(Path::new(file)).await.map_err(refuse)?;
        tokio::fs::read(path)
            .await
            .map_err(|error| refuse(error.kind().to_string()))
    }
}

/// Formats a size for people.
fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// Reads all of `body` into one piece of memory. From [`SMALL`] on it waits for one of `permits`.
async fn whole(
    mut body: Incoming,
    largest: usize,
    permits: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), String> {
    let too_large = || format!("it is larger than {}", size(largest));
    let expected = body.size_hint().exact().unwrap_or_default();
    let expected = usize::try_from(expected).unwrap_or(usize::MAX);
    if expected > largest {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(expected.min(SMALL));
    let mut permit = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > largest {
            return Err(too_large());
        }
        if permit.is_none() && bytes.len() + data.len() > SMALL {
            permit = Arc::clone(permits).acquire_owned().await.ok();
            bytes.reserve_exact(expected.saturating_sub(bytes.len()));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, permit))
}

/// A certificate by which the client authenticates.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    fn authenticate(
        self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig, SourceError> {
        let config = builder.with_client_auth_cert(self.chain, self.key);
        config.map_err(|error| refuse("the client certificate", &error))
    }
}

fn refuse(what: &str, problem: &dyn std::fmt::Display) -> SourceError {
    SourceError::Credentials(format!("{what}: {problem}"))
}

fn versions() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, SourceError> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse("TLS", &error))
}

/// Parses the certificates in `pem`.
fn authorities(pem: &[u8]) -> Result<RootCertStore, SourceError> {
    let refuse = |problem: &dyn std::fmt::Display| refuse("the certificates of caFile", problem);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| refuse(&error))?;
        roots.add(certificate).map_err(|error| refuse(&error))?;
    }
    if roots.is_empty() {
        return Err(refuse(&"there is none"));
    }
    Ok(roots)
}

/// Formats an error with its causes. The outermost error alone states only that something failed.
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

/// Creates a header whose value `Debug` hides, and which is sent only where credentials may be
/// sent.
///
/// # Errors
/// The value is not valid in a header.
pub fn secret_header(
    name: HeaderName,
    value: &str,
) -> Result<(HeaderName, HeaderValue), SourceError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| SourceError::Credentials("they cannot stand in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Maps a status without a meaning of its own in an API to an error: authentication, throttling,
/// outage, and any other response.
///
/// # Errors
/// The status is not 200.
pub fn check_status(who: &'static str, reply: &HttpResponse) -> Result<(), SourceError> {
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

/// Returns the pause that a response requests.
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
