//! The watches of a session.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use kube::Client;
use tokio::task::AbortHandle;

use super::session::Session;
use crate::check::{ParametersKind, Start, Trigger};
use crate::runtime::connection::instrumented;
use crate::runtime::core::Controller;
use crate::runtime::informers::{
    self, CheckSource, FlavorSource, InformerEvent, Noticed, ParametersSource, Source,
    TriggerSource, WorkloadSource,
};

impl Session {
    pub(super) fn start_watches(&mut self) {
        self.start_kueue_watches();
        let kinds: Vec<ParametersKind> = self.core.parameter_kinds().cloned().collect();
        for (number, kind) in kinds.into_iter().enumerate() {
            self.spawn(&format!("{}.{}", kind.plural, kind.group), |client| {
                ParametersSource {
                    client,
                    kind,
                    number,
                }
            });
        }
        for number in 0..self.core.controllers.len() {
            self.start_author_watches(number);
            self.start_background(number);
        }
    }

    /// Starts the watches of Kueue's objects, in the served version.
    fn start_kueue_watches(&mut self) {
        let served = self.core.served;
        let version = served.version;
        let noticed = Arc::new(Noticed::default());
        let discovery = informers::watch_served_api(
            instrumented(&self.client, &self.metrics, None),
            self.health.clone(),
            self.settings.seed,
            served,
            Arc::clone(&noticed),
            self.incoming.0.clone(),
        );
        self.watches.noticed = Arc::clone(&noticed);
        let of_kueue = [
            self.spawn("admissionchecks", |client| CheckSource {
                client,
                version,
                noticed,
            }),
            self.spawn("resourceflavors", |client| FlavorSource { client, version }),
            self.spawn_named("the discovery of Kueue's API".to_owned(), discovery),
        ];
        self.watches.of_kueue.extend(of_kueue);
        self.start_workload_watch();
    }

    pub(super) fn restart_kueue_watches(&mut self) {
        for watch in self.watches.of_kueue.drain(..) {
            watch.abort();
        }
        self.start_kueue_watches();
    }

    fn annotations(&self) -> BTreeSet<String> {
        let controllers = self.core.controllers.iter();
        controllers
            .flat_map(|controller| controller.check.annotations())
            .collect()
    }

    /// Starts the watch of Workloads with a new list.
    pub(super) fn start_workload_watch(&mut self) {
        for watch in self.watches.workloads.drain(..) {
            watch.abort();
        }
        self.watches.term += 1;
        let (served, term) = (self.core.served, self.watches.term);
        let (metrics, noticed) = (Arc::clone(&self.metrics), Arc::clone(&self.watches.noticed));
        let annotations = self.annotations();
        let compare = informers::compare(
            instrumented(&self.client, &self.metrics, None),
            served,
            annotations.clone(),
            term,
            self.incoming.0.clone(),
        );
        let watches = [
            self.spawn("workloads", |client| {
                WorkloadSource::new(client, served, term, annotations, metrics, noticed)
            }),
            self.spawn_named("the comparison of Workloads".to_owned(), compare),
        ];
        self.watches.workloads.extend(watches);
    }

    /// Scans the Workloads without quota for evicted growths and for stale verdicts. Those could
    /// not be withdrawn because the leader or the AdmissionCheck was gone (rule 15). Restarts a
    /// scan in progress.
    pub(super) fn scan_without_quota(&mut self) {
        if let Some(scan) = self.watches.scan.take() {
            scan.abort();
        }
        let client = instrumented(&self.client, &self.metrics, None);
        let scan = informers::scan_without_quota(
            client,
            self.core.served,
            self.watches.term,
            self.settings.seed,
            self.incoming.0.clone(),
        );
        self.watches.scan =
            Some(self.spawn_named("the scan of Workloads without quota".to_owned(), scan));
    }

    fn start_author_watches(&mut self, check: usize) {
        let controller = Controller::label(&self.core.controllers, check);
        for source in self.core.controllers[check].check.watches() {
            let name = format!("{controller}/{}", source.name);
            match source.start {
                Start::Objects { begin, .. } => {
                    self.spawn(&name, |client| TriggerSource {
                        client,
                        start: begin,
                        check,
                    });
                }
                Start::Stream(open) => {
                    let mut triggers = open();
                    let to = self.incoming.0.clone();
                    let called = format!("the stream {name}");
                    self.spawn_named(called, async move {
                        while let Some(trigger) = triggers.next().await {
                            if trigger != Trigger::Ignore
                                && to
                                    .send(InformerEvent::Trigger { check, trigger })
                                    .await
                                    .is_err()
                            {
                                return;
                            }
                        }
                        tracing::info!(stream = name, "a stream of triggers has ended");
                    });
                }
            }
        }
    }

    fn spawn<S: Source + 'static>(
        &mut self,
        name: &str,
        source: impl FnOnce(Client) -> S,
    ) -> AbortHandle {
        let health = self.health.watch(name);
        let client = instrumented(&self.client, &self.metrics, Some(health.clone()));
        let watch = informers::watch(
            source(client),
            health,
            Arc::clone(&self.metrics),
            self.settings.seed,
            self.incoming.0.clone(),
        );
        self.spawn_named(format!("the watch of {name}"), watch)
    }

    /// Runs `work` apart from the loop, under the name `called`. Its panic ends the session.
    pub(super) fn spawn_named(
        &mut self,
        called: String,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let handle = self.watches.running.spawn(work);
        self.watches.names.insert(handle.id(), called);
        handle
    }
}
