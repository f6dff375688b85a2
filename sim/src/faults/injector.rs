//! The injector of a plan's faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::Clock;

use super::fault::{Fault, PAUSE};
use super::paused_replica::PausedReplica;
use super::plan::{FaultPlan, InjectionPoint};
use super::replica_fault::ReplicaFault;
use crate::apiserver::{
    ApiRequest, EventFault, Faults, Patch, RequestFault, RequestInfo, Verb, WatchDelivery,
};

/// Injects the faults of a plan, and records the injection points.
pub(crate) struct Injector {
    plan: FaultPlan,
    /// The replicas, and the faults of each.
    replica_faults: BTreeMap<String, Arc<ReplicaFault>>,
    state: Mutex<InjectorState>,
    over: AtomicBool,
    clock: Clock,
    alter: Option<fn(&mut ApiRequest)>,
}

/// The limit of requests at one moment. More are a loop without end, because time passes only while
/// all tasks wait.
const AT_ONCE: usize = 20_000;

#[derive(Default)]
struct InjectorState {
    points: Vec<InjectionPoint>,
    /// The indexes of the plan's faults that were injected.
    injected: BTreeSet<usize>,
    /// The number of requests of each kind.
    requests: BTreeMap<String, usize>,
    /// The moment of the last request, and the number of requests at that moment.
    moment: (Timestamp, usize),
    /// The pauses of replicas, with their start and end.
    pauses: Vec<PausedReplica>,
}

impl fmt::Debug for Injector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injector")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Injector {
    pub(crate) fn new(
        plan: &FaultPlan,
        replica_faults: BTreeMap<String, Arc<ReplicaFault>>,
        clock: Clock,
        alter: Option<fn(&mut ApiRequest)>,
    ) -> Self {
        Self {
            plan: plan.clone(),
            replica_faults,
            state: Mutex::default(),
            over: AtomicBool::new(false),
            clock,
            alter,
        }
    }

    /// Stops the injection of faults and the recording of points.
    pub(crate) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Returns the recorded injection points.
    pub(crate) fn points(&self) -> Vec<InjectionPoint> {
        self.state().points.clone()
    }

    /// Returns the faults of the plan that were not injected: their point did not come, or they are
    /// impossible there.
    pub(crate) fn not_injected(&self) -> FaultPlan {
        self.plan.except(&self.state().injected)
    }

    /// Counts the requests of the replicas that began with `what`.
    pub(crate) fn requests(&self, what: &str) -> usize {
        let state = self.state();
        let like = state
            .requests
            .iter()
            .filter(|(request, _)| request.starts_with(what));
        like.map(|(_, count)| count).sum()
    }

    /// Returns true if the replicas send requests without end while no time passes.
    pub(crate) fn looped(&self) -> bool {
        self.state().moment.1 > AT_ONCE
    }

    /// Counts a request; returns true if the replicas loop.
    fn loops(&self, what: &str) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        if let Some(count) = state.requests.get_mut(what) {
            *count += 1;
        } else {
            state.requests.insert(what.to_owned(), 1);
        }
        if state.moment.1 > AT_ONCE {
            return true;
        }
        state.moment = match state.moment {
            (at, count) if at == now => (at, count + 1),
            _ => (now, 1),
        };
        false
    }

    fn state(&self) -> MutexGuard<'_, InjectorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true for replicas. Users, Kueue and the test itself have no faults.
    fn is_replica(&self, agent: &str) -> bool {
        self.replica_faults.contains_key(agent)
    }

    fn at(&self, agent: &str, event: bool, number: u64, what: String) -> Option<Fault> {
        if self.over.load(Ordering::Relaxed) {
            return None;
        }
        let point = InjectionPoint {
            agent: agent.to_owned(),
            event,
            number,
            what,
        };
        let planned = self.plan.at(agent, event, number);
        let planned =
            planned.filter(|(_, fault)| fault.is_possible(&point, self.replica_faults.len()));
        {
            let mut state = self.state();
            state.points.push(point);
            state.injected.extend(planned.map(|(index, _)| index));
        }
        let (_, fault) = planned?;
        let replica_fault = self.replica_faults.get(agent)?;
        if let Some(skew) = fault.skew() {
            replica_fault.skew.store(skew, Ordering::Relaxed);
        }
        match fault {
            _ if fault.crashes() => replica_fault.dies.notify_one(),
            Fault::SecondLeader => replica_fault.rivalled.notify_one(),
            Fault::LeaseRegained => replica_fault.deposed.notify_one(),
            Fault::Paused => {
                let from = self.clock.now();
                let until = from.saturating_add(PAUSE).unwrap_or(Timestamp::MAX);
                let agent = agent.to_owned();
                self.state()
                    .pauses
                    .push(PausedReplica { agent, from, until });
                replica_fault.paused.notify_one();
            }
            _ => {}
        }
        Some(fault)
    }

    /// Returns the times in which replicas were paused.
    pub(crate) fn pauses(&self) -> Vec<PausedReplica> {
        self.state().pauses.clone()
    }

    /// Returns the rest of `agent`'s pause; `None` if it is not paused.
    pub(crate) fn paused_for(&self, agent: &str) -> Option<Duration> {
        let now = self.clock.now();
        let state = self.state();
        let mut own = state.pauses.iter().filter(|pause| pause.agent == agent);
        let until = own.find(|pause| now < pause.until)?.until;
        Duration::try_from(until.duration_since(now)).ok()
    }
}

impl Faults for Injector {
    fn alter(&self, call: &mut ApiRequest) {
        if let Some(alter) = self.alter
            && self.is_replica(&call.agent)
        {
            alter(call);
        }
    }

    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        if !self.is_replica(&request.agent) {
            return None;
        }
        let what = describe(request);
        if self.loops(&what) {
            return Some(RequestFault::Hang);
        }
        let held = self.paused_for(&request.agent).map(RequestFault::Delay);
        let fault = self.at(&request.agent, false, request.number, what);
        fault.and_then(Fault::of_request).or(held)
    }

    fn event(&self, delivery: &WatchDelivery) -> Option<EventFault> {
        if !self.is_replica(&delivery.agent) {
            return None;
        }
        let what = format!("{} {}", delivery.event, delivery.resource.plural);
        let held = self.paused_for(&delivery.agent).map(EventFault::Delay);
        let fault = self.at(&delivery.agent, true, delivery.number, what);
        fault.and_then(Fault::of_event).or(held)
    }
}

fn describe(request: &RequestInfo) -> String {
    let verb = match request.call.verb {
        _ if request.watch => "watch",
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch(Patch::Apply) => "apply",
        Verb::Patch(_) => "patch",
        Verb::Delete | Verb::DeleteCollection => "delete",
    };
    let resource = &request.call.resource.plural;
    let subresource = request.call.subresource.as_deref().unwrap_or_default();
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{verb} {resource}{slash}{subresource}")
}
