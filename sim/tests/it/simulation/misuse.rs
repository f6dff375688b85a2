//! Mistakes of a check author are reported.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kueue_check::{Verdict, admission_check};
use kueue_check_sim::{Job, Simulation};
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
