//! Watches of the recorder.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use kueue_check::Clock;
use kueue_check::kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kueue_check::kube::runtime::WatchStreamExt;
use kueue_check::kube::runtime::watcher::{self, Config, Event, watcher};
use kueue_check::kube::{Api, Client, Error};
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use super::RecordError;
use super::kinds::Kind;
use super::recording::{ObservedChange, What, is_of_model};

/// The number of objects in a page of a list.
const PAGE: u32 = 500;

/// A message of a watch to the recorder.
pub(super) enum Message {
    /// An object of the initial list.
    Initial(Kind, Arc<Value>),
    /// An object of a list that may begin again.
    Progress,
    /// The initial list is complete.
    Complete,
    /// A change.
    Change(ObservedChange),
    /// The initial list failed.
    Failed(RecordError),
    /// A request failed with this error, and is sent again.
    Retried(String),
}

/// A watch.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) sender: Sender<Message>,
}

/// Existing objects by namespace and name.
type ObjectMap = BTreeMap<(Option<String>, Option<String>), Arc<Value>>;

impl Watch {
    /// Watches the objects of a kind.
    pub(super) async fn objects(self, kind: Kind) {
        let (mut known, mut listed) = (ObjectMap::new(), ObjectMap::new());
        let mut began = false;
        let config = match kind {
            // Kueue manages Jobs with this label only.
            Kind::Job => Config::default().labels("kueue.x-k8s.io/queue-name"),
            _ => Config::default(),
        };
        let resource = kind.resource();
        let api = Api::all_with(self.client.clone(), &resource);
        let mut events = watcher(api, config.page_size(PAGE))
            .default_backoff()
            .boxed();
        while let Some(event) = events.next().await {
            let messages = match event {
                Err(error) => failed(&resource, began, error),
                Ok(Event::Init) => {
                    listed.clear();
                    Vec::new()
                }
                Ok(Event::InitApply(object)) => {
                    let (key, object) = keyed(object);
                    let is_known = known
                        .get(&key)
                        .is_some_and(|known| version(known) == version(&object));
                    listed.insert(key, Arc::clone(&object));
                    match (began, is_known) {
                        (false, _) => vec![Message::Progress],
                        (true, true) => Vec::new(),
                        (true, false) => vec![self.seen(What::Is(kind), object)],
                    }
                }
                Ok(Event::InitDone) => {
                    let gone = known.iter().filter(|(key, _)| !listed.contains_key(*key));
                    let mut messages: Vec<Message> = gone
                        .map(|(_, object)| self.seen(What::Gone(kind), Arc::clone(object)))
                        .collect();
                    known = std::mem::take(&mut listed);
                    if !std::mem::replace(&mut began, true) {
                        let initial = known.values().map(Arc::clone);
                        messages.extend(initial.map(|object| Message::Initial(kind, object)));
                        messages.push(Message::Complete);
                    }
                    messages
                }
                Ok(Event::Apply(object)) => {
                    let (key, object) = keyed(object);
                    known.insert(key, Arc::clone(&object));
                    vec![self.seen(What::Is(kind), object)]
                }
                Ok(Event::Delete(object)) => {
                    let (key, object) = keyed(object);
                    known.remove(&key);
                    vec![self.seen(What::Gone(kind), object)]
                }
            };
            if !self.send(messages).await {
                return;
            }
        }
    }

    /// Watches Kueue's new events about objects of this kind.
    pub(super) async fn events(self, regarding: &'static str) {
        let kind = GroupVersionKind::gvk("events.k8s.io", "v1", "Event");
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::all_with(self.client.clone(), &resource);
        let config = Config::default().fields(&format!("regarding.kind={regarding}"));
        let mut events = watcher(api, config.page_size(PAGE))
            .default_backoff()
            .boxed();
        let mut began = false;
        while let Some(event) = events.next().await {
            let messages = match event {
                Err(error) => failed(&resource, began, error),
                Ok(Event::InitDone) if !std::mem::replace(&mut began, true) => {
                    vec![Message::Complete]
                }
                Ok(Event::InitApply(_)) if !began => vec![Message::Progress],
                Ok(Event::Apply(object)) => {
                    let object = keyed(object).1;
                    // An event with a series was recorded before.
                    if is_of_model(&object) && object["series"].is_null() {
                        vec![self.seen(What::Event, object)]
                    } else {
                        Vec::new()
                    }
                }
                Ok(_) => Vec::new(),
            };
            if !self.send(messages).await {
                return;
            }
        }
    }

    /// Sends messages; returns false if the recorder has ended.
    async fn send(&self, messages: Vec<Message>) -> bool {
        for message in messages {
            if self.sender.send(message).await.is_err() {
                return false;
            }
        }
        true
    }

    fn seen(&self, what: What, object: Arc<Value>) -> Message {
        Message::Change(ObservedChange {
            at: self.clock.now(),
            what,
            object,
        })
    }
}

/// Returns the message for an error: a refused initial list ends the recording, other errors are
/// retried.
fn failed(resource: &ApiResource, began: bool, error: watcher::Error) -> Vec<Message> {
    if let (false, watcher::Error::InitialListFailed(Error::Api(status))) = (began, &error)
        && [401, 403, 404].contains(&status.code)
    {
        let (plural, version) = (&resource.plural, &resource.api_version);
        return vec![Message::Failed(RecordError::Read {
            resource: format!("{plural} ({version})"),
            source: Box::new(error),
        })];
    }
    tracing::warn!(resource = resource.plural, %error, "watch failed; will retry");
    let (plural, version) = (&resource.plural, &resource.api_version);
    vec![Message::Retried(format!("{plural} ({version}): {error}"))]
}

fn keyed(object: DynamicObject) -> ((Option<String>, Option<String>), Arc<Value>) {
    let metadata = &object.metadata;
    let key = (metadata.namespace.clone(), metadata.name.clone());
    (key, Arc::new(json!(object)))
}

fn version(object: &Value) -> &Value {
    &object["metadata"]["resourceVersion"]
}
