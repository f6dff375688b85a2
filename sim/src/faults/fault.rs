//! The faults that a run can inject.

use std::time::Duration;

use super::InjectionPoint;
use crate::apiserver::{EventFault, RequestFault, Status};

/// A single fault, injected once.
///
/// ```
/// # use kueue_check::{Verdict, admission_check};
/// # #[admission_check(controller = "example.com/open")] async fn open() -> Verdict { Verdict::ready("open") }
///
/// use kueue_check_sim::{Cluster, Job, FaultPlan, Simulation, explore::Fault};
///
/// async fn admitted(cluster: &Cluster) {
///     cluster.submit(Job::new("train"));
///     cluster.expect_admitted("train").await;
/// }
/// let simulation = Simulation::new(|| open);
/// let first = simulation.run(admitted).points[0].clone();
/// let run = simulation.run_with(&admitted, &FaultPlan::of(first, Fault::Throttled));
/// assert!(!run.failed());
/// assert_eq!(run.plan.to_string(), "check-0/request/0/429"); // a fault that is a response is named by its code
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The replica dies before the request is done; another starts 1 s later.
    CrashBefore,
    /// The replica dies after the request is done, before it receives the response.
    CrashAfter,
    /// The response is 409: another client was first.
    Conflict,
    /// The response is 410: the version is too old.
    Gone,
    /// The response is 429 with Retry-After.
    Throttled,
    /// The response is 500.
    InternalError,
    /// The response is 503.
    Unavailable,
    /// The response is 504, although the request was done.
    GatewayTimeout,
    /// The connection breaks before the request arrives.
    Disconnect,
    /// The request is done, and its response is lost.
    LoseReply,
    /// The request takes 5 s.
    Delay,
    /// The request gets no response.
    Hang,
    /// A list comes from a stale cache: as of 10 s ago, and without the newest change.
    StaleList,
    /// A watch lags 20 s until it ends, while everything else is current.
    LaggingWatch,
    /// Two processes lead. Without a Lease a second process starts beside this one, as in a rolling
    /// update, and the first ends 1 min later. With a Lease, a replica that does not hold it takes
    /// it by force, as if its clock were wrong. The request arrives 1 s later.
    SecondLeader,
    /// The watch ends.
    Close,
    /// The watch breaks.
    Break,
    /// The event comes twice.
    Duplicate,
    /// The event and those after it arrive 30 s late.
    DelayEvent,
    /// The event never arrives, which no API server does. The runtime finds the change at its
    /// resync, up to 30 min later, so this fault is for plans only. It is not among the single
    /// faults of a scenario.
    Dropped,
    /// An error 410 comes instead of the event, and the watch ends.
    Expire,
    /// The replica dies when the event arrives.
    CrashOnEvent,
    /// The request is done at once. Its reply arrives 8 s later, after the events of changes in
    /// between.
    LateReply,
    /// The process is paused for 40 s, longer than its Lease lasts, and then continues. Its
    /// requests, and the replies and events for it, arrive after that.
    Paused,
    /// Another replica takes the Lease by force. After 2 min the first holder leads again, with its
    /// state in memory.
    LeaseRegained,
    /// The wall clock of the replica is set 90 s forward while its process runs. Timers, which use
    /// the monotonic clock, go on.
    ClockForward,
    /// The wall clock of the replica is set 90 s back while its process runs.
    ClockBack,
}

const ALL: [(Fault, &str); 27] = [
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
    (Fault::StaleList, "stale-list"),
    (Fault::LaggingWatch, "lagging-watch"),
    (Fault::SecondLeader, "second-leader"),
    (Fault::Close, "close"),
    (Fault::Break, "break"),
    (Fault::Duplicate, "duplicate"),
    (Fault::DelayEvent, "delay-event"),
    (Fault::Dropped, "dropped"),
    (Fault::Expire, "expire"),
    (Fault::CrashOnEvent, "crash-on-event"),
    (Fault::LateReply, "late-reply"),
    (Fault::Paused, "paused"),
    (Fault::LeaseRegained, "lease-regained"),
    (Fault::ClockForward, "clock-forward"),
    (Fault::ClockBack, "clock-back"),
];

/// The duration of a process' pause.
pub(crate) const PAUSE: Duration = Duration::from_secs(40);
/// The delay of a late reply.
const REPLY: Duration = Duration::from_secs(8);
/// The offset of a wrong wall clock, in seconds.
const SKEW: i64 = 90;

/// The Retry-After of a throttled request, in seconds.
const RETRY_AFTER: u64 = 2;

impl Fault {
    /// Returns the faults that can happen at `point`, with this number of `replicas`.
    pub(crate) fn at(point: &InjectionPoint, replicas: usize) -> Vec<Self> {
        let writes = !point.event && !["get", "list", "watch"].contains(&point.verb());
        let state_event = point.event && point.verb() != "BOOKMARK";
        let possible = |fault: &Self| match fault {
            Self::Dropped => false,
            Self::Close
            | Self::Break
            | Self::Duplicate
            | Self::DelayEvent
            | Self::Expire
            | Self::CrashOnEvent => point.event,
            Self::SecondLeader => point.event || writes,
            // A bookmark changes no state of the process.
            Self::ClockForward | Self::ClockBack => state_event,
            Self::Paused => state_event || writes,
            // A single replica has no Lease.
            Self::LeaseRegained => replicas > 1 && (state_event || writes),
            _ if point.event => false,
            Self::LateReply => point.verb() != "watch",
            Self::StaleList => point.verb() == "list",
            Self::LaggingWatch => point.verb() == "watch",
            Self::Conflict | Self::CrashAfter | Self::LoseReply | Self::GatewayTimeout => writes,
            Self::Gone => !writes,
            _ => true,
        };
        ALL.iter()
            .map(|(fault, _)| *fault)
            .filter(possible)
            .collect()
    }

    /// Returns true if the fault of a plan can happen at `point`: one of the faults
    /// [`at`](Self::at) it, or a dropped event.
    pub(crate) fn is_possible(self, point: &InjectionPoint, replicas: usize) -> bool {
        (self == Self::Dropped && point.event) || Self::at(point, replicas).contains(&self)
    }

    /// Returns all faults.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(fault, _)| *fault)
    }

    /// Returns the name in a plan.
    pub fn as_str(self) -> &'static str {
        ALL.iter()
            .find(|(fault, _)| *fault == self)
            .map_or("", |(_, name)| name)
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.iter()
            .find(|(_, known)| *known == name)
            .map(|(fault, _)| *fault)
    }

    /// Returns true if the replica dies.
    pub(crate) fn crashes(self) -> bool {
        matches!(
            self,
            Self::CrashBefore | Self::CrashAfter | Self::CrashOnEvent
        )
    }

    /// Returns true if the Lease changes hands although its holder renews it.
    pub(crate) fn takes_the_lease(self) -> bool {
        matches!(self, Self::SecondLeader | Self::LeaseRegained)
    }

    /// Returns the offset of the replica's wall clock after the fault, in seconds.
    pub(crate) fn skew(self) -> Option<i64> {
        match self {
            Self::ClockForward => Some(SKEW),
            Self::ClockBack => Some(-SKEW),
            _ => None,
        }
    }

    /// Returns the fault of the API server for a request.
    pub(crate) fn of_request(self) -> Option<RequestFault> {
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
            Self::StaleList => RequestFault::StaleList(Duration::from_secs(10)),
            Self::LaggingWatch => RequestFault::LaggingWatch(Duration::from_secs(20)),
            Self::SecondLeader | Self::LeaseRegained => RequestFault::Delay(Duration::from_secs(1)),
            Self::LateReply => RequestFault::DelayReply(REPLY),
            Self::Paused => RequestFault::Delay(PAUSE),
            _ => return None,
        })
    }

    /// Returns the fault of the API server for an event.
    pub(crate) fn of_event(self) -> Option<EventFault> {
        Some(match self {
            Self::Close => EventFault::Close,
            Self::Break | Self::CrashOnEvent => EventFault::Break,
            Self::Duplicate => EventFault::Duplicate,
            Self::DelayEvent => EventFault::Delay(Duration::from_secs(30)),
            Self::Paused => EventFault::Delay(PAUSE),
            Self::Dropped => EventFault::Drop,
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

impl InjectionPoint {
    fn verb(&self) -> &str {
        self.what.split(' ').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_faults_depend_on_the_request() {
        let table = [
            ("list workloads", "stale-list", true),
            ("get workloads", "stale-list", false),
            ("watch workloads", "stale-list", false),
            ("watch workloads", "lagging-watch", true),
            ("list workloads", "lagging-watch", false),
            ("apply workloads/status", "second-leader", true),
            ("list workloads", "second-leader", false),
            ("apply workloads/status", "lose-reply", true),
            ("get workloads", "lose-reply", false),
            ("MODIFIED workloads", "second-leader", true),
            ("MODIFIED workloads", "delay-event", true),
            ("MODIFIED workloads", "dropped", false),
            ("MODIFIED workloads", "500", false),
            ("apply workloads/status", "late-reply", true),
            ("get workloads", "late-reply", true),
            ("watch workloads", "late-reply", false),
            ("MODIFIED workloads", "late-reply", false),
            ("apply workloads/status", "paused", true),
            ("MODIFIED workloads", "paused", true),
            ("list workloads", "paused", false),
            ("MODIFIED workloads", "clock-back", true),
            ("BOOKMARK workloads", "clock-back", false),
            ("BOOKMARK workloads", "paused", false),
            ("BOOKMARK workloads", "delay-event", true),
            ("apply workloads/status", "clock-forward", false),
            ("apply workloads/status", "lease-regained", true),
        ];
        for (what, fault, possible) in table {
            let point = InjectionPoint {
                agent: "check-0".to_owned(),
                event: what.starts_with(char::is_uppercase),
                number: 0,
                what: what.to_owned(),
            };
            let named = Fault::named(fault).unwrap();
            assert_eq!(
                Fault::at(&point, 2).contains(&named),
                possible,
                "{what} {fault}"
            );
        }
    }

    #[test]
    fn a_single_replica_has_no_lease_to_lose() {
        let point = InjectionPoint {
            agent: "check-0".to_owned(),
            event: true,
            number: 0,
            what: "MODIFIED workloads".to_owned(),
        };
        assert!(!Fault::at(&point, 1).contains(&Fault::LeaseRegained));
        assert!(Fault::at(&point, 1).contains(&Fault::SecondLeader));
    }

    #[test]
    fn each_fault_has_one_name_and_one_effect() {
        for (fault, name) in ALL {
            assert_eq!(Fault::named(name), Some(fault));
            assert_eq!(fault.as_str(), name);
            let on_a_request = fault.of_request().is_some();
            let on_an_event = fault.of_event().is_some();
            let on_a_clock = fault.skew().is_some();
            assert!(
                on_a_request || on_an_event || on_a_clock,
                "{name} does nothing"
            );
        }
    }
}
