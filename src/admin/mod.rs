//! The admin endpoint, and the probes of the kubelet.
//!
//! | path | what |
//! | --- | --- |
//! | `/livez` | whether the runtime's event loop runs |
//! | `/readyz` | what keeps the process from being ready, a line each: which watch is not synced, since when, its last error; the lease; Kueue's API |
//! | `/metrics` | OpenMetrics, labelled by AdmissionCheck and never by Workload; and those of the process and its tokio runtime |
//! | `/diagnostics` | JSON: versions, AdmissionChecks, queue, Lease, watches, recent verdicts |
//!
//! `/diagnostics` also has the generation of each AdmissionCheck's parameters, and the recent
//! verdicts of all checks. `run` adds `/debug/flags/log-filter`, which shows the log's filter and
//! sets it.
//!
//! [`router`] has all routes of the table. They name Workloads of all namespaces, so an
//! [`Endpoint`] serves them over TLS to users with permission. [`probes`] has the first two,
//! without reasons, for a port of their own. Neither shows parameters or credentials.

mod access;
mod certificates;
mod endpoint;
mod process;

use std::convert::Infallible;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

pub(crate) use access::User;
pub use certificates::{CertificateError, Certificates};
pub use endpoint::Endpoint;

use crate::runtime::{RuntimeHandle, followed_by};

/// Returns the routes of the admin endpoint, to be served alone or with the check author's own.
///
/// ```
/// # use axum::{Router, body::{Body, to_bytes}, http::Request, routing::get};
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::Runtime, admin::router};
/// # use kueue_check_sim::apiserver::ApiServer;
/// # use tower::ServiceExt;
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = ApiServer::new(Clock::system()).client();
/// # let runtime = Runtime::builder(client).check(open).build()?;
/// let routes = Router::new().route("/prices", get(|| async { "12.5\n" })).merge(router(runtime.handle()));
/// # tokio::spawn(runtime.run(std::future::pending()));
/// # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
/// // On a cluster without Kueue:
/// let response = routes.oneshot(Request::get("/readyz").body(Body::empty())?).await?;
/// assert_eq!(response.status(), 503);
/// let body = to_bytes(response.into_body(), 10_000).await?;
/// assert_eq!(body, "kueue: Kueue is not installed: the API server does not serve the group kueue.x-k8s.io\n");
/// # Ok(()) }
/// ```
pub fn router(runtime: RuntimeHandle) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/diagnostics", get(diagnostics))
        .with_state(runtime)
}

/// Returns the routes of the kubelet's probes: `/livez`, and `/readyz` without reasons. Everyone on
/// the network may read them.
///
/// ```
/// # use axum::{body::{Body, to_bytes}, http::Request};
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::Runtime, admin::probes};
/// # use kueue_check_sim::apiserver::ApiServer;
/// # use tower::ServiceExt;
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = ApiServer::new(Clock::system()).client();
/// # let runtime = Runtime::builder(client).check(open).build()?;
/// let routes = probes(runtime.handle());
/// # tokio::spawn(runtime.run(std::future::pending()));
/// # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
/// let response = routes.clone().oneshot(Request::get("/readyz").body(Body::empty())?).await?;
/// assert_eq!(response.status(), 503);
/// assert_eq!(to_bytes(response.into_body(), 10_000).await?, "not ready\n");
/// let response = routes.oneshot(Request::get("/metrics").body(Body::empty())?).await?;
/// assert_eq!(response.status(), 404);
/// # Ok(()) }
/// ```
pub fn probes(runtime: RuntimeHandle) -> Router {
    let ready = async |State(runtime): State<RuntimeHandle>| {
        if runtime.problems().is_empty() {
            (StatusCode::OK, "ok\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
        }
    };
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(ready))
        .with_state(runtime)
}

/// Serves every route on `listener`, for ever, without encryption and to everyone who can connect.
/// Use it for tests and for a listener on loopback. In a pod use an [`Endpoint`] that is
/// [secure](Endpoint::secure).
///
/// ```
/// # use kueue_check::{Clock, Verdict, admission_check, runtime::Runtime, admin::serve};
/// # use kueue_check_sim::apiserver::ApiServer;
/// # use std::io::{Read, Write};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
/// # fn get(address: std::net::SocketAddr, path: &str) -> std::io::Result<String> {
/// #     let mut stream = std::net::TcpStream::connect(address)?;
/// #     write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
/// #     let mut response = String::new();
/// #     stream.read_to_string(&mut response)?;
/// #     Ok(response)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::with_definitions(Clock::system(), kueue_check_sim::definitions::kueue());
/// # let client = server.client();
/// # let runtime = Runtime::builder(client).check(open).build()?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let address = listener.local_addr()?;
/// tokio::spawn(serve(listener, runtime.handle()));
/// tokio::spawn(runtime.run(std::future::pending()));
/// let response = tokio::task::spawn_blocking(move || get(address, "/livez")).await??;
/// assert!(response.starts_with("HTTP/1.0 200 OK") && response.ends_with("\r\n\r\nok\n"), "{response}");
/// # Ok(()) }
/// ```
///
/// It never returns: see [`Endpoint::serve`].
pub async fn serve(listener: TcpListener, runtime: RuntimeHandle) -> Infallible {
    Endpoint::new(router(runtime)).serve(listener).await
}

async fn livez(State(runtime): State<RuntimeHandle>) -> (StatusCode, &'static str) {
    if runtime.is_alive().await {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the runtime's event loop is stuck\n",
        )
    }
}

async fn readyz(State(runtime): State<RuntimeHandle>) -> (StatusCode, String) {
    let problems = runtime.problems();
    if problems.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let lines = problems.into_iter().map(|problem| problem + "\n").collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines)
}

async fn metrics(State(runtime): State<RuntimeHandle>) -> Response {
    let text = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let all = followed_by(runtime.metrics().await, &process::text());
    ([(header::CONTENT_TYPE, text)], all).into_response()
}

/// Returns every metric of `/metrics` that does not depend on the check, in the OpenMetrics text
/// format, with one made-up sample each. Use it to generate documents, and to verify the names in a
/// dashboard or an alert.
///
/// ```
/// assert!(kueue_check::admin::every_metric().contains("kueue_check_verdicts_total{check="));
/// ```
pub fn every_metric() -> String {
    followed_by(crate::runtime::sample_metrics(), &process::sample())
}

async fn diagnostics(State(runtime): State<RuntimeHandle>) -> Response {
    match runtime.diagnostics().await {
        Some(diagnostics) => axum::Json(diagnostics).into_response(),
        None => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the runtime has no session: see /readyz\n",
        )
            .into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_the_process_come_before_the_end() {
        let text = every_metric();
        let samples = kueue_check_testenv::exposition::parse(&text).unwrap();
        let has = |name: &str| samples.iter().any(|sample| sample.name == name);
        assert!(has("process_resident_memory_bytes") && has("kueue_check_build_info"));
        assert_eq!(text.matches("# EOF").count(), 1);
    }
}
