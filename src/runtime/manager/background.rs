//! The host of background work: a fenced client, watches with health, events.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio::time::Instant;

use super::session::Session;
use crate::check::{
    BackgroundContext, BackgroundHost, CheckEvent, WatchProgress, WatchStep, fenced,
};
use crate::runtime::connection::instrumented;
use crate::runtime::core::Controller;
use crate::runtime::events::{EventRecord, Recorder, Regarding};
use crate::runtime::health::{Health, WatchHealth};
use crate::runtime::informers::{WatchMonitor, is_expired_at_start};
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::Metrics;

/// The host of one check's background work.
struct Host {
    controller: String,
    client: Client,
    leadership: watch::Receiver<Leadership>,
    metrics: Arc<Metrics>,
    health: Health,
    seed: u64,
    recorder: Recorder,
}

impl Session {
    pub(super) fn start_background(&mut self, check: usize) {
        let controller = Controller::label(&self.core.controllers, check);
        let called = format!("the background work of {controller}");
        let check = self.core.controllers[check].check.clone();
        let host = Host {
            controller,
            client: self.client.clone(),
            leadership: self.leadership.clone(),
            metrics: Arc::clone(&self.metrics),
            health: self.health.clone(),
            seed: self.settings.seed,
            recorder: self.recorder.clone(),
        };
        let (client, clock) = (host.client(None), self.settings.clock.clone());
        let leads = self.leads.subscribe();
        let context = BackgroundContext::hosted(client, clock, leads, Arc::new(host));
        self.spawn_named(called, async move { check.background(context).await });
    }
}

impl Host {
    /// Returns a client that writes only while the Lease is valid: the session observes a lapse
    /// later.
    fn client(&self, health: Option<WatchHealth>) -> Client {
        let client = instrumented(&self.client, &self.metrics, health);
        let leadership = self.leadership.clone();
        fenced(&client, move || {
            leadership.borrow().may_write(Instant::now())
        })
    }
}

impl BackgroundHost for Host {
    fn watch(&self, name: &str) -> (Client, Box<dyn WatchProgress>) {
        let health = self.health.watch(&format!("{}/{name}", self.controller));
        let client = self.client(Some(health.clone()));
        let monitor = WatchMonitor::new(health, Arc::clone(&self.metrics), self.seed);
        (client, Box::new(MonitoredWatch(monitor)))
    }

    fn record_event(&self, regarding: ObjectReference, event: CheckEvent) {
        let regarding = Regarding::from(regarding);
        self.recorder.publish(EventRecord { regarding, event });
    }
}

/// A watch that is reported in health and metrics until it is dropped.
struct MonitoredWatch(WatchMonitor);

impl WatchProgress for MonitoredWatch {
    fn progressed(&mut self, step: WatchStep) {
        self.0.progressed(step);
    }

    fn failed(&mut self, error: &watcher::Error) -> (Duration, bool) {
        let (_, pause) = self.0.failed(error);
        (pause, is_expired_at_start(error))
    }
}

impl Drop for MonitoredWatch {
    fn drop(&mut self) {
        self.0.end();
    }
}
