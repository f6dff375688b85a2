//! What has happened.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::call::Resource;

/// What happened to an object.
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
    /// It is new.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl ChangeVerb {
    /// As watches say it.
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
    /// When, to the nanosecond of the server's clock.
    pub at: Timestamp,
    /// Of which kind, in the version in which it is stored.
    pub resource: Resource,
    /// What happened.
    pub verb: ChangeVerb,
    /// The object after it; the last state of an object that is gone.
    pub object: Arc<Value>,
    /// Who did it.
    pub agent: String,
    /// The version that the change made.
    pub resource_version: u64,
    /// The object before it.
    pub previous: Option<Arc<Value>>,
    pub(crate) key: String,
}
