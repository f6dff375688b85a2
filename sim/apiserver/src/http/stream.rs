//! The body of a watch: a line of JSON for each event.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::Instant;

use super::accept::Form;
use super::{Body, form};
use crate::Core;
use crate::call::ApiRequest;
use crate::hooks::{EventFault, WatchDelivery};
use crate::status::Status;
use crate::verbs::integer;
use crate::watch::{Event, Watch, WatchOptions};

/// The longest lifetime of a watch, a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The default lifetime of a watch.
const LIFETIME: Duration = Duration::from_secs(1800);
/// The interval between bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// The time from the last bookmark to the end of a watch.
const FAREWELL: Duration = Duration::from_secs(2);

/// Returns the time until the next bookmark, if the watch ends after `left`.
fn next_bookmark(left: Duration) -> Duration {
    match left.checked_sub(FAREWELL) {
        Some(farewell) if !farewell.is_zero() => BOOKMARKS.min(farewell),
        _ => BOOKMARKS,
    }
}

/// Returns the lifetime of a watch from its `timeoutSeconds`. Zero means the default; a watch with
/// a negative one ends at once (Kubernetes 1.36.3, `ListResource` in
/// `apiserver/pkg/endpoints/handlers/get.go`).
fn lifetime(seconds: Option<&str>) -> Result<Duration, Status> {
    let Some(text) = seconds else {
        return Ok(LIFETIME);
    };
    let seconds = integer(text)?;
    if seconds == 0 {
        return Ok(LIFETIME);
    }
    // The real server counts nanoseconds in 64 bits, which overflow.
    let nanoseconds = seconds.wrapping_mul(1_000_000_000);
    let given = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
    Ok(given.min(LONGEST))
}

/// Starts the watch of a call and returns its body. Each event is sent `lag` after it happened.
pub(super) fn start(
    core: &Arc<Core>,
    call: &ApiRequest,
    form: Form,
    lag: Duration,
) -> Result<Body, Status> {
    let watch = Watch::start(Arc::clone(core), options(call))?;
    let lifetime = lifetime(call.parameter("timeoutSeconds"))?;
    let now = Instant::now();
    let lines = Lines {
        core: Arc::clone(core),
        agent: call.agent.clone(),
        form,
        include: call
            .parameter("includeObject")
            .unwrap_or_default()
            .to_owned(),
        sent: false,
        bookmarks: call.parameter("allowWatchBookmarks").is_some_and(is_true),
        next_bookmark: now + next_bookmark(lifetime),
        end: now + lifetime,
        watch,
        waiting: VecDeque::new(),
        lag,
        behind: VecDeque::new(),
        ended: false,
        state: State::Running,
    };
    let stream = futures::stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((line.map(Frame::data), lines))
    });
    Ok(BodyExt::boxed_unsync(StreamBody::new(stream)))
}

/// Returns the error of a connection that the peer closed.
pub(super) fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer")
}

/// Returns true for a query flag, unless it is `false` or `0`.
pub(super) fn is_true(text: &str) -> bool {
    !matches!(text, "false" | "0")
}

fn options(call: &ApiRequest) -> WatchOptions {
    let text = |name: &str| call.parameter(name).unwrap_or_default().to_owned();
    let initial = call.parameter("sendInitialEvents").map(is_true);
    WatchOptions {
        resource: Some(call.resource.clone()),
        namespace: call.namespace.clone().unwrap_or_default(),
        name: call.name.clone().unwrap_or_default(),
        label_selector: text("labelSelector"),
        field_selector: text("fieldSelector"),
        resource_version: text("resourceVersion"),
        send_initial_events: initial,
        resource_version_match: text("resourceVersionMatch"),
        allow_bookmarks: call.parameter("allowWatchBookmarks").is_some_and(is_true),
    }
}

struct Lines {
    core: Arc<Core>,
    agent: String,
    form: Form,
    /// The query parameter: which part of an object a table row includes.
    include: String,
    /// Whether anything was sent.
    sent: bool,
    watch: Watch,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    /// Events to send again.
    waiting: VecDeque<Event>,
    /// The delay of each event.
    lag: Duration,
    /// Delayed events, and when they are sent. Bookmarks are delayed too: a bookmark sent before an
    /// older event would hide the event for ever.
    behind: VecDeque<(Instant, Event)>,
    /// Whether the watch has no more events than the delayed ones.
    ended: bool,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Running,
    /// Nothing more is sent.
    Closed,
}

impl Lines {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while self.state == State::Running {
            if let Some(again) = self.waiting.pop_front() {
                return Some(Ok(self.line(&again)));
            }
            let event = self.event().await?;
            if let Some(out) = self.deliver(event).await {
                return Some(out);
            }
        }
        None
    }

    /// Returns the next event to send.
    async fn event(&mut self) -> Option<Event> {
        if self.lag.is_zero() {
            return self.happening().await;
        }
        loop {
            let arrives = self.behind.front().map(|(at, _)| *at);
            let over = Instant::now() >= self.end;
            if over || (arrives.is_none() && self.ended) {
                return None;
            }
            let arrival = async {
                match arrives {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let ended = self.ended;
            tokio::select! {
                biased;
                event = self.happening(), if !ended => match event {
                    Some(event) => self.behind.push_back((Instant::now() + self.lag, event)),
                    None => self.ended = true,
                },
                () = arrival => return self.behind.pop_front().map(|(_, event)| event),
            }
        }
    }

    /// Returns the next event that happens; `None` at the end.
    async fn happening(&mut self) -> Option<Event> {
        tokio::select! {
            biased;
            event = self.watch.next() => event,
            () = tokio::time::sleep_until(self.end) => None,
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                let left = self.end.saturating_duration_since(self.next_bookmark);
                self.next_bookmark += next_bookmark(left);
                Some(self.watch.bookmark(false))
            }
        }
    }

    /// Sends an event, unless a fault prevents it.
    async fn deliver(&mut self, event: Event) -> Option<io::Result<Bytes>> {
        let fault = self.core.faults().and_then(|faults| {
            faults.event(&WatchDelivery {
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
                return Some(Ok(self.line(&Event {
                    kind: "ERROR",
                    object: Arc::new(status.to_value()),
                })));
            }
        }
        Some(Ok(self.line(&event)))
    }

    fn line(&mut self, event: &Event) -> Bytes {
        let mut out = format!("{{\"type\":\"{}\",\"object\":", event.kind).into_bytes();
        // Writing JSON to memory cannot fail.
        let _ = if self.form == Form::Whole || event.kind == "ERROR" {
            serde_json::to_writer(&mut out, &*event.object)
        } else {
            let (kind, now) = (self.watch.kind(), self.core.now());
            let (form, first) = (self.form, !self.sent);
            let shown = form::event(form, kind, &event.object, &self.include, now, first);
            serde_json::to_writer(&mut out, &shown)
        };
        self.sent = true;
        out.extend_from_slice(b"}\n");
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lifetime_of_a_watch() {
        let cases = [
            (None, Some(LIFETIME)),
            (Some("0"), Some(LIFETIME)),
            (Some("5"), Some(Duration::from_secs(5))),
            (Some("x"), None),
            (Some("-1"), Some(Duration::ZERO)),
            (Some("9223372036854775807"), Some(Duration::ZERO)),
            (Some("9000000000"), Some(LONGEST)),
            (Some("18446744073709551615"), None),
        ];
        for (given, expected) in cases {
            assert_eq!(lifetime(given).ok(), expected, "{given:?}");
        }
    }
}
