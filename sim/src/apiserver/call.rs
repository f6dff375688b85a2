//! One request without HTTP around it, and its answer.

use serde_json::Value;

/// A kind of object, as a URL names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Such as `pods`.
    pub plural: String,
}

impl Resource {
    /// A resource by its three names.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        plural: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change one.
    Patch(Patch),
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply,
}

/// A request. A watch is not one: see `ApiServer::watch`.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What is to be done.
    pub verb: Verb,
    /// To which kind of object.
    pub resource: Resource,
    /// Where; `None` for objects without a namespace and for lists of all namespaces.
    pub namespace: Option<String>,
    /// Which one; `None` for lists and creations.
    pub name: Option<String>,
    /// Such as `status`.
    pub subresource: Option<String>,
    /// The query, such as `fieldManager` and `force`, in the order in which it came.
    pub query: Vec<(String, String)>,
    /// Object, patch or delete options; null for none.
    pub body: Value,
    /// Who asks: the user agent, of which the part before `/` is the default field manager.
    pub agent: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status code.
    pub code: u16,
    /// An object, a list, or a `Status`.
    pub body: Value,
}
