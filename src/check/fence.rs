//! A client that writes only while its process leads.

use http::header::UPGRADE;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

/// Why a write was not sent.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} is not sent: this replica does not lead; write while `is_leader` is true")]
struct NotLeading {
    method: Method,
    path: String,
}

/// Returns `client` with a fence: it sends reads, and a write only while `may_write` returns true.
/// It is called when the request is about to be sent.
pub(crate) fn fenced(
    client: &Client,
    may_write: impl Fn() -> bool + Clone + Send + 'static,
) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = tower::service_fn(move |request| {
        let (client, may_write) = (client.clone(), may_write.clone());
        async move { send(client, may_write, request).await }
    });
    Client::new(service, namespace)
}

async fn send(
    client: Client,
    may_write: impl Fn() -> bool,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    if is_write(&request) && !may_write() {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        return Err(NotLeading { method, path }.into());
    }
    Ok(client.send(request).await?)
}

/// The groups of reviews, which are sent by POST. The API server stores none of them.
const REVIEWS: [&str; 2] = [
    "/apis/authentication.k8s.io/",
    "/apis/authorization.k8s.io/",
];

/// Returns true if `request` may change something. A GET that upgrades its connection runs a
/// command in a pod, or forwards a port.
fn is_write(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    match *request.method() {
        Method::GET => request.headers().contains_key(UPGRADE),
        Method::HEAD | Method::OPTIONS => false,
        Method::POST => !REVIEWS.iter().any(|group| path.starts_with(group)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

    #[tokio::test]
    async fn a_write_is_sent_only_while_the_process_may_write() {
        let (sent, leads) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, may_write) = (Arc::clone(&sent), Arc::clone(&leads));
        let server = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        let server = Client::new(server, "team-a");
        let client = fenced(&server, move || may_write.load(Ordering::Relaxed));
        assert_eq!(client.default_namespace(), "team-a");
        let exec = "/api/v1/namespaces/default/pods/p/exec";
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let token = "/api/v1/namespaces/default/serviceaccounts/s/token";
        for (method, path, upgrade, writes) in [
            ("GET", CONFIG_MAPS, None, false),
            ("HEAD", CONFIG_MAPS, None, false),
            ("POST", review, None, false),
            ("POST", CONFIG_MAPS, None, true),
            ("POST", token, None, true),
            ("PUT", CONFIG_MAPS, None, true),
            ("PATCH", CONFIG_MAPS, None, true),
            ("DELETE", CONFIG_MAPS, None, true),
            ("GET", exec, Some("websocket"), true),
        ] {
            for leading in [false, true] {
                leads.store(leading, Ordering::Relaxed);
                let before = sent.load(Ordering::Relaxed);
                let mut request = Request::builder().method(method).uri(path);
                if let Some(protocol) = upgrade {
                    request = request.header(UPGRADE, protocol);
                }
                let response = client.send(request.body(Body::empty()).unwrap()).await;
                let passes = leading || !writes;
                assert_eq!(
                    response.is_ok(),
                    passes,
                    "{method} {path}, leading: {leading}"
                );
                let reached = sent.load(Ordering::Relaxed) - before;
                assert_eq!(reached, usize::from(passes), "{method} {path}");
                if let Err(error) = response {
                    let text = error.to_string();
                    let why = format!("{method} {path} is not sent: this replica does not lead");
                    assert!(text.contains(&why), "{text}");
                }
            }
        }
    }
}
