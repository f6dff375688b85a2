//! Provisioning classes, and how requests of each are handled.

use super::{Profile, Request, Settings};

/// The class that only checks whether the existing nodes have capacity.
pub const CHECK_CAPACITY: &str = "check-capacity.autoscaling.x-k8s.io";
/// The class that adds nodes for all pods or for none.
pub const BEST_EFFORT_ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
/// GKE's class (Dynamic Workload Scheduler, flex start).
pub const QUEUED_PROVISIONING: &str = "queued-provisioning.gke.io";

/// How a request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    CheckCapacity,
    BestEffortAtomic,
    Queued,
    /// A request of a class that this autoscaler does not support, or for another instance.
    Ignored,
}

impl Handling {
    pub(super) fn of(request: &Request, settings: &Settings) -> Self {
        let class = request.class.as_str();
        if class == QUEUED_PROVISIONING {
            return if settings.profile.queues() {
                Self::Queued
            } else {
                Self::Ignored
            };
        }
        let meant = request.parameters.get("processorInstance");
        match settings.processor_instance.as_deref() {
            None if meant.is_some() && settings.profile.supports_instances() => Self::Ignored,
            None => Self::by_class(class),
            Some(instance) => Self::of_instance(class, meant, instance, settings.profile),
        }
    }

    fn by_class(class: &str) -> Self {
        match class {
            CHECK_CAPACITY => Self::CheckCapacity,
            BEST_EFFORT_ATOMIC => Self::BestEffortAtomic,
            _ => Self::Ignored,
        }
    }

    /// Returns the handling by an autoscaler with an instance name. If the profile supports
    /// instances, it handles only check-capacity requests that name it in their parameter, or whose
    /// class begins with its name.
    fn of_instance(class: &str, meant: Option<&String>, instance: &str, profile: Profile) -> Self {
        if !profile.supports_instances() {
            return Self::by_class(class);
        }
        let by_parameter = class == CHECK_CAPACITY && meant.is_some_and(|meant| meant == instance);
        let by_class = class.strip_prefix(instance) == Some(CHECK_CAPACITY);
        if by_parameter || by_class {
            Self::CheckCapacity
        } else {
            Self::Ignored
        }
    }
}
