//! The families of all jobs that have several Workloads, and which pods of each run. Pure.
//!
//! A growth is a Workload of its own, which requests all pods of the job and replaces the Workload
//! before (a *slice*). Kueue finishes the replaced slice as soon as the growth has quota, before
//! its checks are evaluated. The pods run on until the growth is admitted, and then belong to it.
//! An eviction of the growth stops them all the same (measured on 0.19.2, traces
//! `elastic-grow-retry` and `elastic-grow-rejected`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::runtime::watcher::Event;

use super::super::Reservation;
use super::{Family, FamilyRole, Member};
use crate::api::{Name, Slice, Uid, Workload, WorkloadConditions};

/// The slices of all elastic jobs and the variants of all others, from the watch of Workloads.
/// Slices that have been replaced are included.
///
/// No decision depends on data beyond the objects that exist, so a restart loses nothing. A slice
/// that is no longer in the watch may have stopped the pods of the one before by its eviction. A
/// new leader scans for those ([`Families::apply_unselected`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct Families {
    /// By [`group`].
    known: BTreeMap<Uid, Vec<KnownSlice>>,
    /// While a list is under way: the objects listed so far.
    listed: Option<BTreeSet<Uid>>,
}

/// The state of a slice or a variant.
#[derive(Clone, Debug)]
struct KnownSlice {
    member: Member,
    cluster_queue: Option<Name>,
    is_variant: bool,
    replaces: Option<Box<str>>,
    phase: Phase,
    /// Whether it is finished because another slice has replaced it.
    replaced: Option<Replaced>,
    holds_quota: bool,
    pods: Box<[(Box<str>, u32)]>,
    /// How its pods ended, if a later slice that is no longer in the watch determined it.
    ended: Option<PodsState>,
}

/// How Kueue reported the end of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    /// Another one has replaced it.
    Surely,
    /// It is out of sync with its job: dropped, or up to Kueue 0.18 replaced.
    IfThereIsASuccessor,
}

/// The state of the pods of a slice that another one has replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodsState {
    /// They run on: no later slice has been admitted.
    Runs,
    /// They are the pods of this slice, which has been admitted.
    Replaced(Member),
    /// An eviction of a later slice has stopped them.
    Evicted,
    /// The job has finished.
    Finished,
}

/// The phase of a slice: the state of the job's pods as far as it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has been admitted, and its pods run, also when a growth has replaced it.
    Runs,
    /// It had been admitted when it was replaced, and the replacement took its quota, as in Kueue
    /// before 0.18 (measured on 0.15.0).
    RanUntilReplaced,
    /// It has not been admitted: any running pods belong to an earlier slice.
    Waits,
    /// Its eviction stops the whole job: it holds quota until the pods are gone.
    Stops,
    /// Its eviction has stopped the whole job.
    Evicted,
    /// The job has finished.
    Finished,
}

impl Phase {
    fn of(workload: &Workload) -> Self {
        let conditions = workload.conditions();
        if conditions.finished().is_true() && !conditions.replaced {
            Self::Finished
        } else if workload.is_admitted() {
            Self::Runs
        } else if conditions.evicted().is_true() && workload.holds_quota() {
            Self::Stops
        } else if conditions.evicted().is_true() {
            Self::Evicted
        } else if conditions.replaced && was_admitted_last(conditions) {
            Self::RanUntilReplaced
        } else if conditions.evicted().status.is_some() {
            // Kueue sets the condition to False when quota is reserved again.
            Self::Evicted
        } else {
            Self::Waits
        }
    }
}

/// Returns true if a Workload that lost its admission was admitted by its last reservation. An
/// earlier admission ended before the condition `Evicted` was reset by that reservation.
fn was_admitted_last(conditions: &WorkloadConditions) -> bool {
    let (admitted, evicted) = (conditions.admitted(), conditions.evicted());
    let later = admitted.last_transition_time() > evicted.last_transition_time();
    admitted.status.is_some() && (evicted.status.is_none() || later)
}

impl KnownSlice {
    /// Returns true if Kueue can replace it by `workload`: both are in one namespace and, as far as
    /// they have quota, in one ClusterQueue (0.19.2: `ReplacedWorkloadSlice` in
    /// `pkg/workloadslicing/workloadslicing.go`). Annotations and owners alone prove nothing.
    fn is_replaceable_by(&self, workload: &Workload) -> bool {
        let queues = self
            .cluster_queue
            .as_ref()
            .zip(workload.shared_cluster_queue());
        *self.member.namespace == *workload.namespace() && queues.is_none_or(|(own, of)| own == of)
    }

    fn of(workload: &Workload) -> Option<Self> {
        let replaces = match workload.slice() {
            Slice::None if workload.variant().is_none() => return None,
            Slice::None | Slice::First => None,
            Slice::Replaces(name) => Some(name.clone()),
        };
        let pod_sets = workload.pod_sets().iter();
        let conditions = workload.conditions();
        Some(Self {
            member: Member::of(workload),
            cluster_queue: workload.shared_cluster_queue().cloned(),
            is_variant: workload.variant().is_some(),
            replaces,
            phase: Phase::of(workload),
            replaced: match (conditions.replaced, conditions.out_of_sync) {
                (false, _) => None,
                (true, false) => Some(Replaced::Surely),
                (true, true) => Some(Replaced::IfThereIsASuccessor),
            },
            holds_quota: workload.holds_quota() && !workload.conditions().finished().is_true(),
            pods: pod_sets
                .map(|pod_set| (pod_set.name().into(), pod_set.count()))
                .collect(),
            ended: None,
        })
    }
}

impl Member {
    fn of(workload: &Workload) -> Self {
        let reserved = workload.conditions().quota_reserved();
        Self {
            namespace: workload.namespace().into(),
            name: workload.name().into(),
            uid: workload.uid().clone(),
            since: reserved
                .last_transition_time()
                .unwrap_or(Timestamp::UNIX_EPOCH),
        }
    }
}

impl Families {
    /// Applies an event of the watch of Workloads.
    pub(crate) fn take(&mut self, event: &Event<Workload>) {
        match event {
            Event::Init => self.listed = Some(BTreeSet::new()),
            Event::InitApply(workload) | Event::Apply(workload) => self.apply(workload),
            Event::Delete(workload) => self.remove(workload),
            Event::InitDone => {
                if let Some(listed) = self.listed.take() {
                    for of_job in self.known.values_mut() {
                        remove_members(of_job, |known| !listed.contains(&known.member.uid));
                    }
                    self.known.retain(|_, of_job| !of_job.is_empty());
                }
            }
        }
    }

    /// Applies a state of a Workload.
    pub(crate) fn apply(&mut self, workload: &Workload) {
        let Some(known) = KnownSlice::of(workload) else {
            return;
        };
        if let Some(listed) = &mut self.listed {
            listed.insert(known.member.uid.clone());
        }
        let of_job = self.known.entry(group(workload)).or_default();
        match of_job
            .iter_mut()
            .find(|before| before.member.uid == known.member.uid)
        {
            Some(before) => {
                let ended = before.ended.take();
                *before = KnownSlice { ended, ..known };
            }
            None => of_job.push(known),
        }
    }

    /// Applies the state of a Workload that the watch no longer selects: what it shows about the
    /// pods of earlier slices is kept.
    pub(crate) fn apply_unselected(&mut self, workload: &Workload) {
        let of_job = self.known.get(&group(workload)).into_iter().flatten();
        if of_job
            .into_iter()
            .all(|known| known.member.uid != *workload.uid())
        {
            self.apply(workload);
            self.remove(workload);
        }
    }

    /// Removes a Workload that the watch no longer selects.
    pub(crate) fn remove(&mut self, workload: &Workload) {
        self.remove_from(&group(workload), workload.uid());
    }

    /// Removes a Workload of which only the UID is known.
    pub(crate) fn remove_uid(&mut self, uid: &Uid) {
        if let Some(group) = self.group_of(uid).cloned() {
            self.remove_from(&group, uid);
        }
    }

    fn group_of(&self, uid: &Uid) -> Option<&Uid> {
        let is_here =
            |of_job: &Vec<KnownSlice>| of_job.iter().any(|known| known.member.uid == *uid);
        let mut groups = self.known.iter();
        Some(groups.find(|(_, of_job)| is_here(of_job))?.0)
    }

    fn remove_from(&mut self, group: &Uid, uid: &Uid) {
        if let Some(of_job) = self.known.get_mut(group) {
            remove_members(of_job, |known| known.member.uid == *uid);
            if of_job.is_empty() {
                self.known.remove(group);
            }
        }
    }

    fn others<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = &'a KnownSlice> {
        let of_job = self.known.get(&group(workload));
        of_job
            .into_iter()
            .flatten()
            .filter(|known| known.member.uid != *workload.uid())
    }

    /// Returns the other Workloads of the job of `workload`.
    pub(crate) fn relatives(&self, workload: &Workload) -> Vec<Uid> {
        let others = self.others(workload);
        others.map(|known| known.member.uid.clone()).collect()
    }

    /// Returns the Workloads of the job of a Workload of which only the UID is known.
    pub(crate) fn job_of(&self, uid: &Uid) -> Vec<Uid> {
        self.group_of(uid)
            .map_or_else(Vec::new, |group| self.members(group))
    }

    /// Returns the slices or variants of the job whose family has the key `key`.
    pub(crate) fn members(&self, key: &Uid) -> Vec<Uid> {
        let of_job = self.known.get(key).into_iter().flatten();
        of_job.map(|known| known.member.uid.clone()).collect()
    }

    /// Returns the Workloads of a job whose place in it `event` may change, without that of the
    /// event.
    pub(crate) fn affected_by(&self, event: &Event<Workload>) -> Vec<Uid> {
        match event {
            Event::Apply(workload) | Event::InitApply(workload) | Event::Delete(workload) => {
                self.relatives(workload)
            }
            Event::InitDone => self.all(),
            Event::Init => Vec::new(),
        }
    }

    /// Returns all slices and variants in the index.
    pub(crate) fn all(&self) -> Vec<Uid> {
        let known = self.known.values().flatten();
        known.map(|known| known.member.uid.clone()).collect()
    }

    /// Returns the family of `workload`.
    pub(crate) fn of(&self, workload: &Workload) -> Family {
        let family = |role, running: Option<&KnownSlice>| Family {
            key: workload.family_key().clone(),
            role,
            running: running.map(|known| known.member.clone()),
            pods: running.map_or_else(Box::default, |known| known.pods.clone()),
            other_variants: Vec::new(),
            may_have_several_workloads: *workload.slice() != Slice::None
                || workload.variant().is_some(),
            pods_still_run: self.pods_state(workload) == Some(PodsState::Runs),
        };
        if workload.is_parent() {
            return family(FamilyRole::Parent, None);
        }
        match self.baseline(workload) {
            Baseline::None => {}
            Baseline::Unknown => return family(FamilyRole::Growth, None),
            Baseline::Known(runs) => return family(FamilyRole::Growth, Some(runs)),
        }
        let Some(variant) = workload.variant() else {
            return family(FamilyRole::Whole, None);
        };
        let others = || {
            self.others(workload)
                .filter(|known| known.is_variant && known.holds_quota)
        };
        let flavor = variant.flavor.to_string();
        let running = others().find(|variant| variant.phase == Phase::Runs);
        Family {
            other_variants: others().map(|known| known.member.clone()).collect(),
            ..family(FamilyRole::Variant { flavor }, running)
        }
    }

    /// Returns the state of the pods of `workload`; `None` if it is not a slice that has been
    /// replaced.
    pub(crate) fn pods_state(&self, workload: &Workload) -> Option<PodsState> {
        if !workload.conditions().replaced {
            return None;
        }
        let of_job = self.known.get(&group(workload));
        let of_job = of_job.map_or(&[][..], Vec::as_slice);
        let is = |known: &&KnownSlice| known.member.uid == *workload.uid();
        match of_job.iter().find(is) {
            Some(slice) => Some(pods_state(of_job, slice)),
            // A list was older than a read.
            None => Some(pods_state(of_job, &KnownSlice::of(workload)?)),
        }
    }

    /// Returns true if pods of the slice `workload`, which has been replaced, have run.
    pub(crate) fn ran(workload: &Workload) -> bool {
        matches!(Phase::of(workload), Phase::Runs | Phase::RanUntilReplaced)
    }

    /// Returns the state of the pods of a deleted slice, whose reservation is `reservation`.
    /// Kueue's `objectRetentionPolicies` delete replaced slices, also while the growth waits.
    /// `None` if the index has no slice that replaced it.
    pub(crate) fn pods_state_of_deleted(&self, reservation: &Reservation) -> Option<PodsState> {
        let of_job = self.known.get(reservation.family_key())?;
        let name = Some(reservation.name());
        let is_replaced = of_job.iter().any(|known| known.replaces.as_deref() == name);
        let deleted = || KnownSlice {
            member: Member {
                namespace: reservation.namespace().into(),
                name: reservation.name().into(),
                uid: reservation.uid().clone(),
                since: reservation.since(),
            },
            cluster_queue: None,
            is_variant: false,
            replaces: None,
            phase: Phase::Runs,
            replaced: Some(Replaced::Surely),
            holds_quota: false,
            pods: Box::default(),
            ended: None,
        };
        is_replaced.then(|| pods_state(of_job, &deleted()))
    }

    /// Returns the admitted variant beside the variant `workload`.
    pub(crate) fn winner(&self, workload: &Workload) -> Option<Member> {
        workload.variant()?;
        let mut others = self.others(workload);
        let winner = others
            .find(|known| known.is_variant && known.holds_quota && known.phase == Phase::Runs)?;
        Some(winner.member.clone())
    }

    /// Returns the slice whose pods run while `workload` waits to grow them.
    ///
    /// The pods that run are those of the nearest earlier slice that has been admitted. If a slice
    /// is missing from the index, pods are assumed to run.
    fn baseline(&self, workload: &Workload) -> Baseline<'_> {
        let Slice::Replaces(replaced) = workload.slice() else {
            return Baseline::None;
        };
        if Phase::of(workload) != Phase::Waits {
            return Baseline::None;
        }
        let Some(of_job) = self.known.get(&group(workload)) else {
            return Baseline::Unknown;
        };
        let mut next = replaced;
        // Bounded, whatever the annotations are.
        for _ in 0..=of_job.len() {
            let is_next = |known: &&KnownSlice| {
                known.member.name == *next && known.is_replaceable_by(workload)
            };
            let Some(slice) = of_job.iter().find(is_next) else {
                break;
            };
            match (slice.phase, &slice.replaces) {
                (Phase::Runs | Phase::RanUntilReplaced, _) => return Baseline::Known(slice),
                (Phase::Stops | Phase::Evicted | Phase::Finished, _) | (Phase::Waits, None) => {
                    return Baseline::None;
                }
                (Phase::Waits, Some(earlier)) => next = earlier,
            }
        }
        Baseline::Unknown
    }
}

/// The baseline of a waiting slice: what it grows.
enum Baseline<'a> {
    /// Nothing runs.
    None,
    /// Unknown: pods may run.
    Unknown,
    /// The pods of this slice run.
    Known(&'a KnownSlice),
}

/// Returns the key of the family that the Workloads of one job share. Slices that no job controls
/// form one group in each namespace, linked by name alone.
fn group(workload: &Workload) -> Uid {
    let is_slice = *workload.slice() != Slice::None;
    if is_slice && workload.family_key() == workload.uid() {
        Uid::new(&format!("{}/", workload.namespace()))
    } else {
        workload.family_key().clone()
    }
}

/// Returns the state of the pods of `slice`, which has been replaced: that of the next later slice
/// that was admitted or ended. A slice that was never admitted had no pods.
fn pods_state(of_job: &[KnownSlice], slice: &KnownSlice) -> PodsState {
    if let Some(ended) = &slice.ended {
        return ended.clone();
    }
    let replaces = |known: &KnownSlice| known.replaces.as_ref() == Some(&slice.member.name);
    if slice.replaced == Some(Replaced::IfThereIsASuccessor) && !of_job.iter().any(replaces) {
        return PodsState::Finished;
    }
    let ran = slice.phase == Phase::Runs;
    let mut at = slice;
    // Bounded, whatever the annotations are.
    for _ in 0..of_job.len() {
        let name = Some(&at.member.name);
        let Some(next) = of_job.iter().find(|known| known.replaces.as_ref() == name) else {
            break;
        };
        match next.phase {
            _ if !ran => return PodsState::Replaced(next.member.clone()),
            Phase::Runs => return PodsState::Replaced(next.member.clone()),
            Phase::Evicted => return PodsState::Evicted,
            Phase::Finished => return PodsState::Finished,
            Phase::Waits | Phase::RanUntilReplaced if next.replaced.is_some() => at = next,
            Phase::Waits | Phase::RanUntilReplaced | Phase::Stops => return PodsState::Runs,
        }
    }
    if ran {
        PodsState::Runs
    } else {
        PodsState::Finished
    }
}

/// Removes the slices that are `gone`. What they show about the pods of earlier slices is kept.
fn remove_members(of_job: &mut Vec<KnownSlice>, gone: impl Fn(&KnownSlice) -> bool) {
    let stopped = of_job
        .iter()
        .any(|known| gone(known) && known.phase == Phase::Stops);
    let states: Vec<Option<PodsState>> = of_job
        .iter()
        .map(|known| match pods_state(of_job, known) {
            // An evicted slice loses its quota only after its pods are gone.
            PodsState::Runs if stopped && known.replaced.is_some() => Some(PodsState::Evicted),
            PodsState::Runs => None,
            state => known.replaced.map(|_| state),
        })
        .collect();
    for (known, state) in of_job.iter_mut().zip(states) {
        known.ended = known.ended.take().or(state);
    }
    of_job.retain(|known| !gone(known));
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
