//! The cache of Workloads: the newest state of each, in whatever order changes arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::api::{Name, ResourceVersion, Uid, Workload, digest};
use crate::runtime::decide::ReservationState;
use crate::runtime::queue::Lane;
use crate::runtime::writer::EntryDigest;

/// One Workload and one AdmissionCheck of this process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) uid: Uid,
    pub(crate) check: Name,
}

impl Key {
    pub(super) fn new(uid: &Uid, check: &Name) -> Self {
        Self {
            uid: uid.clone(),
            check: check.clone(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.uid, self.check)
    }
}

/// A Workload and the state of each check for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrackedWorkload {
    presence: Presence,
    pub(crate) keys: Vec<KeyState>,
}

/// The cached state of the object itself.
#[derive(Clone, Debug, Default)]
enum Presence {
    /// It was never in the watch; only a cleanup refers to it.
    #[default]
    Unknown,
    Present(Workload),
    /// It left the watch.
    Gone(Box<Tombstone>),
}

/// The last state of a Workload that left the watch while a task or cleanup for it remains.
#[derive(Clone, Debug)]
struct Tombstone {
    last: Workload,
    /// The version at which it left; `None` if it was only missing from a list.
    left_at: Option<ResourceVersion>,
}

/// The state of one check for one Workload.
#[derive(Clone, Debug)]
pub(crate) struct KeyState {
    pub(crate) check: Name,
    /// The number of the controller that decides for the reservation. Small, as each Workload has
    /// one.
    controller: u16,
    /// The reservation being decided (its start).
    pub(crate) reservation: Option<Timestamp>,
    /// Seconds by which the wall clock was ahead of the core's own clock when the reservation was
    /// first observed. Later steps of the wall clock do not count.
    pub(super) ahead: i32,
    /// The expected content of the entry; `None` until the check was evaluated for this
    /// reservation.
    pub(super) expected: Option<EntryDigest>,
    /// Whether the check may have allocated resources for the reservation.
    pub(super) started: bool,
    /// Whether the reservation was observed evicted. One without an eviction is then another
    /// reservation, even if it began in the same second.
    pub(super) evicted: bool,
    /// Whether a task is in flight for it.
    pub(super) in_flight: bool,
    /// The lane in which to enqueue again when that task ends.
    pub(super) pending_lane: Option<Lane>,
    /// Consecutive failed writes.
    pub(super) failed_writes: u8,
    pub(super) timer: Option<Instant>,
    pub(super) purpose: TimerPurpose,
    /// The time of the last evaluation, in tenths of a second since the core was created.
    pub(super) evaluated_at: Option<NonZeroU32>,
    pub(super) memory: ReservationState,
}

/// What the timer of a key is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TimerPurpose {
    /// Work that is owed whether or not the job is admitted meanwhile.
    #[default]
    Work,
    /// A recheck that ends with the admission.
    UntilAdmitted,
}

impl KeyState {
    fn new(check: Name, controller: usize) -> Self {
        Self {
            check,
            controller: number(controller),
            reservation: None,
            ahead: 0,
            expected: None,
            started: false,
            evicted: false,
            in_flight: false,
            pending_lane: None,
            failed_writes: 0,
            timer: None,
            purpose: TimerPurpose::default(),
            evaluated_at: None,
            memory: ReservationState::default(),
        }
    }

    /// Returns the number of the controller that manages the check, as of the last reservation.
    pub(super) fn controller(&self) -> usize {
        self.controller.into()
    }

    /// Starts a reservation, for which `controller` decides: no state of the previous one counts.
    pub(super) fn start_reservation(
        &mut self,
        controller: usize,
        since: Timestamp,
        started: bool,
        wall: Timestamp,
        steady: Timestamp,
    ) {
        self.controller = number(controller);
        self.reservation = Some(since);
        let ahead = wall.as_second().saturating_sub(steady.as_second());
        self.ahead = i32::try_from(ahead).unwrap_or_default();
        self.reset();
        self.started = started;
    }

    /// Resets the results of evaluations.
    pub(super) fn reset(&mut self) {
        self.expected = None;
        self.evicted = false;
        self.evaluated_at = None;
        self.failed_writes = 0;
        self.memory = ReservationState::default();
    }

    /// Returns how long the reservation has been held at `steady`, by the core's own clock.
    pub(super) fn held(&self, steady: Timestamp) -> Duration {
        let ahead = SignedDuration::from_secs(self.ahead.into());
        let since = self.reservation.unwrap_or(steady);
        let held = steady.duration_since(since).saturating_add(ahead);
        Duration::try_from(held).unwrap_or_default()
    }

    /// Returns the lane of its evaluation; `undecided` is true if a job waits for the first
    /// verdict.
    pub(super) fn lane(&self, undecided: bool) -> Lane {
        match (undecided, self.expected) {
            (true, _) => Lane::New,
            (false, None) => Lane::Restore,
            (false, Some(_)) => Lane::Recheck,
        }
    }

    /// Returns true if the last evaluation failed.
    pub(super) fn fails(&self) -> bool {
        self.memory.failure_state().failures > 0
    }

    /// Returns true if an evaluation since the last verdict rejected the parameters.
    pub(super) fn has_rejected(&self) -> bool {
        self.memory.failure_state().rejected
    }

    fn is_idle(&self) -> bool {
        self.reservation.is_none() && !self.in_flight
    }
}

fn number(controller: usize) -> u16 {
    u16::try_from(controller).unwrap_or(u16::MAX)
}

impl TrackedWorkload {
    /// Returns the Workload, while it is in the watch.
    pub(crate) fn workload(&self) -> Option<&Workload> {
        match &self.presence {
            Presence::Present(workload) => Some(workload),
            Presence::Unknown | Presence::Gone(_) => None,
        }
    }

    /// Returns the last cached state of the Workload.
    pub(super) fn newest(&self) -> Option<&Workload> {
        match &self.presence {
            Presence::Present(workload) => Some(workload),
            Presence::Gone(tombstone) => Some(&tombstone.last),
            Presence::Unknown => None,
        }
    }

    pub(crate) fn key(&self, check: &str) -> Option<&KeyState> {
        self.keys.iter().find(|key| &*key.check == check)
    }

    pub(super) fn key_mut(&mut self, check: &str) -> Option<&mut KeyState> {
        self.keys.iter_mut().find(|key| &*key.check == check)
    }

    /// Returns the state of `check`, created if it is new.
    pub(super) fn key_or_new(&mut self, check: &Name, controller: usize) -> &mut KeyState {
        let at = self
            .keys
            .iter()
            .position(|key| key.check == *check)
            .unwrap_or_else(|| {
                self.keys.reserve_exact(1);
                self.keys.push(KeyState::new(check.clone(), controller));
                self.keys.len() - 1
            });
        &mut self.keys[at]
    }
}

/// The origin of a state of a Workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The watch, or its list.
    Watch,
    /// The reply to a write that was sent earlier.
    Reply,
    /// The reply to a read that was sent after everything in the cache was received.
    Read,
}

/// The result of applying a state.
#[derive(Debug)]
pub(super) enum Applied {
    /// It is the newest now; the previous one.
    Newest(Option<Workload>),
    /// The cache has this newer state.
    Superseded(Workload),
    /// It is a state from before the Workload left the watch.
    Discarded,
}

/// All tracked Workloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkloadCache {
    tracked: BTreeMap<Uid, TrackedWorkload>,
    /// The content of the list in progress, and the part of it that was older than the cache.
    listing: Option<Listing>,
    /// The Workloads in the watch by the digest of their namespace and name. `None` until one is
    /// looked up: most checks look up none, and a Workload costs memory.
    named: Option<BTreeSet<(u64, Uid)>>,
}

/// Returns the digest of a namespace and a name.
fn place((namespace, name): (&str, &str)) -> u64 {
    digest(&(namespace, name))
}

#[derive(Clone, Debug, Default)]
struct Listing {
    named: BTreeSet<Uid>,
    older: BTreeSet<Uid>,
}

impl WorkloadCache {
    /// Applies a state of a Workload. Deletions and late replies in any order end in the newest
    /// state.
    pub(super) fn apply(&mut self, workload: &Workload, origin: Origin) -> Applied {
        let uid = workload.uid();
        if origin == Origin::Watch
            && let Some(listing) = &mut self.listing
        {
            listing.named.insert(uid.clone());
        }
        let version = workload.resource_version();
        let Some(tracked) = self.tracked.get_mut(uid) else {
            if origin == Origin::Reply {
                return Applied::Discarded;
            }
            self.name(workload);
            self.tracked.entry(uid.clone()).or_default().presence =
                Presence::Present(workload.clone());
            return Applied::Newest(None);
        };
        match &tracked.presence {
            Presence::Present(known) if version.is_older_than(known.resource_version()) => {
                if origin == Origin::Watch
                    && let Some(listing) = &mut self.listing
                {
                    listing.older.insert(uid.clone());
                }
                return Applied::Superseded(known.clone());
            }
            Presence::Gone(tombstone) => {
                let newer = |than: &ResourceVersion| than.is_older_than(version);
                let revived = match (&tombstone.left_at, origin) {
                    (Some(left_at), _) => newer(left_at),
                    (None, Origin::Reply) => false,
                    (None, Origin::Read) => true,
                    (None, Origin::Watch) => newer(tombstone.last.resource_version()),
                };
                if !revived {
                    return Applied::Discarded;
                }
            }
            Presence::Unknown if origin == Origin::Reply => return Applied::Discarded,
            Presence::Present(_) | Presence::Unknown => {}
        }
        Applied::Newest(self.replace(workload))
    }

    /// Returns true if the cache has a newer state than `workload`, or it left the watch later.
    pub(super) fn has_newer(&self, workload: &Workload) -> bool {
        let newest = self.newest_version(workload.uid());
        newest.is_some_and(|newest| workload.resource_version().is_older_than(&newest))
    }

    /// Returns the newest version in which a Workload is known to be, or to have left the watch.
    pub(super) fn newest_version(&self, uid: &Uid) -> Option<ResourceVersion> {
        match &self.tracked.get(uid)?.presence {
            Presence::Present(known) => Some(known.resource_version().clone()),
            Presence::Gone(tombstone) => tombstone.left_at.clone(),
            Presence::Unknown => None,
        }
    }

    /// Replaces the cached state, even by an older version: the API server was restored.
    pub(super) fn replace(&mut self, workload: &Workload) -> Option<Workload> {
        let tracked = self.tracked.get_mut(workload.uid())?;
        match std::mem::replace(&mut tracked.presence, Presence::Present(workload.clone())) {
            Presence::Present(before) => Some(before),
            Presence::Unknown | Presence::Gone(_) => {
                self.name(workload);
                None
            }
        }
    }

    /// Adds a Workload that is in the watch now.
    fn name(&mut self, workload: &Workload) {
        if let Some(named) = &mut self.named {
            let at = place((workload.namespace(), workload.name()));
            named.insert((at, workload.uid().clone()));
        }
    }

    /// Returns the Workloads in the watch with this namespace and name: one, or two if the deletion
    /// of an earlier one has not been shown.
    pub(super) fn named(&mut self, namespace: &str, name: &str) -> Vec<Uid> {
        let tracked = &self.tracked;
        let named = self.named.get_or_insert_with(|| {
            let present = tracked.values().filter_map(TrackedWorkload::workload);
            let of = |workload: &Workload| place((workload.namespace(), workload.name()));
            present
                .map(|workload| (of(workload), workload.uid().clone()))
                .collect()
        });
        let wanted = place((namespace, name));
        let from = (wanted, Uid::MIN);
        let same = named
            .range(from..)
            .take_while(|(place, _)| *place == wanted);
        let is_it = |uid: &&Uid| {
            let workload = tracked.get(*uid).and_then(TrackedWorkload::workload);
            workload.is_some_and(|workload| {
                (workload.namespace(), workload.name()) == (namespace, name)
            })
        };
        same.map(|(_, uid)| uid).filter(is_it).cloned().collect()
    }

    /// Removes a Workload that left the watch, in the state `left` if that was observed. Returns
    /// the last state in which it was present; `None` if it was not, or a newer state is cached.
    pub(super) fn remove(&mut self, uid: &Uid, left: Option<&Workload>) -> Option<Workload> {
        let version = left.map(Workload::resource_version);
        let tracked = self.tracked.get_mut(uid)?;
        let Presence::Present(known) = &tracked.presence else {
            if let (Presence::Unknown, Some(left)) = (&tracked.presence, left) {
                tracked.presence = Presence::Gone(Box::new(Tombstone {
                    last: left.clone(),
                    left_at: version.cloned(),
                }));
            }
            return None;
        };
        if version.is_some_and(|version| version.is_older_than(known.resource_version())) {
            return None;
        }
        let last = known.clone();
        tracked.presence = Presence::Gone(Box::new(Tombstone {
            last: last.clone(),
            left_at: version.cloned(),
        }));
        if let Some(named) = &mut self.named {
            named.remove(&(place((last.namespace(), last.name())), uid.clone()));
        }
        Some(last)
    }

    /// Starts a list.
    pub(super) fn start_list(&mut self) {
        self.listing = Some(Listing::default());
    }

    /// Returns true if a list is in progress.
    pub(super) fn lists(&self) -> bool {
        self.listing.is_some()
    }

    /// Abandons the list in progress.
    pub(super) fn abandon_list(&mut self) {
        self.listing = None;
    }

    /// Completes a list. Returns the present Workloads that are missing from it, and those that it
    /// contained in an older version than the cached one.
    pub(super) fn end_list(&mut self) -> (Vec<Uid>, Vec<Uid>) {
        let Listing { named, older } = self.listing.take().unwrap_or_default();
        let vanished = self
            .tracked
            .iter()
            .filter(|(uid, tracked)| tracked.workload().is_some() && !named.contains(*uid))
            .map(|(uid, _)| uid.clone())
            .collect();
        (vanished, older.into_iter().collect())
    }

    /// Drops states that nothing depends on; `needed` returns true if a cleanup needs the key.
    /// `read`: a read is in flight, whose result may be older than a deletion.
    pub(super) fn remove_idle(&mut self, uid: &Uid, needed: impl Fn(&Key) -> bool, read: bool) {
        let Some(tracked) = self.tracked.get_mut(uid) else {
            return;
        };
        tracked
            .keys
            .retain(|key| !key.is_idle() || needed(&Key::new(uid, &key.check)));
        tracked.keys.shrink_to_fit();
        if tracked.workload().is_none() && tracked.keys.is_empty() && !read {
            self.tracked.remove(uid);
        }
    }

    pub(crate) fn get(&self, uid: &Uid) -> Option<&TrackedWorkload> {
        self.tracked.get(uid)
    }

    pub(super) fn get_mut(&mut self, uid: &Uid) -> Option<&mut TrackedWorkload> {
        self.tracked.get_mut(uid)
    }

    pub(super) fn entry(&mut self, uid: &Uid) -> &mut TrackedWorkload {
        self.tracked.entry(uid.clone()).or_default()
    }

    pub(super) fn workload(&self, uid: &Uid) -> Option<&Workload> {
        self.tracked.get(uid)?.workload()
    }

    pub(super) fn key(&self, name: &Key) -> Option<&KeyState> {
        self.tracked.get(&name.uid)?.key(&name.check)
    }

    pub(super) fn key_mut(&mut self, name: &Key) -> Option<&mut KeyState> {
        self.tracked.get_mut(&name.uid)?.key_mut(&name.check)
    }

    /// Returns all Workloads in the watch.
    pub(crate) fn present(&self) -> impl Iterator<Item = (&Workload, &TrackedWorkload)> {
        self.tracked
            .values()
            .filter_map(|tracked| Some((tracked.workload()?, tracked)))
    }

    /// Returns the states of all checks.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (Key, &KeyState)> {
        self.tracked.iter().flat_map(|(uid, tracked)| {
            tracked
                .keys
                .iter()
                .map(move |key| (Key::new(uid, &key.check), key))
        })
    }

    /// Returns the number of tracked Workloads, including those that only a task or cleanup keeps.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tracked.len()
    }

    /// Assumes that an earlier leader has called the check for each reservation: a standby observes
    /// verdicts, and not allocations.
    pub(super) fn assume_started(&mut self) {
        for state in self.keys_mut() {
            state.started |= state.reservation.is_some();
        }
    }

    pub(super) fn keys_mut(&mut self) -> impl Iterator<Item = &mut KeyState> {
        self.tracked
            .values_mut()
            .flat_map(|tracked| &mut tracked.keys)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload(version: u32) -> Workload {
        Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": "w", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"priority": version},
        }))
        .unwrap()
    }

    /// A change of one object, with its version.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Change {
        Applied(u32),
        Deleted(u32),
        Reply(u32),
    }

    fn take(cache: &mut WorkloadCache, change: Change) {
        match change {
            Change::Applied(version) => {
                cache.apply(&workload(version), Origin::Watch);
            }
            Change::Deleted(version) => {
                cache.remove(&Uid::new("u"), Some(&workload(version)));
            }
            Change::Reply(version) => {
                cache.apply(&workload(version), Origin::Reply);
            }
        }
    }

    /// Returns all orders that keep the order of the watch's events. Replies come at any point, but
    /// after the state to which they are a reply.
    fn interleavings(watch: &[Change], replies: &[Change]) -> Vec<Vec<Change>> {
        match (watch, replies) {
            ([], replies) => permutations(replies),
            (watch, []) => vec![watch.to_vec()],
            ([first, rest @ ..], replies) => {
                let mut all = Vec::new();
                for mut order in interleavings(rest, replies) {
                    order.insert(0, *first);
                    all.push(order);
                }
                for (at, reply) in replies.iter().enumerate() {
                    let mut others = replies.to_vec();
                    others.remove(at);
                    for mut order in interleavings(watch, &others) {
                        order.insert(0, *reply);
                        all.push(order);
                    }
                }
                all
            }
        }
    }

    fn permutations(items: &[Change]) -> Vec<Vec<Change>> {
        if items.is_empty() {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for at in 0..items.len() {
            let mut rest = items.to_vec();
            let first = rest.remove(at);
            for mut order in permutations(&rest) {
                order.insert(0, first);
                all.push(order);
            }
        }
        all
    }

    #[test]
    fn news_in_any_order_ends_in_the_newest_state() {
        use Change::{Applied, Deleted, Reply};
        for (watch, replies, end) in [
            (
                vec![Applied(1), Applied(2), Applied(4)],
                vec![Reply(2), Reply(3)],
                Some(4),
            ),
            (
                vec![Applied(1), Applied(2), Deleted(3)],
                vec![Reply(2)],
                None,
            ),
            (vec![Applied(1), Deleted(5)], vec![Reply(2), Reply(4)], None),
            (
                vec![Applied(1), Deleted(5), Applied(7)],
                vec![Reply(2), Reply(4)],
                Some(7),
            ),
            (vec![Applied(1), Applied(2)], vec![Reply(3)], Some(3)),
        ] {
            for order in interleavings(&watch[1..], &replies) {
                let mut cache = WorkloadCache::default();
                take(&mut cache, watch[0]);
                for change in &order {
                    take(&mut cache, *change);
                }
                let known = cache.workload(&Uid::new("u"));
                let version = known.map(|known| known.resource_version().to_string());
                assert_eq!(version, end.map(|end: u32| end.to_string()), "{order:?}");
            }
        }
    }

    #[test]
    fn a_workload_that_a_list_does_not_name_is_gone_and_a_late_reply_does_not_bring_it_back() {
        let mut cache = WorkloadCache::default();
        let uid = Uid::new("u");
        cache.apply(&workload(3), Origin::Watch);
        cache.start_list();
        assert_eq!(cache.end_list(), (vec![uid.clone()], Vec::new()));
        assert!(cache.remove(&uid, None).is_some());
        assert!(matches!(
            cache.apply(&workload(9), Origin::Reply),
            Applied::Discarded
        ));
        assert!(matches!(
            cache.apply(&workload(3), Origin::Watch),
            Applied::Discarded
        ));
        assert!(matches!(
            cache.apply(&workload(9), Origin::Read),
            Applied::Newest(None)
        ));
    }

    #[test]
    fn workloads_are_found_by_their_names_while_they_are_in_the_watch() {
        let of = |uid: &str, name: &str| {
            Workload::from_json(json!({
                "metadata": {"namespace": "n", "name": name, "uid": uid, "resourceVersion": "1"},
                "spec": {},
            }))
            .unwrap()
        };
        // The names are looked up after this many changes, and after each later one.
        for looked_up in 0..6 {
            let mut cache = WorkloadCache::default();
            let mut change = 0;
            let mut expect = |cache: &mut WorkloadCache, uids: &[&str]| {
                change += 1;
                if change > looked_up {
                    let uids: Vec<Uid> = uids.iter().map(|uid| Uid::new(uid)).collect();
                    assert_eq!(cache.named("n", "w"), uids, "{change} {looked_up}");
                    assert!(cache.named("m", "w").is_empty());
                }
            };
            cache.apply(&of("a", "w"), Origin::Watch);
            expect(&mut cache, &["a"]);
            cache.apply(&of("x", "other"), Origin::Watch);
            expect(&mut cache, &["a"]);
            cache.apply(&of("b", "w"), Origin::Watch);
            expect(&mut cache, &["a", "b"]);
            cache.remove(&Uid::new("a"), None);
            expect(&mut cache, &["b"]);
            cache.apply(&of("a", "w"), Origin::Read);
            expect(&mut cache, &["a", "b"]);
            cache.remove(&Uid::new("b"), None);
            expect(&mut cache, &["a"]);
        }
    }

    #[test]
    fn a_list_that_shows_older_versions_names_them() {
        let mut cache = WorkloadCache::default();
        cache.apply(&workload(9), Origin::Watch);
        cache.start_list();
        assert!(matches!(
            cache.apply(&workload(4), Origin::Watch),
            Applied::Superseded(_)
        ));
        assert_eq!(cache.end_list(), (Vec::new(), vec![Uid::new("u")]));
        assert!(cache.replace(&workload(4)).is_some());
        assert_eq!(cache.workload(&Uid::new("u")).unwrap().priority(), 4);
    }
}
