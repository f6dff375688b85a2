//! Watches of a check on other objects, which trigger evaluations.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{BoxStream, Stream, StreamExt};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::api::{Uid, digest};

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
pub(crate) type StartWatch = Arc<
    dyn Fn(Client) -> BoxStream<'static, watcher::Result<watcher::Event<Trigger>>> + Send + Sync,
>;

#[derive(Clone)]
pub(crate) enum Start {
    /// Objects in the cluster. `open` is called for each controller, and what it returns each time
    /// that the watch restarts.
    Objects {
        permission: Box<PolicyRule>,
        open: Arc<dyn Fn() -> StartWatch + Send + Sync>,
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
        let resource = ApiResource::erase::<K>(&());
        let called = resource.plural.clone();
        let trigger = move |object: &K| caught(&called, &place(object), || trigger(object));
        let trigger = Arc::new(trigger);
        let open = move || -> StartWatch {
            let known = Arc::new(Mutex::new(KnownObjects::default()));
            let (config, trigger) = (config.clone(), Arc::clone(&trigger));
            Arc::new(move |client| {
                let (known, trigger) = (Arc::clone(&known), Arc::clone(&trigger));
                watcher(Api::<K>::all(client), config.clone())
                    .flat_map(move |event| {
                        let events = event.map(|event| {
                            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                            known.triggers(event, &*trigger)
                        });
                        let events = match events {
                            Ok(events) => events.into_iter().map(Ok).collect(),
                            Err(error) => vec![Err(error)],
                        };
                        futures::stream::iter(events)
                    })
                    .boxed()
            })
        };
        Self::watch(&resource, Arc::new(open))
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
        let called = resource.plural.clone();
        let handle = move |event: watcher::Event<K>| {
            let object = match &event {
                watcher::Event::Apply(object)
                | watcher::Event::Delete(object)
                | watcher::Event::InitApply(object) => place(object),
                watcher::Event::Init | watcher::Event::InitDone => Place::default(),
            };
            caught(&called, &object, || handle(event))
        };
        let (handle, opens) = (Arc::new(handle), Arc::new(open));
        let open = move || -> StartWatch {
            let known = Arc::new(Mutex::new(KnownVersions::default()));
            let (config, handle, opens) = (config.clone(), Arc::clone(&handle), Arc::clone(&opens));
            Arc::new(move |client| {
                let (known, handle) = (Arc::clone(&known), Arc::clone(&handle));
                watcher(opens(client), config.clone())
                    .flat_map(move |event| {
                        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                        futures::stream::iter(taken(event, &mut known, &*handle))
                    })
                    .boxed()
            })
        };
        Self::watch(resource, Arc::new(open))
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

    fn watch(resource: &ApiResource, open: Arc<dyn Fn() -> StartWatch + Send + Sync>) -> Self {
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
                open,
            },
        }
    }
}

/// The triggers of the watched objects, by namespace and name. A list that follows an interruption
/// shows what was deleted meanwhile only by its absence. The list is also read again from time to
/// time: what it shows unchanged triggers nothing.
#[derive(Default)]
struct KnownObjects {
    triggers: BTreeMap<Place, KnownObject>,
    lists: u64,
}

/// What is known of an object.
struct KnownObject {
    /// The number of the list that contained it, or that it followed.
    list: u64,
    version: Option<u64>,
    trigger: Trigger,
}

impl KnownObjects {
    fn triggers<K: Resource>(
        &mut self,
        event: watcher::Event<K>,
        trigger: &(dyn Fn(&K) -> Trigger + Send + Sync),
    ) -> Vec<watcher::Event<Trigger>> {
        use watcher::Event;
        let (gone, event) = match event {
            Event::Apply(object) => {
                let new = trigger(&object);
                let known = self.put(&object, &new);
                (other_trigger(known, &new), Event::Apply(new))
            }
            Event::InitApply(object) => {
                let new = trigger(&object);
                let known = self.put(&object, &new);
                let version = version(&object);
                let same = known.as_ref().is_some_and(|known| {
                    version.is_some() && known.version == version && known.trigger == new
                });
                let gone = other_trigger(known, &new);
                let shown = if same { Trigger::Ignore } else { new };
                (gone, Event::InitApply(shown))
            }
            Event::Delete(object) => {
                let last = trigger(&object);
                let known = self.put(&object, &Trigger::Ignore);
                (other_trigger(known, &last), Event::Delete(last))
            }
            Event::Init => {
                self.lists += 1;
                (None, Event::Init)
            }
            Event::InitDone => {
                let latest = self.lists;
                let missing = self
                    .triggers
                    .extract_if(.., |_, known| known.list != latest);
                let missing = missing.map(|(_, known)| Event::Delete(known.trigger));
                return missing.chain([Event::InitDone]).collect();
            }
        };
        let gone = gone.map(Event::Delete);
        gone.into_iter().chain([event]).collect()
    }

    /// Remembers the trigger of an object. Returns what was known before.
    fn put<K: Resource>(&mut self, object: &K, trigger: &Trigger) -> Option<KnownObject> {
        let place = place(object);
        if *trigger == Trigger::Ignore {
            return self.triggers.remove(&place);
        }
        let known = KnownObject {
            list: self.lists,
            version: version(object),
            trigger: trigger.clone(),
        };
        self.triggers.insert(place, known)
    }
}

/// Returns the known trigger, if it is not `trigger`.
fn other_trigger(known: Option<KnownObject>, trigger: &Trigger) -> Option<Trigger> {
    let known = known.map(|known| known.trigger);
    known.filter(|known| known != trigger)
}

/// Returns a digest of the object's version; `None` if the object has none.
fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_ref().map(digest)
}

/// The versions of watched objects whose events all go to the check. It is all that is known of
/// them, as digests, because there may be many.
#[derive(Default)]
struct KnownVersions {
    /// By the digest of namespace and name, with the number of the list that contained the object,
    /// or that it followed.
    versions: BTreeMap<u64, (u64, Option<u64>)>,
    lists: u64,
    /// Whether the last list, or the one in progress, shows what was known before.
    same: bool,
}

impl KnownVersions {
    /// Returns true if `event` shows something new. The end of a list does if the list did.
    fn is_news<K: Resource>(&mut self, event: &watcher::Event<K>) -> bool {
        use watcher::Event;
        match event {
            Event::Apply(object) => {
                self.put(object);
                true
            }
            Event::Delete(object) => {
                self.versions.remove(&digest(&place(object)));
                true
            }
            Event::Init => {
                self.lists += 1;
                true
            }
            Event::InitApply(object) => {
                let version = version(object);
                let known = self.put(object).map(|(_, known)| known);
                let news = version.is_none() || known != Some(version);
                self.same &= !news;
                news
            }
            Event::InitDone => {
                let latest = self.lists;
                let missing = self.versions.extract_if(.., |_, (list, _)| *list != latest);
                let missing = missing.count() > 0;
                !std::mem::replace(&mut self.same, true) || missing
            }
        }
    }

    fn put<K: Resource>(&mut self, object: &K) -> Option<(u64, Option<u64>)> {
        let known = (self.lists, version(object));
        self.versions.insert(digest(&place(object)), known)
    }
}

/// The namespace and the name of an object.
type Place = (String, String);

/// Runs `code` of the check author about the object `at`, or about the list if that is empty. A
/// panic is logged. Which Workloads the object concerns is unknown then, so it triggers all.
fn caught(watch: &str, at: &Place, code: impl FnOnce() -> Trigger) -> Trigger {
    std::panic::catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|_| {
        tracing::error!(
            watch,
            namespace = at.0,
            name = at.1,
            "the check's code panicked at a watched object; all Workloads are evaluated"
        );
        Trigger::AllWorkloads
    })
}

fn place<K: Resource>(object: &K) -> Place {
    let metadata = object.meta();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&metadata.namespace), text(&metadata.name))
}

/// Maps the objects of events with `take`, and keeps the kinds of events for the watch's health.
/// Removed objects are determined when a list ends. What a list shows as it is `known` is taken,
/// and triggers nothing.
fn taken<K: Resource>(
    event: watcher::Result<watcher::Event<K>>,
    known: &mut KnownVersions,
    take: &(dyn Fn(watcher::Event<K>) -> Trigger + Send + Sync),
) -> Vec<watcher::Result<watcher::Event<Trigger>>> {
    use watcher::Event;
    let event = match event {
        Err(error) => return vec![Err(error)],
        Ok(event) => event,
    };
    let is_news = known.is_news(&event);
    let take = |event| match take(event) {
        trigger if is_news => trigger,
        _ => Trigger::Ignore,
    };
    match event {
        Event::Init => {
            take(Event::Init);
            vec![Ok(Event::Init)]
        }
        Event::InitDone => vec![Ok(Event::InitDone), Ok(Event::Apply(take(Event::InitDone)))],
        event @ Event::InitApply(_) => vec![Ok(Event::InitApply(take(event)))],
        event @ Event::Apply(_) => vec![Ok(Event::Apply(take(event)))],
        event @ Event::Delete(_) => vec![Ok(Event::Delete(take(event)))],
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
        .map(|event| taken(Ok(event), &mut KnownVersions::default(), &take));
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

    /// Like the last known states that informers of client-go deliver.
    #[test]
    fn what_a_later_list_lacks_triggers_like_a_deletion() {
        use watcher::Event;

        let object = |name: &str| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"namespace": "n", "name": name}})).unwrap()
        };
        let trigger = |object: &ConfigMap| match object.metadata.name.as_deref() {
            Some("other") | None => Trigger::Ignore,
            Some(name) => Trigger::AdmissionCheck(name.to_owned()),
        };
        let mut known = KnownObjects::default();
        let mut deleted = |event: Event<ConfigMap>| -> Vec<String> {
            let events = known.triggers(event, &trigger);
            let name = |event| match event {
                Event::Delete(Trigger::AdmissionCheck(name)) => Some(name),
                _ => None,
            };
            events.into_iter().filter_map(name).collect()
        };
        for listed in [["a", "b", "c", "other"], ["a", "b", "c", "other"]] {
            deleted(Event::Init);
            for name in listed {
                deleted(Event::InitApply(object(name)));
            }
            assert!(deleted(Event::InitDone).is_empty());
        }
        assert_eq!(deleted(Event::Delete(object("a"))), ["a"]);
        deleted(Event::Apply(object("d")));
        deleted(Event::Init);
        deleted(Event::InitApply(object("b")));
        // The list breaks, and begins again.
        deleted(Event::Init);
        deleted(Event::InitApply(object("c")));
        assert_eq!(deleted(Event::InitDone), ["b", "d"]);
        deleted(Event::Init);
        deleted(Event::InitApply(object("c")));
        assert!(deleted(Event::InitDone).is_empty(), "once");
    }

    /// Names and versions.
    type Listed = &'static [(&'static str, &'static str)];

    /// A list that is read again, as after a missed event.
    #[test]
    fn what_a_later_list_shows_unchanged_triggers_nothing() {
        use watcher::Event;

        let object = |name: &str, version: &str| -> ConfigMap {
            let metadata = json!({"namespace": "n", "name": name, "resourceVersion": version});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let mut objects = KnownObjects::default();
        let mut versions = KnownVersions::default();
        let of_name =
            |object: &ConfigMap| Trigger::AdmissionCheck(object.metadata.name.clone().unwrap());
        let of_event = |event: Event<ConfigMap>| match event {
            Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => {
                of_name(&object)
            }
            Event::Init | Event::InitDone => Trigger::AllWorkloads,
        };
        let mut lists = |listed: &[(&str, &str)]| {
            let all = listed.iter().map(|(name, version)| object(name, version));
            let events: Vec<_> = [Event::Init]
                .into_iter()
                .chain(all.map(Event::InitApply))
                .chain([Event::InitDone])
                .collect();
            let mapped = events
                .iter()
                .flat_map(|event| objects.triggers(event.clone(), &of_name));
            let mapped: Vec<Trigger> = mapped.filter_map(trigger_of).collect();
            let taken = events
                .iter()
                .flat_map(|event| taken(Ok(event.clone()), &mut versions, &of_event));
            let taken: Vec<Trigger> = taken.flatten().filter_map(trigger_of).collect();
            (mapped, taken)
        };
        let named = |names: &[&str]| -> Vec<Trigger> {
            let all = names.iter().map(|name| (*name).to_owned());
            all.map(Trigger::AdmissionCheck).collect()
        };
        // The list, the triggers of its objects, and those of its events.
        let table: [(Listed, &[&str], &[&str]); 5] = [
            (&[("a", "1"), ("b", "2")], &["a", "b"], &["a", "b"]),
            (&[("a", "1"), ("b", "2")], &[], &[]),
            (&[("a", "1"), ("b", "3")], &["b"], &["b"]),
            // Of a deleted object, the check learns by its absence from the list.
            (&[("b", "3")], &["a"], &[]),
            (&[("b", "3")], &[], &[]),
        ];
        for (number, (listed, mapped, taken)) in table.into_iter().enumerate() {
            let mut taken = named(taken);
            // The first list, and those that differ, end with the trigger of the end.
            taken.extend((number != 1 && number != 4).then_some(Trigger::AllWorkloads));
            assert_eq!(lists(listed), (named(mapped), taken), "list {number}");
        }
        assert_eq!(lists(&[]).1, [Trigger::AllWorkloads]);
        assert_eq!(lists(&[]).1, []);
    }

    fn trigger_of(event: watcher::Event<Trigger>) -> Option<Trigger> {
        use watcher::Event;
        match event {
            Event::Apply(trigger) | Event::InitApply(trigger) | Event::Delete(trigger) => {
                Some(trigger).filter(|trigger| *trigger != Trigger::Ignore)
            }
            Event::Init | Event::InitDone => None,
        }
    }

    /// As controller-runtime maps both objects of an update.
    #[test]
    fn a_change_also_triggers_what_the_object_named_before() {
        use watcher::Event;

        let names = |check: &str| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"name": "x", "labels": {"for": check}}}))
                .unwrap()
        };
        let trigger = |object: &ConfigMap| match object.metadata.labels.as_ref() {
            Some(labels) if !labels["for"].is_empty() => {
                Trigger::AdmissionCheck(labels["for"].clone())
            }
            _ => Trigger::Ignore,
        };
        let mut known = KnownObjects::default();
        let mut triggered = |event: Event<ConfigMap>| -> Vec<String> {
            let events = known.triggers(event, &trigger).into_iter();
            let name = |trigger| match trigger {
                Trigger::AdmissionCheck(name) => Some(name),
                _ => None,
            };
            events.filter_map(trigger_of).filter_map(name).collect()
        };
        assert_eq!(triggered(Event::Apply(names("a"))), ["a"]);
        assert_eq!(triggered(Event::Apply(names("a"))), ["a"]);
        assert_eq!(triggered(Event::Apply(names("b"))), ["a", "b"]);
        assert_eq!(triggered(Event::Apply(names(""))), ["b"]);
        assert!(triggered(Event::Apply(names(""))).is_empty());
        assert_eq!(triggered(Event::Apply(names("c"))), ["c"]);
        triggered(Event::Init);
        assert_eq!(triggered(Event::InitApply(names("d"))), ["c", "d"]);
        assert!(triggered(Event::InitDone).is_empty());
        assert_eq!(triggered(Event::Delete(names("e"))), ["d", "e"]);
    }

    /// Checks that are made of one share the settings of its watches.
    #[tokio::test]
    async fn each_controller_knows_the_objects_of_its_own_watch() {
        let source = WatchSource::objects::<ConfigMap>(watcher::Config::default(), |_| {
            Trigger::AllWorkloads
        });
        let Start::Objects { open, .. } = source.start else {
            panic!("a watch of objects");
        };
        let of_controllers = [open(), open()];
        for (listed, deletions) in [(true, 0), (false, 1)] {
            for begin in &of_controllers {
                let events = begin(lists(listed)).take_while(|event| {
                    let goes_on = !matches!(event, Ok(watcher::Event::InitDone));
                    async move { goes_on }
                });
                let deleted = events.filter(|event| {
                    let deleted = matches!(event, Ok(watcher::Event::Delete(_)));
                    async move { deleted }
                });
                assert_eq!(deleted.count().await, deletions);
            }
        }
    }

    #[tokio::test]
    async fn a_panic_at_an_object_triggers_all_workloads() {
        let config = watcher::Config::default;
        for source in [
            WatchSource::objects::<ConfigMap>(config(), |_| panic!("an odd object")),
            WatchSource::events::<ConfigMap>(config(), |event| match event {
                watcher::Event::InitDone => Trigger::Ignore,
                _ => panic!("an odd object"),
            }),
        ] {
            let Start::Objects { open, .. } = source.start else {
                panic!("a watch of objects");
            };
            let events = open()(lists(true)).take(3).collect::<Vec<_>>().await;
            let shown = events
                .iter()
                .any(|event| matches!(event, Ok(watcher::Event::InitApply(Trigger::AllWorkloads))));
            assert!(shown && events.iter().all(Result::is_ok), "{events:?}");
        }
    }

    /// Returns a client of a server that lists one object, or none.
    fn lists(one: bool) -> Client {
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
            let object = json!({"metadata": {"namespace": "n", "name": "a"}});
            let items: Vec<_> = one.then_some(object).into_iter().collect();
            let list = json!({
                "apiVersion": "v1", "kind": "ConfigMapList", "items": items,
                "metadata": {"resourceVersion": "7"},
            });
            let body = kube::client::Body::from(list.to_string().into_bytes());
            Ok::<_, tower::BoxError>(http::Response::new(body))
        });
        Client::new(service, "default")
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
