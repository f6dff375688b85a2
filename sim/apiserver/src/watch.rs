//! Watches: a position in the history, and the events that a client selects.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Core;
use super::call::Resource;
use super::kinds::Kind;
use super::notifications::ChangeReceiver;
use super::select::Selector;
use super::status::{FieldError, Status};
use super::store::{Change, ChangeVerb, key};
use super::verbs::{no_such_resource, parse_version, shared, zero};

/// The objects to watch, and the version to start from.
///
/// ```
/// # use serde_json::json;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let maps = Resource::new("", "v1", "configmaps");
/// # let object = |name: &str| json!({"metadata": {"name": name, "labels": {"team": "red"}}});
/// # let create = |name: &str| server.call(&ApiRequest::new(Verb::Create, &maps).namespace("default").body(object(name)));
/// use kueue_check_apiserver::{ApiServer, ApiRequest, Patch, Resource, Verb, WatchOptions};
///
/// create("limits"); // a ConfigMap with the label `team: red`
/// let options = WatchOptions { label_selector: "team=red".to_owned(), ..WatchOptions::all(&maps) };
/// let mut watch = server.watch(options)?;
/// let relabel = json!({"metadata": {"labels": {"team": "blue"}}});
/// server.call(&ApiRequest::new(Verb::Patch(Patch::Merge), &maps).namespace("default").name("limits").body(relabel));
/// // A watch with a selector receives DELETED for an object that no longer matches.
/// let kinds: Vec<_> = std::iter::from_fn(|| watch.ready()).map(|event| event.kind).collect();
/// assert_eq!(kinds, ["ADDED", "DELETED"]);
/// # Ok::<(), kueue_check_apiserver::Status>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// The kind of object.
    pub resource: Option<Resource>,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The name of the only object to watch; empty for all.
    pub name: String,
    /// The label selector, as in the query.
    pub label_selector: String,
    /// The field selector, as in the query.
    pub field_selector: String,
    /// The version after which events start. Empty or `0` starts with one `ADDED` for each existing
    /// object.
    pub resource_version: String,
    /// Whether all objects come first, followed by a bookmark that marks their end. Requires
    /// `resource_version_match`.
    pub send_initial_events: Option<bool>,
    /// The match rule, as in the query.
    pub resource_version_match: String,
    /// Whether the watch may send bookmarks.
    pub allow_bookmarks: bool,
}

impl WatchOptions {
    /// Selects all objects of a kind, starting with the existing ones.
    pub fn all(resource: &Resource) -> Self {
        Self {
            resource: Some(resource.clone()),
            ..Self::default()
        }
    }
}

/// One event of a watch.
///
/// ```
/// # use serde_json::json;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let maps = Resource::new("", "v1", "configmaps");
/// # let object = |name: &str| json!({"metadata": {"name": name, "labels": {"team": "red"}}});
/// # let create = |name: &str| server.call(&ApiRequest::new(Verb::Create, &maps).namespace("default").body(object(name)));
/// use kueue_check_apiserver::{ApiServer, ApiRequest, Resource, Verb, WatchOptions};
///
/// create("limits");
/// server.compact(server.resource_version());
/// let old = WatchOptions { resource_version: "1".to_owned(), ..WatchOptions::all(&maps) };
/// let event = server.watch(old)?.ready().expect("an error is an event");
/// assert_eq!((event.kind, &event.object["code"], &event.object["reason"]), ("ERROR", &json!(410), &json!("Expired")));
/// # Ok::<(), kueue_check_apiserver::Status>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The type: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'static str,
    /// The object; the `Status` of an error.
    pub object: Arc<Value>,
}

/// A running watch.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), kueue_check_apiserver::Status> {
/// # use serde_json::json;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let maps = Resource::new("", "v1", "configmaps");
/// # let object = |name: &str| json!({"metadata": {"name": name, "labels": {"team": "red"}}});
/// # let create = |name: &str| server.call(&ApiRequest::new(Verb::Create, &maps).namespace("default").body(object(name)));
/// use kueue_check_apiserver::{ApiServer, ApiRequest, Resource, Verb, WatchOptions};
///
/// let mut watch = server.watch(WatchOptions::all(&maps))?;
/// assert_eq!(watch.ready(), None);
/// create("limits");
/// let event = watch.next().await.expect("it never ends by itself");
/// assert_eq!((event.kind, &event.object["metadata"]["name"]), ("ADDED", &json!("limits")));
/// // A kind that is not served can't be watched.
/// let refused = server.watch(WatchOptions::all(&Resource::new("example.com", "v1", "pools"))).err();
/// assert_eq!(refused.map(|status| status.code), Some(404));
/// # Ok(()) }
/// ```
pub struct Watch {
    core: Arc<Core>,
    kind: Arc<Kind>,
    prefix: String,
    selector: Selector,
    version: u64,
    ready: VecDeque<Event>,
    changed: ChangeReceiver,
    /// The count of notifications when the history was read last.
    read_at: Option<u64>,
    /// The number of restored backups when the watch began.
    restores: u64,
    ended: bool,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("version", &self.version)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn start(core: Arc<Core>, options: WatchOptions) -> Result<Self, Status> {
        let kind = options
            .resource
            .as_ref()
            .and_then(|resource| core.store().registry.get(resource))
            .ok_or_else(|| match &options.resource {
                Some(resource) => no_such_resource(&core, resource),
                None => Status::no_such_path(),
            })?;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut selector = Selector::parse(
            &kind,
            some(&options.label_selector).as_deref(),
            some(&options.field_selector).as_deref(),
        )?;
        if !options.name.is_empty() {
            selector.only(&options.name);
        }
        check(&options)?;
        let from = some(&options.resource_version)
            .map(|v| parse_version(&v))
            .transpose()
            .map_err(|why| Status::new(500, "", why))?;
        let namespace = if kind.namespaced {
            &options.namespace
        } else {
            ""
        };
        let prefix = key(namespace, "");
        let (version, changed, objects, compacted, restores) = {
            let mut store = core.store();
            let table = kind.table();
            let objects = store.list(&table, &prefix);
            let objects: Vec<Arc<Value>> = objects.map(|(_, object)| Arc::clone(object)).collect();
            (
                store.version(),
                store.table_changed(&table),
                objects,
                store.compacted(),
                store.restores(),
            )
        };
        let mut watch = Self {
            core,
            kind,
            prefix,
            selector,
            version,
            ready: VecDeque::new(),
            changed,
            read_at: None,
            restores,
            ended: false,
        };
        let initial = options
            .send_initial_events
            .unwrap_or(from.is_none_or(|v| v == 0));
        if initial {
            for object in objects {
                if watch.selector.matches(&object) {
                    let event = watch.event(ChangeVerb::Added.as_str(), &object);
                    watch.ready.push_back(event);
                }
            }
            // A client without `sendInitialEvents` that allows bookmarks gets one too.
            if options.allow_bookmarks {
                let bookmark = watch.bookmark(true);
                watch.ready.push_back(bookmark);
            }
        } else if let Some(from) = from.filter(|v| *v > 0) {
            watch.version = from;
            if from < compacted {
                watch.expire(format!(
                    "too old resource version: {from} ({})",
                    compacted + 1
                ));
            }
        }
        Ok(watch)
    }

    /// Ends the watch with 410.
    pub(crate) fn expire(&mut self, message: String) {
        let status = Status::expired(message);
        self.ready.push_back(Event {
            kind: "ERROR",
            object: Arc::new(status.to_value()),
        });
        self.ended = true;
    }

    fn event(&self, kind: &'static str, object: &Arc<Value>) -> Event {
        Event {
            kind,
            object: shared(&self.kind, object),
        }
    }

    /// Returns a bookmark at the position of the watch.
    pub(crate) fn bookmark(&self, initial_end: bool) -> Event {
        let mut object = zero(&self.kind);
        object["metadata"] = json!({"resourceVersion": self.version.to_string()});
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        Event {
            kind: "BOOKMARK",
            object: Arc::new(object),
        }
    }

    pub(crate) fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// Returns the watched kind of object.
    pub fn resource(&self) -> &Resource {
        &self.kind.resource
    }

    /// Returns the next event, if one is available.
    pub fn ready(&mut self) -> Option<Event> {
        if self.ready.is_empty() && !self.ended {
            self.read();
        }
        self.ready.pop_front()
    }

    /// Returns the next event. `None` after an `ERROR`, and after
    /// [`ApiServer::restore`](super::ApiServer::restore).
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            // Marked before it is read, so that no change in between is missed.
            self.changed.mark_seen();
            if let Some(event) = self.ready() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            self.changed.changed().await;
        }
    }

    fn read(&mut self) {
        let (changes, version, compacted) = {
            let store = self.core.store();
            let newest = Some(self.changed.newest());
            if self.read_at == newest {
                self.version = self.version.max(store.version());
                return;
            }
            self.read_at = newest;
            if store.restores() != self.restores {
                self.ended = true;
                return;
            }
            (
                store.changes_after(&self.kind.table(), self.version),
                store.version(),
                store.compacted(),
            )
        };
        if self.version < compacted && !changes.is_empty() {
            self.expire("The resourceVersion for the provided watch is too old.".to_owned());
            return;
        }
        for change in changes {
            if let Some(event) = self.translate(&change) {
                self.ready.push_back(event);
            }
        }
        self.version = self.version.max(version);
    }

    /// Converts a change to an event for a client that selects only some objects.
    fn translate(&self, change: &Change) -> Option<Event> {
        if !change.key.starts_with(&self.prefix) {
            return None;
        }
        let matches =
            |object: Option<&Arc<Value>>| object.is_some_and(|o| self.selector.matches(o));
        let before = matches(change.previous.as_ref());
        let after = change.verb != ChangeVerb::Deleted && matches(Some(&change.object));
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.event("ADDED", &change.object)),
            (true, true) => Some(self.event("MODIFIED", &change.object)),
            (true, false) => {
                // The object as it was last sent, with the version of its removal.
                let mut event = self.event("DELETED", change.previous.as_ref()?);
                let gone = Arc::make_mut(&mut event.object);
                gone["metadata"]["resourceVersion"] = change.resource_version.to_string().into();
                Some(event)
            }
        }
    }
}

fn check(options: &WatchOptions) -> Result<(), Status> {
    let mut errors = Vec::new();
    let rule = options.resource_version_match.as_str();
    let why = if options.send_initial_events.is_some() {
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    } else {
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    };
    let wrong = match options.send_initial_events {
        None => !rule.is_empty(),
        Some(_) => rule != "NotOlderThan",
    };
    if wrong {
        errors.push(FieldError::forbidden("resourceVersionMatch", why));
    }
    if !matches!(rule, "" | "NotOlderThan") {
        let allowed = ["NotOlderThan".into()];
        let error = FieldError::not_supported("resourceVersionMatch", &rule.into(), &allowed);
        errors.push(error);
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors))
    }
}
