//! How often reviews are requested, with an API server that is a function.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Extension, Router};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::{advance, pause};
use tower::{ServiceExt, service_fn};

use super::*;

/// The requests that an API server received, and its responses.
#[derive(Debug, Default)]
struct Server {
    tokens: AtomicUsize,
    permissions: AtomicUsize,
    fails: std::sync::atomic::AtomicBool,
}

impl Server {
    fn requests(&self) -> (usize, usize) {
        (
            self.tokens.load(Ordering::Relaxed),
            self.permissions.load(Ordering::Relaxed),
        )
    }

    /// Responds to a review. `prometheus` and `guest` have tokens of their name; the first may get
    /// `/metrics`.
    fn respond(&self, mut review: Value) -> (u16, Value) {
        if self.fails.load(Ordering::Relaxed) {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "down", "reason": "InternalError", "code": 500});
            return (500, status);
        }
        let spec = review["spec"].clone();
        if review["kind"] == "TokenReview" {
            self.tokens.fetch_add(1, Ordering::Relaxed);
            let user = json!({"username": spec["token"], "groups": ["system:authenticated"], "extra": {"pod": ["p"]}});
            let known = ["prometheus", "guest"]
                .iter()
                .any(|name| spec["token"] == *name);
            review["status"] = if known {
                json!({"authenticated": true, "user": user})
            } else {
                json!({"authenticated": false, "error": "unknown"})
            };
        } else {
            self.permissions.fetch_add(1, Ordering::Relaxed);
            assert_eq!(spec["groups"], json!(["system:authenticated"]));
            assert_eq!(spec["extra"], json!({"pod": ["p"]}));
            let wanted = json!({"path": "/metrics", "verb": "get"});
            let requested = &spec["nonResourceAttributes"];
            // As Kubernetes' role `system:public-info-viewer`.
            let public = requested["path"] == "/readyz";
            let allowed = public || (spec["user"] == "prometheus" && *requested == wanted);
            review["status"] = json!({"allowed": allowed});
        }
        (201, review)
    }
}

fn guarded(server: &Arc<Server>) -> Router {
    let server = Arc::clone(server);
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let server = Arc::clone(&server);
        async move {
            let body = request.into_body().collect_bytes().await?;
            let (code, response) = server.respond(serde_json::from_slice(&body)?);
            let response = http::Response::builder()
                .status(code)
                .body(Body::from(response.to_string()));
            Ok::<_, tower::BoxError>(response?)
        }
    });
    let access = Arc::new(Access::new(Client::new(service, "default")));
    Router::new()
        .route(
            "/metrics",
            get(
                |Extension(user): Extension<User>| async move { format!("metrics for {}", user.0) },
            ),
        )
        .route("/diagnostics", get(|| async { "diagnostics" }))
        .layer(from_fn_with_state(access, authorize))
}

async fn status(routes: &Router, path: &str, authorization: &str) -> (u16, String) {
    let mut request = http::Request::get(path);
    if !authorization.is_empty() {
        request = request.header("Authorization", authorization);
    }
    let response = routes
        .clone()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_path_is_for_users_whom_the_api_server_allows_it() {
    let server = Arc::<Server>::default();
    let routes = guarded(&server);
    for (path, authorization, expected) in [
        ("/metrics", "", 401),
        ("/metrics", "Basic cHJvbWV0aGV1cw==", 401),
        ("/metrics", "Bearer ", 401),
        ("/metrics", "Bearer stranger", 401),
        ("/metrics", "Bearer guest", 403),
        ("/metrics", "bearer prometheus", 200),
        ("/diagnostics", "Bearer prometheus", 403),
        ("/readyz", "Bearer prometheus", 403),
        ("/nowhere", "", 401),
        ("/nowhere", "Bearer prometheus", 403),
    ] {
        let (code, text) = status(&routes, path, authorization).await;
        assert_eq!(code, expected, "{path} {authorization}: {text}");
        assert_eq!(text == "metrics for prometheus", code == 200, "{text}");
    }
}

#[tokio::test]
async fn decisions_hold_for_a_bounded_time() {
    pause();
    let server = Arc::<Server>::default();
    let routes = guarded(&server);
    for _ in 0..3 {
        assert_eq!(
            status(&routes, "/metrics", "Bearer prometheus").await.0,
            200
        );
        assert_eq!(status(&routes, "/metrics", "Bearer guest").await.0, 403);
        assert_eq!(status(&routes, "/metrics", "Bearer stranger").await.0, 401);
    }
    assert_eq!(server.requests(), (3, 2));
    advance(DENIED).await;
    status(&routes, "/metrics", "Bearer guest").await;
    status(&routes, "/metrics", "Bearer prometheus").await;
    assert_eq!(server.requests(), (4, 3), "the guest only");
    advance(ALLOWED).await;
    status(&routes, "/metrics", "Bearer prometheus").await;
    assert_eq!(server.requests(), (5, 4));
}

#[tokio::test]
async fn nothing_is_served_or_cached_while_the_api_server_fails() {
    pause();
    let server = Arc::<Server>::default();
    let routes = guarded(&server);
    server.fails.store(true, Ordering::Relaxed);
    assert_eq!(
        status(&routes, "/metrics", "Bearer prometheus").await.0,
        503
    );
    server.fails.store(false, Ordering::Relaxed);
    assert_eq!(
        status(&routes, "/metrics", "Bearer prometheus").await.0,
        200
    );
    server.fails.store(true, Ordering::Relaxed);
    assert_eq!(
        status(&routes, "/metrics", "Bearer prometheus").await.0,
        200
    );
    advance(ALLOWED).await;
    assert_eq!(
        status(&routes, "/metrics", "Bearer prometheus").await.0,
        503
    );
}

#[tokio::test]
async fn made_up_tokens_take_bounded_memory_and_evict_no_allowed_user() {
    pause();
    let access = Access::new(Client::new(
        service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<Body>, tower::BoxError>("unused".into())
        }),
        "default",
    ));
    let action = |token: &str| ReviewedAction {
        token: fingerprint(token),
        verb: "get".to_owned(),
        path: "/metrics".to_owned(),
    };
    let allowed = || Outcome::Allowed(User("prometheus".into()));
    access.cache_outcome(&action("prometheus"), allowed());
    for number in 0..3 * MAX_CACHED {
        access.cache_outcome(&action(&number.to_string()), Outcome::Unauthenticated);
    }
    assert!(access.decisions.lock().unwrap().len() <= MAX_CACHED);
    assert_eq!(access.cached(&action("prometheus")), Some(allowed()));
}
