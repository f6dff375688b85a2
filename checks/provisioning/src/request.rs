//! A request for capacity, independent of the kind of object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kueue_check::api::{ResourceVersion, Uid};

use crate::names::attempt_in_name;

/// One request for the capacity of one Workload: the fields that decisions use.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityRequest {
    /// The namespace, which is the Workload's.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: ResourceVersion,
    /// The Workload that owns it.
    pub workload: Uid,
    /// That Workload's name.
    pub workload_name: Box<str>,
    /// The annotations set at its creation; `None` on one that Kueue created.
    pub mark: Option<RequestAnnotations>,
    /// When it was created, to the second.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The provisioning class.
    pub class: Box<str>,
    /// The parameters of the class.
    pub parameters: BTreeMap<Box<str>, Box<str>>,
    /// The requested pods, in order.
    pub pods: Box<[RequestedPods]>,
    /// The phase, by its conditions.
    pub phase: Phase,
    /// The details of the capacity that the provider reported.
    pub details: BTreeMap<Box<str>, Box<str>>,
}

/// A number of requested pods with one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedPods {
    /// The name of their PodTemplate.
    pub template: Box<str>,
    /// The number of pods.
    pub count: u64,
}

/// The annotations that the check sets on a request, to recognize it whatever its name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAnnotations {
    /// The controller name of the check that made it. Each check handles only its own requests.
    pub controller: Box<str>,
    /// The AdmissionCheck.
    pub check: Box<str>,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The time of the quota reservation for which it was created, in seconds since 1970.
    pub reserved: i64,
    /// The key of the Workload's family, if the job may have several Workloads.
    pub family: Option<Uid>,
    /// The failures of the attempts before it.
    pub tally: FailureCounts,
    /// Whether a failed request is kept until the next attempt, as the record of the failures.
    pub keep_failed: bool,
    /// The pod sets that were merged into another one, by the pod set whose template they use.
    pub merged: BTreeMap<Box<str>, Vec<Box<str>>>,
}

/// The number of failed attempts, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Failures for any other reason than a lack of capacity.
    pub errors: u32,
    /// Failures because there was no capacity at that time.
    pub no_capacity: u32,
}

impl FailureCounts {
    /// Returns the counts with one more failure.
    #[must_use]
    pub fn plus(mut self, kind: FailureKind) -> Self {
        let count = match kind {
            FailureKind::Error => &mut self.errors,
            FailureKind::NoCapacity => &mut self.no_capacity,
        };
        *count = count.saturating_add(1);
        self
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// There is no capacity now; there may be later.
    NoCapacity,
    /// Any other reason.
    Error,
}

/// The phase of a request. If several conditions are true, the first in this order counts, as in
/// Kueue's own check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The request failed for good.
    Failed {
        /// The reason.
        kind: FailureKind,
        /// The time of the failure.
        at: Timestamp,
        /// The provider's message.
        message: Box<str>,
    },
    /// The capacity existed and was revoked.
    Revoked {
        /// The time of the revocation.
        at: Timestamp,
        /// The provider's message.
        message: Box<str>,
    },
    /// The capacity existed and is no longer reserved.
    BookingExpired {
        /// The time of the expiry.
        at: Timestamp,
        /// The provider's message.
        message: Box<str>,
    },
    /// The capacity exists.
    Provisioned {
        /// The provider's message.
        message: Box<str>,
    },
    /// The provider works on the request and reports its progress.
    Waiting {
        /// The provider's message.
        message: Box<str>,
    },
    /// An autoscaler has accepted it.
    Accepted,
    /// No autoscaler has reported anything.
    New,
}

impl Phase {
    /// Returns how a request that ends in this phase has failed.
    pub(crate) fn failure(&self) -> FailureKind {
        match self {
            Self::Failed { kind, .. } => *kind,
            Self::Waiting { .. } => FailureKind::NoCapacity,
            _ => FailureKind::Error,
        }
    }

    /// Returns true if the request may have started pods.
    pub fn was_provisioned(&self) -> bool {
        match self {
            Self::Provisioned { .. } | Self::Revoked { .. } | Self::BookingExpired { .. } => true,
            Self::Failed { .. } | Self::Waiting { .. } | Self::Accepted | Self::New => false,
        }
    }
}

impl CapacityRequest {
    /// Returns the attempt number of the request as one of `check` for the Workload `workload`, or
    /// `None` if it is none.
    pub fn attempt_of(&self, workload: &str, check: &str) -> Option<u32> {
        match &self.mark {
            Some(mark) => (&*mark.check == check).then_some(mark.attempt),
            None => attempt_in_name(&self.name, workload, check),
        }
    }

    /// Returns the AdmissionCheck of the request, if its annotations have it. A request that Kueue
    /// created has it only in its name.
    pub fn check(&self) -> Option<&str> {
        if let Some(mark) = &self.mark {
            return Some(&mark.check);
        }
        let rest = self
            .name
            .strip_prefix(&*self.workload_name)?
            .strip_prefix('-')?;
        let (check, attempt) = rest.rsplit_once('-')?;
        attempt
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(check)
    }

    /// Returns the key of the Workload's family, if the job may have several Workloads.
    pub fn family(&self) -> Option<&Uid> {
        self.mark.as_ref()?.family.as_ref()
    }

    /// Returns true if it has the class and each of `parameters`. Additional parameters are
    /// allowed.
    pub fn matches(&self, class: &str, parameters: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): (&String, &String)| {
            self.parameters.get(key.as_str()).map(|own| &**own) == Some(value.as_str())
        };
        &*self.class == class && parameters.iter().all(has)
    }

    /// Returns the failures of the attempts before it, if it was attempt number `attempt`. For a
    /// request of Kueue's all failures count as errors.
    pub fn tally(&self, attempt: u32) -> FailureCounts {
        let unknown = FailureCounts {
            errors: attempt.saturating_sub(1),
            no_capacity: 0,
        };
        self.mark.as_ref().map_or(unknown, |mark| mark.tally)
    }
}
