//! Where tests and models reach in: admission, and faults.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::call::{Call, Resource};
use super::status::Status;

/// When admission is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the schema is checked: the object may be changed.
    Mutating,
    /// After it: the object is as it would be stored.
    Validating,
}

/// What admission does to an object.
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

/// Reviews writes, as webhooks do. It is called without any lock, so it may read the server; the write is tried again if the object changed meanwhile.
pub trait Admission: Send + Sync {
    /// The changed object, or `None` to leave it. What it returns in [`Phase::Validating`] is not used.
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status>;
}

/// What goes wrong with one request.
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
    /// A list is answered from a cache that is behind: as it was this long ago, and at least without the newest change of what is listed. Nothing happens to
    /// other requests.
    StaleList(Duration),
    /// A watch is behind: each of its events, bookmarks too, comes this long after it happened. Nothing happens to other requests.
    LaggingWatch(Duration),
}

/// What goes wrong with one event of a watch.
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
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks.
    pub agent: String,
    /// Counts all requests of this agent from 0, watches too.
    pub number: u64,
    /// What it asks.
    pub call: Call,
    /// Whether it is a watch.
    pub watch: bool,
}

/// An event as it leaves.
#[derive(Clone, Debug)]
pub struct Delivery {
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

/// Decides what goes wrong, at the edge: for requests that come as HTTP (through a client or a port), never for calls in process.
pub trait Faults: Send + Sync {
    /// For a request; `None` if nothing.
    fn request(&self, request: &Request) -> Option<RequestFault> {
        let _ = request;
        None
    }

    /// For an event of a watch; `None` if nothing.
    fn event(&self, delivery: &Delivery) -> Option<EventFault> {
        let _ = delivery;
        None
    }
}
