//! A real API server with a real Kueue, and watches of its objects.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use kueue_check_testenv::{Cluster, Kueue, KueueOptions, StartError};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};

use crate::lateness::Lateness;
use crate::request::{ObservedChange, Request, RequestError, Response, send};

/// The recorders of histories, by mark.
type Listeners = Arc<Mutex<BTreeMap<String, UnboundedSender<ObservedChange>>>>;

/// A real API server with a real Kueue.
pub(crate) struct Stage {
    client: Client,
    listeners: Listeners,
    marks: AtomicU32,
    lateness: Lateness,
    kueue: Kueue,
    release: String,
    settings: Option<Value>,
    _cluster: Cluster,
}

/// An error of the servers, or of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StageError {
    /// The servers did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Kueue does not serve its webhooks.
    #[error("the webhooks of Kueue do not respond after {WEBHOOKS:?}; the end of its log:\n{0}")]
    Webhooks(String),
}

const WEBHOOKS: Duration = Duration::from_secs(60);

impl Stage {
    /// Starts both, and waits until Kueue's webhooks respond. Of `options`, the release is
    /// required, and the webhooks are replaced.
    pub(crate) async fn start(options: KueueOptions<'_>) -> Result<Self, StageError> {
        let cluster = Cluster::start().await?;
        let options = KueueOptions {
            webhooks: &["kueue.x-k8s.io", "batch", ""],
            ..options
        };
        let kueue = Kueue::start_with(&cluster, options).await?;
        let client = cluster.client()?;
        let listeners = Listeners::default();
        let kinds = [
            ("kueue.x-k8s.io", "v1beta2", "Workload"),
            ("kueue.x-k8s.io", "v1beta2", "AdmissionCheck"),
            ("kueue.x-k8s.io", "v1beta2", "ClusterQueue"),
            ("batch", "v1", "Job"),
            ("", "v1", "Pod"),
            ("events.k8s.io", "v1", "Event"),
        ];
        for (group, version, kind) in kinds {
            let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
            let resource = ApiResource::from_gvk(&gvk);
            let api = Api::all_with(client.clone(), &resource);
            tokio::spawn(watch(api, kind, Arc::clone(&listeners)));
        }
        let stage = Self {
            client,
            listeners,
            marks: AtomicU32::new(1),
            lateness: Lateness::default(),
            kueue,
            release: options.release.unwrap_or_default().to_owned(),
            settings: options.settings.cloned(),
            _cluster: cluster,
        };
        stage.webhooks().await?;
        let (mark, changes) = stage.listen();
        let lateness = stage.lateness.clone();
        tokio::spawn(lateness.measure(stage.client(), mark, changes));
        Ok(stage)
    }

    async fn webhooks(&self) -> Result<(), StageError> {
        let began = Instant::now();
        let flavor = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
            "metadata": {"name": "webhooks-are-served"}, "spec": {},
        });
        let path = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors".to_owned();
        let request = Request::create(path, flavor);
        loop {
            let response = self.send(&request).await?;
            if response.code < 300 {
                return Ok(());
            }
            if began.elapsed() > WEBHOOKS {
                let log = self.log();
                let last: Vec<&str> = log.lines().rev().take(15).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                return Err(StageError::Webhooks(last.join("\n")));
            }
            sleep(Duration::from_millis(300)).await;
        }
    }

    /// Returns a unique mark, and the changes of objects with the mark in their name or namespace.
    pub(crate) fn listen(&self) -> (String, UnboundedReceiver<ObservedChange>) {
        let number = self.marks.fetch_add(1, Ordering::Relaxed);
        let mark = format!("-z{number:05}z");
        let (sender, receiver) = unbounded_channel();
        let mut listeners = self.listeners.lock();
        let listeners = listeners.as_mut().unwrap_or_else(|e| e.get_mut());
        listeners.insert(mark.clone(), sender);
        (mark, receiver)
    }

    /// Returns the log of Kueue.
    pub(crate) fn log(&self) -> String {
        self.kueue.log()
    }

    /// Returns the release of Kueue, such as `0.19.2`.
    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    /// Returns the settings of Kueue that are not the default.
    pub(crate) fn settings(&self) -> Option<&Value> {
        self.settings.as_ref()
    }

    /// Returns a client of the API server.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns how late Kueue acts.
    pub(crate) fn lateness(&self) -> Duration {
        self.lateness.get()
    }

    /// Sends a request unchanged.
    pub(crate) async fn send(&self, request: &Request) -> Result<Response, RequestError> {
        send(&self.client, request).await
    }
}

async fn watch(api: Api<DynamicObject>, kind: &'static str, listeners: Listeners) {
    let mut events = watcher(api, watcher::Config::default()).boxed();
    loop {
        let (object, deleted) = match events.try_next().await {
            Ok(Some(Event::Apply(object) | Event::InitApply(object))) => (object, false),
            Ok(Some(Event::Delete(object))) => (object, true),
            Ok(Some(_)) => continue,
            Ok(None) => return,
            Err(_) => {
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let metadata = &object.metadata;
        let namespace = metadata.namespace.as_deref().and_then(mark_in);
        let Some(mark) = namespace.or_else(|| metadata.name.as_deref().and_then(mark_in)) else {
            continue;
        };
        let mut listeners = listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listener) = listeners.get(mark) else {
            continue;
        };
        let seen = ObservedChange {
            at: Instant::now(),
            object: Arc::new(json!(object)),
            kind,
            deleted,
        };
        if listener.send(seen).is_err() {
            listeners.remove(mark);
        }
    }
}

/// Returns the mark in a name.
fn mark_in(name: &str) -> Option<&str> {
    const LENGTH: usize = "-z00000z".len();
    let begins = name.match_indices("-z").map(|(at, _)| at);
    begins.into_iter().find_map(|at| {
        let mark = name.get(at..at + LENGTH)?;
        let digits = mark.strip_prefix("-z")?.strip_suffix('z')?;
        digits.bytes().all(|b| b.is_ascii_digit()).then_some(mark)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_found_in_names() {
        assert_eq!(mark_in("job-w1-z00012z-3fa1c"), Some("-z00012z"));
        assert_eq!(mark_in("cq-z00012z.18a"), Some("-z00012z"));
        assert_eq!(mark_in("t-zoo"), None);
    }
}
