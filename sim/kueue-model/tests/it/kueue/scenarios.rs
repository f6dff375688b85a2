//! Scenarios of this project, as tables: each action, and the states of all Workloads after it.

use kueue_check_kueue_model::kueue::KueueVersion;
use serde_json::{Value, json};

use super::cluster::{Cluster, groups, in_virtual_time, on_queue, pod_set};

/// An action of a scenario. `w` is a Workload or Job.
enum Do {
    Submit(&'static str, &'static str, i64),
    Job(&'static str, &'static str),
    Check(&'static str, &'static str, &'static str),
    /// A Retry with a delay in seconds.
    RetryAfter(&'static str, &'static str, i64),
    Pass(f64),
    Queue(Value),
    LocalQueue(Value),
    Change(&'static str, Value),
    Finish(&'static str),
    Delete(&'static str, &'static str),
    /// The `Active` condition of the AdmissionCheck with that name.
    Active(&'static str, bool),
}

struct Scenario {
    name: &'static str,
    cpus: &'static str,
    checks: &'static [&'static str],
    more: Value,
    steps: Vec<(Do, &'static str)>,
}

fn scenario(name: &'static str, cpus: &'static str, checks: &'static [&'static str]) -> Scenario {
    Scenario {
        name,
        cpus,
        checks,
        more: json!({}),
        steps: Vec::new(),
    }
}

impl Scenario {
    fn with(mut self, more: Value) -> Self {
        self.more = more;
        self
    }

    fn step(mut self, what: Do, then: &'static str) -> Self {
        self.steps.push((what, then));
        self
    }

    fn run(&self) {
        in_virtual_time(async {
            let cluster = Cluster::new(KueueVersion::V0_19);
            cluster.queue(self.cpus, self.checks, &self.more);
            cluster.pass(1.0).await;
            for (at, (what, then)) in self.steps.iter().enumerate() {
                carry_out(&cluster, what).await;
                cluster.pass(0.2).await;
                let now = cluster.line();
                assert_eq!(now, *then, "{}, step {}", self.name, at + 1);
            }
        });
    }
}

async fn carry_out(cluster: &Cluster, what: &Do) {
    match what {
        Do::Submit(name, cpus, priority) => cluster.workload(name, cpus, *priority),
        Do::Job(name, cpus) => cluster.job(name, cpus, None),
        Do::Check(w, check, state) => {
            let response = cluster.verdict(w, check, state, 0);
            assert_eq!(response.code, 200, "{}", response.body);
        }
        Do::RetryAfter(w, check, after) => {
            let response = cluster.verdict(w, check, "Retry", *after);
            assert_eq!(response.code, 200, "{}", response.body);
        }
        Do::Pass(seconds) => cluster.pass(*seconds).await,
        Do::Queue(spec) => {
            let response = cluster.merge("clusterqueues", "", "cq", "", &json!({"spec": spec}));
            assert_eq!(response.code, 200, "{}", response.body);
        }
        Do::LocalQueue(spec) => {
            cluster.merge("localqueues", "t", "lq", "", &json!({"spec": spec}));
        }
        Do::Change(w, patch) => {
            let response = cluster.merge("workloads", "t", &cluster.name_of(w), "", patch);
            assert_eq!(response.code, 200, "{}", response.body);
        }
        Do::Finish(w) => cluster.finish(w),
        Do::Delete(plural, name) => {
            let name = if *plural == "workloads" {
                cluster.name_of(name)
            } else {
                (*name).to_owned()
            };
            let response = cluster.delete(plural, &name);
            assert_eq!(response.code, 200, "{}", response.body);
        }
        Do::Active(check, on) => {
            let status = if *on { "True" } else { "False" };
            let active = json!({"type": "Active", "status": status, "reason": "Test", "message": "", "lastTransitionTime": cluster.now()});
            let patch = json!({"status": {"conditions": [active]}});
            cluster.merge("admissionchecks", "", check, "status", &patch);
            cluster.pass(1.5).await;
        }
    }
}

use Do::{Active, Change, Check, Delete, Finish, Job, LocalQueue, Pass, Queue, RetryAfter, Submit};

#[test]
fn a_check_is_evaluated_and_the_job_admitted() {
    scenario("ready", "4", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Check("a", "c", "Ready"), "a:RA(c=Ready)")
        .step(Check("a", "c", "Pending"), "a:RA(c=Pending)")
        .step(Finish("a"), "a:RAF(c=Pending)")
        .run();
}

#[test]
fn a_retry_with_a_delay_keeps_quota_until_it_is_over() {
    scenario("delay", "1", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Job("b", "1"), "a:R(c=Pending) b:(c=Pending)")
        .step(RetryAfter("a", "c", 10), "a:R(c=Retry) b:(c=Pending)")
        .step(Pass(8.0), "a:R(c=Retry) b:(c=Pending)")
        .step(Pass(2.0), "a:E(c=Pending1) b:R(c=Pending)")
        .step(Finish("b"), "a:E(c=Pending1) b:RF(c=Pending)")
        .step(Pass(1.5), "a:R(c=Pending1) b:RF(c=Pending)")
        .run();
}

#[test]
fn the_longest_of_several_delays_counts() {
    scenario("two delays", "1", &["c", "d"])
        .step(Job("a", "1"), "a:R(c=Pending,d=Pending)")
        .step(RetryAfter("a", "c", 10), "a:R(c=Retry,d=Pending)")
        .step(RetryAfter("a", "d", 30), "a:R(c=Retry,d=Retry)")
        .step(Pass(15.0), "a:R(c=Retry,d=Retry)")
        .step(Pass(15.0), "a:R(c=Pending1,d=Pending1)")
        .run();
}

#[test]
fn rejected_waits_for_the_delay_of_another_check() {
    scenario("rejected waits", "1", &["c", "d"])
        .step(Job("a", "1"), "a:R(c=Pending,d=Pending)")
        .step(RetryAfter("a", "c", 10), "a:R(c=Retry,d=Pending)")
        .step(Check("a", "d", "Rejected"), "a:R(c=Retry,d=Rejected)")
        .step(Pass(11.0), "a:EWI(c=Pending1,d=Pending)")
        .step(
            Change("a", json!({"spec": {"active": true}})),
            "a:EW(c=Pending1,d=Pending)",
        )
        .run();
}

#[test]
fn a_check_added_and_removed_on_the_fly() {
    let two =
        json!({"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}, {"name": "d"}]}});
    let one = json!({"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}});
    scenario("checks change", "4", &["c", "d"])
        .with(one.clone())
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Job("b", "1"), "a:R(c=Pending) b:R(c=Pending)")
        .step(Check("b", "c", "Ready"), "a:R(c=Pending) b:RA(c=Ready)")
        .step(
            Queue(two),
            "a:R(c=Pending,d=Pending) b:RA(c=Ready,d=Pending)",
        )
        .step(
            Check("a", "c", "Ready"),
            "a:R(c=Ready,d=Pending) b:RA(c=Ready,d=Pending)",
        )
        .step(Queue(one), "a:RA(c=Ready) b:RA(c=Ready)")
        .run();
}

#[test]
fn stop_policies_take_quota_and_drain() {
    scenario("stop", "4", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Check("a", "c", "Ready"), "a:RA(c=Ready)")
        .step(Job("b", "1"), "a:RA(c=Ready) b:R(c=Pending)")
        .step(
            Queue(json!({"stopPolicy": "Hold"})),
            "a:RA(c=Ready) b:(c=Pending)",
        )
        .step(
            Queue(json!({"stopPolicy": "HoldAndDrain"})),
            "a:EW(c=Pending) b:(c=Pending)",
        )
        .step(
            Queue(json!({"stopPolicy": "None"})),
            "a:R(c=Pending) b:R(c=Pending)",
        )
        .run();
    scenario("stop the LocalQueue", "4", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Check("a", "c", "Ready"), "a:RA(c=Ready)")
        .step(
            LocalQueue(json!({"stopPolicy": "HoldAndDrain"})),
            "a:EW(c=Pending)",
        )
        .step(LocalQueue(json!({"stopPolicy": "None"})), "a:R(c=Pending)")
        .run();
}

#[test]
fn a_queue_that_is_being_deleted_drains_too() {
    scenario("drain a queue that is being deleted", "4", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Check("a", "c", "Ready"), "a:RA(c=Ready)")
        .step(Delete("clusterqueues", "cq"), "a:RA(c=Ready)")
        .step(
            Queue(json!({"stopPolicy": "HoldAndDrain"})),
            "a:EW(c=Pending)",
        )
        .run();
}

#[test]
fn an_inactive_check_stops_new_reservations_only() {
    scenario("inactive", "4", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Active("c", false), "a:R(c=Pending)")
        .step(Job("b", "1"), "a:R(c=Pending) b:(c=Pending)")
        .step(Check("a", "c", "Ready"), "a:RA(c=Ready) b:(c=Pending)")
        .step(Active("c", true), "a:RA(c=Ready) b:R(c=Pending)")
        .run();
}

#[test]
fn higher_priority_preempts_and_the_preempted_comes_back() {
    scenario("preempt", "1", &["c"])
        .with(json!({"preemption": {"withinClusterQueue": "LowerPriority"}}))
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Check("a", "c", "Ready"), "a:RA(c=Ready)")
        .step(Submit("high", "1", 10), "a:E(c=Pending) high:R(c=Pending)")
        .step(Finish("high"), "a:E(c=Pending) high:RF(c=Pending)")
        .step(Pass(1.5), "a:R(c=Pending) high:RF(c=Pending)")
        .run();
}

#[test]
fn a_changed_priority_changes_the_order() {
    scenario("priority", "1", &[])
        .step(Submit("a", "1", 0), "a:RA")
        .step(Submit("b", "1", 0), "a:RA b:")
        .step(Submit("c", "1", 0), "a:RA b: c:")
        .step(Change("c", json!({"spec": {"priority": 7}})), "a:RA b: c:")
        .step(Finish("a"), "a:RAF b: c:")
        .step(Pass(1.5), "a:RAF b: c:RA")
        .run();
}

#[test]
fn deactivation_and_back() {
    scenario("deactivate", "4", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Check("a", "c", "Ready"), "a:RA(c=Ready)")
        .step(
            Change("a", json!({"spec": {"active": false}})),
            "a:EWI(c=Pending)",
        )
        .step(
            Change("a", json!({"spec": {"active": true}})),
            "a:R(c=Pending)",
        )
        .run();
}

#[test]
fn deletion_mid_way() {
    scenario("the Workload of a running Job", "4", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Check("a", "c", "Ready"), "a:RA(c=Ready)")
        .step(Delete("workloads", "a"), "a:R(c=Pending)")
        .run();
    scenario("the Job", "1", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(Job("b", "1"), "a:R(c=Pending) b:(c=Pending)")
        .step(Delete("jobs", "a"), "b:(c=Pending)")
        .step(Pass(1.5), "b:R(c=Pending)")
        .run();
    scenario("a foreign finalizer holds it", "4", &["c"])
        .step(Submit("a", "1", 0), "a:R(c=Pending)")
        .step(
            Change(
                "a",
                json!({"metadata": {"finalizers": ["example.com/mine"]}}),
            ),
            "a:R(c=Pending)",
        )
        .step(Delete("workloads", "a"), "a:RD(c=Pending)")
        .step(Change("a", json!({"metadata": {"finalizers": []}})), "")
        .run();
}

#[test]
fn a_gated_workload_waits() {
    on_queue("4", &[], async |cluster| {
        cluster.create(&json!({"apiVersion": super::cluster::KUEUE, "kind": "Workload", "metadata": {
            "name": "a", "namespace": "t", "annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"},
        }, "spec": {"queueName": "lq", "podSets": [pod_set("main", 1, "1")]}}));
        cluster.pass(1.0).await;
        assert_eq!(
            cluster.condition("a", "QuotaReserved")["message"],
            "Admission is gated by: example.com/gate"
        );
        let gone =
            json!({"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": null}}});
        cluster.merge("workloads", "t", "a", "", &gone);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:RA");
        assert_eq!(
            cluster.notes("AdmissionGateCleared"),
            ["Admission gate cleared, workload is now admissible"]
        );
    });
}

#[test]
fn what_runs_for_too_long_is_deactivated() {
    on_queue("4", &[], async |cluster| {
        let sets = [pod_set("main", 1, "1")];
        let limit = json!({"queueName": "lq", "maximumExecutionTimeSeconds": 60, "podSets": sets});
        cluster.submit("a", &limit);
        cluster.pass(50.0).await;
        assert_eq!(cluster.line(), "a:RA");
        cluster.pass(12.0).await;
        assert_eq!(cluster.line(), "a:RAEI");
        assert_eq!(
            cluster.condition("a", "Evicted")["reason"],
            "DeactivatedDueToMaximumExecutionTimeExceeded"
        );
    });
}

#[test]
fn the_next_flavor_is_taken_and_the_first_reported() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.flavor("spot", &json!({"nodeLabels": {"pool": "spot"}}));
        for check in ["c", "d"] {
            cluster.check(check);
        }
        cluster.queue("0", &[], &json!({
            "resourceGroups": groups(&[("spot", "1"), ("default", "4")]),
            "admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["spot"]}, {"name": "d", "onFlavors": ["default"]}]},
        }));
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        cluster.workload("b", "1", 0);
        cluster.pass(1.0).await;
        assert_eq!(cluster.line(), "a:R(c=Pending) b:R(d=Pending)");
        assert_eq!(
            cluster.notes("QuotaReserved")[1],
            "Quota reserved in ClusterQueue cq, wait time since queued was 0s; Flavors considered: main: spot(preemptionMode=NoCandidates;insufficient unused quota for cpu in flavor spot, 1 more needed)"
        );
        cluster.workload("c", "5", 0);
        cluster.pass(1.0).await;
        assert_eq!(
            cluster.condition("c", "QuotaReserved")["message"],
            "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets requests (0) + current podset request (5) > maximum capacity (4), insufficient quota for cpu in flavor spot, previously considered podsets requests (0) + current podset request (5) > maximum capacity (1)"
        );
    });
}

#[test]
fn only_selected_namespaces_are_served() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue(
            "4",
            &[],
            &json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
        );
        cluster.workload("a", "1", 0);
        cluster.pass(1.0).await;
        assert_eq!(
            cluster.condition("a", "QuotaReserved")["message"],
            "workload namespace doesn't match ClusterQueue selector"
        );
    });
}

#[test]
fn a_local_queue_reports_whether_it_accepts_workloads() {
    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        let reason = || {
            let queues = super::cluster::kueue("localqueues");
            let queue = cluster.server.get(&queues, "t", "lq").unwrap();
            queue["status"]["conditions"][0]["reason"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        cluster.pass(1.0).await;
        assert_eq!(reason(), "ClusterQueueDoesNotExist");
        cluster.queue("1", &["c"], &json!({}));
        cluster.pass(1.0).await;
        assert_eq!(reason(), "Ready");
        carry_out(&cluster, &Active("c", false)).await;
        assert_eq!(reason(), "ClusterQueueIsInactive");
        carry_out(&cluster, &LocalQueue(json!({"stopPolicy": "Hold"}))).await;
        cluster.pass(1.0).await;
        assert_eq!(reason(), "Stopped");
    });
}

#[test]
fn a_delay_on_an_inactive_workload_does_not_keep_time_from_passing() {
    scenario("inactive and Retry", "1", &["c"])
        .step(Job("a", "1"), "a:R(c=Pending)")
        .step(
            Change("a", json!({"spec": {"active": false}})),
            "a:EWI(c=Pending)",
        )
        .step(RetryAfter("a", "c", 5), "a:EWI(c=Retry)")
        .step(Pass(60.0), "a:EWI(c=Retry)")
        .run();
}

#[test]
fn a_check_that_always_returns_retry_does_not_keep_time_from_passing() {
    use kueue_check_kueue_model::kueue::{Actor, run};

    struct Contrary(Cluster);

    impl Actor for Contrary {
        fn step(&mut self) -> bool {
            let pending = self.0.line().starts_with("a:R(c=Pending");
            pending && self.0.verdict("a", "c", "Retry", 0).code == 200
        }

        fn wakes_at(&self) -> Option<jiff::Timestamp> {
            None
        }
    }

    in_virtual_time(async {
        let cluster = Cluster::new(KueueVersion::V0_19);
        cluster.queue("1", &["c"], &json!({}));
        let (server, clock) = (cluster.server.clone(), cluster.clock.clone());
        cluster.job("a", "1", None);
        tokio::spawn(run(Contrary(cluster), server.clone(), clock.clone()));
        let before = clock.now();
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert!(clock.now().duration_since(before).as_secs() >= 5);
    });
}
