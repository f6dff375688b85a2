//! An event that never arrives: the resync finds its change within 30 min.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use kueue_check::api::PodSet;
use kueue_check::{
    AdmissionCheckController, Check, CheckError, CheckRequest, ControllerName, NoParameters,
    PodSetUpdates, Request, Trigger, Verdict, admission_check,
};
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

/// Two checks that allow a job while the `ConfigMap` `gate` is open. One reads it, the other one
/// keeps it in memory.
struct Gate {
    client: Option<Client>,
    kept: Arc<Mutex<Option<ConfigMap>>>,
}

impl Gate {
    fn new(client: Option<&Client>) -> Self {
        let (client, kept) = (client.cloned(), Arc::default());
        Self { client, kept }
    }
}

fn is_gate(object: &ConfigMap) -> bool {
    object.metadata.name.as_deref() == Some("gate")
}

impl AdmissionCheckController for Gate {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        ControllerName::from_static(if self.client.is_some() {
            "example.com/reads"
        } else {
            "example.com/keeps"
        })
    }

    async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        let gate = match &self.client {
            Some(client) => {
                let objects = Api::<ConfigMap>::default_namespaced(client.clone());
                let gate = objects.get_opt("gate").await;
                gate.map_err(|error| CheckError::transient(error.to_string()))?
            }
            None => self.kept.lock().unwrap().clone(),
        };
        let state = gate.and_then(|gate| gate.data.unwrap_or_default().remove("state"));
        Ok(match state.as_deref() {
            Some("open") => Verdict::ready("open"),
            Some(state) => Verdict::pending(state),
            None => Verdict::pending("missing"),
        })
    }

    fn configure(self: &Arc<Self>, check: Check) -> Check {
        if self.client.is_some() {
            return check.watches::<ConfigMap>(Config::default(), |object| {
                if is_gate(object) {
                    Trigger::AllWorkloads
                } else {
                    Trigger::Ignore
                }
            });
        }
        let (kept, listed) = (Arc::clone(&self.kept), Mutex::default());
        check.watches_events::<ConfigMap>(Config::default(), move |event| {
            let mut listed = listed.lock().unwrap();
            let mut kept = kept.lock().unwrap();
            match event {
                Event::Init => *listed = None,
                Event::InitApply(object) if is_gate(&object) => *listed = Some(object),
                Event::InitDone => *kept = listed.take(),
                Event::Apply(object) if is_gate(&object) => *kept = Some(object),
                Event::Delete(object) if is_gate(&object) => *kept = None,
                _ => return Trigger::Ignore,
            }
            Trigger::AllWorkloads
        })
    }
}

fn watching() -> Simulation {
    let mut flavor = kueue("ResourceFlavor", "default");
    flavor["spec"] = json!({"nodeLabels": {"zone": "a"}});
    Simulation::with_context(|context| Gate::new(Some(&context.client)))
        .and("keeps", |_| Gate::new(None))
        .and("zoned", |_| zoned)
        .object(&flavor)
        .expect_timeout(HEALED + MINUTE)
}

/// Changes a `ConfigMap` that two checks watch, and creates and deletes a flavor.
async fn watched(cluster: &Cluster) {
    let gate = |state: &str| {
        let metadata = json!({"namespace": "default", "name": "gate"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state": state}})
    };
    let expect = async |job: &str, message: &str| {
        let all = |c: &Cluster| ["check", "keeps"].map(|check| c.message_of(check, job));
        let what = format!("both checks find the gate {message}");
        cluster.expect(&what, |c| all(c) == [message; 2]).await;
    };
    let heal = async || cluster.advance(HEALED).await;

    cluster.submit(Job::new("first"));
    expect("first", "missing").await;
    cluster.apply(&gate("shut"));
    expect("first", "shut").await;
    cluster.apply(&gate("open"));
    cluster.expect_admitted("first").await;
    cluster.complete("first");
    cluster.delete(&gate(""));
    heal().await;
    cluster.submit(Job::new("second"));
    expect("second", "missing").await;
    cluster.apply(&gate("open"));
    cluster.expect_admitted("second").await;
    cluster.complete("second");

    let uses = |flavor: &str| {
        let quotas = json!([{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": "9"}]}]);
        let groups = json!([{"coveredResources": ["cpu"], "flavors": quotas}]);
        let queue = kueue("ClusterQueue", "queue");
        cluster.merge(&queue, &json!({"spec": {"resourceGroups": groups}}));
    };
    let spare = kueue("ResourceFlavor", "spare");
    let of_zone = |zone: &str| json!({"spec": {"nodeLabels": {"zone": zone}}});
    for job in ["third", "fourth"] {
        let mut created = spare.clone();
        created["spec"] = of_zone("b")["spec"].clone();
        cluster.apply(&created);
        heal().await;
        uses("spare");
        cluster.submit(Job::new(job));
        cluster.expect_waiting(job, 2 * MINUTE).await;
        cluster.merge(&spare, &of_zone("a"));
        cluster.expect_admitted(job).await;
        cluster.complete(job);
        uses("default");
        cluster.delete(&spare);
        heal().await;
    }
}

/// Drops each event of `scenario`, one in each run. Events of the `kinds` must be among them.
fn heals(simulation: &Simulation, scenario: impl AsyncFn(&Cluster), kinds: &[&str]) {
    let run = simulation.run(&scenario);
    let events = run.points.iter().filter(|point| point.event);
    let shown: Vec<_> = events
        .filter(|point| !point.what.starts_with("BOOKMARK"))
        .collect();
    let seen: BTreeSet<&str> = shown.iter().map(|point| point.what.as_str()).collect();
    for kind in kinds {
        assert!(seen.contains(kind), "{kind} is not among {seen:?}");
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

#[test]
fn whatever_event_is_dropped_heals_with_the_resync() {
    let kinds = [
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
    ];
    heals(&simulation(), scenario, &kinds);
}

#[test]
fn whatever_event_of_a_watched_object_is_dropped_heals_with_the_resync() {
    let kinds = [
        "ADDED configmaps",
        "MODIFIED configmaps",
        "DELETED configmaps",
        "ADDED resourceflavors",
        "MODIFIED resourceflavors",
        "DELETED resourceflavors",
    ];
    heals(&watching(), watched, &kinds);
}
