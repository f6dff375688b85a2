//! Watches of a check on other objects, which trigger evaluations.

use std::fmt;
use std::sync::Arc;

use futures::stream::{BoxStream, Stream, StreamExt};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::api::Uid;

/// A trigger: which Workloads to evaluate again.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kueue_check::{Trigger, api::Uid};
///
/// // An object that the check has created for a Workload triggers that Workload.
/// let progress: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "progress", "ownerReferences": [
///     {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "train", "uid": "7"},
/// ]}}))?;
/// assert_eq!(Trigger::owner_of(&progress), Trigger::Uid(Uid::new("7")));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// One, by name.
    Workload {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// One, by `metadata.uid`: what an owner reference has.
    Uid(Uid),
    /// All of one job, by the key of their [`Family`](super::Family).
    Family(Uid),
    /// All that wait for this AdmissionCheck, or are admitted and monitored by it. The
    /// [message](super::Check::active_message) of its condition `Active` is made again, too.
    AdmissionCheck(String),
    /// All, and the messages of the conditions `Active` as above.
    AllWorkloads,
    /// None, but
    /// [`unreleased_reservations`](super::AdmissionCheckController::unreleased_reservations) is
    /// called again: resources may remain.
    UnreleasedReservations,
    /// None.
    Ignore,
}

impl Trigger {
    /// Returns a trigger of the Workload that owns `object` (by an owner reference of kind
    /// Workload); else [`Ignore`](Self::Ignore).
    pub fn owner_of<K: Resource>(object: &K) -> Self {
        let owners = object
            .meta()
            .owner_references
            .as_deref()
            .unwrap_or_default();
        let owner = owners.iter().find(|owner| {
            owner.kind == "Workload" && owner.api_version.starts_with("kueue.x-k8s.io/")
        });
        owner.map_or(Self::Ignore, |owner| Self::Uid(Uid::new(&owner.uid)))
    }
}

/// A source of triggers of one check.
#[derive(Clone)]
pub(crate) struct WatchSource {
    /// For diagnostics.
    pub(crate) name: String,
    pub(crate) start: Start,
}

/// Starts a watch.
type StartWatch = Arc<
    dyn Fn(Client) -> BoxStream<'static, watcher::Result<watcher::Event<Trigger>>> + Send + Sync,
>;

#[derive(Clone)]
pub(crate) enum Start {
    /// Objects in the cluster. `begin` is called each time that the watch restarts.
    Objects {
        permission: Box<PolicyRule>,
        begin: StartWatch,
    },
    /// A stream of the check author's, opened for each session.
    Stream(Arc<dyn Fn() -> BoxStream<'static, Trigger> + Send + Sync>),
}

impl WatchSource {
    /// Watches objects, each of which is mapped to a trigger when it changes.
    pub(crate) fn objects<K>(
        config: watcher::Config,
        trigger: impl Fn(&K) -> Trigger + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let trigger = Arc::new(trigger);
        Self::watch(
            &ApiResource::erase::<K>(&()),
            Arc::new(move |client| {
                let trigger = Arc::clone(&trigger);
                watcher(Api::<K>::all(client), config.clone())
                    .map(move |event| event.map(|event| triggers(event, &*trigger)))
                    .boxed()
            }),
        )
    }

    /// Watches objects, with all events.
    pub(crate) fn events<K>(
        config: watcher::Config,
        handle: impl Fn(watcher::Event<K>) -> Trigger + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let open = |client| Api::<K>::all(client);
        Self::all_events(&ApiResource::erase::<K>(&()), open, config, handle)
    }

    /// Watches a resource that is chosen at run time, with all events.
    pub(crate) fn resource(
        resource: ApiResource,
        config: watcher::Config,
        handle: impl Fn(watcher::Event<DynamicObject>) -> Trigger + Send + Sync + 'static,
    ) -> Self {
        let watched = resource.clone();
        let open = move |client| Api::<DynamicObject>::all_with(client, &resource);
        Self::all_events(&watched, open, config, handle)
    }

    fn all_events<K>(
        resource: &ApiResource,
        open: impl Fn(Client) -> Api<K> + Send + Sync + 'static,
        config: watcher::Config,
        handle: impl Fn(watcher::Event<K>) -> Trigger + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let handle = Arc::new(handle);
        let begin = move |client| {
            let handle = Arc::clone(&handle);
            watcher(open(client), config.clone())
                .flat_map(move |event| futures::stream::iter(taken(event, &*handle)))
                .boxed()
        };
        Self::watch(resource, Arc::new(begin))
    }

    pub(crate) fn stream<S: Stream<Item = Trigger> + Send + 'static>(
        name: impl Into<String>,
        open: impl Fn() -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            start: Start::Stream(Arc::new(move || open().boxed())),
        }
    }

    fn watch(resource: &ApiResource, begin: StartWatch) -> Self {
        let permission = PolicyRule {
            api_groups: Some(vec![resource.group.clone()]),
            resources: Some(vec![resource.plural.clone()]),
            verbs: vec!["list".into(), "watch".into()],
            ..PolicyRule::default()
        };
        Self {
            name: resource.plural.clone(),
            start: Start::Objects {
                permission: Box::new(permission),
                begin,
            },
        }
    }
}

fn triggers<K>(
    event: watcher::Event<K>,
    trigger: &(dyn Fn(&K) -> Trigger + Send + Sync),
) -> watcher::Event<Trigger> {
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(trigger(&object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(trigger(&object)),
        watcher::Event::InitApply(object) => watcher::Event::InitApply(trigger(&object)),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}

/// Maps the objects of events with `take`, and keeps the kinds of events for the watch's health.
/// Removed objects are determined when a list ends.
fn taken<K>(
    event: watcher::Result<watcher::Event<K>>,
    take: &(dyn Fn(watcher::Event<K>) -> Trigger + Send + Sync),
) -> Vec<watcher::Result<watcher::Event<Trigger>>> {
    use watcher::Event;
    match event {
        Err(error) => vec![Err(error)],
        Ok(Event::Init) => {
            take(Event::Init);
            vec![Ok(Event::Init)]
        }
        Ok(Event::InitDone) => vec![Ok(Event::InitDone), Ok(Event::Apply(take(Event::InitDone)))],
        Ok(event @ Event::InitApply(_)) => vec![Ok(Event::InitApply(take(event)))],
        Ok(event @ Event::Apply(_)) => vec![Ok(Event::Apply(take(event)))],
        Ok(event @ Event::Delete(_)) => vec![Ok(Event::Delete(take(event)))],
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_check_that_keeps_what_it_sees_is_given_every_event() {
        use std::sync::Mutex;

        use watcher::Event;

        let seen: Mutex<Vec<&str>> = Mutex::default();
        let take = |event: Event<ConfigMap>| {
            seen.lock().unwrap().push(match event {
                Event::Init => "init",
                Event::InitApply(_) => "listed",
                Event::InitDone => "done",
                Event::Apply(_) => "applied",
                Event::Delete(_) => "deleted",
            });
            Trigger::AllWorkloads
        };
        let object = ConfigMap::default;
        let kept = [
            Event::Init,
            Event::InitApply(object()),
            Event::InitDone,
            Event::Apply(object()),
            Event::Delete(object()),
        ]
        .map(|event| taken(Ok(event), &take));
        let triggers = kept.iter().flatten().flatten().filter(|event| {
            matches!(
                event,
                Event::InitApply(Trigger::AllWorkloads)
                    | Event::Apply(Trigger::AllWorkloads)
                    | Event::Delete(Trigger::AllWorkloads)
            )
        });
        assert_eq!(triggers.count(), 4, "the end of a list is one too");
        assert_eq!(
            *seen.lock().unwrap(),
            ["init", "listed", "done", "applied", "deleted"]
        );
        let watch =
            WatchSource::events::<ConfigMap>(watcher::Config::default(), |_| Trigger::Ignore);
        let Start::Objects { permission, .. } = &watch.start else {
            panic!("a watch of objects");
        };
        assert_eq!(permission.verbs, ["list", "watch"]);
    }

    #[test]
    fn an_owner_reference_leads_to_the_workload() {
        let object = |owner: serde_json::Value| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"name": "x", "ownerReferences": [owner]}}))
                .unwrap()
        };
        let owned = object(
            json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "name": "w", "uid": "u-1"}),
        );
        assert_eq!(Trigger::owner_of(&owned), Trigger::Uid(Uid::new("u-1")));
        let other = object(
            json!({"apiVersion": "example.com/v1", "kind": "Workload", "name": "w", "uid": "u-1"}),
        );
        assert_eq!(Trigger::owner_of(&other), Trigger::Ignore);
    }
}
