//! A client that only reads.

use std::io;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;
use tower::BoxError;

/// How long the head of a response may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns `client` with a guard that refuses every request that is not a read, whatever its
/// caller. No request through it can have an effect on the cluster.
pub(in crate::cli) fn read_only(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    Client::new(
        tower::service_fn(move |request| send(client.clone(), request)),
        namespace,
    )
}

async fn send(client: Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let (method, path) = (request.method(), request.uri().path());
    if method != Method::GET {
        let why = format!("{method} {path} is not sent: this only reads");
        return Err(io::Error::other(why).into());
    }
    let Ok(result) = timeout(HEAD_TIMEOUT, client.send(request)).await else {
        let why = format!("the API server did not respond within {HEAD_TIMEOUT:?}");
        return Err(io::Error::other(why).into());
    };
    Ok(result?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn whatever_is_no_read_is_not_sent() {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let server = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, io::Error>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        let client = read_only(&Client::new(server, "default"));
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let request = Request::builder()
                .method(method)
                .uri("/api/v1/pods")
                .body(Body::empty())
                .unwrap();
            let result = client.send(request).await;
            assert_eq!(result.is_ok(), method == "GET", "{method}");
            if let Err(error) = result {
                let text = error.to_string();
                assert!(
                    text.contains(method) || format!("{error:?}").contains(method),
                    "{text}"
                );
            }
        }
        assert_eq!(sent.load(Ordering::Relaxed), 1);
    }
}
