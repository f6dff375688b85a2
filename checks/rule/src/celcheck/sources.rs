//! Data sources of rules, queried in the background.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use jiff::Timestamp;
use kueue_check_sources::{
    Http, HttpRequest, PrometheusClient, PrometheusServer, ServerPolicy, SourceError, check_status,
};
use serde_json::Value as Json;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::resource::{DataSource, HttpMethod, HttpQuery, PrometheusQuery};
use crate::cel::{Nothing, Program, Run, Value, Variables};
use crate::document::{clean, quote};

/// The maximum number of samples of a query.
const SAMPLES: usize = 1000;
/// The name of a data source's server in messages.
const WHO: &str = "the server";

/// A client for data sources.
pub trait Fetch: Send + Sync {
    /// Queries `source` at `now`, with `body`. Returns its value.
    fn fetch(
        &self,
        source: &DataSource,
        body: Option<String>,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Value, SourceError>>;
}

/// A client that queries data sources over HTTP.
#[derive(Clone, Debug)]
pub(super) struct HttpFetch(Http);

/// A data source of a rule, and its last value.
#[derive(Debug)]
pub(super) struct Source {
    spec: DataSource,
    /// Its `bodyExpression`.
    body: Option<Program>,
    state: Mutex<State>,
    /// The AdmissionChecks whose rule uses it.
    users: Mutex<BTreeSet<String>>,
}

#[derive(Debug)]
struct State {
    last_value: Option<(Value, Instant)>,
    /// The error of the last request, if it failed.
    error: Option<String>,
    failures: u32,
    due: Instant,
    /// Whether evaluations were triggered because the value is too old.
    is_stale: bool,
}

/// The health of a data source.
pub(super) struct SourceHealth {
    pub(super) check: String,
    pub(super) source: String,
    /// Whether the last request succeeded.
    pub(super) is_up: bool,
    /// Whether there is no value, or it is too old.
    pub(super) is_stale: bool,
}

/// All data sources of existing rules.
#[derive(Debug, Default)]
pub(super) struct SourceRegistry {
    all: Mutex<Vec<Weak<Source>>>,
    /// Notified when a source is added.
    pub(super) added: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SourceRegistry {
    /// Adds the source that `spec` describes. It is queried as long as it exists, with the current
    /// value of the expression `body`.
    pub(super) fn add(&self, spec: &DataSource, body: Option<Program>) -> Arc<Source> {
        let source = Arc::new(Source {
            spec: spec.clone(),
            body,
            state: Mutex::new(State {
                last_value: None,
                error: None,
                failures: 0,
                due: Instant::now(),
                is_stale: false,
            }),
            users: Mutex::default(),
        });
        let mut all = lock(&self.all);
        all.retain(|source| source.strong_count() > 0);
        all.push(Arc::downgrade(&source));
        self.added.notify_one();
        source
    }

    fn all(&self) -> Vec<Arc<Source>> {
        lock(&self.all).iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the sources that are due, without those that are queried already.
    pub(super) fn due(&self, queried: &[Arc<Source>]) -> Vec<Arc<Source>> {
        let mut due = self.without(queried);
        due.retain(|source| source.is_due());
        due
    }

    fn without(&self, queried: &[Arc<Source>]) -> Vec<Arc<Source>> {
        let is_queried =
            |source: &Arc<Source>| queried.iter().any(|other| Arc::ptr_eq(other, source));
        let mut all = self.all();
        all.retain(|source| !is_queried(source));
        all
    }

    /// Returns the health of each source, by the AdmissionChecks that use it.
    pub(super) fn health(&self) -> Vec<SourceHealth> {
        let mut all = Vec::new();
        for source in self.all() {
            let state = lock(&source.state);
            let age = state.last_value.as_ref().map(|(_, at)| at.elapsed());
            for check in lock(&source.users).iter() {
                all.push(SourceHealth {
                    check: check.clone(),
                    source: source.spec.name.clone(),
                    is_up: state.last_value.is_some() && state.error.is_none(),
                    is_stale: age.is_none_or(|age| age > source.spec.max_age()),
                });
            }
        }
        all
    }

    /// Returns when the next source is due, without those that are queried already.
    pub(super) fn next(&self, queried: &[Arc<Source>]) -> Option<Instant> {
        self.without(queried)
            .iter()
            .map(|source| lock(&source.state).due)
            .min()
    }
}

impl Source {
    /// Records that an AdmissionCheck uses it.
    pub(super) fn used_by(&self, check: &str) {
        lock(&self.users).insert(check.to_owned());
    }

    /// Returns the AdmissionChecks whose rule uses it.
    pub(super) fn users(&self) -> BTreeSet<String> {
        lock(&self.users).clone()
    }

    /// Returns its last value, unless that is too old.
    pub(super) fn last_value(&self) -> Result<Value, String> {
        let name = &self.spec.name;
        let state = lock(&self.state);
        let why = state
            .error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {error}"));
        match &state.last_value {
            Some((value, at)) if at.elapsed() <= self.spec.max_age() => Ok(value.clone()),
            Some((_, at)) => {
                let seconds = at.elapsed().as_secs();
                Err(format!(
                    "the data source `{name}` has not responded for {seconds} s{why}"
                ))
            }
            None => Err(format!(
                "the data source `{name}` has not responded yet{why}"
            )),
        }
    }

    /// Returns the body of a request at `now`.
    fn body(&self, now: Timestamp) -> Result<Option<String>, String> {
        let Some(program) = &self.body else {
            let query = self.spec.http.as_ref();
            return Ok(query.and_then(|query| query.body.clone()));
        };
        let variables = Variables {
            values: &[Value::Timestamp(now)],
            declared: &[],
        };
        match program.evaluate(variables, &mut Run::new(&Nothing)) {
            Ok(Value::String(text)) => Ok(Some(text.to_string())),
            Ok(other) => Err(format!(
                "`bodyExpression`: expected a string, not {}",
                other.kind()
            )),
            Err(failure) => Err(format!("`bodyExpression`: {failure}")),
        }
    }

    fn is_due(&self) -> bool {
        lock(&self.state).due <= Instant::now()
    }

    /// Returns true if no request has completed yet.
    pub(super) fn is_unknown(&self) -> bool {
        let state = lock(&self.state);
        state.last_value.is_none() && state.error.is_none()
    }

    /// Queries the source. Returns true if evaluations may change.
    pub(super) async fn query(&self, fetch: &dyn Fetch, now: Timestamp) -> bool {
        let result = match self.body(now) {
            Ok(body) => fetch.fetch(&self.spec, body, now).await,
            Err(problem) => Err(SourceError::BadQuery(WHO, problem)),
        };
        let mut state = lock(&self.state);
        match result {
            Ok(value) => {
                let fresh = |at: &Instant| at.elapsed() <= self.spec.max_age();
                let before = state.last_value.take().filter(|(_, at)| fresh(at));
                let same = before.is_some_and(|(before, _)| before == value);
                state.last_value = Some((value, Instant::now()));
                state.error = None;
                state.is_stale = false;
                state.failures = 0;
                state.due = Instant::now() + self.spec.interval();
                !same
            }
            Err(error) => {
                state.failures += 1;
                let pause = error.pause(state.failures, 0.5).min(self.spec.interval());
                state.due = Instant::now() + pause.max(Duration::from_secs(1));
                let first = state.last_value.is_none() && state.error.is_none();
                state.error = Some(clean(&error.to_string()));
                let max_age = self.spec.max_age();
                let age = state.last_value.as_ref().map(|(_, at)| at.elapsed());
                let was_stale = state.is_stale;
                state.is_stale = age.is_some_and(|age| age > max_age);
                first || (state.is_stale && !was_stale)
            }
        }
    }
}

impl HttpFetch {
    /// Creates a client for the servers that the deployment allows.
    pub(super) fn new(servers: ServerPolicy) -> Self {
        Self(Http::new(servers))
    }
}

impl Fetch for HttpFetch {
    fn fetch(
        &self,
        source: &DataSource,
        body: Option<String>,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Value, SourceError>> {
        let source = source.clone();
        let http = self.0.clone().deadline(source.timeout());
        let http = http.largest(source.max_bytes());
        async move {
            match (&source.prometheus, &source.http) {
                (Some(query), _) => query_prometheus(query, &http, now).await,
                (_, Some(query)) => query_http(query, body, &http).await,
                _ => Err(SourceError::BadQuery(WHO, "no query is set".to_owned())),
            }
        }
        .boxed()
    }
}

async fn query_prometheus(
    query: &PrometheusQuery,
    http: &Http,
    now: Timestamp,
) -> Result<Value, SourceError> {
    let server = PrometheusServer {
        url: query.url.clone(),
        auth: query.auth.clone(),
        ca_file: query.ca_file.clone(),
        allow_warnings: Vec::new(),
    };
    let client = PrometheusClient::new(server, http.clone());
    let samples = client.query_all(&query.query, now, SAMPLES).await?;
    Ok(Value::list(samples.into_iter().map(|sample| {
        let labels = sample.labels.iter();
        let labels = Value::object(labels.map(|(name, value)| (name, Value::text(value))));
        Value::object([("labels", labels), ("value", Value::Double(sample.value))])
    })))
}

async fn query_http(
    query: &HttpQuery,
    body: Option<String>,
    http: &Http,
) -> Result<Value, SourceError> {
    let path = query.path();
    let path = path.map_err(|problem| SourceError::BadQuery(WHO, problem))?;
    let json = HeaderValue::from_static("application/json");
    let mut headers = vec![(ACCEPT, json.clone())];
    if let Some(auth) = &query.auth {
        headers.push(auth.header(http.servers(), &query.url).await?);
    }
    if body.is_some() {
        headers.push((CONTENT_TYPE, json));
    }
    let default = match body {
        Some(_) => HttpMethod::Post,
        None => HttpMethod::Get,
    };
    let method = match query.method.unwrap_or(default) {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
    };
    let reply = http
        .send(HttpRequest {
            who: WHO,
            method,
            url: &query.url,
            headers,
            body: body.unwrap_or_default(),
            ca_file: query.ca_file.as_deref(),
            certificate: None,
        })
        .await?;
    check_status(WHO, &reply)?;
    let document: Json = serde_json::from_slice(&reply.body).map_err(|error| {
        let shown = quote(&reply.body);
        SourceError::BadResponse(
            WHO,
            format!("no JSON ({}): {shown}", clean(&error.to_string())),
        )
    })?;
    match path {
        None => Ok(Value::of(&document)),
        Some(path) => path
            .of(&document)
            .map(|part| Value::of(&part))
            .map_err(|problem| SourceError::BadResponse(WHO, problem)),
    }
}
