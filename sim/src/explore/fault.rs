//! What can go wrong.

use std::time::Duration;

use super::Point;
use crate::apiserver::{EventFault, RequestFault, Status};

/// What goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The replica dies before the request is done; another takes its place a second later.
    CrashBefore,
    /// It dies after the request is done, before it knows.
    CrashAfter,
    /// 409: somebody else was first.
    Conflict,
    /// 410: the version is too old.
    Gone,
    /// 429 with Retry-After.
    Throttled,
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 504, though it was done.
    GatewayTimeout,
    /// The connection breaks before the request arrives.
    Disconnect,
    /// It is done, and the answer is lost.
    LoseReply,
    /// It takes five seconds.
    Delay,
    /// It is never answered.
    Hang,
    /// The watch ends.
    Close,
    /// The watch breaks.
    Break,
    /// The event comes twice.
    Duplicate,
    /// The event comes thirty seconds late, and so do those behind it.
    Late,
    /// 410 comes instead, and the watch ends.
    Expire,
    /// The replica dies when the event arrives.
    CrashOnEvent,
}

const ALL: [(Fault, &str); 18] = [
    (Fault::CrashBefore, "crash-before"),
    (Fault::CrashAfter, "crash-after"),
    (Fault::Conflict, "409"),
    (Fault::Gone, "410"),
    (Fault::Throttled, "429"),
    (Fault::InternalError, "500"),
    (Fault::Unavailable, "503"),
    (Fault::GatewayTimeout, "504-after"),
    (Fault::Disconnect, "disconnect"),
    (Fault::LoseReply, "lose-reply"),
    (Fault::Delay, "delay"),
    (Fault::Hang, "hang"),
    (Fault::Close, "close"),
    (Fault::Break, "break"),
    (Fault::Duplicate, "duplicate"),
    (Fault::Late, "late"),
    (Fault::Expire, "expire"),
    (Fault::CrashOnEvent, "crash-on-event"),
];

/// In how many seconds the throttled may come again.
const RETRY_AFTER: u64 = 2;

impl Fault {
    /// Those that can happen at `point`.
    pub(super) fn at(point: &Point) -> Vec<Self> {
        let writes = !point.event && !["get", "list", "watch"].contains(&point.verb());
        let possible = |fault: &Self| match fault {
            Self::Close
            | Self::Break
            | Self::Duplicate
            | Self::Late
            | Self::Expire
            | Self::CrashOnEvent => point.event,
            _ if point.event => false,
            Self::Conflict | Self::CrashAfter | Self::LoseReply | Self::GatewayTimeout => writes,
            Self::Gone => !writes,
            _ => true,
        };
        ALL.iter()
            .map(|(fault, _)| *fault)
            .filter(possible)
            .collect()
    }

    /// The word in a plan.
    pub fn as_str(self) -> &'static str {
        ALL.iter()
            .find(|(fault, _)| *fault == self)
            .map_or("", |(_, name)| name)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        ALL.iter()
            .find(|(_, known)| *known == name)
            .map(|(fault, _)| *fault)
    }

    /// Whether the replica dies of it.
    pub(super) fn crashes(self) -> bool {
        matches!(
            self,
            Self::CrashBefore | Self::CrashAfter | Self::CrashOnEvent
        )
    }

    /// As the API server's edge does it to a request.
    pub(super) fn of_request(self) -> Option<RequestFault> {
        let refuse = |code: u16, retry_after| RequestFault::Refuse {
            status: status(code),
            retry_after,
        };
        Some(match self {
            Self::CrashBefore | Self::Hang => RequestFault::Hang,
            Self::CrashAfter => RequestFault::HangAfter,
            Self::Conflict => refuse(409, None),
            Self::Gone => refuse(410, None),
            Self::Throttled => refuse(429, Some(RETRY_AFTER)),
            Self::InternalError => refuse(500, None),
            Self::Unavailable => refuse(503, None),
            Self::GatewayTimeout => RequestFault::RefuseAfter {
                status: status(504),
                retry_after: None,
            },
            Self::Disconnect => RequestFault::Disconnect,
            Self::LoseReply => RequestFault::LoseReply,
            Self::Delay => RequestFault::Delay(Duration::from_secs(5)),
            _ => return None,
        })
    }

    /// As it does it to an event.
    pub(super) fn of_event(self) -> Option<EventFault> {
        Some(match self {
            Self::Close => EventFault::Close,
            Self::Break | Self::CrashOnEvent => EventFault::Break,
            Self::Duplicate => EventFault::Duplicate,
            Self::Late => EventFault::Delay(Duration::from_secs(30)),
            Self::Expire => EventFault::Expire,
            _ => return None,
        })
    }
}

fn status(code: u16) -> Status {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    Status::new(code, reason, "injected by the simulation")
}

impl Point {
    fn verb(&self) -> &str {
        self.what.split(' ').next().unwrap_or_default()
    }
}
