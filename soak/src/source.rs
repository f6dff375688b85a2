//! The source of figures: it responds to the queries of the budget check like Prometheus, from the
//! values of the meter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::meter::{Meter, Seconds};
use crate::proxy::{Body, Handler};
use crate::scene::{COUNTER, FRESHNESS, NAMESPACES};

/// The interval between samples of the source, in seconds. Costs since the newest sample are not in
/// its figures.
pub(crate) const SAMPLE: f64 = 5.0;

/// Returns a handler that responds to queries from the values of `meter`.
pub(crate) fn handler(meter: Arc<Mutex<Meter>>) -> Handler {
    Arc::new(move |request: Request<Bytes>| {
        let form = form_urlencoded::parse(request.body())
            .into_owned()
            .collect();
        let meter = meter.lock().unwrap_or_else(PoisonError::into_inner);
        let result = query_result(&form, |namespace, from, to| {
            meter.spent(namespace, from, to)
        });
        drop(meter);
        Box::pin(async move {
            let (code, body) = match result {
                Ok(result) => {
                    let data = json!({"resultType": "vector", "result": result});
                    (StatusCode::OK, json!({"status": "success", "data": data}))
                }
                Err(problem) => {
                    let error =
                        json!({"status": "error", "errorType": "bad_data", "error": problem});
                    (StatusCode::BAD_REQUEST, error)
                }
            };
            let body = Full::new(Bytes::from(body.to_string()));
            let mut response: Response<Body> =
                Response::new(body.map_err(|never| match never {}).boxed_unsync());
            *response.status_mut() = code;
            Ok(response)
        })
    })
}

/// Returns the result vector of a query. Unsupported queries are rejected.
fn query_result(
    form: &BTreeMap<String, String>,
    spent: impl Fn(&str, Seconds, Seconds) -> f64,
) -> Result<Vec<Value>, String> {
    let query = form.get("query").ok_or("there is no query")?;
    let time = form.get("time").and_then(|time| time.parse::<f64>().ok());
    let time = time.ok_or("there is no time")?;
    let newest = (time / SAMPLE).floor() * SAMPLE;
    let sample =
        |metric: Value, value: f64| json!({"metric": metric, "value": [time, value.to_string()]});
    if query.starts_with(&format!("max(timestamp({FRESHNESS}))")) {
        let mut result = vec![
            sample(json!({}), newest),
            sample(json!({"budget_check_probe": "start"}), newest),
        ];
        for (namespace, _) in NAMESPACES {
            let metric = json!({"budget_check_probe": "current", "namespace": namespace});
            result.push(sample(metric, newest));
        }
        return Ok(result);
    }
    let before = format!("sum by (namespace) (increase({COUNTER}[");
    let elapsed = query.strip_prefix(&before);
    let elapsed = elapsed.and_then(|rest| rest.strip_suffix("s]))")?.parse::<f64>().ok());
    let elapsed = elapsed.ok_or_else(|| format!("parse error: {query}"))?;
    Ok(NAMESPACES
        .iter()
        .map(|(namespace, _)| {
            let metric = json!({"namespace": namespace});
            sample(metric, spent(namespace, time - elapsed, newest))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(query: &str) -> Result<Vec<Value>, String> {
        let form = [("query", query), ("time", "1003")];
        let form = form.map(|(name, value)| (name.to_owned(), value.to_owned()));
        query_result(&form.into(), |_, from, to| to - from)
    }

    #[test]
    fn what_was_spent_is_known_up_to_the_newest_sample() {
        let query = format!("sum by (namespace) (increase({COUNTER}[103s]))");
        let result = evaluate(&query).unwrap();
        assert_eq!(result.len(), NAMESPACES.len());
        assert_eq!(
            result[0],
            json!({"metric": {"namespace": "team-a"}, "value": [1003.0, "100"]})
        );
    }

    #[test]
    fn the_probe_reports_how_new_figures_are_and_that_the_beginning_is_covered() {
        let result = evaluate(&format!("max(timestamp({FRESHNESS})) or label_replace(…)")).unwrap();
        assert_eq!(result[0], json!({"metric": {}, "value": [1003.0, "1000"]}));
        assert_eq!(result[1]["metric"]["budget_check_probe"], "start");
        assert_eq!(result[2]["metric"]["namespace"], "team-a");
    }

    #[test]
    fn another_query_is_rejected() {
        assert!(evaluate("up").unwrap_err().contains("parse error: up"));
    }
}
