//! Requests to the API server, and changes that it reports.

use std::sync::Arc;

use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;

use crate::bodies::collection;
use crate::history::MARK;

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObservedChange {
    pub(crate) at: Instant,
    pub(crate) object: Arc<Value>,
    pub(crate) kind: &'static str,
    pub(crate) deleted: bool,
}

/// An error of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// It could not be made.
    #[error("cannot send a request: {0}")]
    Request(#[from] http::Error),
    /// The API server did not respond.
    #[error("the API server does not respond: {0}")]
    Client(#[from] kube::Error),
}

/// The response of the API server.
pub(crate) struct Response {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// A request to the API server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn create(path: String, body: Value) -> Self {
        Self {
            method: "POST",
            path,
            content_type: "application/json",
            body,
        }
    }

    pub(crate) fn merge(path: String, body: Value) -> Self {
        Self {
            method: "PATCH",
            path,
            content_type: "application/merge-patch+json",
            body,
        }
    }

    pub(crate) fn apply(path: String, body: Value) -> Self {
        Self {
            method: "PATCH",
            path,
            content_type: "application/apply-patch+yaml",
            body,
        }
    }

    pub(crate) fn read(path: String) -> Self {
        Self {
            method: "GET",
            path,
            content_type: "application/json",
            body: Value::Null,
        }
    }

    pub(crate) fn delete(path: String) -> Self {
        Self {
            method: "DELETE",
            path,
            content_type: "application/json",
            body: Value::Null,
        }
    }

    /// Returns the request that creates an object.
    pub(crate) fn creation(object: &Value) -> Self {
        Self::create(collection(object), object.clone())
    }

    /// Returns the request with the mark in its names.
    pub(crate) fn marked(mut self, mark: &str) -> Self {
        self.path = self.path.replace(MARK, mark);
        let body = self.body.to_string().replace(MARK, mark);
        self.body = serde_json::from_str(&body).unwrap_or_default();
        self
    }
}

/// Sends a request unchanged.
pub(crate) async fn send(client: &Client, request: &Request) -> Result<Response, RequestError> {
    let body = if request.body.is_null() {
        Vec::new()
    } else {
        request.body.to_string().into_bytes()
    };
    let request = http::Request::builder()
        .method(request.method)
        .uri(&request.path)
        .header(http::header::CONTENT_TYPE, request.content_type)
        .body(Body::from(body))?;
    let response = client.send(request).await?;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await?.to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok(Response { code, body })
}
