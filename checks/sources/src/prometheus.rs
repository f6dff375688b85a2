//! A client for Prometheus, and for other servers with its query API.

use http::Method;
use http::header::{CONTENT_TYPE, HeaderValue};
use jiff::Timestamp;
use serde::Deserialize;

use crate::samples::{self, LabeledSample, Sample};
use crate::{Auth, Http, HttpRequest, HttpResponse, SourceError, brief, check_status};

const WHO: &str = "Prometheus";

/// A Prometheus server, as parameters of a check describe it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrometheusServer {
    /// Its address, without an API path: `https://prometheus.monitoring:9090`.
    pub url: String,
    /// How to authenticate.
    pub auth: Option<Auth>,
    /// The file with the authorities to trust instead of the system's.
    pub ca_file: Option<String>,
    /// Warnings that contain one of these are accepted. Others make a response unusable, because it
    /// may be incomplete.
    pub allow_warnings: Vec<String>,
}

/// A client for instant queries.
#[derive(Clone, Debug)]
pub struct PrometheusClient {
    server: PrometheusServer,
    http: Http,
}

impl PrometheusServer {
    /// Validates the URL of a server, and returns the problem.
    ///
    /// # Errors
    /// It is not an http or https URL, or has a user or a query.
    pub fn validate_url(url: &str) -> Result<(), &'static str> {
        let uri: http::Uri = url.parse().map_err(|_| "it is invalid")?;
        let has_user = uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'));
        if !matches!(uri.scheme_str(), Some("http" | "https"))
            || uri.host().is_none()
            || has_user
            || uri.query().is_some()
        {
            return Err("expected http or https, a host, and neither a user nor a query");
        }
        Ok(())
    }
}

impl PrometheusClient {
    /// Creates a client of `server`.
    pub fn new(server: PrometheusServer, http: Http) -> Self {
        Self { server, http }
    }

    /// Returns the samples of the vector to which `query` evaluates at `at`, with the values of
    /// `labels`. If the result is not a vector, the error names the first label.
    ///
    /// # Errors
    /// There is no vector in time, it has more than 20,000 samples, or a warning came with it.
    pub async fn query<const LABELS: usize>(
        &self,
        query: &str,
        at: Timestamp,
        labels: [&str; LABELS],
    ) -> Result<Vec<Sample<LABELS>>, SourceError> {
        let reply = self.request(query, at).await?;
        self.read_vector(&reply, labels)
    }

    /// Reads the samples in a response, without a request.
    ///
    /// # Errors
    /// See [`query`](Self::query).
    #[doc(hidden)]
    pub fn read_vector<const LABELS: usize>(
        &self,
        reply: &HttpResponse,
        labels: [&str; LABELS],
    ) -> Result<Vec<Sample<LABELS>>, SourceError> {
        check_vector(reply, labels, &self.server.allow_warnings)?;
        samples::read(&reply.body, labels).map_err(|error| unreadable(&error))
    }

    /// Returns the same with all labels of the samples, of which there may be at most `most`.
    ///
    /// # Errors
    /// There is no vector in time, it has more samples, or a warning came with it.
    pub async fn query_all(
        &self,
        query: &str,
        at: Timestamp,
        most: usize,
    ) -> Result<Vec<LabeledSample>, SourceError> {
        let reply = self.request(query, at).await?;
        self.read_all_labels(&reply, most)
    }

    /// Reads the same from a response, without a request.
    ///
    /// # Errors
    /// See [`query_all`](Self::query_all).
    #[doc(hidden)]
    pub fn read_all_labels(
        &self,
        reply: &HttpResponse,
        most: usize,
    ) -> Result<Vec<LabeledSample>, SourceError> {
        check_vector(reply, [], &self.server.allow_warnings)?;
        samples::read_all(&reply.body, most).map_err(|error| unreadable(&error))
    }

    async fn request(&self, query: &str, at: Timestamp) -> Result<HttpResponse, SourceError> {
        let reply = self.post(query, at).await?;
        // A token may have been rotated between its reading and its use.
        if matches!(reply.status.as_u16(), 401 | 403) && self.server.auth.is_some() {
            drop(reply);
            return self.post(query, at).await;
        }
        Ok(reply)
    }

    async fn post(&self, query: &str, at: Timestamp) -> Result<HttpResponse, SourceError> {
        let server = &self.server;
        let url = format!("{}/api/v1/query", server.url.trim_end_matches('/'));
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", query)
            .append_pair("time", &at.as_second().to_string())
            .append_pair("timeout", "25s")
            .finish();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut headers = vec![(CONTENT_TYPE, form)];
        if let Some(auth) = &server.auth {
            headers.push(auth.header(self.http.servers(), &url).await?);
        }
        self.http
            .send(HttpRequest {
                who: WHO,
                method: Method::POST,
                url: &url,
                headers,
                body,
                ca_file: server.ca_file.as_deref(),
                certificate: None,
            })
            .await
    }
}

/// A response without its samples.
#[derive(Deserialize)]
struct Body {
    status: String,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default, rename = "errorType")]
    error_type: String,
    #[serde(default)]
    error: String,
    #[serde(default, deserialize_with = "samples::at_most::<64, _, _>")]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
}

fn unreadable(error: &serde_json::Error) -> SourceError {
    SourceError::BadResponse(WHO, brief(&error.to_string()))
}

/// Returns an error unless `reply` is a vector.
fn check_vector<const LABELS: usize>(
    reply: &HttpResponse,
    labels: [&str; LABELS],
    allowed: &[String],
) -> Result<(), SourceError> {
    let body: Result<Body, _> = serde_json::from_slice(&reply.body);
    match (reply.status.as_u16(), &body) {
        (400, Ok(body)) => return Err(SourceError::BadQuery(WHO, brief(&body.error))),
        (422, Ok(body)) => return Err(SourceError::QueryFailed(WHO, brief(&body.error))),
        (500..=599, Ok(body))
            if !body.error.is_empty() && !reply.headers.contains_key("retry-after") =>
        {
            return Err(SourceError::Unavailable(
                WHO,
                reply.status.as_u16(),
                brief(&body.error),
            ));
        }
        _ => check_status(WHO, reply)?,
    }
    let body = body.map_err(|error| {
        SourceError::BadResponse(WHO, brief(&format!("no JSON of a query: {error}")))
    })?;
    if body.status != "success" {
        return Err(SourceError::BadResponse(
            WHO,
            brief(&format!(
                "status {}: {} {}",
                body.status, body.error_type, body.error
            )),
        ));
    }
    if let Some(warning) = body.warnings.iter().find(|warning| {
        !allowed
            .iter()
            .any(|allowed| warning.contains(allowed.as_str()))
    }) {
        return Err(SourceError::Incomplete(WHO, brief(warning)));
    }
    let data = body
        .data
        .ok_or_else(|| SourceError::BadResponse(WHO, "there is no data".to_owned()))?;
    if data.result_type != "vector" {
        return Err(SourceError::WrongShape(
            format!("a {}", brief(&data.result_type)),
            labels.first().copied().unwrap_or_default().to_owned(),
        ));
    }
    Ok(())
}
