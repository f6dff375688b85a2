//! Conversion of a recorded request to a request to this server.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ReplayError;
use super::trace::RecordedCall;
use kueue_check_sim::apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};

/// Returns the request with the names, UIDs and versions of this server. `names` maps recorded
/// names to present ones.
pub(super) fn call(
    recorded: &RecordedCall,
    server: &ApiServer,
    names: &BTreeMap<String, String>,
) -> Result<ApiRequest, ReplayError> {
    let unknown = || ReplayError::Request(format!("{} {}", recorded.method, recorded.path));
    let mut path = recorded.path.clone();
    let mut body = recorded.body.to_string();
    for (then, now) in names {
        path = path.replace(then.as_str(), now);
        body = body.replace(then.as_str(), now);
    }
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, mut rest) = match parts.as_slice() {
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        ["api", version, rest @ ..] => ("", *version, rest),
        _ => return Err(unknown()),
    };
    let mut namespace = "";
    if let ["namespaces", name, others @ ..] = rest
        && !others.is_empty()
    {
        namespace = name;
        rest = others;
    }
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        _ => return Err(unknown()),
    };
    let resource = Resource::new(group, version, plural);
    let verb = verb(recorded).ok_or_else(unknown)?;
    let mut call = ApiRequest::new(verb, &resource)
        .namespace(namespace)
        .agent("recording");
    if !name.is_empty() {
        call = call.name(name);
    }
    if !subresource.is_empty() {
        call = call.subresource(subresource);
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        call = call.query(key, value);
    }
    let mut body: Value = serde_json::from_str(&body)?;
    bring_up_to_date(
        &mut body,
        server.object(&resource, namespace, name).as_deref(),
    );
    Ok(call.body(body))
}

fn verb(recorded: &RecordedCall) -> Option<Verb> {
    Some(match recorded.method.as_str() {
        "GET" => Verb::Get,
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "DELETE" => Verb::Delete,
        "PATCH" => Verb::Patch(match recorded.content_type.as_str() {
            "application/merge-patch+json" => Patch::Merge,
            "application/json-patch+json" => Patch::Json,
            "application/apply-patch+yaml" => Patch::Apply,
            _ => return None,
        }),
        _ => return None,
    })
}

fn bring_up_to_date(body: &mut Value, live: Option<&Value>) {
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        if let (true, Some(live)) = (metadata.contains_key(field), live) {
            metadata.insert(field.to_owned(), live["metadata"][field].clone());
        }
    }
}
