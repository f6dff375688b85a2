//! The body of a watch: a line of JSON for each event.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::Instant;

use super::Body;
use super::handle::broken;
use crate::apiserver::Core;
use crate::apiserver::call::Call;
use crate::apiserver::hooks::{Delivery, EventFault};
use crate::apiserver::status::{FieldError, Status};
use crate::apiserver::watch::{Event, Watch, WatchOptions};

/// How long a watch lives if it does not say.
const LIFETIME: Duration = Duration::from_secs(1800);
/// How often bookmarks come.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// The body of the watch that this call asks for.
pub(super) fn start(core: &Arc<Core>, call: &Call) -> Result<Body, Status> {
    let watch = Watch::start(Arc::clone(core), options(call)?)?;
    let lifetime = match call.parameter("timeoutSeconds") {
        Some(text) => Duration::from_secs(text.parse().map_err(|_| {
            Status::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))
        })?),
        None => LIFETIME,
    };
    let now = Instant::now();
    let lines = Lines {
        core: Arc::clone(core),
        agent: call.agent.clone(),
        bookmarks: call.parameter("allowWatchBookmarks") == Some("true"),
        next_bookmark: now + BOOKMARKS,
        end: now + lifetime,
        watch,
        waiting: VecDeque::new(),
        state: State::Running,
    };
    let stream = futures::stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((line.map(Frame::data), lines))
    });
    Ok(BodyExt::boxed_unsync(StreamBody::new(stream)))
}

fn options(call: &Call) -> Result<WatchOptions, Status> {
    let text = |name: &str| call.parameter(name).unwrap_or_default().to_owned();
    let initial = match call.parameter("sendInitialEvents") {
        None => None,
        Some("true" | "1") => Some(true),
        Some("false" | "0") => Some(false),
        Some(other) => {
            let error = FieldError::invalid("sendInitialEvents", &other.into(), "not a boolean");
            return Err(Status::bad_request(error.message));
        }
    };
    Ok(WatchOptions {
        resource: Some(call.resource.clone()),
        namespace: call.namespace.clone().unwrap_or_default(),
        name: call.name.clone().unwrap_or_default(),
        label_selector: text("labelSelector"),
        field_selector: text("fieldSelector"),
        resource_version: text("resourceVersion"),
        send_initial_events: initial,
        resource_version_match: text("resourceVersionMatch"),
        allow_bookmarks: text("allowWatchBookmarks") == "true",
    })
}

struct Lines {
    core: Arc<Core>,
    agent: String,
    watch: Watch,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    /// Events that come again.
    waiting: VecDeque<Event>,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Running,
    /// Nothing comes any more.
    Closed,
}

impl Lines {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while self.state == State::Running {
            if let Some(again) = self.waiting.pop_front() {
                return Some(Ok(line(&again)));
            }
            let event = self.event().await?;
            if let Some(out) = self.deliver(event).await {
                return Some(out);
            }
        }
        None
    }

    async fn event(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                biased;
                event = self.watch.next() => return event,
                () = tokio::time::sleep_until(self.end) => return None,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark += BOOKMARKS;
                    return Some(self.watch.bookmark(false));
                }
            }
        }
    }

    /// Sends an event, unless something goes wrong with it.
    async fn deliver(&mut self, event: Event) -> Option<io::Result<Bytes>> {
        let fault = self.core.faults().and_then(|faults| {
            faults.event(&Delivery {
                agent: self.agent.clone(),
                number: self.core.count_event(&self.agent),
                resource: self.watch.resource().clone(),
                event: event.kind,
                object: Arc::clone(&event.object),
            })
        });
        match fault {
            None => {}
            Some(EventFault::Drop) => return None,
            Some(EventFault::Duplicate) => self.waiting.push_back(event.clone()),
            Some(EventFault::Delay(time)) => tokio::time::sleep(time).await,
            Some(EventFault::Close) => {
                self.state = State::Closed;
                return None;
            }
            Some(EventFault::Break) => {
                self.state = State::Closed;
                return Some(Err(broken()));
            }
            Some(EventFault::Expire) => {
                self.state = State::Closed;
                let status = Status::expired("too old resource version");
                return Some(Ok(line(&Event {
                    kind: "ERROR",
                    object: Arc::new(status.to_value()),
                })));
            }
        }
        Some(Ok(line(&event)))
    }
}

fn line(event: &Event) -> Bytes {
    let mut out = format!("{{\"type\":\"{}\",\"object\":", event.kind).into_bytes();
    // Writing JSON to memory cannot fail.
    let _ = serde_json::to_writer(&mut out, &*event.object);
    out.extend_from_slice(b"}\n");
    out.into()
}
