//! Content negotiation.

use crate::status::Status;

/// The form of objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Whole objects.
    Whole,
    /// Metadata only.
    Metadata,
    /// A list of metadata.
    MetadataList,
    /// Rows for people.
    Table,
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Returns the first supported form of an `Accept` header. Protobuf is not supported: the result is
/// 406 if the client accepts nothing else.
pub(super) fn accept(header: &str, custom: bool, list: bool) -> Result<Form, Status> {
    if header.trim().is_empty() {
        return Ok(Form::Whole);
    }
    let mut typed = false;
    for clause in header.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        if !is_json(parts.next().unwrap_or_default()) {
            continue;
        }
        typed = true;
        let parameter = |name: &str| {
            let mut parts = clause.split(';').map(str::trim);
            parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        };
        let Some(form) = parameter("as") else {
            return Ok(Form::Whole);
        };
        if (parameter("g"), parameter("v")) != (Some("meta.k8s.io"), Some("v1")) {
            continue;
        }
        match form {
            "Table" => return Ok(Form::Table),
            "PartialObjectMetadata" => return Ok(Form::Metadata),
            "PartialObjectMetadataList" => return Ok(Form::MetadataList),
            _ => {}
        }
    }
    if custom || typed {
        let why = format!("only the following media types are accepted: {ACCEPTED}");
        return Err(Status::new(406, "NotAcceptable", why));
    }
    let watched = if list {
        ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    } else {
        ""
    };
    let why = format!("406: Not Acceptable\n\nAvailable representations: {ACCEPTED}{watched}");
    Err(Status::new(406, "NotAcceptable", why).with_details(serde_json::json!({})))
}

/// Returns true if JSON satisfies the media type. JSON is valid YAML.
fn is_json(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/json" | "application/yaml" | "application/*" | "*/*"
    )
}
