//! Request bodies.

use serde_json::Value;
use serde_json::error::Category;

use super::protobuf;
use crate::call::{ApiRequest, Patch, Verb};
use crate::kinds::Kind;
use crate::status::Status;
use crate::verbs::decode::unrecognized;

/// The largest body that the real server accepts, in bytes.
const LIMIT: usize = 3 * 1024 * 1024;

/// Returns the format of a patch from its content type.
pub(super) fn patch(content_type: &str, custom: bool) -> Result<Patch, Status> {
    match media_type(content_type) {
        "application/json-patch+json" => Ok(Patch::Json),
        "application/merge-patch+json" => Ok(Patch::Merge),
        "application/apply-patch+yaml" => Ok(Patch::Apply),
        "application/strategic-merge-patch+json" => Ok(Patch::Strategic),
        _ if custom => Err(unknown_patch()),
        _ => {
            let status = Status::unsupported_media_type("415: Unsupported Media Type");
            Err(status.with_details(serde_json::json!({})))
        }
    }
}

/// Returns status 415 for a patch format that the kind does not support.
pub(crate) fn unknown_patch() -> Status {
    Status::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Parses the body of a call. `kind` is the kind of the path.
pub(super) fn read(
    bytes: &[u8],
    content_type: &str,
    call: &ApiRequest,
    kind: &Kind,
) -> Result<Value, Status> {
    if bytes.len() > LIMIT {
        let why = format!("Request entity too large: limit is {LIMIT}");
        return Err(Status::new(413, "RequestEntityTooLarge", why));
    }
    match call.verb {
        Verb::Get | Verb::List => Ok(Value::Null),
        Verb::Patch(Patch::Apply) => yaml(
            bytes,
            "error decoding YAML: error converting YAML to JSON: ",
        ),
        Verb::Patch(_) => serde_json::from_slice(bytes).map_err(|error| {
            Status::bad_request(format!("error decoding patch: {}", go_error(&error, bytes)))
        }),
        Verb::Delete | Verb::DeleteCollection if bytes.is_empty() => Ok(Value::Null),
        Verb::Create | Verb::Update if reads_protobuf(content_type, kind) => {
            protobuf::read(bytes, &kind.schema).ok_or_else(|| {
                let why = "the body is not an object of the kind in protobuf";
                unrecognized(&kind.kind, why, "")
            })
        }
        Verb::Create | Verb::Update | Verb::Delete | Verb::DeleteCollection => {
            object(bytes, content_type, &kind.kind)
        }
    }
}

fn reads_protobuf(content_type: &str, kind: &Kind) -> bool {
    media_type(content_type) == protobuf::MEDIA_TYPE && protobuf::is_known(kind)
}

fn object(bytes: &[u8], content_type: &str, kind: &str) -> Result<Value, Status> {
    match media_type(content_type) {
        "" | "application/json" | "*/*" => serde_json::from_slice(bytes).map_err(|error| {
            let why = format!(
                "couldn't get version/kind; json parse error: {}",
                go_error(&error, bytes)
            );
            unrecognized(kind, &why, &String::from_utf8_lossy(bytes))
        }),
        "application/yaml" => yaml(bytes, ""),
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Parses YAML. JSON is tried first: it is valid YAML and parses faster.
fn yaml(bytes: &[u8], head: &str) -> Result<Value, Status> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(bytes).or_else(|_| {
        serde_saphyr::from_slice(bytes)
            .map_err(|error| Status::bad_request(format!("{head}yaml: {error}")))
    })
}

/// Returns Go's message for invalid JSON.
fn go_error(error: &serde_json::Error, bytes: &[u8]) -> String {
    if error.classify() == Category::Eof {
        return "unexpected end of JSON input".to_owned();
    }
    let line = bytes
        .split(|b| *b == b'\n')
        .nth(error.line().saturating_sub(1));
    let found = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    let found = found.map_or(' ', |byte| char::from(*byte));
    let text = error.to_string();
    let place = if text.starts_with("key must be a string") {
        "looking for beginning of object key string"
    } else if text.starts_with("expected `,` or `}`") {
        "after object key:value pair"
    } else if text.starts_with("expected `,` or `]`") {
        "after array element"
    } else if text.starts_with("expected `:`") {
        "after object key"
    } else if text.starts_with("trailing characters") {
        "after top-level value"
    } else {
        "looking for beginning of value"
    };
    format!("invalid character '{found}' {place}")
}
