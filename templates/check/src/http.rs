//! An HTTP client with a timeout and a maximum size of responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kueue_check::Error;
use kueue_check::prelude::CheckError;

/// Fetches the content of a URI: over HTTP in the program, from memory in tests.
pub type Fetch = Arc<dyn Fn(Uri) -> BoxFuture<'static, Result<Bytes, CheckError>> + Send + Sync>;

/// The timeout of a request, including its response.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a response, in bytes.
const LARGEST: usize = 1024 * 1024;

type HttpClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// Fetches over HTTP and HTTPS, each response within `deadline`. Redirects are not followed.
///
/// # Errors
/// If the system's certificates can't be read.
pub fn client(deadline: Duration) -> kueue_check::Result<Fetch> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(deadline / 2));
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| Error::own(format!("cannot read the system's certificates: {error}")))?
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    let client: HttpClient = Client::builder(TokioExecutor::new()).build(connector);
    Ok(Arc::new(move |uri: Uri| {
        let (client, host) = (client.clone(), uri.host().unwrap_or_default().to_owned());
        Box::pin(async move {
            match kueue_check::tokio::time::timeout(deadline, get(&client, uri)).await {
                Ok(response) => response,
                Err(_) => Err(CheckError::transient(format!("{host} did not respond within {deadline:?}"))),
            }
        })
    }))
}

async fn get(client: &HttpClient, uri: Uri) -> Result<Bytes, CheckError> {
    let host = uri.host().unwrap_or_default().to_owned();
    let (head, body) = client.get(uri).await?.into_parts();
    let body = Limited::new(body, LARGEST).collect().await?.to_bytes();
    if head.status == StatusCode::OK {
        return Ok(body);
    }
    let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
    let message = format!("{host} responded with {}: {text}", head.status);
    match pause(head.status, &head.headers) {
        Some(pause) => Err(CheckError::throttled(pause, message)),
        None => Err(CheckError::transient(message)),
    }
}

/// The pause that a response requires.
fn pause(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let throttled = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    throttled.then(|| Duration::from_secs(seconds))
}
{%- if parameters %}

/// The address of a server in `text`.
///
/// # Errors
/// Describes the error in it.
pub fn address(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("`{text}` is no URL: {error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err(format!("`{text}` is no URL of a server: write it as in http://host:8080/path")),
    }
}
{%- endif %}
