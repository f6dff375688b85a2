//! From a URL to what is asked.

use http::Method;
use serde_json::Value;

use crate::apiserver::Core;
use crate::apiserver::call::{Call, Patch, Resource, Verb};
use crate::apiserver::kinds;
use crate::apiserver::status::Status;

/// What a request asks.
pub(crate) enum Route {
    /// Something about objects.
    Call(Call),
    /// A watch; the call is the list that it belongs to.
    Watch(Call),
    /// JSON about the server itself.
    Json(Value),
    /// A text.
    Text(&'static str),
}

/// A request without its transport.
pub(crate) struct Incoming<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) agent: &'a str,
}

/// What is asked.
pub(crate) fn route(core: &Core, incoming: &Incoming<'_>) -> Result<Route, Status> {
    let parts: Vec<String> = incoming
        .path
        .split('/')
        .filter(|p| !p.is_empty())
        .map(decode)
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let registry = || core.store().registry.clone();
    let found = |value: Option<Value>| value.map(Route::Json).ok_or_else(Status::no_such_path);
    match parts.as_slice() {
        ["readyz" | "livez" | "healthz", ..] => Ok(Route::Text("ok")),
        ["version"] => Ok(Route::Json(version())),
        ["api"] => Ok(Route::Json(kinds::versions())),
        ["apis"] => Ok(Route::Json(kinds::groups(&registry()))),
        ["api", version] => found(kinds::resources(&registry(), "", version)),
        ["apis", group] => found(kinds::group(&registry(), group)),
        ["apis", group, version] => found(kinds::resources(&registry(), group, version)),
        ["openapi", "v3"] => Ok(Route::Json(kinds::index(&registry()))),
        ["openapi", "v3", "api", version] => found(kinds::document(&registry(), "", version)),
        ["openapi", "v3", "apis", group, version] => {
            found(kinds::document(&registry(), group, version))
        }
        ["api", version, rest @ ..] => objects(incoming, "", version, rest),
        ["apis", group, version, rest @ ..] => objects(incoming, group, version, rest),
        _ => Err(Status::no_such_path()),
    }
}

fn version() -> Value {
    serde_json::json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "", "platform": "",
    })
}

fn objects(
    incoming: &Incoming<'_>,
    group: &str,
    version: &str,
    rest: &[&str],
) -> Result<Route, Status> {
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !is_part(rest[0]) => {
            (Some((*namespace).to_owned()), rest)
        }
        _ => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some(*name), None),
        [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
        _ => return Err(Status::no_such_path()),
    };
    let query = pairs(incoming.query);
    let watches = query
        .iter()
        .any(|(k, v)| k == "watch" && matches!(v.as_str(), "true" | "1"));
    let call = Call {
        verb: verb(incoming, name.is_some())?,
        resource: Resource::new(group, version, plural),
        namespace,
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        query,
        body: Value::Null,
        agent: incoming.agent.to_owned(),
    };
    if watches && incoming.method == Method::GET {
        return Ok(Route::Watch(call));
    }
    let body = body(incoming, &call)?;
    Ok(Route::Call(Call { body, ..call }))
}

/// `/api/v1/namespaces/NAME/status` is about the Namespace itself.
fn is_part(word: &str) -> bool {
    matches!(word, "status" | "finalize")
}

fn verb(incoming: &Incoming<'_>, named: bool) -> Result<Verb, Status> {
    let verb = match (incoming.method, named) {
        (&Method::GET, true) => Verb::Get,
        (&Method::GET, false) => Verb::List,
        (&Method::POST, false) => Verb::Create,
        (&Method::PUT, true) => Verb::Update,
        (&Method::DELETE, true) => Verb::Delete,
        (&Method::DELETE, false) => Verb::DeleteCollection,
        (&Method::PATCH, true) => Verb::Patch(patch(incoming)?),
        _ => return Err(crate::apiserver::verbs::method_not_allowed()),
    };
    Ok(verb)
}

fn patch(incoming: &Incoming<'_>) -> Result<Patch, Status> {
    let kind = incoming.content_type.split(';').next().unwrap_or_default();
    match kind.trim() {
        "application/json-patch+json" => Ok(Patch::Json),
        "application/merge-patch+json" => Ok(Patch::Merge),
        "application/apply-patch+yaml" => Ok(Patch::Apply),
        "application/strategic-merge-patch+json" => Ok(Patch::Strategic),
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, application/apply-patch+cbor",
        )),
    }
}

fn body(incoming: &Incoming<'_>, call: &Call) -> Result<Value, Status> {
    if incoming.body.is_empty() {
        if matches!(call.verb, Verb::Create | Verb::Update) {
            return Err(Status::bad_request("Object 'Kind' is missing in ''"));
        }
        return Ok(Value::Null);
    }
    let patches = matches!(call.verb, Verb::Patch(_));
    serde_json::from_slice(incoming.body).map_err(|error| {
        Status::bad_request(if patches {
            format!("error decoding patch: {error}")
        } else {
            format!("couldn't get version/kind; json parse error: {error}")
        })
    })
}

/// The parameters of a query, in order.
fn pairs(query: &str) -> Vec<(String, String)> {
    let parts = query.split('&').filter(|p| !p.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (
                decode(&key.replace('+', " ")),
                decode(&value.replace('+', " ")),
            )
        })
        .collect()
}

/// Without percent signs.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text
            .get(at + 1..at + 3)
            .and_then(|d| u8::from_str_radix(d, 16).ok());
        match (bytes[at], digits) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
