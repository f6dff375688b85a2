//! Hooks: admission, and fault injection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::call::{ApiRequest, Resource};
use super::status::Status;

/// When admission is asked.
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
    /// Before the schema is checked: the object may be changed.
    Mutating,
    /// After it: the object is as it would be stored.
    Validating,
}

/// What admission does to an object.
///
/// ```
/// # use serde_json::{Value, json};
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// # let maps = Resource::new("", "v1", "configmaps");
/// use kueue_check_apiserver::{Admission, ApiServer, ApiRequest, Operation, Resource, Review, Status, Verb};
///
/// /// Nobody deletes anything.
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
/// let refused = server.call(&ApiRequest::new(Verb::Delete, &Resource::new("", "v1", "namespaces")).name("kube-public"));
/// assert_eq!(refused.body["message"], "admission webhook \"keep.example.com\" denied the request: this stays");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It changes: update, patch or apply.
    Update,
    /// It goes.
    Delete,
}

/// A write, as a webhook sees it.
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
    /// First all writes are reviewed as [`Phase::Mutating`], then as [`Phase::Validating`].
    pub phase: Phase,
    /// What happens.
    pub operation: Operation,
    /// To which kind.
    pub resource: &'a Resource,
    /// Such as `status`.
    pub subresource: Option<&'a str>,
    /// Empty for objects without a namespace.
    pub namespace: &'a str,
    /// Empty if the server is still to give the name.
    pub name: &'a str,
    /// As it would be; null when it goes.
    pub object: &'a Value,
    /// As it is; null when it is new.
    pub old: &'a Value,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// Who asks.
    pub agent: &'a str,
}

/// Reviews writes, as webhooks do. It is called without any lock, so it may read the server; the
/// write is retried if the object changed meanwhile.
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
    /// The changed object, or `None` to leave it. What it returns in [`Phase::Validating`] is not
    /// used.
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status>;
}

/// What goes wrong with one request.
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
    /// It is answered with this and not done. `retry_after` is in seconds.
    Refuse {
        /// The answer.
        status: Status,
        /// The header of that name.
        retry_after: Option<u64>,
    },
    /// It is done, and then answered with this.
    RefuseAfter {
        /// The answer.
        status: Status,
        /// The header of that name.
        retry_after: Option<u64>,
    },
    /// The connection breaks before it arrives.
    Disconnect,
    /// It is done, and the connection breaks before the answer.
    LoseReply,
    /// It is done after this time.
    Delay(Duration),
    /// It is done at once and answered after this time.
    DelayReply(Duration),
    /// It is never done, and never answered.
    Hang,
    /// It is done and never answered.
    HangAfter,
    /// A list is answered from a cache that is behind: as it was this long ago, and at least
    /// without the newest change of what is listed. Nothing happens to other requests.
    StaleList(Duration),
    /// A watch is behind: each of its events, bookmarks too, comes this long after it happened.
    /// Nothing happens to other requests.
    LaggingWatch(Duration),
}

/// What goes wrong with one event of a watch.
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
    /// The stream ends instead.
    Close,
    /// The stream breaks instead.
    Break,
    /// It is left out.
    Drop,
    /// It comes twice.
    Duplicate,
    /// It comes after this time, and so do those behind it.
    Delay(Duration),
    /// 410 comes instead, and the stream ends.
    Expire,
}

/// A request as it arrives.
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
    /// Who asks.
    pub agent: String,
    /// Counts all requests of this agent from 0, watches too.
    pub number: u64,
    /// What it asks.
    pub call: ApiRequest,
    /// Whether it is a watch.
    pub watch: bool,
}

/// An event as it leaves.
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
    /// To whom.
    pub agent: String,
    /// Counts all events to this agent from 0.
    pub number: u64,
    /// Of which kind of object.
    pub resource: Resource,
    /// `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
    pub event: &'static str,
    /// The object.
    pub object: Arc<Value>,
}

/// Decides what goes wrong, at the edge: for requests that come as HTTP (through a client or a
/// port), never for calls in process.
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
    /// For a request; `None` if nothing.
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        let _ = request;
        None
    }

    /// Changes a request before it arrives, as a faulty client would have sent it. Default: not.
    fn alter(&self, call: &mut ApiRequest) {
        let _ = call;
    }

    /// For an event of a watch; `None` if nothing.
    fn event(&self, delivery: &WatchDelivery) -> Option<EventFault> {
        let _ = delivery;
        None
    }
}
