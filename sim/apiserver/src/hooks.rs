//! Hooks: admission, and fault injection.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::call::{ApiRequest, Resource};
use super::kinds::table_of;
use super::status::Status;
use super::store::{Store, key};

/// A phase of admission.
///
/// ```
/// # use serde_json::{Value, json};
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let maps = Resource::new("", "v1", "configmaps");
/// use kueue_check_apiserver::{Admission, ApiServer, ApiRequest, Phase, Resource, Review, Status, Verb};
///
/// /// Puts a mark on what is written. In the second phase it could only refuse.
/// struct Marks;
///
/// impl Admission for Marks {
///     fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
///         let mut object = review.object.clone();
///         object["data"]["marked"] = json!("true");
///         Ok((review.phase == Phase::Mutating).then_some(object))
///     }
/// }
/// server.set_admission(std::sync::Arc::new(Marks));
/// let made = server.call(&ApiRequest::new(Verb::Create, &maps).namespace("default").body(json!({"metadata": {"name": "limits"}})));
/// assert_eq!(made.body["data"]["marked"], "true");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before schema validation: the object may be changed.
    Mutating,
    /// After schema validation: the object is as it would be stored.
    Validating,
}

/// The operation that admission reviews.
///
/// ```
/// # use serde_json::{Value, json};
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let maps = Resource::new("", "v1", "configmaps");
/// use kueue_check_apiserver::{Admission, ApiServer, ApiRequest, Operation, Resource, Review, Status, Verb};
///
/// /// Denies every deletion.
/// struct Keeps;
///
/// impl Admission for Keeps {
///     fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
///         match review.operation {
///             Operation::Delete => Err(Status::denied("keep.example.com", "this stays")),
///             Operation::Create | Operation::Update => Ok(None),
///         }
///     }
/// }
/// server.set_admission(std::sync::Arc::new(Keeps));
/// let refused = server.call(&ApiRequest::new(Verb::Delete, &Resource::new("", "v1", "namespaces")).name("kube-node-lease"));
/// assert_eq!(refused.body["message"], "admission webhook \"keep.example.com\" denied the request: this stays");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is changed: update, patch or apply.
    Update,
    /// The object is deleted.
    Delete,
}

/// A write, as a webhook receives it.
///
/// ```
/// # use serde_json::{Value, json};
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let maps = Resource::new("", "v1", "configmaps");
/// use kueue_check_apiserver::{Admission, ApiServer, ApiRequest, Patch, Resource, Review, Status, Verb};
///
/// /// What was written into `data.gpus` once stays there.
/// struct Fixed;
///
/// impl Admission for Fixed {
///     fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
///         let (old, new) = (&review.old["data"]["gpus"], &review.object["data"]["gpus"]);
///         let changed = review.resource.plural == "configmaps" && !old.is_null() && old != new;
///         if changed { Err(Status::denied("fixed.example.com", &format!("`{}` is {old}, not {new}", review.name))) } else { Ok(None) }
///     }
/// }
/// server.set_admission(std::sync::Arc::new(Fixed));
/// # server.call(&ApiRequest::new(Verb::Create, &maps).namespace("default").body(json!({"metadata": {"name": "limits"}, "data": {"gpus": "8"}})));
/// let patch = ApiRequest::new(Verb::Patch(Patch::Merge), &maps).namespace("default").name("limits").body(json!({"data": {"gpus": "16"}}));
/// assert!(server.call(&patch).body["message"].as_str().is_some_and(|text| text.ends_with("`limits` is \"8\", not \"16\"")));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Review<'a> {
    /// The phase. Each write is reviewed as [`Phase::Mutating`], then as [`Phase::Validating`].
    pub phase: Phase,
    /// The operation.
    pub operation: Operation,
    /// The kind of object.
    pub resource: &'a Resource,
    /// The subresource, such as `status`.
    pub subresource: Option<&'a str>,
    /// The namespace; empty for objects without one.
    pub namespace: &'a str,
    /// The object's name; empty if the server has yet to generate it.
    pub name: &'a str,
    /// The object after the write; null for a deletion.
    pub object: &'a Value,
    /// The object before the write; null for a creation.
    pub old: &'a Value,
    /// Whether the write is a dry run, which stores nothing.
    pub dry_run: bool,
    /// The user agent.
    pub agent: &'a str,
    /// The objects that the server stores.
    pub stored: Stored<'a>,
}

/// The objects that the server stores, for reads during a review.
///
/// ```
/// # use serde_json::{Value, json};
/// # let server = kueue_check_apiserver::ApiServer::new(kueue_check_apiserver::system_time());
/// # let maps = Resource::new("", "v1", "configmaps");
/// # let create = |name: &str| ApiRequest::new(Verb::Create, &maps).namespace("default").body(json!({"metadata": {"name": name}}));
/// use kueue_check_apiserver::{Admission, ApiRequest, Resource, Review, Status, Verb};
///
/// /// Nothing is created before `settings`.
/// struct SettingsFirst;
///
/// impl Admission for SettingsFirst {
///     fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
///         let settings = review.stored.object(review.resource, review.namespace, "settings");
///         if review.name == "settings" || settings.is_some() { Ok(None) } else { Err(Status::denied("first.example.com", "no settings")) }
///     }
/// }
/// server.set_admission(std::sync::Arc::new(SettingsFirst));
/// assert_eq!(["limits", "settings", "limits"].map(|name| server.call(&create(name)).code), [403, 201, 201]);
/// ```
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    pub(crate) store: &'a Mutex<Store>,
}

impl Stored<'_> {
    /// Returns an object, or `None`.
    pub fn object(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.get(&table_of(resource), &key(namespace, name))
    }
}

impl fmt::Debug for Stored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").finish_non_exhaustive()
    }
}

/// Admission: reviews writes, as webhooks do. The server calls it without a lock, so it may read
/// the server. The server retries the write if the object changed meanwhile.
///
/// ```
/// # use serde_json::{Value, json};
/// # use std::sync::Arc;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let create = |name: &str| ApiRequest::new(Verb::Create, &Resource::new("", "v1", "configmaps")).namespace("default").body(json!({"metadata": {"name": name}}));
/// use kueue_check_apiserver::{Admission, ApiRequest, ApiServer, Resource, Review, Status, Verb};
///
/// /// The webhook is down whenever the controller writes.
/// struct Down;
///
/// impl Admission for Down {
///     fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
///         let down = Status::new(500, "InternalError", "failed calling webhook: connection refused");
///         if review.agent.starts_with("controller/") { Err(down) } else { Ok(None) }
///     }
/// }
///
/// server.set_admission(Arc::new(Down));
/// assert_eq!(server.call(&create("limits").agent("controller/1.0")).code, 500);
/// assert_eq!(server.call(&create("limits").agent("kubectl/1.36")).code, 201);
/// server.clear_admission();
/// assert_eq!(server.call(&create("quotas").agent("controller/1.0")).code, 201);
/// ```
pub trait Admission: Send + Sync {
    /// Returns the changed object, or `None` to leave it. An object returned in
    /// [`Phase::Validating`] is not used.
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status>;
}

/// A fault of one request.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::Api;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let limits: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "limits"}}))?;
/// use kueue_check_apiserver::{ApiServer, Faults, RequestInfo, RequestFault, Resource};
///
/// struct LosesReplies;
///
/// impl Faults for LosesReplies {
///     fn request(&self, _: &RequestInfo) -> Option<RequestFault> {
///         Some(RequestFault::LoseReply)
///     }
/// }
/// server.set_faults(std::sync::Arc::new(LosesReplies));
/// let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
/// assert!(maps.create(&Default::default(), &limits).await.is_err());
/// // The client saw an error, and the object is there all the same.
/// assert!(server.get(&Resource::new("", "v1", "configmaps"), "default", "limits").is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum RequestFault {
    /// The server returns this status and does not process the request.
    Refuse {
        /// The returned status.
        status: Status,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u64>,
    },
    /// The server processes the request and then returns this status.
    RefuseAfter {
        /// The returned status.
        status: Status,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u64>,
    },
    /// The connection breaks before the request arrives.
    Disconnect,
    /// The server processes the request; the connection breaks before the response.
    LoseReply,
    /// The server processes the request after this time.
    Delay(Duration),
    /// The server processes the request at once and responds after this time.
    DelayReply(Duration),
    /// The server never processes the request and never responds.
    Hang,
    /// The server processes the request and never responds.
    HangAfter,
    /// A list is served from a stale cache, as it was this long ago. It lacks at least the newest
    /// change of a listed object. Other requests are not affected.
    StaleList(Duration),
    /// A watch is delayed: each of its events, bookmarks too, is sent this long after it happened.
    /// Other requests are not affected.
    LaggingWatch(Duration),
}

/// A fault of one watch event.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::Api;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let limits: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "limits"}}))?;
/// use futures::StreamExt;
/// use kube::api::WatchParams;
/// use kueue_check_apiserver::{ApiServer, WatchDelivery, EventFault, Faults};
///
/// struct Twice;
///
/// impl Faults for Twice {
///     fn event(&self, _: &WatchDelivery) -> Option<EventFault> {
///         Some(EventFault::Duplicate)
///     }
/// }
/// server.set_faults(std::sync::Arc::new(Twice));
/// let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
/// let watch = maps.watch(&WatchParams::default().disable_bookmarks(), "0").await?;
/// maps.create(&Default::default(), &limits).await?;
/// let events: Vec<_> = watch.take(2).collect().await;
/// assert_eq!(format!("{:?}", events[0]), format!("{:?}", events[1]));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFault {
    /// The stream ends instead of the event.
    Close,
    /// The stream breaks instead of the event.
    Break,
    /// The event is left out.
    Drop,
    /// The event is sent twice.
    Duplicate,
    /// The event is sent after this time; later events wait for it.
    Delay(Duration),
    /// 410 is sent instead of the event, and the stream ends.
    Expire,
}

/// A received request, before it is processed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::Api;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let limits: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "limits"}}))?;
/// use kueue_check_apiserver::{ApiServer, Faults, RequestInfo, RequestFault, Verb};
///
/// /// The first list of each agent fails.
/// struct FirstList;
///
/// impl Faults for FirstList {
///     fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
///         let first = request.number == 0 && request.call.verb == Verb::List && !request.watch;
///         first.then_some(RequestFault::Disconnect)
///     }
/// }
/// server.set_faults(std::sync::Arc::new(FirstList));
/// let maps: Api<ConfigMap> = Api::namespaced(server.client_as("check"), "default");
/// assert!(maps.list(&Default::default()).await.is_err());
/// assert!(maps.list(&Default::default()).await.is_ok());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// The user agent.
    pub agent: String,
    /// The number of the request: counts all requests of this agent from 0, watches too.
    pub number: u64,
    /// The request.
    pub call: ApiRequest,
    /// Whether it is a watch.
    pub watch: bool,
}

/// A watch event, before it is sent.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::Api;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let limits: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "limits"}}))?;
/// use futures::StreamExt;
/// use kube::api::{WatchEvent, WatchParams};
/// use kueue_check_apiserver::{ApiServer, WatchDelivery, EventFault, Faults};
///
/// struct NothingNew;
///
/// impl Faults for NothingNew {
///     fn event(&self, delivery: &WatchDelivery) -> Option<EventFault> {
///         (delivery.event == "ADDED" && delivery.resource.plural == "configmaps").then_some(EventFault::Drop)
///     }
/// }
/// server.set_faults(std::sync::Arc::new(NothingNew));
/// let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
/// let mut watch = maps.watch(&WatchParams::default().disable_bookmarks(), "0").await?.boxed();
/// maps.create(&Default::default(), &limits).await?;
/// maps.delete("limits", &Default::default()).await?;
/// assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Deleted(_)))));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct WatchDelivery {
    /// The user agent that receives the event.
    pub agent: String,
    /// The number of the event: counts all events to this agent from 0.
    pub number: u64,
    /// The kind of object.
    pub resource: Resource,
    /// The type of the event: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
    pub event: &'static str,
    /// The object.
    pub object: Arc<Value>,
}

/// Fault injection at the edge. It applies to HTTP requests (through a client or a port), never to
/// calls in process.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::Api;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let limits: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "limits"}}))?;
/// use kueue_check_apiserver::{ApiServer, Faults, RequestInfo, RequestFault, Resource, Status};
///
/// /// The server is too busy for one of its clients.
/// struct Busy;
///
/// impl Faults for Busy {
///     fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
///         let status = Status::new(429, "TooManyRequests", "too many requests");
///         (request.agent == "check").then_some(RequestFault::Refuse { status, retry_after: Some(1) })
///     }
/// }
/// server.set_faults(std::sync::Arc::new(Busy));
/// let refused = Api::<ConfigMap>::namespaced(server.client_as("check"), "default").get("limits").await.unwrap_err();
/// assert!(refused.to_string().contains("too many requests"));
/// // Calls in process never fail.
/// assert_eq!(server.objects(&Resource::new("", "v1", "namespaces"), "").len(), 4);
/// # Ok(()) }
/// ```
pub trait Faults: Send + Sync {
    /// Returns the fault for a request; `None` for no fault.
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        let _ = request;
        None
    }

    /// Changes a request before it arrives, to simulate a faulty client. Default: no change.
    fn alter(&self, call: &mut ApiRequest) {
        let _ = call;
    }

    /// Returns the fault for a watch event; `None` for no fault.
    fn event(&self, delivery: &WatchDelivery) -> Option<EventFault> {
        let _ = delivery;
        None
    }
}
