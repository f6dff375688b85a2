//! An event that never arrives: the resync finds its change within 30 min.

use std::collections::BTreeSet;
use std::time::Duration;

use kueue_check::api::PodSet;
use kueue_check::{CheckError, PodSetUpdates, Request, Verdict, admission_check};
use kueue_check_sim::explore::Fault;
use kueue_check_sim::scenarios::{Depot, Word, Worded};
use kueue_check_sim::{Cluster, FaultPlan, Job, Simulation};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// The time until all caches are repaired: the resync interval and the time to read all objects.
const HEALED: Duration = Duration::from_secs(31 * 60);

#[admission_check(controller = "example.com/zoned")]
async fn zoned(request: Request) -> Result<Verdict, CheckError> {
    let names = request.workload().pod_sets().iter().map(PodSet::name);
    let updates = PodSetUpdates::builder()
        .pod_sets(names, |pods| pods.node_selector("zone", "a"))
        .build()?;
    Ok(Verdict::ready("in zone a").with_updates(updates))
}

fn kueue(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}})
}

fn simulation() -> Simulation {
    let mut flavor = kueue("ResourceFlavor", "default");
    flavor["spec"] = json!({"nodeLabels": {"zone": "b"}});
    Simulation::with_context(|context| context.external(Worded::default))
        .parameters(&Word::object("words", "day"))
        .object(&Word::object("by-night", "night"))
        .and("machines", |context| context.external(Depot::default))
        .and("zoned", |_| zoned)
        .object(&flavor)
        .expect_timeout(HEALED + MINUTE)
}

/// Makes each change that a controller has to observe, one after another. There is time for a
/// resync between them.
async fn scenario(cluster: &Cluster) {
    let machines: Depot = cluster.external();
    let running = |wanted: usize| {
        let machines = machines.clone();
        move |_: &Cluster| machines.running() == wanted
    };
    let heal = async || cluster.advance(HEALED).await;

    cluster.submit(Job::new("first"));
    cluster.expect_message("first", "by day").await;
    cluster.expect("a machine runs", running(1)).await;
    assert!(
        !cluster.is_admitted("first"),
        "its flavor is in another zone"
    );

    let labels = json!({"spec": {"nodeLabels": {"zone": "a"}}});
    cluster.merge(&kueue("ResourceFlavor", "default"), &labels);
    cluster.expect_admitted("first").await;
    cluster.complete("first");
    cluster.expect("the machine stopped", running(0)).await;

    let words = Word::object("words", "noon");
    cluster.apply(&words);
    heal().await;
    cluster.submit(Job::new("second"));
    cluster.expect_message("second", "by noon").await;
    cluster.expect_admitted("second").await;
    cluster.merge_workload("second", &json!({"spec": {"active": false}}));
    cluster.expect("the machine stopped", running(0)).await;

    let other = json!({"spec": {"parameters": {"name": "by-night"}}});
    cluster.merge(&kueue("AdmissionCheck", "check"), &other);
    heal().await;
    cluster.submit(Job::new("third"));
    cluster.expect_message("third", "by night").await;
    cluster.expect_admitted("third").await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "third", "namespace": "default"}});
    cluster.delete(&job);
    cluster.expect("the machine stopped", running(0)).await;

    cluster.delete(&Word::object("by-night", "night"));
    cluster.expect_inactive("check", "by-night").await;
    cluster.apply(&Word::object("by-night", "midnight"));
    cluster.expect_active("check").await;
    let mut another = kueue("AdmissionCheck", "another");
    another["spec"] = json!({"controllerName": "example.com/depot"});
    for _ in 0..2 {
        cluster.apply(&another);
        cluster.expect_active("another").await;
        cluster.delete(&another);
    }
    heal().await;
    cluster.submit(Job::new("fourth"));
    cluster.expect_message("fourth", "by midnight").await;
    cluster.expect_admitted("fourth").await;
    cluster.complete("fourth");
    cluster.expect("the machine stopped", running(0)).await;
}

#[test]
fn whatever_event_is_dropped_heals_with_the_resync() {
    let simulation = simulation();
    let run = simulation.run(scenario);
    let events = run.points.iter().filter(|point| point.event);
    let shown: Vec<_> = events
        .filter(|point| !point.what.starts_with("BOOKMARK"))
        .collect();
    let kinds: BTreeSet<&str> = shown.iter().map(|point| point.what.as_str()).collect();
    for kind in [
        "ADDED admissionchecks",
        "MODIFIED admissionchecks",
        "DELETED admissionchecks",
        "ADDED words",
        "MODIFIED words",
        "DELETED words",
        "MODIFIED resourceflavors",
        "ADDED workloads",
        "MODIFIED workloads",
        "DELETED workloads",
    ] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
    let runs = shown.iter().map(|point| {
        let plan = FaultPlan::of((*point).clone(), Fault::Dropped);
        (point, simulation.run_with(&scenario, &plan))
    });
    let failed: Vec<String> = runs
        .filter(|(_, run)| run.failed() || !run.not_injected.is_none())
        .map(|(point, run)| format!("{} is dropped: {run}", point.what))
        .collect();
    println!("{} events dropped, one in each run", shown.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
