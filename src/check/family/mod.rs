//! The Workloads of one job.

mod index;
#[cfg(test)]
pub(crate) mod recordings;

use jiff::Timestamp;

use super::Reservation;
use crate::api::{PodSet, Uid, Workload};

pub(crate) use index::{Families, PodsState};

/// The family of a Workload: the other Workloads of its job, and which of them runs.
///
/// Most jobs have one Workload. An elastic job that grows has another one for each growth, which
/// requests all pods of the job while the earlier ones run. With concurrent admission a job has a
/// variant for each flavor, of which one starts.
///
/// For resources that are held for a *job*, such as a seat or a licence, use [`key`](Self::key).
/// [`increase`](Self::increase) returns the number of further pods.
///
/// It is read from the Workloads that exist, so a restart changes nothing. Measured on Kueue
/// 0.19.2.
///
/// ```
/// use kueue_check::{Family, FamilyRole, api::Workload};
///
/// let slice = |name: &str, pods: u32, replaces: Option<&str>, admitted: &str| {
///     let mut annotations = serde_json::json!({"kueue.x-k8s.io/elastic-job": "true"});
///     if let Some(replaces) = replaces {
///         annotations["kueue.x-k8s.io/workload-slice-replacement-for"] = format!("team-a/{replaces}").into();
///     }
///     Workload::from_json(serde_json::json!({
///         "metadata": {"namespace": "team-a", "name": name, "uid": name, "annotations": annotations,
///             "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "7", "controller": true}]},
///         "spec": {"podSets": [{"name": "main", "count": pods}]},
///         "status": {
///             "conditions": [{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": admitted}],
///             "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": pods}]},
///         },
///     }))
/// };
/// // The job runs with two pods, and its owner requests six.
/// let first = slice("train-1", 2, None, "True")?;
/// let growth = slice("train-2", 6, Some("train-1"), "False")?;
/// let family = Family::of(&growth, [&first]);
/// assert_eq!(family.role(), &FamilyRole::Growth);
/// assert_eq!(family.key(), Family::of(&first, [&growth]).key());
/// assert_eq!((family.running_pods("main"), family.increase(&growth.pod_sets()[0])), (2, 4));
/// assert_eq!(family.running("licence").map(|reservation| reservation.name().to_owned()), Some("train-1".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    pub(crate) key: Uid,
    pub(crate) role: FamilyRole,
    pub(crate) running: Option<Member>,
    /// How many pods of which pod set run.
    pub(crate) pods: Box<[(Box<str>, u32)]>,
    pub(crate) other_variants: Vec<Member>,
    /// Whether the Workload is a slice or a variant.
    pub(crate) may_have_several_workloads: bool,
    pub(crate) pods_still_run: bool,
}

/// The role of a Workload in its [`Family`].
///
/// ```
/// use kueue_check::FamilyRole;
///
/// assert_ne!(FamilyRole::Whole, FamilyRole::Variant { flavor: "spot".to_owned() });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FamilyRole {
    /// It is the whole job: no pods of the job belong to another Workload.
    Whole,
    /// It requests more pods for an elastic job that runs, and has not been admitted. When it is
    /// admitted, it replaces the Workload that runs, and is the whole.
    Growth,
    /// It is one of several Workloads of the job, each with other flavors. Kueue starts the job
    /// with one of them and releases the quota of the others.
    Variant {
        /// The flavors that it may be given (the annotation `workload-allowed-resource-flavors`).
        flavor: String,
    },
    /// It has variants. It repeats the admission of one of them, and no check is evaluated for it.
    Parent,
}

/// A Workload of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    /// When its quota was reserved.
    pub(crate) since: Timestamp,
}

impl Member {
    /// Returns its reservation, for the AdmissionCheck `check`.
    pub(crate) fn reservation(&self, check: &str, family: &Uid) -> Reservation {
        let Self {
            namespace,
            name,
            uid,
            since,
        } = self;
        Reservation::new(namespace, name, uid.clone(), check, *since).in_family(family)
    }
}

impl Family {
    /// Returns the family of `workload` among `others`, for tests of a check. `others` may contain
    /// Workloads of other jobs.
    pub fn of<'a>(workload: &Workload, others: impl IntoIterator<Item = &'a Workload>) -> Self {
        let mut families = Families::default();
        others.into_iter().for_each(|other| families.apply(other));
        families.apply(workload);
        families.of(workload)
    }

    /// Returns the key, which is the same for all Workloads of the job and for no Workload of
    /// another one: see [`Workload::family_key`].
    pub fn key(&self) -> &Uid {
        &self.key
    }

    /// Returns the role of the Workload in the family.
    pub fn role(&self) -> &FamilyRole {
        &self.role
    }

    /// Returns the reservation of the AdmissionCheck `check` whose pods run while this Workload
    /// waits. For a growth, this is the slice that it grows; for a variant, the one that has
    /// started the job.
    ///
    /// `None` if there is none. For a growth, `None` means that the slice was deleted and is
    /// unknown; then pods may run all the same.
    pub fn running(&self, check: &str) -> Option<Reservation> {
        let running = self.running.as_ref()?;
        Some(running.reservation(check, &self.key))
    }

    /// Returns how many pods of the pod set `name` run in the [`running`](Self::running)
    /// reservation.
    pub fn running_pods(&self, name: &str) -> u32 {
        let of_name = self.pods.iter().find(|(pod_set, _)| **pod_set == *name);
        of_name.map_or(0, |(_, count)| *count)
    }

    /// Returns how many pods of `pod_set` are requested beyond those that run: all of them, except
    /// for a [growth](FamilyRole::Growth).
    pub fn increase(&self, pod_set: &PodSet) -> u32 {
        if self.role == FamilyRole::Growth {
            let running = self.running_pods(pod_set.name());
            pod_set.count().saturating_sub(running)
        } else {
            pod_set.count()
        }
    }

    /// Returns true if the job may have several Workloads: it is elastic, or has variants.
    pub fn may_have_several_workloads(&self) -> bool {
        self.may_have_several_workloads
    }

    /// Returns true if the Workload is finished and its pods still run: a growth has replaced it
    /// and is not admitted. When the growth is admitted, they are its pods.
    ///
    /// ```
    /// # use kueue_check::{Family, api::Workload};
    /// # let slice = |name: &str, replaces: Option<&str>, conditions: serde_json::Value| {
    /// #     let mut annotations = serde_json::json!({"kueue.x-k8s.io/elastic-job": "true"});
    /// #     if let Some(replaces) = replaces {
    /// #         annotations["kueue.x-k8s.io/workload-slice-replacement-for"] = format!("n/{replaces}").into();
    /// #     }
    /// #     Workload::from_json(serde_json::json!({
    /// #         "metadata": {"namespace": "n", "name": name, "uid": name, "annotations": annotations,
    /// #             "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]},
    /// #         "status": {"admission": {"clusterQueue": "q"}, "conditions": conditions},
    /// #     }))
    /// # };
    /// let first = slice("first", None, serde_json::json!([
    ///     {"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"},
    ///     {"type": "Finished", "status": "True", "reason": "WorkloadSliceReplaced"},
    /// ]))?;
    /// let quota = serde_json::json!([{"type": "QuotaReserved", "status": "True"}]);
    /// let growth = slice("growth", Some("first"), quota)?;
    /// assert!(Family::of(&first, [&growth]).pods_still_run());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn pods_still_run(&self) -> bool {
        self.pods_still_run
    }

    /// Returns the reservations of the other variants of the job that hold quota, for the
    /// AdmissionCheck `check`.
    pub fn other_variants(&self, check: &str) -> Vec<Reservation> {
        let others = self.other_variants.iter();
        others
            .map(|variant| variant.reservation(check, &self.key))
            .collect()
    }

    /// Returns true if both have the same inputs for a check: another variant that waits changes no
    /// decision.
    pub(crate) fn decides_like(&self, other: &Self) -> bool {
        let inputs = |family: &Self| (family.role.clone(), family.running.clone());
        inputs(self) == inputs(other) && self.pods == other.pods
    }

    /// Returns how many pods of all pod sets run in the [`running`](Self::running) reservation;
    /// `None` if that is unknown.
    pub fn all_running_pods(&self) -> Option<u32> {
        self.running.as_ref()?;
        let counts = self.pods.iter().map(|(_, count)| *count);
        Some(counts.fold(0, u32::saturating_add))
    }

    /// Returns true if `workload` is a growth that requests no pod beyond those that run: it was
    /// scaled back while it waited.
    pub(crate) fn needs_nothing_more(&self, workload: &Workload) -> bool {
        let mut pod_sets = workload.pod_sets().iter();
        self.role == FamilyRole::Growth
            && self.running.is_some()
            && pod_sets.all(|pod_set| self.increase(pod_set) == 0)
    }
}
