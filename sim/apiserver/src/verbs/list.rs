//! Lists of objects.

use std::sync::Arc;

use base64::DecodeError;
use base64::engine::Engine;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde_json::{Value, json};

use super::{Context, integer};
use crate::call::ApiResponse;
use crate::select::Selector;
use crate::status::{FieldError, Status};
use crate::store::key;

/// The encoding of continue tokens: Go's `RawURLEncoding`.
const TOKEN: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    NO_PAD.with_decode_allow_trailing_bits(true),
);

/// The objects of a list, at one version.
pub(crate) struct ListRange {
    pub(crate) version: u64,
    pub(crate) objects: Vec<(String, Arc<Value>)>,
}

/// Returns the selectors of a request.
pub(super) fn selector(context: &Context<'_>) -> Result<Selector, Status> {
    let mut selector = Selector::parse(
        &context.kind,
        context.call.parameter("labelSelector"),
        context.call.parameter("fieldSelector"),
    )?;
    if let Some(name) = &context.call.name {
        selector.only(name);
    }
    Ok(selector)
}

fn prefix(context: &Context<'_>) -> String {
    key(&context.namespace, "")
}

/// A decoded continue token.
struct Continue {
    /// The version to read; `None` for the newest.
    version: Option<u64>,
    start: String,
}

pub(crate) fn list(context: &Context<'_>, view: Option<u64>) -> Result<ApiResponse, Status> {
    let Page { metadata, objects } = page(context, view)?;
    let items: Vec<Value> = objects.iter().map(|(_, o)| item(context, o)).collect();
    Ok(ApiResponse::new(200, listed(context, metadata, items)))
}

/// The objects of a list, at most as many as its limit, with their keys.
pub(super) struct Page {
    pub(super) metadata: Value,
    pub(super) objects: Vec<(String, Arc<Value>)>,
}

/// Returns the objects that the request selects.
pub(super) fn page(context: &Context<'_>, view: Option<u64>) -> Result<Page, Status> {
    let selector = selector(context)?;
    check_options(context)?;
    let mut limit = usize::try_from(number(context, "limit")?).unwrap_or(0);
    number(context, "timeoutSeconds")?;
    if context.call.parameter("resourceVersion") == Some("0") {
        // Version 0 is served from the cache, which ignores the limit.
        limit = 0;
    }
    let token = match context.call.parameter("continue") {
        Some(token) => Some(read_token(context, token)?),
        None => None,
    };
    let range = range(context, token.as_ref(), view)?;
    let start = token.map(|t| t.start).unwrap_or_default();
    let mut rest = range
        .objects
        .into_iter()
        .filter(|(key, object)| key.as_str() >= start.as_str() && selector.matches(object));
    let mut objects: Vec<(String, Arc<Value>)> = Vec::new();
    while limit == 0 || objects.len() < limit {
        match rest.next() {
            Some(entry) => objects.push(entry),
            None => break,
        }
    }
    let mut metadata = list_metadata(context, range.version);
    let left = rest.count();
    if left > 0
        && let Some((last, _)) = objects.last()
    {
        metadata["continue"] = write_token(context, range.version, last).into();
        if selector.is_empty() {
            metadata["remainingItemCount"] = left.into();
        }
    }
    Ok(Page { metadata, objects })
}

/// Returns a list of the kind. The items are moved: `json!` would copy them.
pub(super) fn listed(context: &Context<'_>, metadata: Value, items: Vec<Value>) -> Value {
    let kind = &context.kind;
    let mut list = json!({"apiVersion": kind.api_version(), "kind": kind.list_kind});
    list["metadata"] = metadata;
    list["items"] = Value::Array(items);
    list
}

/// Parses a number in the query; 0 if it is missing.
fn number(context: &Context<'_>, name: &str) -> Result<i64, Status> {
    let text = context.call.parameter(name).unwrap_or("0");
    integer(text)
}

/// Returns the metadata of a list. Lists of custom kinds always have a `continue`.
fn list_metadata(context: &Context<'_>, version: u64) -> Value {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if context.kind.custom {
        metadata["continue"] = "".into();
    }
    metadata
}

/// Returns an item of a list. Items of built-in kinds have no type.
pub(super) fn item(context: &Context<'_>, object: &Value) -> Value {
    let mut item = context.show(object);
    if let Some(map) = item.as_object_mut().filter(|_| !context.kind.custom) {
        map.remove("apiVersion");
        map.remove("kind");
    }
    item
}

fn check_options(context: &Context<'_>) -> Result<(), Status> {
    let call = context.call;
    let invalid = |error| Status::invalid("meta.k8s.io", "ListOptions", "", &[error]);
    let version = call.parameter("resourceVersion");
    if call.parameter("sendInitialEvents").is_some() {
        let why = "sendInitialEvents is forbidden for list";
        return Err(invalid(FieldError::forbidden("sendInitialEvents", why)));
    }
    let Some(rule) = call.parameter("resourceVersionMatch") else {
        return Ok(());
    };
    let forbidden = |why: &str| Err(invalid(FieldError::forbidden("resourceVersionMatch", why)));
    if call.parameter("continue").is_some() {
        return forbidden("resourceVersionMatch is forbidden when continue is provided");
    }
    if version.is_none() {
        return forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if !matches!(rule, "Exact" | "NotOlderThan") {
        return Err(invalid(FieldError::not_supported(
            "resourceVersionMatch",
            &rule.into(),
            &["Exact".into(), "NotOlderThan".into(), "".into()],
        )));
    }
    if rule == "Exact" && version == Some("0") {
        return forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
    Ok(())
}

fn range(
    context: &Context<'_>,
    token: Option<&Continue>,
    view: Option<u64>,
) -> Result<ListRange, Status> {
    let call = context.call;
    let (table, prefix) = (context.kind.table(), prefix(context));
    let store = context.core.store();
    let newest = store.version();
    let wanted = match token {
        Some(token) => {
            if call.parameter("resourceVersion").is_some_and(|v| v != "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            match token.version {
                Some(version) if version <= store.compacted() => {
                    return Err(expired_token(context, token));
                }
                version => version,
            }
        }
        None => requested_version(context, newest, store.compacted())?,
    };
    let version = wanted.or(view).unwrap_or(newest).min(newest);
    Ok(ListRange {
        version,
        objects: store.list_at(&table, &prefix, version),
    })
}

/// Returns the version to read exactly; `None` if any is allowed.
fn requested_version(
    context: &Context<'_>,
    newest: u64,
    compacted: u64,
) -> Result<Option<u64>, Status> {
    let call = context.call;
    let Some(text) = call.parameter("resourceVersion") else {
        return Ok(None);
    };
    let version = parse_version(text)
        .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    if version > newest {
        return Err(too_large(version, newest));
    }
    let rule = call.parameter("resourceVersionMatch");
    let limited = call.parameter("limit").is_some_and(|l| l != "0");
    let exact = rule == Some("Exact") || (rule.is_none() && limited && version > 0);
    if !exact {
        return Ok(None);
    }
    if version <= compacted {
        return Err(Status::expired(
            "The resourceVersion for the provided list is too old.",
        ));
    }
    Ok(Some(version))
}

/// Rejects a version that does not exist yet.
pub(super) fn check_reached(context: &Context<'_>) -> Result<(), Status> {
    let store = context.core.store();
    requested_version(context, store.version(), 0).map(|_| ())
}

/// Parses the `resourceVersion` of a list or a watch.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )
    })
}

fn too_large(version: u64, newest: u64) -> Status {
    Status::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {version}, current: {newest}"),
    )
    .with_details(json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1,
    }))
}

/// Returns the token for the rest: it starts at `last` plus a zero byte, which no key contains.
fn write_token(context: &Context<'_>, version: u64, last: &str) -> String {
    let relative = last.strip_prefix(&prefix(context)).unwrap_or(last);
    let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": format!("{relative}\u{0}")});
    TOKEN.encode(token.to_string())
}

fn read_token(context: &Context<'_>, token: &str) -> Result<Continue, Status> {
    let bad = |why: &str| {
        Status::bad_request(format!(
            "invalid continue token: continue key is not valid: {why}"
        ))
    };
    let bytes = TOKEN.decode(token).map_err(|error| {
        let place = match error {
            DecodeError::InvalidByte(place, _) => place,
            _ => token.len().saturating_sub(1),
        };
        bad(&format!("illegal base64 data at input byte {place}"))
    })?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
        let first = String::from_utf8_lossy(&bytes)
            .chars()
            .next()
            .unwrap_or(' ');
        bad(&format!(
            "invalid character {first:?} looking for beginning of value"
        ))
    })?;
    if value.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
        return Err(bad("server does not recognize this encoded version"));
    }
    let start = value
        .get("start")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Ok(Continue {
        version: value.get("rv").and_then(Value::as_u64),
        start: format!("{}{start}", prefix(context)),
    })
}

fn expired_token(context: &Context<'_>, token: &Continue) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    let relative = token
        .start
        .strip_prefix(&prefix(context))
        .unwrap_or(&token.start);
    let next = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": relative});
    status.continue_token = Some(TOKEN.encode(next.to_string()));
    status
}
