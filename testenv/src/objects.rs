//! Objects in JSON on a real API server, and waiting for their changes.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// The maximum time for a change in another process.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the API resource of the kind of `object`.
pub fn resource(object: &Value) -> ApiResource {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Returns the API of the kind of `object`, in its namespace if it has one.
pub fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let resource = resource(object);
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Applies `object` as `kubectl apply --server-side --force-conflicts` does. Returns the result.
///
/// # Errors
/// If the API server rejects it.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject, kube::Error> {
    let parameters = PatchParams::apply("kubectl").force();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let api = api(client, object);
    api.patch(name, &parameters, &Patch::Apply(object)).await
}

/// Returns a token of a ServiceAccount that is valid for `seconds`. Waits up to 60 s for the
/// ServiceAccount.
///
/// # Errors
/// The last error of the API server.
pub async fn token(
    client: &Client,
    namespace: &str,
    account: &str,
    seconds: i64,
) -> Result<String, kube::Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let spec = TokenRequestSpec {
        expiration_seconds: Some(seconds),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec,
        ..TokenRequest::default()
    };
    let (began, parameters) = (Instant::now(), PostParams::default());
    loop {
        let response = accounts.create_token_request(account, &parameters, &request);
        match response.await {
            Err(_) if began.elapsed() < TIMEOUT => {
                sleep(Duration::from_millis(100)).await;
            }
            response => {
                let status = response?.status;
                return Ok(status.map(|status| status.token).unwrap_or_default());
            }
        }
    }
}

/// Polls until the result is true, and returns its value.
///
/// # Panics
/// With the last value, if the result is not true within 60 s.
pub async fn eventually<T: Debug, F: Future<Output = (bool, T)>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let began = Instant::now();
    loop {
        let (yes, seen) = look().await;
        if yes {
            return seen;
        }
        assert!(
            began.elapsed() < TIMEOUT,
            "waited {TIMEOUT:?} for {what}; last seen: {seen:#?}"
        );
        sleep(Duration::from_millis(30)).await;
    }
}
