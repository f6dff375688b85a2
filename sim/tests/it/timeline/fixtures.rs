//! Timelines of Workloads for tests.

use jiff::{SignedDuration, Timestamp};
use kueue_check_sim::timeline::{Timeline, WorkloadSnapshot};
use serde_json::{Value, json};

/// The history of one Workload, built by changing it.
pub(super) struct Scenario {
    workload: Value,
    pub(super) seen: Vec<WorkloadSnapshot>,
}

pub(super) fn start() -> Timestamp {
    "2026-11-21T09:00:00Z".parse().unwrap()
}

pub(super) fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

impl Scenario {
    pub(super) fn new(name: &str) -> Self {
        Self {
            workload: json!({
                "metadata": {"namespace": "team", "name": name, "uid": name}, "spec": {"queueName": "lq", "active": true},
                "status": {"conditions": [], "admissionChecks": []},
            }),
            seen: Vec::new(),
        }
    }

    pub(super) fn set_uid(&mut self, uid: &str) {
        self.workload["metadata"]["uid"] = uid.into();
    }

    pub(super) fn condition(mut self, kind: &str, status: bool, message: &str) -> Self {
        let status = if status { "True" } else { "False" };
        let conditions = self.workload["status"]["conditions"]
            .as_array_mut()
            .unwrap();
        conditions.retain(|condition| condition["type"] != kind);
        conditions.push(json!({"type": kind, "status": status, "reason": "R", "message": message}));
        self
    }

    /// Sets the reasons of all conditions.
    pub(super) fn because(mut self, reason: &str) -> Self {
        let conditions = self.workload["status"]["conditions"].as_array_mut();
        for condition in conditions.unwrap() {
            condition["reason"] = reason.into();
        }
        self
    }

    pub(super) fn check(mut self, name: &str, state: &str, message: &str) -> Self {
        let entries = self.workload["status"]["admissionChecks"]
            .as_array_mut()
            .unwrap();
        entries.retain(|entry| entry["name"] != name);
        entries.push(json!({"name": name, "state": state, "message": message}));
        self
    }

    pub(super) fn active(mut self, active: bool) -> Self {
        self.workload["spec"]["active"] = active.into();
        self
    }

    pub(super) fn reserved(self) -> Self {
        self.condition("QuotaReserved", true, "Quota reserved in ClusterQueue cq")
            .condition("Evicted", false, "")
    }

    pub(super) fn admitted(self) -> Self {
        self.condition("Admitted", true, "The workload is admitted")
    }

    pub(super) fn evicted(self, why: &str) -> Self {
        self.condition("Evicted", true, why)
    }

    pub(super) fn quota_taken(self, requeued: bool) -> Self {
        self.condition("QuotaReserved", false, "Previously evicted")
            .condition("Admitted", false, "")
            .condition("Requeued", requeued, "")
    }

    pub(super) fn finished(self) -> Self {
        self.condition("Finished", true, "Job finished successfully")
    }

    /// Records the fields set so far as the state from `seconds` on.
    pub(super) fn seen(mut self, seconds: i64) -> Self {
        self.seen
            .push(WorkloadSnapshot::new(at(seconds), self.workload.clone()));
        self
    }

    pub(super) fn deleted(mut self, seconds: i64) -> Self {
        self.seen.push(WorkloadSnapshot::deleted(
            at(seconds),
            self.workload.clone(),
        ));
        self
    }
}

pub(super) fn checks(scenario: Scenario) -> Scenario {
    scenario
        .check("budget", "Pending", "")
        .check("window", "Pending", "")
}

/// Returns a timeline with every phase and every state, in 90 min.
pub(super) fn morning() -> Timeline {
    let minute = 60;
    let scenarios = [
        checks(Scenario::new("train-resnet"))
            .seen(0)
            .reserved()
            .check("window", "Pending", "outside the window, opens at 09:20")
            .seen(5 * minute)
            .check("budget", "Ready", "12.50 EUR of 100 EUR spent")
            .seen(6 * minute)
            .check("window", "Ready", "inside the window")
            .admitted()
            .seen(20 * minute)
            .finished()
            .seen(65 * minute),
        checks(Scenario::new("nightly-report"))
            .seen(2 * minute)
            .reserved()
            .seen(3 * minute)
            .check("budget", "Retry", "no money before 09:25")
            .seen(10 * minute)
            .evicted("Evicted due to AdmissionCheck(s) in Retry state: \"budget\" (no money before 09:25)")
            .check("budget", "Pending", "Reset to Pending after eviction. Previously: Retry")
            .seen(10 * minute)
            .quota_taken(false)
            .seen(10 * minute)
            .quota_taken(true)
            .seen(25 * minute)
            .reserved()
            .seen(30 * minute)
            .check("budget", "Ready", "the new day's budget is untouched")
            .check("window", "Ready", "inside the window")
            .admitted()
            .seen(32 * minute),
        checks(Scenario::new("notebook-of-somebody-with-a-long-name-7f9c4"))
            .seen(8 * minute)
            .reserved()
            .seen(9 * minute)
            .check("window", "Rejected", "notebooks never run on this queue")
            .seen(40 * minute)
            .evicted("The workload is deactivated due to AdmissionCheck in Rejected state: \"window\" (notebooks never run on this queue)")
            .active(false)
            .check("window", "Pending", "Reset to Pending after eviction. Previously: Rejected")
            .seen(40 * minute)
            .quota_taken(false)
            .seen(41 * minute),
        Scenario::new("etl").seen(15 * minute).reserved().admitted().seen(16 * minute).finished().seen(30 * minute).deleted(35 * minute),
        checks(Scenario::new("waits")).seen(50 * minute),
    ];
    Timeline::new(
        scenarios.into_iter().flat_map(|scenario| scenario.seen),
        at(90 * minute),
    )
}

/// Returns a timeline of many Workloads that repeat one history for a week.
pub(super) fn week() -> Timeline {
    let (hour, day) = (3600, 86_400);
    let scenarios = (0..40_i64).map(|n| {
        let mut scenario = checks(Scenario::new(&format!("batch-{n:02}"))).seen(n * 2 * hour);
        for round in 0..3 {
            let start = n * 2 * hour + round * 20 * hour;
            scenario = scenario
                .reserved()
                .check("window", "Pending", "outside the window")
                .seen(start + (n % 5) * hour + 60)
                .check("window", "Ready", "inside the window")
                .check("budget", "Ready", "money is left")
                .condition("Admitted", true, "")
                .seen(start + 9 * hour)
                .evicted("Preempted to accommodate a workload")
                .check(
                    "window",
                    "Pending",
                    "Reset to Pending after eviction. Previously: Ready",
                )
                .check(
                    "budget",
                    "Pending",
                    "Reset to Pending after eviction. Previously: Ready",
                )
                .seen(start + 14 * hour)
                .quota_taken(false)
                .seen(start + 14 * hour)
                .quota_taken(true)
                .seen(start + 14 * hour);
        }
        scenario
    });
    Timeline::new(scenarios.flat_map(|scenario| scenario.seen), at(7 * day))
}

/// Returns a timeline of a few seconds.
pub(super) fn seconds() -> Timeline {
    let scenario = checks(Scenario::new("quick"))
        .seen(0)
        .reserved()
        .seen(1)
        .check("budget", "PreemptionRequired", "")
        .check("window", "Ready", "")
        .seen(2)
        .check("budget", "Ready", "")
        .admitted()
        .seen(3)
        .finished()
        .seen(5);
    Timeline::new(scenario.seen, at(6))
}
