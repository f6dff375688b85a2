//! The watches of a session.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use tokio::task::AbortHandle;

use super::session::Session;
use super::streams::TriggerStream;
use crate::check::{ParametersKind, Start, WatchSource};
use crate::runtime::connection::instrumented;
use crate::runtime::core::Controller;
use crate::runtime::informers::{
    self, CheckSource, FlavorSource, Noticed, ParametersSource, Source, TriggerSource,
    WorkloadSource,
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
        let mut names = BTreeSet::new();
        for source in self.core.controllers[check].check.watches() {
            let name = format!("{controller}/{}", unique_name(&source, &mut names));
            match source.start {
                Start::Objects { open, .. } => {
                    self.spawn(&name, |client| TriggerSource {
                        client,
                        start: open(),
                        check,
                    });
                }
                Start::Stream(open) => {
                    let called = format!("the stream {name}");
                    let stream = TriggerStream {
                        name,
                        check,
                        open,
                        metrics: Arc::clone(&self.metrics),
                        seed: self.settings.seed,
                        to: self.incoming.0.clone(),
                    };
                    self.spawn_named(called, stream.forward());
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
/// Returns a name that no other watch of the check has, as each has a health of its own: with the
/// group of its resource, or with a number, if there are others of that name.
fn unique_name(source: &WatchSource, names: &mut BTreeSet<String>) -> String {
    let group = match &source.start {
        Start::Objects { permission, .. } => permission.api_groups.iter().flatten().next(),
        Start::Stream(_) => None,
    };
    let with_group = group
        .filter(|group| !group.is_empty())
        .map(|group| format!("{}.{group}", source.name));
    let numbered = (2..).map(|number| format!("{}-{number}", source.name));
    let mut all = [Some(source.name.clone()), with_group]
        .into_iter()
        .flatten()
        .chain(numbered);
    let name = all.find(|name| !names.contains(name)).unwrap_or_default();
    names.insert(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::api::storage::v1::StorageClass;
    use kube::runtime::watcher::Config;

    use super::*;
    use crate::check::Trigger;

    #[test]
    fn each_watch_of_a_check_has_a_name_of_its_own() {
        let core = || WatchSource::objects::<ConfigMap>(Config::default(), |_| Trigger::Ignore);
        let classes =
            || WatchSource::objects::<StorageClass>(Config::default(), |_| Trigger::Ignore);
        let mut names = BTreeSet::new();
        let named = [core(), core(), classes(), classes(), classes()]
            .map(|source| unique_name(&source, &mut names));
        assert_eq!(
            named,
            [
                "configmaps",
                "configmaps-2",
                "storageclasses",
                "storageclasses.storage.k8s.io",
                "storageclasses-2"
            ]
        );
    }
}
