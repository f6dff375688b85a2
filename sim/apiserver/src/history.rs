//! The history of changes.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::call::Resource;

/// The kind of a change.
///
/// ```
/// # use kueue_check_apiserver::{ApiRequest, ApiServer, Resource, Verb};
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// use kueue_check_apiserver::ChangeVerb;
///
/// server.collect_garbage(true); // which ends Namespaces
/// let namespaces = Resource::new("", "v1", "namespaces");
/// server.call(&ApiRequest::new(Verb::Create, &namespaces).body(serde_json::json!({"metadata": {"name": "team"}})));
/// server.call(&ApiRequest::new(Verb::Delete, &namespaces).name("team"));
/// let verbs: Vec<ChangeVerb> = server.history().iter().map(|change| change.verb).collect();
/// // A Namespace is marked first, and goes once it is empty.
/// assert_eq!(verbs, [ChangeVerb::Added, ChangeVerb::Modified, ChangeVerb::Deleted]);
/// assert_eq!(verbs[0].as_str(), "ADDED");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeVerb {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was removed.
    Deleted,
}

impl ChangeVerb {
    /// Returns the type that watch events have.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
///
/// ```
/// # use kueue_check_apiserver::{ApiRequest, ApiServer, Patch, Resource, Verb};
/// # use serde_json::json;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// let maps = Resource::new("", "v1", "configmaps");
/// let call = |verb| ApiRequest::new(verb, &maps).namespace("default");
/// server.call(&call(Verb::Create).body(json!({"metadata": {"name": "limits"}, "data": {"gpus": "8"}})));
/// let patch = call(Verb::Patch(Patch::Merge)).name("limits").body(json!({"data": {"gpus": "16"}}));
/// server.call(&patch.agent("controller/1.0"));
///
/// let history = server.history();
/// let written: Vec<_> = history.iter().filter(|change| change.agent == "controller/1.0").collect();
/// assert_eq!(written.len(), 1, "it writes once");
/// assert_eq!(written[0].object["data"]["gpus"], "16");
/// assert_eq!(written[0].previous.as_ref().unwrap()["data"]["gpus"], "8");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The time of the change, in nanoseconds of the server's clock.
    pub at: Timestamp,
    /// The kind of object, in its storage version.
    pub resource: Resource,
    /// The kind of change.
    pub verb: ChangeVerb,
    /// The object after the change; the last state of a removed object.
    pub object: Arc<Value>,
    /// The user agent that made the change.
    pub agent: String,
    /// The `resourceVersion` that the change created.
    pub resource_version: u64,
    /// The object before the change.
    pub previous: Option<Arc<Value>>,
    pub(crate) key: String,
}
