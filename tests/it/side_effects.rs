//! A check that allocates resources on the simulated cluster: its reports, and what it holds and
//! releases.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{Config, Event};
use kueue_check::CheckEvent;
use kueue_check::api::CheckState;
use kueue_check::prelude::*;
use kueue_check_sim::apiserver::Resource;
use kueue_check_sim::simulation::CheckContext;
use kueue_check_sim::{Cluster, Job, Simulation};
use serde_json::{Value, json};

/// The parameters of the check.
#[derive(
    kube::CustomResource,
    Parameters,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
    Clone,
    Debug,
)]
#[kube(group = "example.com", version = "v1", kind = "Order")]
struct OrderSpec {
    size: u32,
}

fn order(size: u32) -> Order {
    Order::new("order", OrderSpec { size })
}

/// Shared by a scenario and the check: its calls, and its results. It outlives the check's
/// processes.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    /// Generations of the parameters, and flavors, of its evaluations.
    evaluations: Vec<(i64, Vec<String>)>,
    released: Vec<(String, ReleaseReason)>,
    /// The reservations that it returns as unreleased.
    unreleased: Vec<Reservation>,
}

/// A check that is Ready once there is a `ConfigMap` with its label and the job's name.
struct Starter {
    ledger: Ledger,
    /// The `ConfigMap`s in the watch.
    there: Arc<Mutex<BTreeSet<String>>>,
    /// Whether it continues without parameters.
    goes_on: bool,
}

impl Starter {
    fn new(tools: &CheckContext, goes_on: bool) -> Self {
        Self {
            ledger: tools.external(Ledger::default),
            there: Arc::default(),
            goes_on,
        }
    }
}

impl AdmissionCheckController for Starter {
    type Parameters = Order;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/starter") }
    }

    async fn evaluate(&self, request: CheckRequest<Order>) -> Result<Verdict, CheckError> {
        let flavors = request.flavors().keys().cloned().collect();
        let evaluation = (request.parameters_generation(), flavors);
        self.ledger.0.lock().unwrap().evaluations.push(evaluation);
        let name = request.workload().name();
        let size = request.parameters().spec.size;
        request.record_event(
            CheckEvent::warning("Ordered", format!("{size} ordered")).action("Ordering"),
        );
        if size == 0 {
            return Err(CheckError::transient("nothing to order"));
        }
        let there = self.there.lock().unwrap();
        if there.iter().any(|own| name.contains(own.as_str())) {
            return Ok(Verdict::ready("delivered"));
        }
        Ok(Verdict::pending(format!("{size} on order")))
    }

    async fn release(
        &self,
        reservation: &Reservation,
        why: ReleaseReason,
    ) -> Result<ReleaseOutcome, CheckError> {
        let mut lines = self.ledger.0.lock().unwrap();
        lines.unreleased.retain(|own| own != reservation);
        lines.released.push((reservation.name().to_owned(), why));
        Ok(ReleaseOutcome::Done)
    }

    async fn unreleased_reservations(&self) -> Result<Vec<Reservation>, CheckError> {
        Ok(self.ledger.0.lock().unwrap().unreleased.clone())
    }

    fn configure(self: &Arc<Self>, check: Check<Order>) -> Check<Order> {
        let there = Arc::clone(&self.there);
        let listed: Mutex<BTreeSet<String>> = Mutex::default();
        let name = |object: &ConfigMap| object.metadata.name.clone().unwrap_or_default();
        let minutes = || {
            stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Some((Trigger::UnreleasedReservations, ()))
            })
        };
        let goes_on = self.goes_on;
        check
            .watches_events::<ConfigMap>(Config::default().labels("delivery=true"), move |event| {
                let mut there = there.lock().unwrap();
                match event {
                    Event::Init => listed.lock().unwrap().clear(),
                    Event::InitApply(object) => {
                        listed.lock().unwrap().insert(name(&object));
                        return Trigger::Ignore;
                    }
                    Event::InitDone => *there = std::mem::take(&mut *listed.lock().unwrap()),
                    Event::Apply(object) => {
                        there.insert(name(&object));
                    }
                    Event::Delete(object) => {
                        there.remove(&name(&object));
                    }
                }
                Trigger::AllWorkloads
            })
            .watches_stream("minutes", minutes)
            .on_parameters_unavailable(move |problem| {
                (!goes_on).then(|| format!("no order: {}", problem.reason()))
            })
            .state_change_event(|change| {
                let note = format!("{} became {}", change.from, change.to);
                CheckEvent::normal("OrderChanged", note).action("Ordering")
            })
    }
}

fn simulation(size: u32) -> Simulation {
    Simulation::with_context(|tools| Starter::new(tools, false)).parameters(&order(size))
}

fn delivery(job: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": job, "namespace": "default", "labels": {"delivery": "true"}}})
}

/// Returns the events about a job's Workload that have this reason.
fn events(cluster: &Cluster, job: &str, reason: &str) -> Vec<Arc<Value>> {
    let all = cluster
        .server()
        .objects(&Resource::new("events.k8s.io", "v1", "events"), "default");
    let workload = cluster.workload(job).unwrap();
    let about = |event: &Arc<Value>| {
        event["regarding"]["uid"] == workload["metadata"]["uid"] && event["reason"] == reason
    };
    all.into_iter().filter(about).collect()
}

#[test]
fn what_a_check_records_is_an_event_whatever_it_returns() {
    for (size, message) in [(3, "3 on order"), (0, "nothing to order")] {
        simulation(size).run(async |cluster| {
            cluster.submit(Job::new("train"));
            cluster.expect_message("train", message).await;
            cluster.advance(Duration::from_secs(10)).await;
            let recorded = events(cluster, "train", "Ordered");
            assert_eq!(recorded.len(), 1, "repetitions are one event");
            assert_eq!(recorded[0]["note"], format!("{size} ordered"));
            assert_eq!(recorded[0]["action"], "Ordering");
            assert_eq!(recorded[0]["type"], "Warning");
            assert_eq!(recorded[0]["regarding"]["kind"], "Workload");
        });
    }
}

#[test]
fn a_check_writes_the_notes_of_its_state_changes_itself() {
    simulation(1).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.apply(&delivery("train"));
        cluster.expect_admitted("train").await;
        cluster.advance(Duration::from_secs(10)).await;
        let recorded = events(cluster, "train", "OrderChanged");
        assert_eq!(recorded.len(), 1);
        assert_eq!(recorded[0]["note"], "Pending became Ready");
        assert!(events(cluster, "train", "AdmissionCheckReady").is_empty());
    });
}

#[test]
fn a_check_that_caches_its_watches_misses_no_event_with_any_fault() {
    let explored = simulation(1).run_with_each_fault(async |cluster| {
        cluster.apply(&delivery("early"));
        cluster.submit(Job::new("early"));
        cluster.submit(Job::new("late"));
        cluster.expect_admitted("early").await;
        cluster.expect_message("late", "1 on order").await;
        // An object that was deleted does not count.
        cluster.apply(&delivery("gone"));
        cluster.delete(&delivery("gone"));
        // A watch that breaks or lags delivers it later.
        cluster.advance(Duration::from_secs(120)).await;
        cluster.submit(Job::new("gone"));
        cluster.expect_message("gone", "1 on order").await;
        cluster.apply(&delivery("late"));
        cluster.expect_admitted("late").await;
        assert!(!cluster.is_admitted("gone"));
    });
    println!("{explored}");
}

#[test]
fn a_check_that_does_not_go_on_without_parameters_withdraws_its_verdict() {
    simulation(1).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "1 on order").await;
        cluster.delete(&order(1));
        cluster
            .expect_message("train", "no order: ParametersNotFound")
            .await;
        assert_eq!(cluster.state("train"), Some(CheckState::Pending));
        let ledger: Ledger = cluster.external();
        cluster
            .expect("what was started is released", |_| {
                let released = &ledger.0.lock().unwrap().released;
                matches!(released.as_slice(), [(name, ReleaseReason::CheckInactive)] if name.contains("train"))
            })
            .await;
        cluster.apply(&order(2));
        cluster.expect_message("train", "2 on order").await;
    });
}

#[test]
fn a_check_that_goes_on_without_parameters_keeps_its_verdict() {
    let goes_on = Simulation::with_context(|tools| Starter::new(tools, true)).parameters(&order(1));
    goes_on.run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "1 on order").await;
        cluster.delete(&order(1));
        cluster.expect_inactive("check", "there is no Order").await;
        cluster.apply(&delivery("train"));
        cluster.expect_admitted("train").await;
        let ledger: Ledger = cluster.external();
        assert!(ledger.0.lock().unwrap().released.is_empty());
    });
}

#[test]
fn unreleased_reservations_are_listed_again_on_a_trigger_of_a_source() {
    simulation(1).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "1 on order").await;
        let uid = kueue_check::api::Uid::new("gone");
        let since = cluster.now();
        let lost = Reservation::new("default", "lost", uid, "check", since);
        let ledger: Ledger = cluster.external();
        ledger.0.lock().unwrap().unreleased.push(lost);
        cluster.advance(Duration::from_secs(50)).await;
        assert!(
            ledger.0.lock().unwrap().released.is_empty(),
            "the source has not reported it yet"
        );
        cluster
            .expect("what was left over is released", |_| {
                let released = &ledger.0.lock().unwrap().released;
                matches!(released.as_slice(), [(name, ReleaseReason::Deleted)] if name == "lost")
            })
            .await;
        assert_eq!(
            cluster.message("train"),
            "1 on order",
            "who holds quota is not released"
        );
    });
}

#[test]
fn a_request_has_the_generation_of_the_parameters_and_the_flavors() {
    simulation(1).run(async |cluster| {
        cluster.submit(Job::new("train"));
        cluster.expect_message("train", "1 on order").await;
        cluster.apply(&order(2));
        cluster.expect_message("train", "2 on order").await;
        let ledger: Ledger = cluster.external();
        let evaluations = ledger.0.lock().unwrap().evaluations.clone();
        let flavors = vec!["default".to_owned()];
        assert_eq!(evaluations.first(), Some(&(1, flavors.clone())));
        assert_eq!(evaluations.last(), Some(&(2, flavors)));
    });
}
