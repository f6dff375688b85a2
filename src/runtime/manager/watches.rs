//! What a session watches.

use std::sync::Arc;

use futures::StreamExt;
use kube::Client;
use tokio::task::AbortHandle;

use super::session::Session;
use crate::api::Served;
use crate::check::{Background, Check, Start, Wake};
use crate::runtime::connection::guarded;
use crate::runtime::intake::{
    self, CheckSource, FlavorSource, Incoming, ParametersSource, Source, WakeSource, WorkloadSource,
};

impl Session {
    pub(super) fn start_watches(&mut self) {
        let Served { version, .. } = self.served;
        self.spawn("admissionchecks", |client| CheckSource { client, version });
        self.spawn("resourceflavors", |client| FlavorSource { client, version });
        for number in 0..self.shelves.len() {
            let kind = self.shelves[number].0.clone();
            self.spawn(&format!("{}.{}", kind.plural, kind.group), |client| {
                ParametersSource {
                    client,
                    kind,
                    number,
                }
            });
        }
        self.start_workload_watch();
        for number in 0..self.checks.len() {
            self.start_author_watches(number);
            self.start_background(number);
        }
    }

    /// Begins to watch Workloads, from a list that is read now.
    pub(super) fn start_workload_watch(&mut self) {
        if let Some(watch) = self.workload_watch.take() {
            watch.abort();
        }
        self.workload_term += 1;
        self.synced.workloads = false;
        self.listed_workloads = None;
        let annotations = self.checks.iter().flat_map(Check::annotations).collect();
        let (served, metrics, term) = (self.served, Arc::clone(&self.metrics), self.workload_term);
        self.workload_watch = Some(self.spawn("workloads", |client| {
            WorkloadSource::new(client, served, term, annotations, metrics)
        }));
    }

    /// Looks for answers that a leader before us could not withdraw any more (rule 15).
    pub(super) fn search_left_behind(&mut self) {
        let client = guarded(&self.client, &self.metrics, None);
        let search = intake::search(
            client,
            self.served,
            self.workload_term,
            self.settings.seed,
            self.incoming.0.clone(),
        );
        self.search = Some(self.beside("the search for what was left behind".to_owned(), search));
    }

    fn start_author_watches(&mut self, check: usize) {
        let controller = self.checks[check].controller_name();
        for source in self.checks[check].watches().0 {
            let name = format!("{controller}/{}", source.name);
            match source.start {
                Start::Objects { begin, .. } => {
                    self.spawn(&name, |client| WakeSource {
                        client,
                        begin,
                        check,
                    });
                }
                Start::Stream(mut wakes) => {
                    let to = self.incoming.0.clone();
                    let called = format!("the stream {name}");
                    self.beside(called, async move {
                        while let Some(wake) = wakes.next().await {
                            if wake != Wake::Nothing
                                && to.send(Incoming::Wake { check, wake }).await.is_err()
                            {
                                return;
                            }
                        }
                        tracing::info!(stream = name, "a stream of wake-ups has ended");
                    });
                }
            }
        }
    }

    fn start_background(&mut self, check: usize) {
        let client = guarded(&self.client, &self.metrics, None);
        let clock = self.settings.clock.clone();
        let context = Background::new(client, clock, self.told_acting.subscribe());
        let check = self.checks[check].clone();
        let called = format!("the background work of {}", check.controller_name());
        self.beside(called, async move { check.background(context).await });
    }

    fn spawn<S: Source + 'static>(
        &mut self,
        name: &str,
        source: impl FnOnce(Client) -> S,
    ) -> AbortHandle {
        let health = self.health.watch(name);
        let client = guarded(&self.client, &self.metrics, Some(health.clone()));
        let watch = intake::watch(
            source(client),
            health,
            Arc::clone(&self.metrics),
            self.settings.seed,
            self.incoming.0.clone(),
        );
        self.beside(format!("the watch of {name}"), watch)
    }

    /// Runs what goes on beside the questions. If it panics, that is said of it by the name `called`, and the session is over.
    fn beside(
        &mut self,
        called: String,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let handle = self.watches.spawn(work);
        self.watch_names.insert(handle.id(), called);
        handle
    }
}
