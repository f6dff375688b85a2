//! The behavior of a replica when its Lease lapses, and when another replica acquires it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use kueue_check::runtime::{LeaseConfig, LeaseTimes, RunError, Runtime};
use kueue_check::{Check, Clock, Verdict, admission_check};
use kueue_check_sim::apiserver::{
    ApiRequest, ApiServer, Faults, Patch, RequestFault, RequestInfo, Resource, Verb,
};
use serde_json::json;
use tokio::time::sleep;

#[admission_check(controller = "example.com/open")]
async fn open() -> Verdict {
    Verdict::ready("open")
}

fn cluster() -> (Clock, ApiServer) {
    let clock = Clock::following_tokio("2026-11-21T09:00:00Z".parse().unwrap());
    let server = ApiServer::with_definitions(clock.clone(), kueue_check_sim::definitions::kueue());
    (clock, server)
}

fn replica(server: &ApiServer, clock: &Clock, pod: &str, check: Check) -> Runtime {
    let lease = LeaseConfig {
        namespace: "default".into(),
        name: "open".into(),
        identity: pod.into(),
        times: LeaseTimes::default(),
    };
    Runtime::builder(server.client_as(pod))
        .check(check)
        .clock(clock.clone())
        .lease(lease)
        .build()
        .unwrap()
}

/// A check's state in memory belongs to the time in which its replica led.
#[tokio::test(start_paused = true)]
async fn a_replica_whose_lease_another_one_has_taken_ends() {
    // The other one may have released it by now.
    for holder in ["open-1", ""] {
        ends_after_a_term_of(holder).await;
    }
}

async fn ends_after_a_term_of(holder: &str) {
    let (clock, server) = cluster();
    let runtime = replica(&server, &clock, "open-0", Check::new(open));
    let handle = runtime.handle();
    let running = tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(10)).await;
    let shown = serde_json::to_value(handle.diagnostics().await).unwrap();
    assert_eq!(shown["leadership"], "leader");

    let leases = Resource::new("coordination.k8s.io", "v1", "leases");
    let taken = json!({"spec": {"holderIdentity": holder, "leaseTransitions": 7}});
    let call = ApiRequest::new(Verb::Patch(Patch::Merge), &leases)
        .namespace("default")
        .name("open")
        .body(taken);
    assert_eq!(server.call(&call).code, 200);
    let ended = tokio::time::timeout(Duration::from_secs(15), running).await;
    let error = ended.unwrap().unwrap().unwrap_err();
    assert!(
        matches!(&error, RunError::LeadershipLost { holder: by } if by == holder),
        "{error}"
    );
}

/// A fault by which one replica cannot reach Leases from one second to another.
struct CutOff {
    agent: &'static str,
    clock: Clock,
    from: Timestamp,
    until: Timestamp,
    fault: RequestFault,
}

impl Faults for CutOff {
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        let of_lease = request.call.resource.plural == "leases" && request.agent == self.agent;
        let cut = of_lease && (self.from..self.until).contains(&self.clock.now());
        cut.then(|| self.fault.clone())
    }
}

/// A replica that tried to write, and the result.
type Attempt = (&'static str, Result<(), String>);

/// All attempts.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<Attempt>>>);

impl Attempts {
    fn of(&self, pod: &str) -> Vec<Result<(), String>> {
        let all = self.0.lock().unwrap();
        let own = all.iter().filter(|(by, _)| *by == pod);
        own.map(|(_, made)| made.clone()).collect()
    }
}

/// Makes a check whose background work writes four times a second on every replica.
fn writes_always(attempts: &Attempts, pod: &'static str) -> Check {
    let attempts = attempts.clone();
    Check::new(open).background(move |context| {
        let attempts = attempts.clone();
        async move {
            let api: Api<ConfigMap> = Api::default_namespaced(context.client().clone());
            for number in 0.. {
                let mut object = ConfigMap::default();
                object.metadata.name = Some(format!("{pod}-{number}"));
                let made = api.create(&PostParams::default(), &object).await;
                let made = made.map(drop).map_err(|error| error.to_string());
                attempts.0.lock().unwrap().push((pod, made));
                let read = api.get_opt("none").await;
                assert!(matches!(read, Ok(None)), "a read passes: {read:?}");
                sleep(Duration::from_millis(250)).await;
            }
        }
    })
}

/// A replica that cannot renew its Lease, and one that takes it over.
#[tokio::test(start_paused = true)]
async fn background_work_writes_only_while_the_lease_of_its_replica_is_valid() {
    let (clock, server) = cluster();
    let times = LeaseTimes::default();
    let attempts = Attempts::default();
    let start = |pod: &'static str| {
        let runtime = replica(&server, &clock, pod, writes_always(&attempts, pod));
        tokio::spawn(runtime.run(std::future::pending()))
    };
    let first = start("open-0");
    sleep(Duration::from_secs(10)).await;
    let _second = start("open-1");
    sleep(Duration::from_secs(10)).await;
    let now = clock.now();
    server.set_faults(Arc::new(CutOff {
        agent: "open-0",
        clock: clock.clone(),
        from: now,
        until: now + SignedDuration::from_secs(60),
        fault: RequestFault::Disconnect,
    }));
    sleep(Duration::from_secs(50)).await;
    assert!(!first.is_finished(), "it does not know yet who leads");
    let refused = attempts.of("open-0").pop().unwrap().unwrap_err();
    assert!(refused.contains("this replica does not lead"), "{refused}");
    sleep(Duration::from_secs(40)).await;
    assert!(first.is_finished(), "it has read who leads");

    let mut renewed: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut written: BTreeMap<String, usize> = BTreeMap::new();
    for change in server.history() {
        match &*change.resource.plural {
            "leases" => {
                renewed.insert(change.agent.clone(), change.at);
            }
            "configmaps" => {
                let until = renewed[&change.agent] + times.renew_deadline;
                assert!(change.at < until, "{} at {}", change.agent, change.at);
                *written.entry(change.agent.clone()).or_default() += 1;
            }
            _ => {}
        }
    }
    for pod in ["open-0", "open-1"] {
        let all = attempts.of(pod);
        let made = all.iter().filter(|made| made.is_ok()).count();
        assert_eq!(made, written[pod], "what is refused reaches no server");
        assert!(
            made > 40 && made < all.len(),
            "{pod}: {made} of {}",
            all.len()
        );
    }
}

/// The renewal that would report this to the replica has no reply yet.
#[tokio::test(start_paused = true)]
async fn a_replica_stops_leading_when_its_lease_expires_while_a_renewal_hangs() {
    let (clock, server) = cluster();
    let runtime = replica(&server, &clock, "open-0", Check::new(open));
    let handle = runtime.handle();
    tokio::spawn(runtime.run(std::future::pending()));
    sleep(Duration::from_secs(10)).await;
    let expires = cut_off(&server, &clock);
    let steps = [(-100, "leader"), (100, "lapsed"), (1_000, "lapsed")];
    for (milliseconds, leadership) in steps {
        let at = expires + SignedDuration::from_millis(milliseconds);
        sleep(at.duration_since(clock.now()).unsigned_abs()).await;
        let shown = serde_json::to_value(handle.diagnostics().await).unwrap();
        assert_eq!(shown["leadership"], leadership, "{milliseconds} ms");
    }
}

/// Stores when it is dropped.
struct Dropped(Clock, Arc<Mutex<Option<Timestamp>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = Some(self.0.now());
    }
}

/// From then on another replica may call the check.
#[tokio::test(start_paused = true)]
async fn a_stopped_leader_calls_the_check_no_longer_than_its_lease_is_valid() {
    let (clock, server) = cluster();
    let ended = Arc::new(Mutex::new(None));
    let (of_check, at) = (clock.clone(), Arc::clone(&ended));
    let check = Check::new(open).on_activate(move |_, _| {
        let call = Dropped(of_check.clone(), Arc::clone(&at));
        async move {
            let _call = call;
            std::future::pending().await
        }
    });
    let checks = Resource::new("kueue.x-k8s.io", "v1beta2", "admissionchecks");
    let create = ApiRequest::new(Verb::Create, &checks);
    let object = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck",
        "metadata": {"name": "check"}, "spec": {"controllerName": "example.com/open"},
    });
    assert_eq!(server.call(&create.body(object)).code, 201);
    let runtime = replica(&server, &clock, "open-0", check);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(runtime.run(async { drop(stopped.await) }));
    sleep(Duration::from_secs(10)).await;
    let expires = cut_off(&server, &clock);
    let before = expires - SignedDuration::from_secs(1);
    sleep(before.duration_since(clock.now()).unsigned_abs()).await;
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    let late = ended.lock().unwrap().unwrap().duration_since(expires);
    assert!(late < SignedDuration::from_millis(100), "{late}");
}

/// From now on renewals of the Lease hang. Returns when it expires.
fn cut_off(server: &ApiServer, clock: &Clock) -> Timestamp {
    let now = clock.now();
    server.set_faults(Arc::new(CutOff {
        agent: "open-0",
        clock: clock.clone(),
        from: now,
        until: now + SignedDuration::from_secs(60),
        fault: RequestFault::Hang,
    }));
    let renewals = server.history().into_iter();
    let renewals = renewals.filter(|change| change.resource.plural == "leases");
    renewals.last().unwrap().at + LeaseTimes::default().renew_deadline
}
