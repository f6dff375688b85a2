//! Decoding of a body: types checked, unknown fields dropped, defaults filled in.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Context, builtin, meta};
use crate::apply::go_map;
use crate::kinds;
use crate::metadata;
use crate::schema::{default_fields, drop_nulls, prune, undecodable};
use crate::status::{FieldError, Status};

/// The source of an object: it decides how errors are reported.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Source<'a> {
    /// The body.
    Body,
    /// The result of a patch.
    Patch,
    /// The result of this strategic patch.
    Strategic(&'a Value),
}

/// A decoded object, with warnings for the client.
pub(super) struct Decoded {
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
}

/// Decodes a body, or the result of a patch, as an object of the kind.
pub(super) fn decode(
    context: &Context<'_>,
    mut object: Value,
    source: Source<'_>,
) -> Result<Decoded, Status> {
    let kind = &context.kind;
    if !kind.custom
        && let Some(map) = object.as_object_mut()
    {
        // Built-in kinds may leave their type out.
        fill(map, "kind", &kind.kind);
        fill(map, "apiVersion", &kind.api_version());
    }
    check_type(context, &object, source)?;
    let fault = if kind.custom {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        undecodable(metadata, &kinds::builtin().1, "")
    } else {
        undecodable(&object, &kind.schema, &kind.kind)
    };
    if let Some(why) = fault {
        return Err(refuse(context, &object, source, &why));
    }
    let whole = (context.field_validation() == "Strict").then(|| object.clone());
    let unknown: Vec<String> = shape(context, &mut object, true)
        .into_iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    if let Some(whole) = whole.filter(|_| !unknown.is_empty()) {
        let why = format!("strict decoding error: {}", unknown.join(", "));
        return Err(refuse(context, &whole, source, &why));
    }
    let mut warnings = match context.field_validation() {
        "Ignore" => Vec::new(),
        _ => unknown,
    };
    warnings.extend(normalize_owners(&mut object));
    Ok(Decoded { object, warnings })
}

fn fill(map: &mut Map<String, Value>, field: &str, text: &str) {
    let set = map.get(field).and_then(Value::as_str);
    if set.is_none_or(str::is_empty) {
        map.insert(field.to_owned(), text.into());
    }
}

fn normalize_owners(object: &mut Value) -> Option<String> {
    let twice = meta::dedup_owners(object);
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        )
    })
}

fn refuse(context: &Context<'_>, object: &Value, source: Source<'_>, why: &str) -> Status {
    let kind = &context.kind;
    match source {
        Source::Body => Status::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {why}",
            kind.kind, kind.resource.version, kind.kind
        )),
        Source::Patch => refuse_patch(&object.to_string(), why),
        Source::Strategic(patch) => refuse_patch(&go_map(patch), why),
    }
}

fn refuse_patch(shown: &str, why: &str) -> Status {
    let error = FieldError::invalid("patch", &shown.into(), why);
    Status::invalid("", "", "", &[error])
}

/// Drops unknown fields and fills in defaults. Returns the paths of dropped fields.
pub(super) fn shape(context: &Context<'_>, object: &mut Value, sent: bool) -> Vec<String> {
    let schema = &context.kind.schema;
    // An applied configuration has been validated already.
    let dropped = if sent || !context.kind.custom {
        prune(object, schema)
    } else {
        Vec::new()
    };
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = Value::Object(Map::new());
    }
    if context.kind.custom {
        if sent {
            drop_nulls(object, schema);
        }
        default_fields(object, schema);
    } else {
        without_nulls(object);
        builtin::default_object(&context.kind, object);
    }
    normalize_metadata(object);
    dropped
}

/// Removes nulls: Go does not write its empty values.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Removes empty parts of metadata, as Go does.
fn normalize_metadata(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    });
}

/// Checks that the type in a body is that of the URL.
fn check_type(context: &Context<'_>, object: &Value, source: Source<'_>) -> Result<(), Status> {
    let kind = &context.kind;
    if !object.is_object() {
        let found = match object {
            Value::Null => return Err(unrecognized(&kind.kind, UNFINISHED, "")),
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        let why = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        );
        return Err(unrecognized(&kind.kind, &why, &object.to_string()));
    }
    let field = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (found_kind, found_version) = (field("kind"), field("apiVersion"));
    if found_kind.is_empty() {
        let why = format!("Object 'Kind' is missing in '{object}'");
        return Err(unrecognized(&kind.kind, &why, &object.to_string()));
    }
    if found_version != kind.api_version() && kind.custom && source == Source::Body {
        return Err(Status::bad_request(format!(
            "the API version in the data ({found_version}) does not match the expected API version ({})",
            kind.api_version()
        )));
    }
    if found_kind == kind.kind && found_version == kind.api_version() {
        return Ok(());
    }
    let why = if kind.custom {
        let wanted = [
            ("kind", found_kind, kind.kind.clone()),
            ("apiVersion", found_version, kind.api_version()),
        ];
        let wrong = wanted.iter().filter(|(_, found, wanted)| found != wanted);
        let errors: Vec<FieldError> = wrong
            .map(|(field, found, wanted)| {
                FieldError::invalid(*field, &(*found).into(), format!("must be {wanted}"))
            })
            .collect();
        let name = metadata::text(object, "name");
        let group = found_version.split_once('/').map_or("", |(group, _)| group);
        return Err(Status::invalid(group, found_kind, name, &errors));
    } else if let Some(other) = known(context, found_version, found_kind) {
        format!(
            "converting ({other}) to ({}.{}): unknown conversion",
            internal(&kind.resource.group),
            kind.kind
        )
    } else {
        format!(
            "no kind \"{found_kind}\" is registered for version \"{found_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    let version = kinds::version_part(found_version);
    Err(Status::bad_request(format!(
        "{found_kind} in version \"{version}\" cannot be handled as a {}: {why}",
        kind.kind
    )))
}

/// Returns the Go type of another built-in kind, such as `v1.Secret`.
fn known(context: &Context<'_>, api_version: &str, kind: &str) -> Option<String> {
    let store = context.core.store();
    let found = store
        .registry
        .iter()
        .find(|k| !k.custom && k.kind == kind && k.api_version() == api_version)?;
    Some(format!("{}.{kind}", found.resource.version))
}

/// Returns the Go package of a group's internal types.
fn internal(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        other => other.split('.').next().unwrap_or(other),
    }
}

/// Go's error for JSON that ends too early.
pub(crate) const UNFINISHED: &str =
    "couldn't get version/kind; json parse error: unexpected end of JSON input";

/// Returns 400 for a body whose type cannot be read.
pub(crate) fn unrecognized(kind: &str, why: &str, body: &str) -> Status {
    const SHOWN: usize = 30;
    let bytes = body.as_bytes();
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let text = match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(cut).into_owned(),
        Some(_) => cut.iter().fold(String::new(), |mut text, byte| {
            // Writing to memory cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }),
    };
    let more = if bytes.len() > SHOWN { " ..." } else { "" };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({text}{more})"
    ))
}
