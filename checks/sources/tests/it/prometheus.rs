//! Prometheus' query API, with a stand-in on loopback.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use jiff::Timestamp;
use kueue_check_sources::{
    Auth, Http, PrometheusClient, PrometheusServer, ServerPolicy, SourceError, Unlisted,
};
use kueue_check_testenv::Folder;
use tokio::net::TcpListener;

/// Starts a server that returns `body` with `status`. Returns its URL and the forms that it
/// received.
async fn server(status: u16, body: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&requests);
    let handler = async move |form: String| {
        log.lock().unwrap().push(form);
        (StatusCode::from_u16(status).unwrap(), body)
    };
    let router = Router::new().route("/api/v1/query", post(handler));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, requests)
}

fn client(server: PrometheusServer, unlisted: Unlisted) -> PrometheusClient {
    let servers = ServerPolicy {
        folder: Folder::new("sources").unwrap().path().to_owned(),
        servers: Vec::new(),
        unlisted,
        setting: "SOURCES",
    };
    PrometheusClient::new(server, Http::new(servers))
}

#[tokio::test]
async fn a_query_returns_samples_or_the_reason_why_not() {
    const GOOD: &str = r#"{"status": "success", "warnings": ["PromQL info: rounded"], "data": {"resultType": "vector", "result": [
        {"metric": {"team": "a", "gpu": "h100"}, "value": [1795251600, "2.5"]}]}}"#;
    for (status, body, allowed, expected) in [
        (200, GOOD, "rounded", Ok(2.5)),
        (200, GOOD, "other", Err("Incomplete")),
        (
            200,
            r#"{"status": "success", "data": {"resultType": "matrix", "result": []}}"#,
            "x",
            Err("WrongShape"),
        ),
        (200, "<html>", "x", Err("BadResponse")),
        (
            400,
            r#"{"status": "error", "error": "parse error"}"#,
            "x",
            Err("BadQuery"),
        ),
        (
            422,
            r#"{"status": "error", "error": "too many samples"}"#,
            "x",
            Err("QueryFailed"),
        ),
        (503, "down", "x", Err("Unavailable")),
    ] {
        let (url, requests) = server(status, body).await;
        let server = PrometheusServer {
            url,
            allow_warnings: vec![allowed.to_owned()],
            ..PrometheusServer::default()
        };
        let client = client(server, Unlisted::WithoutCredentials);
        let at = Timestamp::from_second(1_795_251_600).unwrap();
        let samples = client.query("up == 1", at, ["team", "gpu"]).await;
        match (samples, expected) {
            (Ok(samples), Ok(value)) => {
                assert!((samples[0].value - value).abs() < f64::EPSILON);
                assert_eq!(samples[0].labels, [Some("a".into()), Some("h100".into())]);
            }
            (Err(error), Err(reason)) => assert_eq!(error.reason(), reason, "{body}: {error}"),
            (result, _) => panic!("{body}: {result:?}"),
        }
        let forms = requests.lock().unwrap().clone();
        assert_eq!(forms, ["query=up+%3D%3D+1&time=1795251600&timeout=25s"]);
    }
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_that_is_not_listed() {
    let (url, requests) = server(200, "").await;
    for (unlisted, auth, reason) in [
        (Unlisted::Refuse, None, "Unreachable"),
        (
            Unlisted::WithoutCredentials,
            Some("token"),
            "CredentialsUnusable",
        ),
    ] {
        let server = PrometheusServer {
            url: url.clone(),
            auth: auth.map(|file| Auth {
                bearer_token_file: Some(file.to_owned()),
                basic: None,
            }),
            ..PrometheusServer::default()
        };
        let result = client(server, unlisted)
            .query("up", Timestamp::UNIX_EPOCH, [])
            .await;
        let error: SourceError = result.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
    }
    assert!(requests.lock().unwrap().is_empty());
}
