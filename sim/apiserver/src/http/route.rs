//! Routes: from a URL to a request.

use bytes::Bytes;
use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::accept::{Form, accept};
use super::body;
use super::stream::is_true;
use crate::Core;
use crate::call::{ApiRequest, Resource, Verb};
use crate::kinds::{self, Kind, Registry};
use crate::status::Status;
use crate::verbs::{method_not_allowed, no_such_resource};

/// The target of a request.
pub(super) enum Route {
    /// A request about objects.
    Call(ApiRequest, Form),
    /// A watch, with the list request that it belongs to.
    Watch(ApiRequest, Form),
    /// JSON about the server itself.
    Json(Bytes),
    /// Plain text.
    Text(&'static str),
}

/// A request without its transport.
pub(super) struct RequestParts<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) agent: &'a str,
}

/// Parses a request into its route.
pub(super) fn route(core: &Core, request: &RequestParts<'_>) -> Result<Route, Status> {
    let parts: Vec<String> = request
        .path
        .split('/')
        .filter(|p| !p.is_empty())
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let about = |make: &dyn Fn(&Registry) -> Option<Value>| {
        let registry = core.offered();
        let document = registry.document(request.path, make);
        document.map(Route::Json).ok_or_else(Status::no_such_page)
    };
    match parts.as_slice() {
        ["readyz" | "livez" | "healthz", ..] => Ok(Route::Text("ok")),
        ["version"] => about(&|_| Some(version())),
        ["api"] => about(&|_| Some(kinds::versions())),
        ["apis"] => about(&|all| Some(kinds::groups(all))),
        ["api", version] => about(&|all| kinds::resources(all, "", version)),
        ["apis", group] => about(&|all| kinds::group(all, group)),
        ["apis", group, version] => about(&|all| kinds::resources(all, group, version)),
        ["openapi", "v3"] => about(&|all| Some(kinds::index(all))),
        ["openapi", "v3", "api", version] => about(&|all| kinds::document(all, "", version)),
        ["openapi", "v3", "apis", group, version] => {
            about(&|all| kinds::document(all, group, version))
        }
        ["api", version, rest @ ..] => objects(core, request, ("", version), rest),
        ["apis", group, version, rest @ ..] => objects(core, request, (group, version), rest),
        _ => Err(Status::no_such_page()),
    }
}

fn version() -> Value {
    serde_json::json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "", "platform": "",
    })
}

fn objects(
    core: &Core,
    request: &RequestParts<'_>,
    (group, version): (&str, &str),
    rest: &[&str],
) -> Result<Route, Status> {
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !is_part(rest[0]) => {
            (Some((*namespace).to_owned()), rest)
        }
        _ => (None, rest),
    };
    let resource = Resource::new(group, version, rest.first().copied().unwrap_or_default());
    let kind = core.offered().get(&resource);
    let Some(kind) = kind else {
        return Err(no_such_resource(core, &resource));
    };
    let (name, subresource) = match rest {
        [_] => (None, None),
        [_, name] => (Some(*name), None),
        [_, name, subresource] => (Some(*name), Some(*subresource)),
        [_, name, ..] if kind.custom => return Err(Status::not_found(&resource, name)),
        _ => return Err(Status::no_such_path()),
    };
    let query = form_urlencoded::parse(request.query.as_bytes());
    let query: Vec<(String, String)> = query.into_owned().collect();
    let watches = query.iter().any(|(k, v)| k == "watch" && is_true(v));
    let call = ApiRequest {
        verb: verb(request, &kind, name.is_some())?,
        resource,
        namespace,
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        query,
        body: Value::Null,
        agent: request.agent.to_owned(),
    };
    let form = accept(request.accept, kind.custom, call.verb == Verb::List)?;
    if watches && request.method == Method::GET {
        return Ok(Route::Watch(call, form));
    }
    let body = body::read(request.body, request.content_type, &call, &kind)?;
    Ok(Route::Call(ApiRequest { body, ..call }, form))
}

/// Returns true for a subresource of a Namespace, as in `/api/v1/namespaces/NAME/status`.
fn is_part(word: &str) -> bool {
    matches!(word, "status" | "finalize")
}

fn verb(request: &RequestParts<'_>, kind: &Kind, named: bool) -> Result<Verb, Status> {
    let verb = match (request.method, named) {
        (&Method::GET, true) => Verb::Get,
        (&Method::GET, false) => Verb::List,
        (&Method::POST, false) => Verb::Create,
        (&Method::PUT, true) => Verb::Update,
        (&Method::DELETE, true) => Verb::Delete,
        (&Method::DELETE, false) => Verb::DeleteCollection,
        (&Method::PATCH, true) => Verb::Patch(body::patch(request.content_type, kind.custom)?),
        // The create verb rejects the status of a custom kind with its own error.
        (&Method::POST, true) if kind.custom => Verb::Create,
        (&Method::PUT | &Method::PATCH, false) if kind.custom => {
            return Err(Status::bad_request("name must be provided"));
        }
        _ => return Err(method_not_allowed()),
    };
    Ok(verb)
}
