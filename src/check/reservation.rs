//! Quota reservations, to which every verdict is bound.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::{Uid, Workload};

/// A quota reservation of one Workload, for one admission check. Cheap to clone.
///
/// Resources that a check allocates for a Workload belong to a reservation. When quota is lost and
/// regained, the new reservation is another one, and
/// [`release`](super::AdmissionCheckController::release) is called for the old one.
///
/// Its text form can be stored with the resources, such as in an annotation or an idempotency key,
/// and can be parsed. It has slashes, so it is no label value. It ends with the [key of the family](Self::family_key) if that is not the
/// Workload's UID. Two reservations that differ only in that are equal.
///
/// ```
/// use kueue_check::Reservation;
///
/// let text = "team-a/job-train/0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4/licence/1763715605";
/// let reservation: Reservation = text.parse()?;
/// assert_eq!((reservation.name(), reservation.admission_check()), ("job-train", "licence"));
/// assert_eq!(reservation.to_string(), text);
/// # Ok::<(), kueue_check::ReservationError>(())
/// ```
#[derive(Clone)]
pub struct Reservation(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    identity: Identity,
    /// The key of its family, if that is not the Workload's UID.
    family: Option<Uid>,
}

/// The identity of a reservation. The family follows from the UID, and a text may lack it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Identity {
    namespace: Arc<str>,
    name: Box<str>,
    uid: Uid,
    check: Arc<str>,
    since: Timestamp,
}

/// A text that is not a reservation.
///
/// ```
/// let error = "team-a/train".parse::<kueue_check::Reservation>().unwrap_err();
/// assert_eq!(error.to_string(), "`team-a/train` is not a reservation: expected `namespace/name/uid/check/seconds since 1970`, and `/family` if that is not the uid");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a reservation: expected `namespace/name/uid/check/seconds since 1970`, and `/family` if that is not the uid"
)]
pub struct ReservationError(String);

impl Reservation {
    /// Returns the current reservation of `workload` for the AdmissionCheck `check`; `None` without
    /// quota.
    pub fn of(workload: &Workload, check: &str) -> Option<Self> {
        workload
            .holds_quota()
            .then(|| Self::last_of(workload, check))
    }

    /// Returns the same, also if it has ended: `QuotaReserved` has the time of its last change.
    pub(crate) fn last_of(workload: &Workload, check: &str) -> Self {
        let since = workload
            .conditions()
            .quota_reserved()
            .last_transition_time()
            .unwrap_or_default();
        let (namespace, name) = (workload.namespace(), workload.name());
        Self::new(namespace, name, workload.uid().clone(), check, since)
            .in_family(workload.family_key())
    }

    /// Makes the reservation of the Workload `namespace/name` with `uid` that began at `since`, for
    /// the AdmissionCheck `check`.
    pub fn new(namespace: &str, name: &str, uid: Uid, check: &str, since: Timestamp) -> Self {
        Self(Arc::new(Parts {
            identity: Identity {
                namespace: namespace.into(),
                name: name.into(),
                uid,
                check: check.into(),
                since,
            },
            family: None,
        }))
    }

    /// Returns the same reservation, of a Workload of the [`Family`](super::Family) with the key
    /// `key`. For checks that store the key with the resources.
    #[must_use]
    pub fn in_family(mut self, key: &Uid) -> Self {
        let family = (key != self.uid()).then(|| key.clone());
        if self.0.family != family {
            Arc::make_mut(&mut self.0).family = family;
        }
        self
    }

    /// Returns the Workload's namespace.
    pub fn namespace(&self) -> &str {
        &self.0.identity.namespace
    }

    /// Returns the Workload's name.
    pub fn name(&self) -> &str {
        &self.0.identity.name
    }

    /// Returns the Workload's UID.
    pub fn uid(&self) -> &Uid {
        &self.0.identity.uid
    }

    /// Returns the AdmissionCheck's name.
    pub fn admission_check(&self) -> &str {
        &self.0.identity.check
    }

    /// Returns when quota was reserved, to the second (the transition time of `QuotaReserved`).
    pub fn since(&self) -> Timestamp {
        self.0.identity.since
    }

    /// Returns the key of the Workload's [`Family`](super::Family): the same for all Workloads of
    /// one job. Use it for resources that are held for the job.
    pub fn family_key(&self) -> &Uid {
        let Parts { identity, family } = &*self.0;
        family.as_ref().unwrap_or(&identity.uid)
    }

    /// Returns how long the reservation had been held at `now`.
    pub fn held_for(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.since())).unwrap_or_default()
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { identity, family } = &*self.0;
        let Identity {
            namespace,
            name,
            uid,
            check,
            since,
        } = identity;
        write!(f, "{namespace}/{name}/{uid}/{check}/{}", since.as_second())?;
        match family {
            Some(family) => write!(f, "/{family}"),
            None => Ok(()),
        }
    }
}

impl PartialEq for Reservation {
    fn eq(&self, other: &Self) -> bool {
        self.0.identity == other.0.identity
    }
}

impl Eq for Reservation {}

impl PartialOrd for Reservation {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Reservation {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.identity.cmp(&other.0.identity)
    }
}

impl Hash for Reservation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.identity.hash(state);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({self})")
    }
}

impl FromStr for Reservation {
    type Err = ReservationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ReservationError(text.to_owned());
        let parts: Vec<&str> = text.split('/').collect();
        let (namespace, name, uid, check, since, family) = match parts[..] {
            [namespace, name, uid, check, since] => (namespace, name, uid, check, since, uid),
            [namespace, name, uid, check, since, family] => {
                (namespace, name, uid, check, since, family)
            }
            _ => return Err(refuse()),
        };
        let seconds = since.parse().map_err(|_| refuse())?;
        let since = Timestamp::from_second(seconds).map_err(|_| refuse())?;
        Ok(Self::new(namespace, name, Uid::new(uid), check, since).in_family(&Uid::new(family)))
    }
}

impl Serialize for Reservation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reservation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// The reason of a release: why a reservation has ended.
///
/// ```
/// use kueue_check::ReleaseReason;
///
/// /// A licence that was used is paid for; one that was only held is not.
/// fn is_charged(why: ReleaseReason) -> bool {
///     matches!(why, ReleaseReason::Finished)
/// }
///
/// assert!(is_charged(ReleaseReason::Finished) && !is_charged(ReleaseReason::QuotaLost));
/// assert_eq!(ReleaseReason::CheckRemoved.as_str(), "CheckRemoved");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseReason {
    /// Quota was lost without an eviction: the queue was stopped, for example.
    QuotaLost,
    /// Kueue evicted the Workload: it was preempted, a check returned Retry, or pods were not ready
    /// in time. Its pods have ended or are ending: Kueue keeps the quota until no pod is active.
    /// Pods of a batch/v1 Job are not active any more once their termination is requested, and then
    /// take up to [`termination_grace`](crate::api::PodSet::termination_grace) to end (measured on
    /// 0.19.2 with Kubernetes 1.36).
    Evicted,
    /// The job has finished.
    Finished,
    /// Another slice of the elastic job has replaced the Workload and is admitted. The pods now
    /// belong to that slice, so resources held for them pass to it.
    Replaced {
        /// The reservation of the slice that has replaced it.
        by: Reservation,
        /// Whether pods of the Workload may have run: not if it was replaced while it waited. True
        /// if that is unknown, because the Workload was deleted.
        ran: bool,
    },
    /// Another variant of the job was admitted and runs it.
    VariantAdmitted {
        /// The reservation of that variant.
        by: Reservation,
    },
    /// The Workload was deactivated, by a user or a Rejected verdict.
    Deactivated,
    /// The Workload was deleted.
    Deleted,
    /// The check no longer applies: the AdmissionCheck was deleted or given to another check
    /// (another controller, or another [kind of
    /// parameters](super::AdmissionCheckController::controller_name)), or Kueue assigned flavors
    /// for which it is not required.
    CheckRemoved,
    /// The AdmissionCheck's parameters are missing or invalid, and the check does not use the last
    /// valid ones ([`on_parameters_unavailable`](super::Check::on_parameters_unavailable)).
    CheckInactive,
}

impl ReleaseReason {
    /// Returns the name of the reason, for messages and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::QuotaLost => "QuotaLost",
            Self::Evicted => "Evicted",
            Self::Finished => "Finished",
            Self::Replaced { .. } => "Replaced",
            Self::VariantAdmitted { .. } => "VariantAdmitted",
            Self::Deactivated => "Deactivated",
            Self::Deleted => "Deleted",
            Self::CheckRemoved => "CheckRemoved",
            Self::CheckInactive => "CheckInactive",
        }
    }
}

/// The outcome of a [`release`](super::AdmissionCheckController::release).
///
/// ```
/// use std::time::Duration;
/// use kueue_check::{CheckError, ReleaseOutcome, Reservation};
///
/// # struct Machines(bool);
/// # impl Machines { async fn stop(&self, _: &str) -> Result<bool, std::io::Error> { Ok(self.0) } }
/// async fn release(machines: &Machines, reservation: &Reservation) -> Result<ReleaseOutcome, CheckError> {
///     let stopped = machines.stop(&reservation.to_string()).await?; // an error: it is called again
///     Ok(if stopped { ReleaseOutcome::Done } else { ReleaseOutcome::RetryAfter(Duration::from_secs(20)) })
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let reservation: Reservation = "team-a/train/1/machines/1763715605".parse()?;
/// assert_eq!(release(&Machines(false), &reservation).await.ok(), Some(ReleaseOutcome::RetryAfter(Duration::from_secs(20))));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// All resources of the reservation are released.
    Done,
    /// The release takes time: call it again after the delay, of 1 s to 1 h.
    RetryAfter(Duration),
    /// Returned by the default of [`release`](super::AdmissionCheckController::release): this check
    /// never holds anything. The runtime need not call it again, nor find out why a reservation
    /// ended. Only the SDK constructs it.
    #[doc(hidden)]
    NeverAllocates(Unimplemented),
}

/// A marker that only the SDK can construct.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unimplemented(());

impl ReleaseOutcome {
    /// Returns the outcome of a check that holds nothing.
    pub(crate) fn nothing() -> Self {
        Self::NeverAllocates(Unimplemented(()))
    }

    /// Combines two releases: done when both are.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::RetryAfter(a), Self::RetryAfter(b)) => Self::RetryAfter(a.max(b)),
            (Self::RetryAfter(delay), _) | (_, Self::RetryAfter(delay)) => Self::RetryAfter(delay),
            (Self::Done, _) | (_, Self::Done) => Self::Done,
            (Self::NeverAllocates(_), Self::NeverAllocates(_)) => Self::nothing(),
        }
    }
}
