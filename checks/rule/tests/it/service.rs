//! A stand-in for a service with a fixed number of licences, and with injected faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use kueue_check_rule::document::{API_VERSION, Call, HELD, Item, REVIEW, ReviewRequest};
use kueue_check_rule::webhook::transport::{Operation, ServiceCall, ServiceReply, Transport};
use kueue_check_rule::{ServerPolicy, WebhookCheck};
use kueue_check_sim::simulation::CheckContext;
use kueue_check_sim::{Cluster, Job, Simulation};
use kueue_check_sources::SourceError;
use serde_json::{Value, json};
use tokio::time::sleep;

const WHO: &str = "the webhook";

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceFault {
    /// No process listens.
    Down,
    /// It never responds.
    Slow,
    /// It returns 500.
    Broken,
    /// It throttles the request.
    Throttles,
    /// It returns an HTML page with status 200.
    Html,
    /// Its response is truncated.
    Garbage,
    /// It returns a state that does not exist.
    UnknownState,
    /// The body is too large.
    Oversized,
    /// It returns an item for no Workload of the request.
    OtherWorkload,
    /// It returns no item.
    Silent,
    /// It responds after 8 s.
    Late,
    /// It carries out the request, and exits before the reply is received.
    Dies,
    /// It returns the opposite state once.
    ChangesItsMind,
}

pub(crate) const FAULTS: [ServiceFault; 13] = [
    ServiceFault::Down,
    ServiceFault::Slow,
    ServiceFault::Broken,
    ServiceFault::Throttles,
    ServiceFault::Html,
    ServiceFault::Garbage,
    ServiceFault::UnknownState,
    ServiceFault::Oversized,
    ServiceFault::OtherWorkload,
    ServiceFault::Silent,
    ServiceFault::Late,
    ServiceFault::Dies,
    ServiceFault::ChangesItsMind,
];

/// The service. Clones share their state; it survives the check's processes.
#[derive(Clone)]
pub(crate) struct Service(Arc<Mutex<State>>);

pub(crate) struct State {
    pub(crate) licences: usize,
    /// The reservations that hold a licence.
    pub(crate) held: BTreeSet<String>,
    /// How often each reservation was given a licence.
    pub(crate) given: BTreeMap<String, u32>,
    pub(crate) most: usize,
    /// The time and the number of Workloads of each review.
    pub(crate) reviews: Vec<(jiff::Timestamp, usize)>,
    pub(crate) requests: usize,
    /// The fault, and the request at which it happens.
    pub(crate) fault: Option<(usize, ServiceFault)>,
    /// The response that replaces that of the licences.
    pub(crate) fixed_response: Option<Value>,
    /// Fails for each request that has a Workload with this in its name.
    pub(crate) poison: Option<String>,
}

impl Service {
    pub(crate) fn new(licences: usize, fault: Option<(usize, ServiceFault)>) -> Self {
        Self(Arc::new(Mutex::new(State {
            licences,
            held: BTreeSet::new(),
            given: BTreeMap::new(),
            most: 0,
            reviews: Vec::new(),
            requests: 0,
            fault,
            fixed_response: None,
            poison: None,
        })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the response of a service without faults.
    fn response(&self, call: &ServiceCall, contrary: bool) -> (u16, String) {
        let mut state = self.state();
        match call.operation {
            Operation::Review => {
                let review: ReviewRequest = serde_json::from_str(&call.body).unwrap();
                let request = review.request;
                state.reviews.push((request.time, request.items.len()));
                let poison = state.poison.as_deref();
                let poisoned =
                    |item: &Item| poison.is_some_and(|poison| item.workload.name.contains(poison));
                if request.items.iter().any(poisoned) {
                    return (500, "division by zero".to_owned());
                }
                let free = state.licences.saturating_sub(state.held.len());
                let items = request.items.iter().map(|item| {
                    let mut response = match &state.fixed_response {
                        Some(fixed_response) => fixed_response.clone(),
                        None if (state.held.contains(&item.uid) || free > 0) != contrary => {
                            json!({"state": "Ready", "message": "a licence is free"})
                        }
                        None => {
                            json!({"state": "Pending", "message": "all licences are in use"})
                        }
                    };
                    response["uid"] = json!(item.uid);
                    response
                });
                let items: Vec<Value> = items.collect();
                (200, document(REVIEW, &json!({"items": items})))
            }
            Operation::Activate => {
                let call: Call = serde_json::from_str(&call.body).unwrap();
                let uid = call.request.uid;
                if state.held.contains(&uid) {
                    return (204, String::new());
                }
                if state.held.len() >= state.licences {
                    return (409, r#"{"message": "somebody was faster"}"#.to_owned());
                }
                *state.given.entry(uid.clone()).or_default() += 1;
                state.held.insert(uid);
                state.most = state.most.max(state.held.len());
                (204, String::new())
            }
            Operation::Release => {
                let call: Call = serde_json::from_str(&call.body).unwrap();
                let known = state.held.remove(&call.request.uid);
                (if known { 204 } else { 404 }, String::new())
            }
            Operation::Held => {
                let uids: Vec<&String> = state.held.iter().collect();
                (200, document(HELD, &json!({"uids": uids})))
            }
        }
    }

    async fn reply(self, call: ServiceCall) -> Result<ServiceReply, SourceError> {
        let fault = {
            let mut state = self.state();
            let number = state.requests;
            state.requests += 1;
            state
                .fault
                .filter(|(at, _)| *at == number)
                .map(|(_, fault)| fault)
        };
        let unreachable = || {
            Err(SourceError::Unreachable(
                WHO,
                "connection refused".to_owned(),
            ))
        };
        // Time passes for the request and the reply.
        sleep(Duration::from_millis(20)).await;
        let ok = |body: &str| Ok(reply(200, body));
        match fault {
            Some(ServiceFault::Down) => unreachable(),
            Some(ServiceFault::Slow) => std::future::pending().await,
            Some(ServiceFault::Broken) => Ok(reply(500, "oops")),
            Some(ServiceFault::Throttles) => {
                let mut throttled = reply(429, "");
                throttled
                    .headers
                    .insert("retry-after", "7".parse().unwrap());
                Ok(throttled)
            }
            Some(ServiceFault::Html) => ok("<html><body>Sign in</body></html>"),
            Some(ServiceFault::Garbage) => {
                let (_, body) = self.response(&call, false);
                ok(&body[..body.len() / 2])
            }
            Some(ServiceFault::UnknownState) if call.operation == Operation::Review => {
                let (_, body) = self.response(&call, false);
                ok(&body
                    .replace("\"Ready\"", "\"Maybe\"")
                    .replace("\"Pending\"", "\"Maybe\""))
            }
            Some(ServiceFault::Oversized) => {
                let problem = "its body cannot be read: it is larger than 8 MiB";
                Err(SourceError::BadResponse(WHO, problem.to_owned()))
            }
            Some(ServiceFault::OtherWorkload) => {
                let item = json!({"uid": "default/other/1/check/1795251600", "state": "Rejected"});
                ok(&document(REVIEW, &json!({"items": [item]})))
            }
            Some(ServiceFault::Silent) => ok(&document(REVIEW, &json!({"items": []}))),
            Some(ServiceFault::Late) => {
                sleep(Duration::from_secs(8)).await;
                let (status, body) = self.response(&call, false);
                Ok(reply(status, &body))
            }
            Some(ServiceFault::Dies) => {
                let _ = self.response(&call, false);
                unreachable()
            }
            fault => {
                let contrary = fault == Some(ServiceFault::ChangesItsMind);
                let (status, body) = self.response(&call, contrary);
                sleep(Duration::from_millis(20)).await;
                Ok(reply(status, &body))
            }
        }
    }
}

impl Transport for Service {
    fn send(&self, call: ServiceCall) -> BoxFuture<'static, Result<ServiceReply, SourceError>> {
        self.clone().reply(call).boxed()
    }
}

fn reply(status: u16, body: &str) -> ServiceReply {
    ServiceReply {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: body.into(),
    }
}

pub(crate) fn document(kind: &str, response: &Value) -> String {
    json!({"apiVersion": API_VERSION, "kind": kind, "response": response}).to_string()
}

pub(crate) const URL: &str = "https://licences.example/review";

pub(crate) fn allowed() -> ServerPolicy {
    crate::server::open(&["https://licences.example"])
}

/// Returns a WebhookCheck `webhook` with these fields beside the URL.
pub(crate) fn webhook(patch: &Value) -> Value {
    let mut spec = json!({"url": URL, "recheckAfter": "1m"});
    for (key, value) in patch.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "webhook"}, "spec": spec})
}

/// Returns a WebhookCheck that allocates, with batches.
pub(crate) fn licences() -> Value {
    webhook(&json!({
        "batch": {"maxItems": 500},
        "activatePath": "/activate", "releasePath": "/release", "heldPath": "/held",
    }))
}

/// Returns a simulation of a check with a service that `make` makes.
pub(crate) fn simulation(
    webhook: &Value,
    make: impl Fn() -> Service + Clone + Send + Sync + 'static,
) -> Simulation {
    Simulation::with_context(move |tools: &CheckContext| {
        let service = tools.external(&make);
        WebhookCheck::with_transport(allowed(), Arc::new(service)).clock(tools.clock.clone())
    })
    .parameters(webhook)
}

/// Submits many jobs, `job-0` and so on. All but the first are Workloads without an owner, of which
/// the simulation costs less.
pub(crate) fn submit_many(cluster: &Cluster, count: usize) {
    cluster.submit(Job::new("job-0"));
    let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    for job in 1..count {
        cluster.apply(&json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"name": format!("job-{job}"), "namespace": "default"},
            "spec": {"queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": template}]},
        }));
    }
}

/// Returns an error if more licences were held at one time than exist, or one is held for a
/// reservation that is over.
pub(crate) fn nothing_lost(cluster: &Cluster) -> Result<(), String> {
    let service: Service = cluster.external();
    let state = service.state();
    if state.most > state.licences {
        return Err(format!(
            "{} of {} licences were out",
            state.most, state.licences
        ));
    }
    let workloads =
        kueue_check_sim::apiserver::Resource::new("kueue.x-k8s.io", "v1beta2", "workloads");
    let holding: BTreeSet<String> = cluster
        .server()
        .objects(&workloads, "")
        .iter()
        .filter_map(|object| {
            let workload = kueue_check::api::Workload::from_json((**object).clone()).ok()?;
            let finished = workload.conditions().finished().is_true();
            let own = kueue_check::Reservation::of(&workload, "check")?;
            (!finished).then(|| own.to_string())
        })
        .collect();
    match state.held.difference(&holding).next() {
        Some(lost) => Err(format!("{lost} is over and holds a licence")),
        None => Ok(()),
    }
}

/// Returns an error if a Workload was ever evicted or has a state that the service never returned.
pub(crate) fn no_harm(cluster: &Cluster) -> Result<(), String> {
    for change in cluster.server().history() {
        if change.resource.plural != "workloads" {
            continue;
        }
        let status = &change.object["status"];
        let name = &change.object["metadata"]["name"];
        for condition in status["conditions"].as_array().into_iter().flatten() {
            if condition["type"] == "Evicted" && condition["status"] == "True" {
                return Err(format!("{name} was evicted: {condition}"));
            }
        }
        for entry in status["admissionChecks"].as_array().into_iter().flatten() {
            if !matches!(entry["state"].as_str(), Some("Ready" | "Pending")) {
                return Err(format!("{name} has {entry}"));
            }
        }
    }
    Ok(())
}
