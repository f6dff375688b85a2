//! Sources of watch events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client};

use super::{Failure, InformerEvent, Noticed, Source, WatchRecovery};
use crate::api::{
    AdmissionCheck, AdmissionCheckObject, ApiVersion, Projection, ResourceFlavor,
    ResourceFlavorObject, ServedApi, Workload, WorkloadObject, served_versions,
};
use crate::check::{ParametersKind, Trigger};
use crate::runtime::metrics::Metrics;

type Events<T> = BoxStream<'static, watcher::Result<Event<T>>>;

/// Objects in one page. A page is decoded at once, so this bounds the memory of a first list.
pub(super) const PAGE: u32 = 50;
/// Duration of a watch of Workloads. A connection that died silently is detected after that time,
/// at the cost of one request per minute.
const WORKLOAD_WATCH_SECONDS: u32 = 60;
/// Selects Workloads with quota, and no others: a missing value selects as the empty string.
pub(super) const HOLDS_QUOTA: &str = "status.admission.clusterQueue!=";

fn map<A, B>(event: Event<A>, mut to: impl FnMut(A) -> B) -> Event<B> {
    match event {
        Event::Apply(object) => Event::Apply(to(object)),
        Event::Delete(object) => Event::Delete(to(object)),
        Event::InitApply(object) => Event::InitApply(to(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

/// Handles a failure. After a 404, discovery determines which version is served now.
fn api_changed(failure: &Failure, noticed: &Noticed) -> (Option<InformerEvent>, WatchRecovery) {
    if failure.code == 404 {
        noticed.not_served.notify_one();
    }
    (None, WatchRecovery::Resume)
}

/// All AdmissionChecks: their controllers can change.
pub(crate) struct CheckSource {
    pub(crate) client: Client,
    pub(crate) version: ApiVersion,
    pub(crate) noticed: Arc<Noticed>,
}

impl Source for CheckSource {
    type Item = AdmissionCheckObject;

    async fn start(&mut self) -> kube::Result<Events<AdmissionCheckObject>> {
        let api = Api::all_with(self.client.clone(), &self.version);
        Ok(watcher(api, Config::default().page_size(PAGE)).boxed())
    }

    fn incoming(&mut self, event: Event<AdmissionCheckObject>) -> Option<InformerEvent> {
        Some(InformerEvent::Checks(map(event, AdmissionCheck::from)))
    }

    fn failed(&mut self, failure: &Failure) -> (Option<InformerEvent>, WatchRecovery) {
        api_changed(failure, &self.noticed)
    }
}

/// ResourceFlavors: pod set updates must not contradict their node labels.
pub(crate) struct FlavorSource {
    pub(crate) client: Client,
    pub(crate) version: ApiVersion,
}

impl Source for FlavorSource {
    type Item = ResourceFlavorObject;

    async fn start(&mut self) -> kube::Result<Events<ResourceFlavorObject>> {
        let api = Api::all_with(self.client.clone(), &self.version);
        Ok(watcher(api, Config::default().page_size(PAGE)).boxed())
    }

    fn incoming(&mut self, event: Event<ResourceFlavorObject>) -> Option<InformerEvent> {
        Some(InformerEvent::Flavors(map(event, ResourceFlavor::from)))
    }
}

/// Workloads: those that hold quota, if the API server can select them.
pub(crate) struct WorkloadSource {
    client: Client,
    version: ApiVersion,
    selected: bool,
    term: u64,
    projection: Projection,
    metrics: Arc<Metrics>,
    noticed: Arc<Noticed>,
}

impl WorkloadSource {
    /// Keeps `annotations` of each Workload. `term` marks the events.
    pub(crate) fn new(
        client: Client,
        served: ServedApi,
        term: u64,
        annotations: BTreeSet<String>,
        metrics: Arc<Metrics>,
        noticed: Arc<Noticed>,
    ) -> Self {
        let projection = Projection::new(annotations);
        Self {
            client,
            version: served.version,
            selected: served.selects_reserved,
            term,
            projection,
            metrics,
            noticed,
        }
    }
}

impl Source for WorkloadSource {
    type Item = WorkloadObject;

    async fn start(&mut self) -> kube::Result<Events<WorkloadObject>> {
        let api = Api::all_with(self.client.clone(), &self.version);
        let config = Config::default()
            .page_size(PAGE)
            .timeout(WORKLOAD_WATCH_SECONDS);
        let config = if self.selected {
            config.fields(HOLDS_QUOTA)
        } else {
            config
        };
        Ok(watcher(api, config).boxed())
    }

    fn incoming(&mut self, event: Event<WorkloadObject>) -> Option<InformerEvent> {
        let event = map(event, |object| {
            if object.malformed_fields > 0 {
                self.metrics.malformed_objects.inc();
            }
            let odd_fields = object.malformed_fields;
            let workload = self.projection.project(object);
            self.noticed.version(workload.resource_version());
            if odd_fields > 0 {
                tracing::warn!(%workload, odd_fields, "a Workload has fields of a shape that Kueue does not document; they count as absent");
            }
            workload
        });
        self.wanted(&event).then_some(InformerEvent::Workloads {
            event,
            selected: self.selected,
            term: self.term,
        })
    }

    /// Workloads are compared with a separate list: a new list here would miss the events in
    /// between.
    fn resyncs(&self) -> bool {
        false
    }

    fn failed(&mut self, failure: &Failure) -> (Option<InformerEvent>, WatchRecovery) {
        if self.selected && failure.code == 400 {
            tracing::info!(
                "the API server does not select Workloads by their ClusterQueue; all are watched"
            );
            self.selected = false;
            return (None, WatchRecovery::Relist);
        }
        api_changed(failure, &self.noticed)
    }
}

impl WorkloadSource {
    /// Returns true if `event` is passed on. Listed Workloads without quota that the API server did
    /// not exclude are excluded here, as early as possible: the manager would only remove them. A
    /// change is always passed on, because the manager must receive a loss of quota once.
    fn wanted(&self, event: &Event<Workload>) -> bool {
        self.selected || !matches!(event, Event::InitApply(workload) if !workload.holds_quota())
    }
}

/// A parameters object as it is stored, to be decoded by the check that refers to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredParameters {
    pub(crate) name: String,
    pub(crate) revision: Revision,
    pub(crate) generation: i64,
    pub(crate) object: serde_json::Value,
}

/// The fields that distinguish two states of a parameters object. The status is not one of them:
/// controllers write it, among them the check itself, and each such write would evaluate every
/// Workload again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revision {
    uid: Option<String>,
    /// The generation, which grows with the spec; the version for a kind without generations.
    number: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Revision {
    fn of(metadata: &ObjectMeta) -> Self {
        let generation = metadata.generation.map(|generation| generation.to_string());
        Self {
            uid: metadata.uid.clone(),
            number: generation.or_else(|| metadata.resource_version.clone()),
            labels: metadata.labels.clone(),
            annotations: metadata.annotations.clone(),
        }
    }
}

impl From<DynamicObject> for StoredParameters {
    fn from(mut object: DynamicObject) -> Self {
        object.metadata.managed_fields = None;
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            revision: Revision::of(&object.metadata),
            generation: object.metadata.generation.unwrap_or_default(),
            object: serde_json::to_value(object).unwrap_or_default(),
        }
    }
}

/// Parameters of one kind, in the best version that is served.
pub(crate) struct ParametersSource {
    pub(crate) client: Client,
    pub(crate) kind: ParametersKind,
    pub(crate) number: usize,
}

/// Returns the resource of `kind`, in the best served version. Sends a request only if there is a
/// choice.
pub(crate) async fn parameters_resource(
    client: &Client,
    kind: &ParametersKind,
) -> kube::Result<ApiResource> {
    let version = served_version(client, kind).await?;
    let ParametersKind {
        group,
        kind,
        plural,
        ..
    } = kind;
    Ok(ApiResource {
        group: group.clone(),
        api_version: format!("{group}/{version}"),
        version,
        kind: kind.clone(),
        plural: plural.clone(),
    })
}

async fn served_version(client: &Client, kind: &ParametersKind) -> kube::Result<String> {
    let first = kind.versions.first().cloned().unwrap_or_default();
    if kind.versions.len() < 2 {
        return Ok(first);
    }
    let served = served_versions(client, &kind.group).await?;
    let mut known = kind.versions.iter();
    let found = known.find(|known| served.contains(known));
    Ok(found.cloned().unwrap_or(first))
}

impl Source for ParametersSource {
    type Item = DynamicObject;

    async fn start(&mut self) -> kube::Result<Events<DynamicObject>> {
        let resource = parameters_resource(&self.client, &self.kind).await?;
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        Ok(watcher(api, Config::default().page_size(PAGE)).boxed())
    }

    fn incoming(&mut self, event: Event<DynamicObject>) -> Option<InformerEvent> {
        Some(InformerEvent::Parameters {
            kind: self.number,
            event: map(event, StoredParameters::from),
        })
    }

    fn failed(&mut self, failure: &Failure) -> (Option<InformerEvent>, WatchRecovery) {
        // Other failures are temporary, and independent of the objects. After these two, the list
        // starts again, so that their end is detected. If only the watch is forbidden, the lists
        // show what there is.
        if matches!(failure.code, 403 | 404) {
            if !failure.lists {
                return (None, WatchRecovery::Relist);
            }
            let incoming = InformerEvent::ParametersFailed {
                kind: self.number,
                failure: failure.clone(),
            };
            return (Some(incoming), WatchRecovery::Relist);
        }
        (None, WatchRecovery::Resume)
    }
}

/// Other objects, whose changes trigger evaluations. A repeated list triggers those of the objects
/// that have changed.
pub(crate) struct TriggerSource {
    pub(crate) client: Client,
    pub(crate) start: Arc<dyn Fn(Client) -> Events<Trigger> + Send + Sync>,
    pub(crate) check: usize,
}

impl Source for TriggerSource {
    type Item = Trigger;

    async fn start(&mut self) -> kube::Result<Events<Trigger>> {
        Ok((self.start)(self.client.clone()))
    }

    fn incoming(&mut self, event: Event<Trigger>) -> Option<InformerEvent> {
        let trigger = match event {
            Event::Apply(trigger) | Event::Delete(trigger) | Event::InitApply(trigger) => trigger,
            Event::Init | Event::InitDone => return None,
        };
        (trigger != Trigger::Ignore).then_some(InformerEvent::Trigger {
            check: self.check,
            trigger,
        })
    }
}
