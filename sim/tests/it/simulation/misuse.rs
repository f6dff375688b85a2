//! Mistakes of a check author are reported.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, NoParameters, Verdict,
    admission_check,
};
use kueue_check_sim::explore::Fault;
use kueue_check_sim::{Cluster, FaultPlan, Job, Simulation};
use serde_json::json;

#[admission_check(controller = "example.com/open")]
async fn open() -> Verdict {
    Verdict::ready("open")
}

fn simulation() -> Simulation {
    Simulation::new(|| open)
}

/// Returns the text that a test would print: only a text is printed.
fn panic_message(mistake: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(mistake)).unwrap_err();
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "nothing".to_owned())
}

#[test]
fn a_mistake_before_the_scenario_is_reported() {
    let no_time = panic_message(|| drop(simulation().starting_at("noon")));
    assert!(no_time.starts_with(r#""noon" is no time"#), "{no_time}");

    let job = async |cluster: &kueue_check_sim::Cluster| cluster.submit(Job::new("train"));
    let flavor = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "Not a name"}});
    let refused = panic_message(|| drop(simulation().object(&flavor).run(job)));
    assert!(
        refused.contains("Not a name") && refused.contains("RFC 1123"),
        "{refused}"
    );

    let prebuilt = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "train", "namespace": "default",
            "labels": {"kueue.x-k8s.io/prebuilt-workload-name": "mine"},
        },
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }}},
    });
    let refused = panic_message(|| drop(simulation().object(&prebuilt).run(job)));
    assert!(
        refused.contains("the simulated Kueue has no prebuilt Workloads, which Job train uses"),
        "{refused}"
    );

    let twice = panic_message(|| drop(simulation().and("second", |_| open).run(job)));
    assert!(
        twice.contains("two checks have the controller name `example.com/open`"),
        "{twice}"
    );
}

#[test]
fn a_mistake_in_the_scenario_is_reported_with_the_timeline() {
    let text = panic_message(|| {
        simulation().run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.advance_to("noon").await;
        });
    });
    assert!(text.contains(r#""noon" is no time"#), "{text}");
}

#[test]
fn an_expectation_about_a_job_that_does_not_exist_fails() {
    let waits = panic_message(|| {
        simulation().run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster
                .expect_waiting("trian", Duration::from_secs(60))
                .await;
        });
    });
    assert!(
        waits.contains("`trian` should wait, but has no Workload"),
        "{waits}"
    );
    let without_quota = panic_message(|| {
        simulation().run(async |cluster| cluster.expect_without_quota("trian").await);
    });
    assert!(
        without_quota.contains("`trian` has no quota: not within"),
        "{without_quota}"
    );
}

#[test]
fn a_history_that_is_not_kept_hides_no_check_from_the_invariants() {
    let jobs = || (0..20).map(|number| format!("job-{number}"));
    simulation().run(async |cluster| {
        cluster.server().keep_changes(100);
        for job in jobs() {
            cluster.submit(Job::new(&job));
        }
        for job in jobs() {
            cluster.expect_admitted(&job).await;
        }
    });
}

/// A check that remembers in its process for which jobs it has asked. It gives up a job that waits
/// without a question of this process.
#[derive(Default)]
struct Forgetful(Mutex<BTreeSet<String>>);

impl AdmissionCheckController for Forgetful {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/forgetful") }
    }

    async fn evaluate(&self, request: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let reservation = request.reservation();
        let is_new = self.0.lock().unwrap().insert(reservation.name().to_owned());
        let waits = reservation.held_for(request.now()) >= Duration::from_secs(1);
        Ok(if is_new && waits {
            Verdict::retry_after(Duration::from_secs(10), "nobody asked")
        } else {
            Verdict::pending("asked")
        })
    }
}

/// Another job takes the quota. The states at the end are equal, because Kueue resets those of an
/// evicted job.
#[test]
fn a_check_that_loses_its_state_loses_the_reservation() {
    let simulation = Simulation::new(Forgetful::default).quota(1);
    let explored = simulation.explore(async |cluster: &Cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "asked").await;
        cluster.submit(Job::new("waits"));
        cluster.advance(Duration::from_secs(60)).await;
    });
    let failed = explored.failed.iter().map(ToString::to_string);
    let lost = failed.filter(|run| run.contains("crash") && run.contains("reserved: false"));
    assert!(lost.count() > 0, "{explored}");
}

#[test]
fn a_fault_that_is_not_injected_is_reported() {
    let scenario = async |cluster: &Cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_admitted("train").await;
    };
    let table = [
        ("check-0/request/0/503", ""),
        ("check-0/event/1/dropped", ""),
        // The run has no such point.
        ("check-0/request/99999/409", "check-0/request/99999/409"),
        ("check-7/request/0/503", "check-7/request/0/503"),
        // The first request is a list, which has no conflicts, and no event.
        ("check-0/request/0/409", "check-0/request/0/409"),
        ("check-0/request/0/close", "check-0/request/0/close"),
        // There is no Lease.
        (
            "check-0/event/1/lease-regained",
            "check-0/event/1/lease-regained",
        ),
        // One fault at a point.
        (
            "check-0/request/0/503,check-0/request/0/500",
            "check-0/request/0/500",
        ),
    ];
    for (plan, expected) in table {
        let plan: FaultPlan = plan.parse().unwrap();
        let run = simulation().run_with(&scenario, &plan);
        assert_eq!(run.not_injected.to_string(), expected, "{plan}");
    }
    let explored = simulation().explore_pairs(200, |_| {}, scenario);
    assert!(explored.not_injected > 0, "{explored}");
    let text = format!(
        "{} runs in which a fault was not injected",
        explored.not_injected
    );
    assert!(explored.to_string().contains(&text), "{explored}");
}

#[test]
fn random_faults_are_not_the_excluded_ones() {
    let scenario = async |cluster: &Cluster| cluster.submit(Job::new("train"));
    let only_delays = Fault::all().filter(|fault| *fault != Fault::DelayEvent);
    let simulation = only_delays.fold(simulation(), Simulation::exclude_fault);
    let explored = simulation.explore_at_random(3, scenario);
    let all = simulation.run(scenario).points;
    let events = all.iter().filter(|point| point.event).count();
    assert_eq!(
        (explored.points, explored.failed.len()),
        (events, 0),
        "{explored}"
    );
}
