use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::super::driver::core;
use super::super::{Core, Effect, Input, LeaseState, Now, ObserverEvent, Task, TaskId, TaskResult};
use crate::api::{AdmissionCheck, CheckState, ResourceVersion, Workload};
use crate::check::family::recordings::{Change, recordings};
use crate::check::samples;
use crate::check::{
    DynCheck, FamilyRole, NoParameters, ReleaseOutcome, ReleaseReason, Trigger, Verdict,
};
use crate::runtime::decide::Outcome;
use crate::runtime::writer::WriteError;

/// A core that leads, with the check `c1`, whose tasks succeed at once.
struct Driver {
    core: Core,
    now: Now,
    /// The newest state of each Workload, whether the watch selects it or not.
    states: BTreeMap<String, Workload>,
    selected: BTreeSet<String>,
    /// The evaluated Workloads and their roles.
    evaluated: Vec<(String, FamilyRole)>,
    /// The written entries.
    written: Vec<(String, CheckState, String)>,
    released: Vec<(String, ReleaseReason)>,
    /// The allocated resources: the text of each reservation that was evaluated and not released.
    allocated: BTreeSet<String>,
    shown: Vec<(String, FamilyRole)>,
    /// Whether the check can list its allocated resources.
    lists_allocated: bool,
    /// Whether the watch loses all events.
    loses_events: bool,
    /// Whether writes of versions that are not the newest fail, and others too: each is refused as
    /// by an API server with newer data than the watch.
    fails_writes: bool,
    /// The replies to reads, if these are late.
    late_reads: Option<Vec<(TaskId, TaskResult)>>,
}

impl Driver {
    fn new() -> Self {
        let seats = samples::check::<NoParameters>("example.com/seats");
        let (core, now) = core(vec![DynCheck::new(seats)], 10);
        let mut driver = Self {
            core,
            now,
            states: BTreeMap::new(),
            selected: BTreeSet::new(),
            evaluated: Vec::new(),
            written: Vec::new(),
            released: Vec::new(),
            allocated: BTreeSet::new(),
            shown: Vec::new(),
            lists_allocated: false,
            loses_events: false,
            fails_writes: false,
            late_reads: None,
        };
        driver.begin(true);
        driver
    }

    fn check() -> AdmissionCheck {
        let check = AdmissionCheck::from_json(json!({
            "metadata": {"name": "c1", "uid": "c1", "resourceVersion": "1", "generation": 1},
            "spec": {"controllerName": "example.com/seats"},
        }));
        check.unwrap()
    }

    /// Starts the process. `lists_check` is false if the list of AdmissionChecks is older than
    /// `c1`.
    fn begin(&mut self, lists_check: bool) {
        self.feed(Input::AdmissionChecks(Event::Init));
        if lists_check {
            self.feed(Input::AdmissionChecks(Event::InitApply(Self::check())));
        }
        self.feed(Input::AdmissionChecks(Event::InitDone));
        self.list();
        self.feed(Input::Lease(LeaseState::Acquired));
        self.list();
    }

    /// Restarts the process; the new one leads.
    fn restart(&mut self) {
        self.restart_with(true);
    }

    fn restart_with(&mut self, lists_check: bool) {
        let (controllers, limits) = (self.core.controllers.clone(), self.core.work.limits);
        self.core = Core::new(controllers, limits, self.core.served, self.now);
        self.begin(lists_check);
    }

    fn list(&mut self) {
        let selected = self.selected.iter();
        let listed: Vec<Workload> = selected.map(|name| self.states[name].clone()).collect();
        self.watch(Event::Init);
        for workload in listed {
            self.watch(Event::InitApply(workload));
        }
        self.watch(Event::InitDone);
    }

    /// Compares the cache with a second list.
    fn compare(&mut self) {
        let selected = self.selected.iter();
        let listed: Vec<Workload> = selected.map(|name| self.states[name].clone()).collect();
        let named = listed
            .iter()
            .map(|workload| workload.uid().clone())
            .collect();
        for workload in listed {
            let as_of = ResourceVersion::new("1000000");
            self.feed(Input::Compare { workload, as_of });
        }
        self.feed(Input::Compared(named));
    }

    /// Changes Workloads like `change`; the watch loses the events.
    fn change_unobserved(&mut self, changes: impl FnOnce(&mut Self)) {
        self.loses_events = true;
        changes(self);
        self.loses_events = false;
    }

    fn watch(&mut self, event: Event<Workload>) {
        if self.loses_events {
            return;
        }
        let selected = true;
        self.feed(Input::Workloads { event, selected });
    }

    /// Changes or removes a Workload; the watch selects those with an admission.
    fn change(&mut self, alias: &str, workload: Option<&Workload>) {
        let before = self.states.remove(alias);
        let reserved = workload.is_some_and(|workload| workload.cluster_queue().is_some());
        if let Some(workload) = workload {
            self.states.insert(alias.to_owned(), workload.clone());
        }
        if reserved {
            self.selected.insert(alias.to_owned());
            self.watch(Event::Apply(self.states[alias].clone()));
        } else if self.selected.remove(alias)
            && let Some(before) = before
        {
            self.watch(Event::Delete(before));
        }
    }

    /// Advances the time.
    fn wait(&mut self, time: Duration) {
        let end = self.now.instant + time;
        while self.now.instant < end {
            self.now.instant += Duration::from_secs(5);
            self.feed(Input::Time);
        }
    }

    fn put(&mut self, object: &Value) {
        let workload = Workload::from_json(object.clone()).unwrap();
        let alias = workload.name().to_owned();
        self.change(&alias, Some(&workload));
    }

    fn feed(&mut self, input: Input) {
        for effect in self.core.step(self.now, input) {
            match effect {
                Effect::Start(id, task) => {
                    let is_read = matches!(*task, Task::Read { .. });
                    let result = self.carry_out(*task);
                    match &mut self.late_reads {
                        Some(late) if is_read => late.push((id, result)),
                        _ => self.feed(Input::Finished(id, result)),
                    }
                }
                Effect::ScanWithoutQuota => {
                    let unseen = |(name, _): &(&String, _)| !self.selected.contains(*name);
                    let unseen: Vec<_> = self.states.iter().filter(unseen).collect();
                    let unseen: Vec<Workload> =
                        unseen.into_iter().map(|(_, w)| w.clone()).collect();
                    for workload in unseen {
                        self.feed(Input::WithoutQuota(workload));
                    }
                }
                Effect::Observe(ObserverEvent::Applied(workload, family)) => {
                    let role = family.role().clone();
                    self.shown.push((workload.name().to_owned(), role));
                }
                _ => {}
            }
        }
    }

    fn carry_out(&mut self, task: Task) -> TaskResult {
        match task {
            Task::Evaluate(task) => {
                let name = task.workload.name().to_owned();
                self.evaluated.push((name, task.family.role().clone()));
                let reservation =
                    crate::check::Reservation::of(&task.workload, &task.check).unwrap();
                self.allocated.insert(reservation.to_string());
                TaskResult::Evaluated {
                    outcome: Outcome::Verdict(Verdict::ready("has a seat")),
                    label: "",
                    took: Duration::ZERO,
                    events: Vec::new(),
                }
            }
            Task::WriteEntry {
                workload, patch, ..
            } => {
                let name = workload.name().to_owned();
                let newest = self.states.values().find(|newest| newest.name() == name);
                if self.fails_writes && newest != Some(&workload) {
                    let gone = newest.is_none();
                    let error = if gone {
                        WriteError::Gone
                    } else {
                        WriteError::Conflict
                    };
                    return TaskResult::EntryWritten(Err(error));
                }
                self.written
                    .push((name, patch.state.clone(), patch.message.to_string()));
                TaskResult::EntryWritten(Ok(workload))
            }
            Task::Read { name, .. } => {
                let mut states = self.states.values();
                let found = states.find(|workload| workload.name() == name);
                TaskResult::Read(Ok(found.cloned()))
            }
            Task::Release {
                reservation, why, ..
            } => {
                self.allocated.remove(&reservation.to_string());
                self.released.push((reservation.name().to_owned(), why));
                TaskResult::Released(Ok(ReleaseOutcome::Done))
            }
            Task::ListUnreleased { .. } => {
                let allocated = self.allocated.iter().filter(|_| self.lists_allocated);
                let parsed = allocated.map(|text| text.parse().unwrap());
                TaskResult::Unreleased(Ok(parsed.collect()))
            }
            Task::Activate { .. } => TaskResult::Activated(Ok(())),
            Task::WriteConditions { object, .. } => {
                TaskResult::ConditionsWritten(Ok(Box::new(object)))
            }
        }
    }

    fn released_names(&self) -> Vec<&str> {
        let released = self.released.iter();
        released.map(|(name, _)| name.as_str()).collect()
    }
}

/// Returns a slice with quota for `pods` pods, which replaces `replaces`.
fn slice(name: &str, replaces: Option<&str>, pods: u32, state: &str) -> Value {
    static VERSION: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let version = VERSION.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut annotations = json!({"kueue.x-k8s.io/elastic-job": "true"});
    if let Some(replaces) = replaces {
        annotations["kueue.x-k8s.io/workload-slice-replacement-for"] =
            json!(format!("t/{replaces}"));
    }
    json!({
        "metadata": {"namespace": "t", "name": name, "uid": name, "resourceVersion": version.to_string(),
            "annotations": annotations,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "el", "uid": "el", "controller": true}]},
        "spec": {"podSets": [{"name": "main", "count": pods}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"}],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": pods}]},
            "admissionChecks": [{"name": "c1", "state": state}],
        },
    })
}

fn with(mut object: Value, kind: &str, reason: &str) -> Value {
    let condition = json!({"type": kind, "status": "True", "reason": reason, "lastTransitionTime": "1970-01-01T00:00:02Z"});
    let conditions = object["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(condition);
    object
}

fn admit(slice: Value) -> Value {
    with(slice, "Admitted", "Admitted")
}

fn without_quota(mut slice: Value) -> Value {
    slice["status"]["admission"] = Value::Null;
    slice["status"]["conditions"][0]["status"] = json!("False");
    slice
}

/// Changes of the cluster.
type Changes = fn(&mut Driver);

/// Adds the first slice, and a growth to 4 pods that replaces it and waits.
fn grow(driver: &mut Driver) {
    driver.put(&admit(slice("el-1", None, 2, "Ready")));
    driver.put(&slice("el-2", Some("el-1"), 4, "Pending"));
    let replaced = admit(slice("el-1", None, 2, "Ready"));
    driver.put(&with(replaced, "Finished", "WorkloadSliceReplaced"));
}

#[tokio::test(start_paused = true)]
async fn a_growth_is_evaluated_as_one_and_as_the_whole_once_it_is_admitted() {
    let mut driver = Driver::new();
    grow(&mut driver);
    let evaluated = |name: &str, role| (name.to_owned(), role);
    let growth = evaluated("el-2", FamilyRole::Growth);
    assert!(driver.evaluated.contains(&growth), "{:?}", driver.evaluated);
    driver.evaluated.clear();
    driver.now.instant += Duration::from_secs(2);
    driver.put(&admit(slice("el-2", Some("el-1"), 4, "Ready")));
    let whole = evaluated("el-2", FamilyRole::Whole);
    assert_eq!(driver.evaluated, [whole]);
}

/// Kueue releases the quota of an evicted job while its pods terminate, so a list after lost events
/// does not contain the evicted slice.
#[tokio::test(start_paused = true)]
async fn an_admission_of_a_growth_while_the_lease_had_lapsed_is_evaluated() {
    let evaluated = [false, true].map(|lapses| {
        let mut driver = Driver::new();
        grow(&mut driver);
        driver.evaluated.clear();
        if lapses {
            driver.feed(Input::Lease(LeaseState::Lapsed));
        }
        let growth = slice("el-2", Some("el-1"), 4, "Pending");
        driver.put(&admit(growth));
        if lapses {
            driver.feed(Input::Lease(LeaseState::Acquired));
        }
        driver.wait(Duration::from_secs(10));
        driver.evaluated
    });
    let whole = ("el-2".to_owned(), FamilyRole::Whole);
    assert_eq!(evaluated, [vec![whole.clone()], vec![whole]]);
}

/// A read after conflicts, and a reply that the Workload is gone, change the record of its
/// job like the event that was lost.
#[tokio::test(start_paused = true)]
async fn what_a_read_or_a_write_shows_counts_for_the_whole_job() {
    let admitted = |driver: &mut Driver| {
        let growth = slice("el-2", Some("el-1"), 4, "Pending");
        driver.put(&admit(growth));
    };
    let deleted = |driver: &mut Driver| driver.change("el-2", None);
    let changes: [(&str, Changes); 2] = [("admitted", admitted), ("deleted", deleted)];
    for (name, change) in changes {
        let [seen, lost] = [false, true].map(|loses| {
            let mut driver = Driver::new();
            driver.fails_writes = loses;
            grow(&mut driver);
            if loses {
                driver.change_unobserved(change);
            } else {
                change(&mut driver);
            }
            driver.wait(Duration::from_secs(2));
            let (controller, trigger) = (0, Trigger::AllWorkloads);
            driver.feed(Input::Trigger {
                controller,
                trigger,
            });
            driver.wait(Duration::from_mins(1));
            driver.released.sort_by_key(|(name, _)| name.clone());
            (driver.released, driver.core.families.all())
        });
        assert_eq!(lost, seen, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_growth_has_replaced_ends_with_an_eviction_of_which_all_events_were_lost() {
    for (evicted, released) in [(true, &["el-2", "el-1"][..]), (false, &["el-2"])] {
        let mut driver = Driver::new();
        grow(&mut driver);
        let mut lost = without_quota(slice("el-2", Some("el-1"), 4, "Pending"));
        if evicted {
            lost = with(lost, "Evicted", "Preempted");
        }
        let lost = Workload::from_json(lost).unwrap();
        driver.states.insert("el-2".to_owned(), lost);
        driver.selected.remove("el-2");
        driver.list();
        let mut names = driver.released_names();
        names.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(names, released, "evicted: {evicted}");
        let stopped = driver.released.iter().find(|(name, _)| name == "el-1");
        let why = stopped.map(|(_, why)| why.clone());
        assert_eq!(why, evicted.then_some(ReleaseReason::Evicted));
    }
}

/// The comparison of the cache heals a missed event of any Workload of a job like the event itself.
#[tokio::test(start_paused = true)]
async fn a_comparison_finds_changes_of_a_job_whose_events_were_lost() {
    fn admitted(driver: &mut Driver) {
        let growth = slice("el-2", Some("el-1"), 4, "Ready");
        driver.put(&admit(growth));
    }
    fn evicted(driver: &mut Driver) {
        let growth = without_quota(slice("el-2", Some("el-1"), 4, "Pending"));
        driver.put(&with(growth, "Evicted", "Preempted"));
    }
    fn deleted(driver: &mut Driver) {
        driver.change("el-2", None);
    }
    fn both_deleted(driver: &mut Driver) {
        driver.change("el-2", None);
        driver.change("el-1", None);
    }
    let changes: [(&str, Changes); 5] = [
        ("grown", |_| {}),
        ("admitted", admitted),
        ("evicted", evicted),
        ("deleted", deleted),
        ("both deleted", both_deleted),
    ];
    for (name, change) in changes {
        let [seen, lost, lost_with_growth] = [0, 1, 2].map(|lost| {
            let mut driver = Driver::new();
            match lost {
                0 => {
                    grow(&mut driver);
                    change(&mut driver);
                }
                1 => {
                    grow(&mut driver);
                    driver.change_unobserved(change);
                }
                _ => {
                    let first = slice("el-1", None, 2, "Ready");
                    driver.put(&admit(first));
                    driver.change_unobserved(|driver| {
                        grow(driver);
                        change(driver);
                    });
                }
            }
            driver.compare();
            driver.wait(Duration::from_mins(10));
            driver.released.sort_by_key(|(name, _)| name.clone());
            let evaluated = driver.evaluated.iter();
            let evaluated = evaluated.map(|(name, role)| format!("{name} {role:?}"));
            (evaluated.collect::<BTreeSet<_>>(), driver.released)
        });
        assert_eq!(lost, seen, "{name}");
        let first = |released: &[(String, ReleaseReason)]| {
            let mut released = released.iter();
            released.any(|(name, _)| name == "el-1")
        };
        let [lost, seen] = [&lost_with_growth.1, &seen.1].map(|released| first(released));
        assert_eq!(lost, seen, "{name}, with the growth: {lost_with_growth:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_from_before_a_deletion_leaves_no_member_of_a_job() {
    let [without, with] = [false, true].map(|reads| {
        let mut driver = Driver::new();
        grow(&mut driver);
        if reads {
            driver.late_reads = Some(Vec::new());
            let named = [driver.states["el-1"].uid().clone()];
            driver.feed(Input::Compared(named.into()));
        }
        let late = driver.late_reads.take();
        assert_eq!(late.as_ref().map(Vec::len), reads.then_some(1));
        let deleted = Workload::from_json(slice("el-2", Some("el-1"), 4, "Pending"));
        driver.states.remove("el-2");
        driver.selected.remove("el-2");
        driver.watch(Event::Delete(deleted.unwrap()));
        for (id, result) in late.into_iter().flatten() {
            driver.feed(Input::Finished(id, result));
        }
        let members = driver.core.families.all();
        assert_eq!(driver.core.workloads.present().count(), 1, "el-1");
        driver.wait(Duration::from_mins(10));
        (members, driver.released)
    });
    assert_eq!(with, without);
}

/// Otherwise its seat is released only when the growth holds quota again, for which it may wait
/// behind a job that waits for that seat.
#[tokio::test(start_paused = true)]
async fn what_a_growth_has_replaced_ends_with_an_eviction_that_was_over_before_a_restart() {
    let mut driver = Driver::new();
    grow(&mut driver);
    let evicted = without_quota(slice("el-2", Some("el-1"), 4, "Pending"));
    let evicted = Workload::from_json(with(evicted, "Evicted", "Preempted")).unwrap();
    driver.states.insert("el-2".to_owned(), evicted);
    driver.selected.remove("el-2");
    driver.restart();
    let why = ReleaseReason::Evicted;
    assert_eq!(driver.released, [("el-1".to_owned(), why)]);
}

/// Kueue's `objectRetentionPolicies` delete finished Workloads, and a slice that a growth has
/// replaced is finished.
#[tokio::test(start_paused = true)]
async fn what_a_growth_has_replaced_is_held_also_when_its_workload_is_deleted() {
    fn admitted() -> Value {
        let growth = slice("el-2", Some("el-1"), 4, "Ready");
        admit(growth)
    }
    fn evicted() -> Value {
        let growth = without_quota(slice("el-2", Some("el-1"), 4, "Pending"));
        with(growth, "Evicted", "Preempted")
    }
    let ends: [(fn() -> Value, _); 2] = [(admitted, None), (evicted, Some(ReleaseReason::Deleted))];
    for restarts in [false, true] {
        for (end, expected) in &ends {
            let mut driver = Driver::new();
            driver.lists_allocated = true;
            grow(&mut driver);
            driver.change("el-1", None);
            if restarts {
                driver.restart();
            }
            driver.wait(Duration::from_hours(1));
            assert_eq!(driver.released, [], "its pods run");
            driver.put(&end());
            driver.wait(Duration::from_mins(10));
            let released = driver.released.iter().find(|(name, _)| name == "el-1");
            let why = released.map(|(_, why)| why.clone());
            let replaced =
                matches!(&why, Some(ReleaseReason::Replaced { by, .. }) if by.name() == "el-2");
            assert!(
                expected.is_none() && replaced || expected.is_some() && why == *expected,
                "restarts: {restarts}: {why:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_without_the_admission_check_releases_nothing_if_a_watch_shows_it_then() {
    for shown in [true, false] {
        let mut driver = Driver::new();
        driver.lists_allocated = true;
        driver.put(&admit(slice("el-1", None, 2, "Ready")));
        driver.restart_with(false);
        driver.wait(Duration::from_secs(5));
        if shown {
            driver.feed(Input::AdmissionChecks(Event::Apply(Driver::check())));
        }
        driver.wait(Duration::from_mins(10));
        let released = driver.released.iter().map(|(_, why)| why.clone());
        let expected = (!shown).then_some(ReleaseReason::CheckRemoved);
        assert_eq!(
            released.collect::<Vec<_>>(),
            Vec::from_iter(expected),
            "shown: {shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_growth_that_requests_nothing_more_is_ready_without_the_check() {
    let mut driver = Driver::new();
    driver.put(&admit(slice("el-1", None, 4, "Ready")));
    driver.evaluated.clear();
    driver.put(&slice("el-2", Some("el-1"), 4, "Pending"));
    assert_eq!(driver.evaluated, []);
    let ready = "requests no more than the 4 pods that run".to_owned();
    assert_eq!(
        driver.written.pop(),
        Some(("el-2".to_owned(), CheckState::Ready, ready))
    );
    driver.put(&slice("el-2", Some("el-1"), 5, "Pending"));
    driver.now.instant += Duration::from_secs(2);
    driver.feed(Input::Time);
    let growth = ("el-2".to_owned(), FamilyRole::Growth);
    assert_eq!(driver.evaluated, [growth], "it requests one more now");
}

#[tokio::test(start_paused = true)]
async fn a_parent_of_variants_is_never_evaluated_whatever_is_written_on_it() {
    let mut driver = Driver::new();
    for state in ["Pending", "Ready", "Retry"] {
        let mut parent = slice("j", None, 2, state);
        parent["metadata"]["labels"] =
            json!({"kueue.x-k8s.io/concurrent-admission-parent": "true"});
        driver.put(&parent);
        let lost = without_quota(parent.clone());
        driver.put(&lost);
    }
    assert_eq!(driver.evaluated, []);
    assert_eq!(driver.written, [], "nor is its entry withdrawn");
    assert!(driver.shown.contains(&("j".to_owned(), FamilyRole::Parent)));
}

#[tokio::test(start_paused = true)]
async fn what_a_workload_is_to_the_others_is_shown_again_when_they_change_that() {
    let mut driver = Driver::new();
    grow(&mut driver);
    driver.shown.clear();
    let unknown = driver.states.remove("el-1").unwrap();
    driver.selected.remove("el-1");
    driver.watch(Event::Delete(unknown));
    let growth = ("el-2".to_owned(), FamilyRole::Growth);
    assert_eq!(
        driver.shown,
        std::slice::from_ref(&growth),
        "what runs is not known now"
    );
    // In any order of the list, the growth is shown as one in the end.
    let mut driver = Driver::new();
    grow(&mut driver);
    driver.shown.clear();
    driver.restart();
    let last = driver.shown.iter().rfind(|(name, _)| name == "el-2");
    assert_eq!(last, Some(&growth));
}

/// While pods of a job run, a reservation of the job is held; after the job has ended, none is.
#[tokio::test(start_paused = true)]
async fn in_the_recordings_no_seat_is_given_away_while_pods_run() {
    for restarts in [false, true] {
        for recording in recordings("") {
            let mut driver = Driver::new();
            let mut running: BTreeSet<&str> = BTreeSet::new();
            for (step, changes) in &recording.steps {
                for (_, change) in changes {
                    match change {
                        Change::Workload(alias, workload) => {
                            driver.change(alias, workload.as_ref());
                        }
                        Change::Pod(name, true) => drop(running.insert(name)),
                        Change::Pod(name, false) => drop(running.remove(name.as_str())),
                    }
                    let finished = driver.states.values().any(|workload| {
                        let conditions = workload.conditions();
                        conditions.finished().is_true() && !conditions.replaced
                    });
                    if !running.is_empty() && !finished {
                        assert!(
                            !driver.allocated.is_empty(),
                            "{} after {step}: {running:?} run, and all was released: {:?}",
                            recording.name,
                            driver.released
                        );
                    }
                }
                if restarts {
                    driver.restart();
                }
                driver.now.instant += Duration::from_secs(10);
                driver.feed(Input::Time);
            }
            let holds = |workload: &Workload| {
                workload.holds_quota() && !workload.conditions().finished().is_true()
            };
            if !driver.states.values().any(holds) && running.is_empty() {
                let left = &driver.allocated;
                assert!(left.is_empty(), "{}: {left:?} are left", recording.name);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_slice_is_released_when_the_growth_is_admitted() {
    for restarts in [false, true] {
        let mut driver = Driver::new();
        grow(&mut driver);
        if restarts {
            driver.restart();
        }
        assert_eq!(driver.released, [], "its pods run");
        driver.put(&admit(slice("el-2", Some("el-1"), 4, "Ready")));
        assert_eq!(driver.released_names(), ["el-1"], "restarts: {restarts}");
        let ReleaseReason::Replaced { by, .. } = &driver.released[0].1 else {
            panic!("{:?}", driver.released);
        };
        assert_eq!((by.name(), by.admission_check()), ("el-2", "c1"));
        assert_eq!(by.family_key().to_string(), "el");
        driver.restart();
        assert_eq!(driver.released.len(), 1, "once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_slice_is_released_when_an_eviction_of_the_growth_has_stopped_its_pods() {
    let mut driver = Driver::new();
    grow(&mut driver);
    let evicted = with(
        slice("el-2", Some("el-1"), 4, "Pending"),
        "Evicted",
        "Preempted",
    );
    driver.put(&evicted);
    assert_eq!(driver.released, [], "pods end");
    let lost = without_quota(evicted);
    driver.put(&lost);
    let mut released = driver.released.clone();
    released.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = |name: &str| (name.to_owned(), ReleaseReason::Evicted);
    assert_eq!(released, [expected("el-1"), expected("el-2")]);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_slice_is_kept_when_the_growth_loses_its_quota_without_an_eviction() {
    let mut driver = Driver::new();
    grow(&mut driver);
    let lost = without_quota(slice("el-2", Some("el-1"), 4, "Pending"));
    driver.put(&lost);
    assert_eq!(driver.released_names(), ["el-2"]);
    let gone = driver.states["el-1"].clone();
    driver.change("el-1", None);
    assert_eq!(driver.released_names(), ["el-2", "el-1"], "{gone}");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_workload_is_released_when_its_quota_is_lost() {
    for restarts in [false, true] {
        let mut driver = Driver::new();
        let admitted = admit(slice("el-1", None, 2, "Ready"));
        driver.put(&admitted);
        let mut evicted = admit(slice("el-1", None, 2, "Pending"));
        evicted = with(evicted, "Evicted", "Preempted");
        driver.put(&evicted);
        if restarts {
            driver.restart();
        }
        assert_eq!(driver.released, [], "its pods end");
        let lost = without_quota(with(
            slice("el-1", None, 2, "Pending"),
            "Evicted",
            "Preempted",
        ));
        driver.put(&lost);
        let evicted = ("el-1".to_owned(), ReleaseReason::Evicted);
        assert_eq!(driver.released, [evicted], "restarts: {restarts}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_variant_receives_the_sibling_that_has_started_the_job() {
    let mut driver = Driver::new();
    let recorded = recordings("ca-retain-first");
    let Some(recording) = recorded.first() else {
        return;
    };
    for (_, changes) in &recording.steps {
        for (_, change) in changes {
            if let Change::Workload(alias, workload) = change {
                driver.change(alias, workload.as_ref());
            }
        }
    }
    let won: Vec<_> = driver
        .released
        .iter()
        .filter_map(|(name, why)| match why {
            ReleaseReason::VariantAdmitted { by } => Some((name.contains("spot"), by.name())),
            _ => None,
        })
        .collect();
    let winner = driver.states["j@ondemand"].name();
    assert_eq!(won, [(true, winner)], "{:?}", driver.released);
}
