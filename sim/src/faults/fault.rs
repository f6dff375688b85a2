//! What can go wrong.

use std::time::Duration;

use super::InjectionPoint;
use crate::apiserver::{EventFault, RequestFault, Status};

/// What goes wrong, once.
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
/// let trial = Simulation::new(|| open);
/// let first = trial.run(admitted).points[0].clone();
/// let run = trial.run_with(&admitted, &FaultPlan::of(first, Fault::Throttled));
/// assert!(!run.failed());
/// assert_eq!(run.plan.to_string(), "check-0/request/0/429"); // faults that are answers are named by their code
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The replica dies before the request is done; another takes its place a second later.
    CrashBefore,
    /// It dies after the request is done, before it receives the response.
    CrashAfter,
    /// 409: another client was first.
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
    /// A list comes from a cache that is behind: as it was ten seconds ago, and without the newest
    /// change.
    StaleList,
    /// A watch is twenty seconds behind until it ends, while everything else is fresh.
    LaggingWatch,
    /// Two processes act. Without a Lease a second one starts beside this one, as in a rolling
    /// update, and a minute later the first is gone; with one, a replica that does not hold the
    /// Lease takes it by force, as if its clock were wrong. The request arrives a second later.
    SecondLeader,
    /// The watch ends.
    Close,
    /// The watch breaks.
    Break,
    /// The event comes twice.
    Duplicate,
    /// The event comes thirty seconds late, and so do those behind it.
    DelayEvent,
    /// The event never comes, as no API server does it. The runtime finds out with its resync, up
    /// to half an hour later, so this is for plans: it is not among the single faults of a
    /// scenario.
    Dropped,
    /// 410 comes instead, and the watch ends.
    Expire,
    /// The replica dies when the event arrives.
    CrashOnEvent,
    /// The request is done at once, and its reply arrives eight seconds later: after the events of
    /// what happened meanwhile.
    LateReply,
    /// The process stands still for forty seconds, longer than its Lease lasts, and then goes on:
    /// what it sent arrives after that, and so do the replies and events for it.
    Paused,
    /// Another replica takes the Lease by force. After two minutes the first holder leads again,
    /// with everything that it has kept in memory.
    LeaseRegained,
    /// The replica dies and starts again where the wall clock is ninety seconds fast.
    ClockForward,
    /// It dies and starts again where the wall clock is ninety seconds slow.
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

/// How long a process stands still.
pub(crate) const PAUSE: Duration = Duration::from_secs(40);
/// How late a late reply is.
const REPLY: Duration = Duration::from_secs(8);
/// How far a wall clock is off, in seconds.
const SKEW: i64 = 90;

/// In how many seconds the throttled may come again.
const RETRY_AFTER: u64 = 2;

impl Fault {
    /// The faults that can happen at `point`, if there are so many `replicas`.
    pub(crate) fn at(point: &InjectionPoint, replicas: usize) -> Vec<Self> {
        let writes = !point.event && !["get", "list", "watch"].contains(&point.verb());
        let told = point.event && point.verb() != "BOOKMARK";
        let possible = |fault: &Self| match fault {
            Self::Dropped => false,
            Self::Close
            | Self::Break
            | Self::Duplicate
            | Self::DelayEvent
            | Self::Expire
            | Self::CrashOnEvent => point.event,
            Self::SecondLeader => point.event || writes,
            // A bookmark brings nothing that the process could be surprised in.
            Self::ClockForward | Self::ClockBack => told,
            Self::Paused => told || writes,
            // A single replica has no Lease.
            Self::LeaseRegained => replicas > 1 && (told || writes),
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

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(fault, _)| *fault)
    }

    /// The word in a plan.
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

    /// Whether the replica dies of it.
    pub(crate) fn crashes(self) -> bool {
        matches!(
            self,
            Self::CrashBefore
                | Self::CrashAfter
                | Self::CrashOnEvent
                | Self::ClockForward
                | Self::ClockBack
        )
    }

    /// Whether the Lease changes hands although its holder renews it.
    pub(crate) fn takes_the_lease(self) -> bool {
        matches!(self, Self::SecondLeader | Self::LeaseRegained)
    }

    /// How many seconds the wall clock of the replica is off after it.
    pub(crate) fn skew(self) -> Option<i64> {
        match self {
            Self::ClockForward => Some(SKEW),
            Self::ClockBack => Some(-SKEW),
            _ => None,
        }
    }

    /// As the API server's edge does it to a request.
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

    /// As it does it to an event.
    pub(crate) fn of_event(self) -> Option<EventFault> {
        Some(match self {
            Self::Close => EventFault::Close,
            Self::Break | Self::CrashOnEvent | Self::ClockForward | Self::ClockBack => {
                EventFault::Break
            }
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
    fn what_can_go_wrong_depends_on_what_is_asked() {
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
            assert!(on_a_request || on_an_event, "{name} does nothing");
        }
    }
}
