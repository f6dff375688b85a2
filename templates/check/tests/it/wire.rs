//! Requests over a real connection, and invalid responses.

use std::time::Duration;

use kueue_check::ErrorKind;
use {{ crate_name }}::http;
use {{ crate_name }}::source::Source;

use crate::service::{Service, ok, serve};

const REQUEST_TIMEOUT: Duration = Duration::from_millis(500);

async fn free_pods(url: &str) -> Result<u32, kueue_check::CheckError> {
{%- if source == "http" and parameters %}
    Source::new(http::client(REQUEST_TIMEOUT).unwrap()).free_pods(url, "team-a").await
{%- elsif source == "http" %}
    Source::new(http::client(REQUEST_TIMEOUT).unwrap(), url).free_pods("team-a").await
{%- elsif parameters %}
    Source::new(http::client(REQUEST_TIMEOUT).unwrap()).free_pods(url, "sum(free{pool=\"a\"})").await
{%- else %}
    Source::new(http::client(REQUEST_TIMEOUT).unwrap(), url).free_pods().await
{%- endif %}
}

#[tokio::test]
async fn the_number_of_free_pods_is_requested() {
    let service = Service::with_free_pods(12);
    assert_eq!(free_pods(&service.listen().await).await.unwrap(), 12);
{%- if source == "http" %}
    assert_eq!(service.requests(), ["/free-pods?namespace=team-a"]);
{%- elsif parameters %}
    assert_eq!(service.requests(), ["/api/v1/query?query=sum%28free%7Bpool%3D%22a%22%7D%29"]);
{%- else %}
    let requests = service.requests();
    assert!(requests[0].starts_with("/api/v1/query?query=sum%28kube_node_status_allocatable%7B"), "{requests:?}");
{%- endif %}
}

#[tokio::test]
async fn an_invalid_response_is_an_error_with_its_cause() {
    let large = "1".repeat(2_000_000);
    for (response, kind, expected) in [
        (String::new(), ErrorKind::Transient, "did not respond within 500ms"),
        (ok("<html>"), ErrorKind::Transient, "not the expected response"),
        (ok(&large), ErrorKind::Transient, "length limit exceeded"),
        ("HTTP/1.1 500 Oh\r\ncontent-length: 6\r\n\r\nbroken".to_owned(), ErrorKind::Transient, "responded with 500 Internal Server Error: broken"),
        (
            "HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n".to_owned(),
            ErrorKind::Throttled { after: Duration::from_secs(7) },
            "responded with 429",
        ),
    ] {
        let url = serve(move |_| response.clone()).await;
        let error = free_pods(&url).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let unreachable = free_pods("http://127.0.0.1:9").await.unwrap_err();
    assert!(unreachable.to_string().contains("refused"), "{unreachable}");
}
