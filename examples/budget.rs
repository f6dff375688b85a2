//! A budget check: a job starts only while its namespace has budget left.
//!
//! The limits are in a resource, the spending is read from Prometheus. This is the short version:
//! it compares what was spent, and does not count what it has just approved.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kueue_check::prelude::*;
use kueue_check::serde_json;
use kueue_check::service::SingleFlight;
use std::{collections::BTreeMap, time::Duration};

/// The limit of each namespace, and the query for what it has spent.
#[kueue_check::parameters(group = "example.com", version = "v1alpha1", kind = "Budget")]
struct BudgetSpec {
    /// The Prometheus server, such as `http://prometheus:9090`.
    prometheus: String,
    /// A `PromQL` query whose result is what was spent, by `namespace`.
    query: String,
    /// By namespace. One that is not named may spend nothing.
    limits: BTreeMap<String, f64>,
    #[serde(flatten)]
    policy: Policy,
}

type Spending = BTreeMap<String, f64>;

/// Jobs start only while their namespace has budget. One query in half a minute serves all of them.
#[admission_check(controller = "example.com/budget", timeout = "10s")]
async fn budget(
    Params(budget): Params<Budget>,
    workload: Workload,
    State(cache): State<SingleFlight<(String, String), Spending>>,
) -> Result<Verdict, CheckError> {
    let BudgetSpec {
        prometheus,
        query,
        limits,
        ..
    } = &budget.spec;
    let spending = cache
        .get((prometheus.clone(), query.clone()), || {
            spending(prometheus, query)
        })
        .await?;
    let namespace = workload.namespace();
    let (spent, limit) = (
        spending.get(namespace).unwrap_or(&0.0),
        limits.get(namespace).unwrap_or(&0.0),
    );
    let again = Duration::from_secs(60);
    if spent < limit {
        return Ok(Verdict::ready("within budget"));
    }
    Ok(Verdict::pending(format!(
        "namespace {namespace} has spent its budget of {limit:.2}"
    ))
    .recheck_in(again))
}

/// Returns Prometheus' result of an instant query.
async fn spending(prometheus: &str, query: &str) -> Result<Spending, CheckError> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("query", query)
        .finish();
    let address = format!("{prometheus}/api/v1/query?{query}");
    let response = client
        .get(address.parse().map_err(CheckError::parameters)?)
        .await?;
    let status = response.status();
    let body: serde_json::Value =
        serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
    let Some(series) = body
        .pointer("/data/result")
        .and_then(|result| result.as_array())
    else {
        return Err(CheckError::transient(format!(
            "Prometheus returned {status}: {}",
            body["error"]
        )));
    };
    let of_series = |series: &serde_json::Value| {
        let namespace = series.pointer("/metric/namespace")?.as_str()?.to_owned();
        Some((
            namespace,
            series.pointer("/value/1")?.as_str()?.parse().ok()?,
        ))
    };
    Ok(series.iter().filter_map(of_series).collect())
}

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
    kueue_check::main(budget.with_state(SingleFlight::new(Duration::from_secs(30)))).await
}
