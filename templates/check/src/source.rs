{%- if source == "http" -%}
//! The source of the number of free pods: a service that responds to `GET URL?namespace=NAME` with
//! `{"free": 12}`.
{%- else -%}
//! The source of the number of free pods: a Prometheus server, and a query whose result is one
//! number.
{%- endif %}

use std::time::Duration;

use http::Uri;
use kueue_check::prelude::CheckError;
use kueue_check::serde::Deserialize;
use kueue_check::serde_json;
use kueue_check::service::SingleFlight;

use crate::http::Fetch;

/// How long a response serves all equal requests.
const KEEP: Duration = Duration::from_secs(30);
{%- unless parameters %}

/// The default URL; `{{ crate_name | shouty_snake_case }}_URL` overrides it.
{%- if source == "http" %}
pub const URL: &str = "http://capacity.kueue-system.svc:8080/free-pods";
{%- else %}
pub const URL: &str = "http://prometheus.monitoring.svc:9090";
/// The query for the number of free pods.
pub const QUERY: &str = "sum(kube_node_status_allocatable{resource=\"pods\"}) - count(kube_pod_info)";
{%- endif %}

/// Returns the URL that this process uses.
pub fn url() -> String {
    std::env::var("{{ crate_name | shouty_snake_case }}_URL").unwrap_or_else(|_| URL.to_owned())
}
{%- endunless %}

/// A client that sends one request for all equal ones. Clones share the responses.
#[derive(Clone)]
pub struct Source {
    fetch: Fetch,
    cache: SingleFlight<String, u32>,
{%- unless parameters %}
    url: String,
{%- endunless %}
}

impl Source {
    /// Creates a client that sends its requests with `fetch`{% unless parameters %}, at `url`{% endunless %}.
    pub fn new(fetch: Fetch{% unless parameters %}, url: impl Into<String>{% endunless %}) -> Self {
        Self {
            fetch,
            cache: SingleFlight::new(KEEP),
{%- unless parameters %}
            url: url.into(),
{%- endunless %}
        }
    }
{%- capture fetch_once %}
        let uri: Uri = address.parse().map_err(CheckError::parameters)?;
        self.cache.get(address, || async { read(&(self.fetch)(uri).await?) }).await
    }
{%- endcapture %}
{% if source == "http" %}
    /// Returns the number of free pods for the jobs of a namespace.
    ///
    /// # Errors
    /// An outage, an invalid response, an invalid URL.
    pub async fn free_pods(&self, {% if parameters %}url: &str, {% endif %}namespace: &str) -> Result<u32, CheckError> {
{%- unless parameters %}
        let url = &self.url;
{%- endunless %}
        let address = format!("{url}?namespace={namespace}");
        {{- fetch_once }}
{% else %}
    /// Returns the number of free pods.
    ///
    /// # Errors
    /// An outage, an invalid response, an invalid URL.
    pub async fn free_pods(&self{% if parameters %}, url: &str, query: &str{% endif %}) -> Result<u32, CheckError> {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("query", {% if parameters %}query{% else %}QUERY{% endif %}).finish();
        let address = format!("{}/api/v1/query?{query}", {% if parameters %}url{% else %}self.url{% endif %}.trim_end_matches('/'));
        {{- fetch_once }}
{%- endif %}
}
{% if source == "http" %}
#[derive(Deserialize)]
#[serde(crate = "kueue_check::serde")]
struct ResponseBody {
    free: u32,
}

fn read(body: &[u8]) -> Result<u32, CheckError> {
    let response: ResponseBody = serde_json::from_slice(body).map_err(|error| format!("not the expected response: {error}"))?;
    Ok(response.free)
}
{% else %}
#[derive(Deserialize)]
#[serde(crate = "kueue_check::serde")]
struct ResponseBody {
    data: Data,
}

#[derive(Deserialize)]
#[serde(crate = "kueue_check::serde", rename_all = "camelCase", tag = "resultType", content = "result")]
enum Data {
    Vector(Vec<Element>),
    Scalar((f64, String)),
}

#[derive(Deserialize)]
#[serde(crate = "kueue_check::serde")]
struct Element {
    value: (f64, String),
}

/// One number that is none of pods is an error, and so is none: silence is not zero.
fn read(body: &[u8]) -> Result<u32, CheckError> {
    let response: ResponseBody = serde_json::from_slice(body).map_err(|error| format!("not the expected response: {error}"))?;
    let text = match response.data {
        Data::Scalar((_, text)) => text,
        Data::Vector(elements) => match <[Element; 1]>::try_from(elements) {
            Ok([element]) => element.value.1,
            Err(elements) => return Err(format!("the query has {} results; it must have one", elements.len()).into()),
        },
    };
    match text.parse::<f64>() {
        // As many whole pods; more than 4 billion are 4 billion.
        Ok(free) if free >= 0.0 => Ok(free as u32),
        _ => Err(format!("the query's result is {text}, which is no number of pods").into()),
    }
}
{% endif %}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_a_number_of_pods_or_an_error() {
        for (body, expected) in [
{%- if source == "http" %}
            (r#"{"free": 12}"#, Ok(12)),
            (r#"{"free": 0, "unit": "pods"}"#, Ok(0)),
            (r#"{"free": -1}"#, Err("invalid value")),
            (r#"{}"#, Err("missing field `free`")),
            ("<html>", Err("not the expected response")),
{%- else %}
            (r#"{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1795000000.1, "12.9"]}]}}"#, Ok(12)),
            (r#"{"data": {"resultType": "scalar", "result": [1795000000.1, "0"]}}"#, Ok(0)),
            (r#"{"data": {"resultType": "vector", "result": []}}"#, Err("has 0 results")),
            (r#"{"data": {"resultType": "scalar", "result": [0, "NaN"]}}"#, Err("is NaN, which")),
            (r#"{"data": {"resultType": "scalar", "result": [0, "-1"]}}"#, Err("is -1, which")),
            (r#"{"data": {"resultType": "matrix", "result": []}}"#, Err("matrix")),
            ("<html>", Err("not the expected response")),
{%- endif %}
        ] {
            match (read(body.as_bytes()), expected) {
                (Ok(free), Ok(expected)) => assert_eq!(free, expected, "{body}"),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{body}: {error}"),
                (result, _) => panic!("{body}: {result:?}"),
            }
        }
    }
}
