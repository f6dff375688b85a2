//! A request for capacity, whatever kind of object it is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kueue_check::api::{ResourceVersion, Uid};

use crate::names::attempt_in_name;

/// One request for the capacity of one Workload, as far as is decided on.
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
    /// What was written on it when it was created; nothing on one that Kueue created.
    pub mark: Option<RequestAnnotations>,
    /// When it was created, to the second.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Who is to provision.
    pub class: Box<str>,
    /// The class's parameters.
    pub parameters: BTreeMap<Box<str>, Box<str>>,
    /// The pods that it asks for, in order.
    pub pods: Box<[RequestedPods]>,
    /// What has come of it.
    pub phase: Phase,
    /// What the provider reported of the capacity.
    pub details: BTreeMap<Box<str>, Box<str>>,
}

/// Pods alike that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedPods {
    /// The name of their PodTemplate.
    pub template: Box<str>,
    /// How many.
    pub count: u64,
}

/// What the check writes on a request, so that it recognizes it whatever its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAnnotations {
    /// The controller name of the check that made it: another check looks after its own.
    pub controller: Box<str>,
    /// The AdmissionCheck.
    pub check: Box<str>,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// Seconds since 1970 of the quota reservation for which it was created.
    pub reserved: i64,
    /// The key of the Workload's family, if the job may have several Workloads.
    pub family: Option<Uid>,
    /// How the attempts before it failed.
    pub tally: FailureCounts,
    /// Whether it is kept, once it has failed, until the next attempt: it is the record of the
    /// failures.
    pub keep_failed: bool,
    /// The pod sets that were merged into another one, by the one whose template stands for them.
    pub merged: BTreeMap<Box<str>, Vec<Box<str>>>,
}

/// How attempts failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// For good reasons to worry.
    pub errors: u32,
    /// Because there was no capacity then.
    pub no_capacity: u32,
}

impl FailureCounts {
    /// With one more failure.
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
    /// There is no capacity now; later there may be.
    NoCapacity,
    /// Anything else.
    Error,
}

/// What has come of a request. Of several things that are true, the first in this order counts, as
/// for Kueue's own check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It failed for good.
    Failed {
        /// Why.
        kind: FailureKind,
        /// When.
        at: Timestamp,
        /// The provider's words.
        message: Box<str>,
    },
    /// The capacity was there and was taken away.
    Revoked {
        /// When.
        at: Timestamp,
        /// The provider's words.
        message: Box<str>,
    },
    /// The capacity was there and is no longer kept free.
    BookingExpired {
        /// When.
        at: Timestamp,
        /// The provider's words.
        message: Box<str>,
    },
    /// The capacity is there.
    Provisioned {
        /// The provider's words.
        message: Box<str>,
    },
    /// It is at work on, and the provider tells how far it is.
    Waiting {
        /// The provider's words.
        message: Box<str>,
    },
    /// An autoscaler has accepted it.
    Accepted,
    /// No autoscaler has reported anything.
    New,
}

impl Phase {
    /// Whether pods may have been started by the request.
    pub fn was_provisioned(&self) -> bool {
        match self {
            Self::Provisioned { .. } | Self::Revoked { .. } | Self::BookingExpired { .. } => true,
            Self::Failed { .. } | Self::Waiting { .. } | Self::Accepted | Self::New => false,
        }
    }
}

impl CapacityRequest {
    /// Which attempt of `check` for the Workload `workload` it is; `None` if it is none.
    pub fn attempt_of(&self, workload: &str, check: &str) -> Option<u32> {
        match &self.mark {
            Some(mark) => (&*mark.check == check).then_some(mark.attempt),
            None => attempt_in_name(&self.name, workload, check),
        }
    }

    /// The AdmissionCheck that it is for, as far as the request itself tells: one that Kueue
    /// created tells only by its name.
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

    /// The key of the Workload's family, if the job may have several Workloads.
    pub fn family(&self) -> Option<&Uid> {
        self.mark.as_ref()?.family.as_ref()
    }

    /// Whether it asks for what is wanted now: the class, and every one of `parameters`. More
    /// parameters do no harm.
    pub fn matches(&self, class: &str, parameters: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): (&String, &String)| {
            self.parameters.get(key.as_str()).map(|own| &**own) == Some(value.as_str())
        };
        &*self.class == class && parameters.iter().all(has)
    }

    /// How the attempts before it failed, if it was the attempt number `attempt`. On a request of
    /// Kueue's all failures count as errors.
    pub fn tally(&self, attempt: u32) -> FailureCounts {
        let unknown = FailureCounts {
            errors: attempt.saturating_sub(1),
            no_capacity: 0,
        };
        self.mark.as_ref().map_or(unknown, |mark| mark.tally)
    }
}
