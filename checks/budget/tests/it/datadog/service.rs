//! A strict stand-in for Datadog: two methods of its metrics API as its reference documents them,
//! over a store of points.
//!
//! It rejects everything that the reference does not document, and records it as a breach. Its
//! sources are the pages *Query timeseries points* (v1), *Query scalar data across multiple
//! products* (v2), *Rate limits*, *Rollup* and *Authentication*. The responses are those with which
//! Datadog's own clients are tested.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use futures::StreamExt;
use serde_json::{Value, json};

use super::query::Query;

/// The maximum number of points of one series. Beyond it Datadog widens the buckets.
const POINTS: i64 = 1500;

/// An injected failure, instead of a response.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Returns this response.
    Response(u16, Vec<(&'static str, String)>, String),
    /// Responds after this delay.
    Slow(Duration),
    /// Breaks off in the middle of the body.
    Half,
}

impl Fault {
    pub(crate) fn response(status: u16, body: impl Into<String>) -> Self {
        Self::Response(status, Vec::new(), body.into())
    }

    pub(crate) fn header(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Response(status, mut headers, body) => {
                headers.push((name, value.to_owned()));
                Self::Response(status, headers, body)
            }
            other => other,
        }
    }
}

/// Second, tags and value.
type Sample = (i64, BTreeMap<String, String>, f64);

#[derive(Debug, Default)]
struct Inside {
    keys: (String, String),
    /// By metric.
    points: BTreeMap<String, Vec<Sample>>,
    /// Whether this site has the second version of the API.
    only_v1: bool,
    remaining: u64,
    faults: VecDeque<Fault>,
    requests: Vec<String>,
    breaches: Vec<String>,
}

/// The service. Clones share their state.
#[derive(Clone)]
pub(crate) struct Datadog {
    inside: Arc<Mutex<Inside>>,
    pub(crate) url: String,
}

impl Datadog {
    /// Starts the service with the API key and the application key of its one organisation.
    pub(crate) async fn start(api: &str, application: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inside = Inside {
            keys: (api.to_owned(), application.to_owned()),
            remaining: 1000,
            ..Inside::default()
        };
        let service = Self {
            inside: Arc::new(Mutex::new(inside)),
            url: format!("http://{}", listener.local_addr().unwrap()),
        };
        let router = Router::new().fallback(handle).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        service
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }

    /// Adds a point of a metric, with tags such as `kube_namespace:vision`.
    pub(crate) fn point(&self, metric: &str, second: i64, tags: &[&str], value: f64) {
        let tags = tags.iter().map(|tag| {
            let (key, value) = tag.split_once(':').unwrap();
            (key.to_owned(), value.to_owned())
        });
        let point = (second, tags.collect(), value);
        self.inside()
            .points
            .entry(metric.to_owned())
            .or_default()
            .push(point);
    }

    pub(crate) fn only_v1(&self) {
        self.inside().only_v1 = true;
    }

    /// Sets how many of the 1,000 requests per hour remain.
    pub(crate) fn remaining(&self, requests: u64) {
        self.inside().remaining = requests;
    }

    pub(crate) fn keys(&self, api: &str, application: &str) {
        self.inside().keys = (api.to_owned(), application.to_owned());
    }

    /// Queues failures of the next requests, in this order.
    pub(crate) fn faults(&self, faults: impl IntoIterator<Item = Fault>) {
        self.inside().faults.extend(faults);
    }

    /// Returns the methods and paths since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.inside().requests)
    }

    /// Returns the requests that its API does not have.
    pub(crate) fn breaches(&self) -> Vec<String> {
        self.inside().breaches.clone()
    }
}

/// Status and body.
type Reply = (u16, Value);

fn errors(status: u16, what: impl Into<String>) -> Reply {
    (status, json!({"errors": [what.into()]}))
}

async fn handle(
    State(service): State<Datadog>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    service
        .inside()
        .requests
        .push(format!("{method} {}", uri.path()));
    let fault = service.inside().faults.pop_front();
    if let Some(Fault::Response(status, headers, body)) = fault {
        return response(status, headers, Body::from(body));
    }
    if let Some(Fault::Slow(length)) = fault {
        tokio::time::sleep(length).await;
    }
    let (status, reply) = service.inside().reply(&method, &uri, &headers, &body);
    if status == 404 || status == 400 {
        let breach = format!("{method} {}: {reply}", uri.path());
        service.inside().breaches.push(breach);
    }
    let remaining = service.inside().remaining.to_string();
    let mut limits = vec![
        ("content-type", "application/json".to_owned()),
        ("x-ratelimit-limit", "1000".to_owned()),
        ("x-ratelimit-period", "3600".to_owned()),
        ("x-ratelimit-remaining", remaining),
        ("x-ratelimit-reset", "1234".to_owned()),
        ("x-ratelimit-name", "batch_query".to_owned()),
    ];
    let text = reply.to_string();
    if matches!(fault, Some(Fault::Half)) {
        limits.push(("content-length", text.len().to_string()));
        let half = Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]);
        let cut = futures::stream::once(async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(std::io::Error::other("the line is cut"))
        });
        let half = futures::stream::iter([Ok(half)]).chain(cut);
        return response(status, limits, Body::from_stream(half));
    }
    response(status, limits, Body::from(text))
}

fn response(status: u16, headers: Vec<(&'static str, String)>, body: Body) -> Response {
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body).unwrap()
}

impl Inside {
    fn reply(&mut self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Reply {
        let whole = format!("{uri}{}", String::from_utf8_lossy(body));
        if whole.contains(&self.keys.0) || whole.contains(&self.keys.1) {
            self.breaches
                .push("a key is outside of its header".to_owned());
        }
        let key = |name: &str| {
            let mut all = headers.get_all(name).iter();
            let first = all.next().and_then(|value| value.to_str().ok());
            first.filter(|_| all.next().is_none())
        };
        if key("dd-api-key") != Some(&self.keys.0)
            || key("dd-application-key") != Some(&self.keys.1)
        {
            return errors(403, "Forbidden");
        }
        match (method, uri.path()) {
            (&Method::GET, "/api/v1/query") => {
                self.timeseries(uri.query().unwrap_or_default(), body)
            }
            (&Method::POST, "/api/v2/query/scalar") if !self.only_v1 => {
                let json = headers
                    .get("content-type")
                    .is_some_and(|kind| kind == "application/json");
                if json && uri.query().is_none() {
                    self.scalar(body)
                } else {
                    errors(400, "a JSON body and nothing else is documented")
                }
            }
            (&Method::POST, "/api/v2/query/scalar") => (404, json!({"errors": ["Not found"]})),
            _ => errors(404, "Not found"),
        }
    }

    /// Responds to `GET /api/v1/query`: from and to in seconds.
    fn timeseries(&self, parameters: &str, body: &Bytes) -> Reply {
        let all: Vec<(String, String)> = form_urlencoded::parse(parameters.as_bytes())
            .into_owned()
            .collect();
        let mut names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if names != ["from", "query", "to"] || !body.is_empty() {
            return errors(400, format!("from, query and to are documented: {names:?}"));
        }
        let get = |name: &str| {
            all.iter()
                .find(|(known, _)| known == name)
                .map_or("", |(_, value)| value)
        };
        let (Ok(from), Ok(to)) = (get("from").parse::<i64>(), get("to").parse::<i64>()) else {
            return errors(400, "from and to are integers");
        };
        let query = match Query::read(get("query")) {
            Ok(query) => query,
            Err(problem) => return errors(400, problem),
        };
        if from >= to || to > 100_000_000_000 {
            return errors(400, "from is before to, both in seconds");
        }
        let (interval, series) = self.series(&query, from, to + 1);
        let series: Vec<Value> = series
            .into_iter()
            .map(|(tags, buckets)| {
                let points: Vec<Value> = buckets
                    .iter()
                    .map(|(at, value)| json!([at * 1000, value]))
                    .collect();
                let scope = if tags.is_empty() {
                    "*".to_owned()
                } else {
                    tags.join(",")
                };
                json!({
                    "metric": query.metric, "display_name": query.metric, "expression": get("query"), "scope": scope, "tag_set": tags, "interval": interval,
                    "length": points.len(), "pointlist": points, "start": from * 1000, "end": to * 1000 - 1, "aggr": query.aggregator, "query_index": 0,
                    "unit": [null, null], "attributes": {},
                })
            })
            .collect();
        (
            200,
            json!({
                "status": "ok", "resp_version": 1, "res_type": "time_series", "query": get("query"), "message": "", "group_by": query.by, "series": series,
                "from_date": from * 1000, "to_date": to * 1000, "times": [], "values": [],
            }),
        )
    }

    /// Responds to `POST /api/v2/query/scalar`: from (inclusive) and to (exclusive) in
    /// milliseconds.
    fn scalar(&self, body: &Bytes) -> Reply {
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return errors(400, "no JSON");
        };
        match self.columns(&body) {
            Ok(columns) => (
                200,
                json!({"data": {"type": "scalar_response", "attributes": {"columns": columns}}}),
            ),
            Err(problem) => errors(400, problem),
        }
    }

    fn columns(&self, body: &Value) -> Result<Vec<Value>, String> {
        only(body, &["data"], &[])?;
        let data = &body["data"];
        only(data, &["attributes", "type"], &[])?;
        if data["type"] != "scalar_request" {
            return Err("the type is scalar_request".to_owned());
        }
        let attributes = &data["attributes"];
        only(attributes, &["from", "queries", "to"], &["formulas"])?;
        let (Some(from), Some(to)) = (attributes["from"].as_i64(), attributes["to"].as_i64())
        else {
            return Err("from and to are integers".to_owned());
        };
        if from >= to || from < 100_000_000_000 {
            return Err("from is before to, both in milliseconds".to_owned());
        }
        let queries = attributes["queries"]
            .as_array()
            .ok_or("queries is a list")?;
        let [item] = queries.as_slice() else {
            return Err("this stand-in knows one query".to_owned());
        };
        only(item, &["aggregator", "data_source", "query"], &["name"])?;
        if !["metrics", "cloud_cost"].contains(&item["data_source"].as_str().unwrap_or_default()) {
            return Err("data_source is metrics or cloud_cost".to_owned());
        }
        let formulas = attributes["formulas"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for formula in &formulas {
            only(formula, &["formula"], &["limit"])?;
            if formula["formula"] != item["name"] {
                return Err("a formula refers to queries by name".to_owned());
            }
        }
        let query = Query::read(item["query"].as_str().unwrap_or_default())?;
        let (_, series) = self.series(&query, from / 1000, to / 1000);
        let numbers: Vec<Value> = series
            .iter()
            .map(|(_, buckets)| aggregated(buckets, &item["aggregator"]))
            .collect::<Result<_, _>>()?;
        let mut columns: Vec<Value> = query
            .by
            .iter()
            .enumerate()
            .map(|(at, key)| {
                let values: Vec<Value> = series
                    .iter()
                    .map(|(tags, _)| {
                        json!([tags[at].split_once(':').map_or("N/A", |(_, value)| value)])
                    })
                    .collect();
                json!({"type": "group", "name": key, "values": values})
            })
            .collect();
        columns.push(json!({"type": "number", "name": item["name"], "values": numbers, "meta": {"unit": [null, null]}}));
        Ok(columns)
    }

    /// Returns the series of `query`, by tags, in buckets of the returned interval. Buckets are
    /// aligned to UTC; one without points is null.
    #[expect(clippy::type_complexity, reason = "series by tags")]
    fn series(
        &self,
        query: &Query,
        from: i64,
        to: i64,
    ) -> (i64, Vec<(Vec<String>, Vec<(i64, Option<f64>)>)>) {
        // Datadog's interval without a rollup: 5 min for a day, 1 h for a week.
        let automatic = if to - from > 86_400 { 3600 } else { 300 };
        let requested = query
            .rollup
            .as_ref()
            .map_or(automatic, |(_, seconds)| *seconds);
        let interval = requested.max((to - from) / POINTS);
        let none = Vec::new();
        let points = self.points.get(&query.metric).unwrap_or(&none);
        let within = points.iter().filter(|(at, tags, _)| {
            (from..to).contains(at)
                && query
                    .scope
                    .iter()
                    .all(|(key, value)| tags.get(key) == Some(value))
        });
        let mut series: BTreeMap<Vec<String>, BTreeMap<i64, Vec<f64>>> = BTreeMap::new();
        for (at, tags, value) in within {
            let key = query.by.iter().map(|key| {
                tags.get(key)
                    .map_or(format!("{key}:N/A"), |value| format!("{key}:{value}"))
            });
            let bucket = at - at.rem_euclid(interval);
            series
                .entry(key.collect())
                .or_default()
                .entry(bucket)
                .or_default()
                .push(*value);
        }
        // Rolled up by the mean by default: a query for money must set the sum.
        let sums = query.rollup.as_ref().is_some_and(|(how, _)| how == "sum");
        let rolled = |values: &Vec<f64>| {
            let sum: f64 = values.iter().sum();
            #[expect(clippy::cast_precision_loss, reason = "a count of points")]
            let count = values.len() as f64;
            if sums { sum } else { sum / count }
        };
        let moments: BTreeSet<i64> = series
            .values()
            .flat_map(|buckets| buckets.keys().copied())
            .collect();
        let filled = |buckets: BTreeMap<i64, Vec<f64>>| {
            moments
                .iter()
                .map(|at| (*at, buckets.get(at).map(rolled)))
                .collect::<Vec<_>>()
        };
        let series = series
            .into_iter()
            .map(|(tags, buckets)| (tags, filled(buckets)))
            .collect();
        (interval, series)
    }
}

/// Returns an error for fields that are not documented, and for missing required ones.
fn only(value: &Value, required: &[&str], optional: &[&str]) -> Result<(), String> {
    let object = value.as_object().ok_or("an object is documented here")?;
    if let Some(missing) = required.iter().find(|name| !object.contains_key(**name)) {
        return Err(format!("{missing} is required"));
    }
    match object
        .keys()
        .find(|name| !required.contains(&name.as_str()) && !optional.contains(&name.as_str()))
    {
        Some(odd) => Err(format!("{odd} is not documented")),
        None => Ok(()),
    }
}

fn aggregated(buckets: &[(i64, Option<f64>)], how: &Value) -> Result<Value, String> {
    let values: Vec<f64> = buckets.iter().filter_map(|(_, value)| *value).collect();
    if values.is_empty() {
        return Ok(Value::Null);
    }
    let sum: f64 = values.iter().sum();
    match how.as_str().unwrap_or_default() {
        "sum" => Ok(json!(sum)),
        "last" => Ok(json!(values.last())),
        #[expect(clippy::cast_precision_loss, reason = "a count of points")]
        "avg" => Ok(json!(sum / values.len() as f64)),
        "min" | "max" | "percentile" | "mean" | "l2norm" | "area" => {
            Err("this stand-in does not aggregate so".to_owned())
        }
        other => Err(format!("no aggregator {other}")),
    }
}
