//! HTTP responses.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::Body;
use crate::call::ApiResponse;
use crate::status::{NO_SUCH_PAGE, Status};

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(super) fn json(code: u16, value: &Value) -> Response<Body> {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    with(code, "application/json", whole(bytes.into()))
}

/// Returns a response with serialized JSON.
pub(super) fn document(bytes: Bytes) -> Response<Body> {
    with(200, "application/json", whole(bytes))
}

pub(super) fn text(text: &'static str) -> Response<Body> {
    with(200, "text/plain; charset=utf-8", whole(text.into()))
}

pub(super) fn stream(body: Body) -> Response<Body> {
    with(200, "application/json", body)
}

pub(super) fn of(reply: &ApiResponse) -> Response<Body> {
    if reply.code == 404 && reply.body["message"] == NO_SUCH_PAGE {
        return page();
    }
    let mut response = json(reply.code, &reply.body);
    let seconds = reply.body["details"]["retryAfterSeconds"].as_u64();
    if let Some(seconds) = seconds.filter(|_| reply.code >= 400) {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    for warning in &reply.warnings {
        warn(&mut response, warning);
    }
    response
}

/// Adds a warning to a response.
pub(super) fn warn(response: &mut Response<Body>, warning: &str) {
    let text = format!("299 - {}", Value::from(warning));
    if let Ok(value) = header::HeaderValue::from_str(&text) {
        response.headers_mut().append(header::WARNING, value);
    }
}

/// Returns the response of Go's own server for a path that is not served.
fn page() -> Response<Body> {
    let text = format!("{NO_SUCH_PAGE}\n");
    with(404, "text/plain; charset=utf-8", whole(text.into()))
}

/// Returns an error response, with the `Retry-After` header if a delay is given.
pub(super) fn status(status: &Status, retry_after: Option<u64>) -> Response<Body> {
    if status.message == NO_SUCH_PAGE {
        return page();
    }
    let mut response = json(status.code, &status.to_value());
    if let Some(seconds) = retry_after.or_else(|| status.retry_after()) {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn with(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    response
}
