//! A plan at work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use super::{Plan, Point};
use crate::apiserver::{Delivery, EventFault, Faults, Patch, Request, RequestFault, Verb};

/// Lets things go wrong as planned, and writes down where they could have.
pub(crate) struct Injector {
    plan: Plan,
    /// Who dies.
    crashes: mpsc::UnboundedSender<String>,
    points: Mutex<Vec<Point>>,
    over: AtomicBool,
}

impl Injector {
    pub(crate) fn new(plan: &Plan) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (crashes, died) = mpsc::unbounded_channel();
        let injector = Self {
            plan: plan.clone(),
            crashes,
            points: Mutex::default(),
            over: AtomicBool::new(false),
        };
        (injector, died)
    }

    /// From now on nothing goes wrong and nothing is written down.
    pub(crate) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Where things could have gone wrong.
    pub(crate) fn points(&self) -> Vec<Point> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn seen(&self, agent: &str, event: bool, number: u64, what: String) -> Option<super::Fault> {
        if self.over.load(Ordering::Relaxed) {
            return None;
        }
        let point = Point {
            agent: agent.to_owned(),
            event,
            number,
            what,
        };
        self.points.lock().unwrap_or_else(PoisonError::into_inner).push(point);
        let fault = self.plan.at(agent, event, number)?;
        if fault.crashes() {
            // Nobody listens at the end of a run.
            let _ = self.crashes.send(agent.to_owned());
        }
        Some(fault)
    }
}

impl Faults for Injector {
    fn request(&self, request: &Request) -> Option<RequestFault> {
        let what = describe(request);
        self.seen(&request.agent, false, request.number, what)?.of_request()
    }

    fn event(&self, delivery: &Delivery) -> Option<EventFault> {
        let what = format!("{} {}", delivery.event, delivery.resource.plural);
        self.seen(&delivery.agent, true, delivery.number, what)?.of_event()
    }
}

fn describe(request: &Request) -> String {
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
