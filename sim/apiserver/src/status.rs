//! API errors, with the messages of the real server.

use std::fmt;

use serde_json::{Value, json};

use super::call::{ApiResponse, Resource};

pub use kueue_check_schema::FieldError;

/// The text for a path that is not served.
pub(crate) const NO_SUCH_PAGE: &str = "404 page not found";

/// An API error: the `Status` object of the API.
///
/// ```
/// use kueue_check_apiserver::{Resource, Status};
///
/// // The real server's response to a write of an old version; a fault may return it.
/// let status = Status::stale(&Resource::new("batch", "v1", "jobs"), "train");
/// assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
/// assert!(status.message.starts_with("Operation cannot be fulfilled on jobs.batch \"train\": the object has been modified"));
/// assert_eq!(status.to_value()["details"]["group"], "batch");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The reason, one word for programs, such as `Conflict`; may be empty.
    pub reason: String,
    /// The message, a sentence for people.
    pub message: String,
    /// The details: `name`, `group`, `kind`, `uid`, `causes`, `retryAfterSeconds`.
    pub details: Option<Value>,
    /// The continue token for the rest of an expired list.
    pub continue_token: Option<String>,
}

/// The message, with the code.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Status {}

impl Status {
    /// Creates an error.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Returns the error that a client receives if a validating or mutating webhook denies a
    /// request.
    pub fn denied(webhook: &str, message: &str) -> Self {
        Self::new(
            403,
            "Forbidden",
            format!("admission webhook \"{webhook}\" denied the request: {message}"),
        )
    }

    /// Returns 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns 404 for an object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", resource.qualified()),
        )
        .with_details(names(resource, name))
    }

    /// Returns 404 for a path that is not served: a text, not a `Status`.
    pub fn no_such_page() -> Self {
        Self::new(404, "NotFound", NO_SUCH_PAGE)
    }

    /// Returns 404 for a path.
    pub fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_details(json!({}))
    }

    /// Returns 409 for a name that exists.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", resource.qualified()),
        )
        .with_details(names(resource, name))
    }

    /// Returns the same error for a name whose object is being deleted.
    pub(crate) fn of_deleted_object(mut self) -> Self {
        self.message = format!("object is being deleted: {}", self.message);
        self
    }

    /// Returns 409 for a write that is too late.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {} \"{name}\": {why}",
                resource.qualified()
            ),
        )
        .with_details(names(resource, name))
    }

    /// Returns 409 for a `resourceVersion` that is not the newest.
    pub fn stale(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Returns 403.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let quoted = if name.is_empty() {
            String::new()
        } else {
            format!(" \"{name}\"")
        };
        Self::new(
            403,
            "Forbidden",
            format!("{}{quoted} is forbidden: {why}", resource.qualified()),
        )
        .with_details(names(resource, name))
    }

    /// Returns 410 for a compacted version.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Returns 415.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Returns 422 with a cause per error.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = format!("{}: {}", error.field, error.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = match texts.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let qualified = if group.is_empty() || kind.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({"reason": e.reason, "message": e.message, "field": e.field}))
            .collect();
        let mut details = json!({"causes": causes});
        put(&mut details, "kind", kind);
        put(&mut details, "group", group);
        put(&mut details, "name", name);
        Self::new(
            422,
            "Invalid",
            format!("{qualified} \"{name}\" is invalid: {all}"),
        )
        .with_details(details)
    }

    /// Returns the seconds to wait before the next request, if they are set.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// Returns the `Status` object as JSON.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message, "code": self.code,
        });
        put(&mut value, "reason", &self.reason);
        if let Some(token) = &self.continue_token {
            value["metadata"]["continue"] = token.clone().into();
        }
        if let Some(details) = &self.details {
            value["details"] = details.clone();
        }
        value
    }
}

impl From<Status> for ApiResponse {
    fn from(status: Status) -> Self {
        Self::new(status.code, status.to_value())
    }
}

fn put(value: &mut Value, field: &str, text: &str) {
    if !text.is_empty() {
        value[field] = text.into();
    }
}

fn names(resource: &Resource, name: &str) -> Value {
    let mut details = json!({"kind": resource.plural});
    put(&mut details, "name", name);
    put(&mut details, "group", &resource.group);
    details
}
