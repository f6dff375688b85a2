//! An index of requests and PodTemplates, updated by watches and by the replies to this check's own
//! writes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::runtime::watcher::Event;
use kueue_check::Trigger;
use kueue_check::api::Uid;
use tokio::sync::watch;

use crate::request::{CapacityRequest, Phase};

/// The requests of all Workloads, and the PodTemplates that were made for them.
#[derive(Debug)]
pub struct Index {
    state: Mutex<State>,
    listed: watch::Sender<(bool, bool)>,
}

/// PodTemplates by the Workload that owns them.
type Templates = BTreeMap<Uid, BTreeSet<OwnTemplate>>;

/// The Workload and the family of a request.
type Place = (Uid, Option<Uid>);

/// A PodTemplate that a Workload owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnTemplate {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The AdmissionCheck for which it was made, as written on it; `None` on one that Kueue's own
    /// check made.
    pub check: Option<Box<str>>,
}

impl OwnTemplate {
    pub(super) fn is(&self, namespace: &str, name: &str) -> bool {
        *self.namespace == *namespace && *self.name == *name
    }
}

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<Uid, Vec<Arc<CapacityRequest>>>,
    /// The place of each request. Its annotations may change, and with them its Workload.
    places: HashMap<Uid, Place>,
    /// The Workloads of jobs that have several, by the key of their family.
    families: BTreeMap<Uid, BTreeSet<Uid>>,
    templates: Templates,
    listing: Option<HashSet<Uid>>,
    listing_templates: Option<Templates>,
}

impl State {
    /// Removes the request `uid` from its place.
    fn forget(&mut self, uid: &Uid) {
        let Some((workload, family)) = self.places.remove(uid) else {
            return;
        };
        let Some(of_workload) = self.requests.get_mut(&workload) else {
            return;
        };
        of_workload.retain(|known| known.uid != *uid);
        let of_family = of_workload
            .iter()
            .any(|known| known.family() == family.as_ref());
        if of_workload.is_empty() {
            self.requests.remove(&workload);
        }
        if let Some(family) = family.filter(|_| !of_family)
            && let Some(workloads) = self.families.get_mut(&family)
        {
            workloads.remove(&workload);
            if workloads.is_empty() {
                self.families.remove(&family);
            }
        }
    }

    /// Removes a template, whichever Workload owns it.
    fn remove_template(&mut self, template: &OwnTemplate) {
        self.templates.retain(|_, own| {
            own.retain(|known| !known.is(&template.namespace, &template.name));
            !own.is_empty()
        });
    }
}

/// A PodTemplate as last observed, with the Workload that owns it, if any.
#[derive(Clone, Debug)]
pub(super) struct CachedTemplate {
    pub(super) workload: Option<Uid>,
    pub(super) template: OwnTemplate,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            listed: watch::channel((false, false)).0,
        }
    }
}

impl Index {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until both lists are complete. Before that, an object missing in the index may exist.
    pub async fn ready(&self) {
        let mut listed = self.listed.subscribe();
        // The sender lives as long as this index.
        let _ = listed.wait_for(|listed| *listed == (true, true)).await;
    }

    /// Returns the requests in `namespace` for `workload`. Requests in other namespaces do not
    /// count: a user who may create them there may have no permissions here.
    pub fn requests(&self, namespace: &str, workload: &Uid) -> Vec<Arc<CapacityRequest>> {
        let state = self.state();
        let all = state.requests.get(workload).into_iter().flatten();
        all.filter(|request| &*request.namespace == namespace)
            .cloned()
            .collect()
    }

    /// Returns the requests in `namespace` for Workloads of the job whose family has the key `key`.
    pub fn of_family(&self, namespace: &str, key: &Uid) -> Vec<Arc<CapacityRequest>> {
        let state = self.state();
        let workloads = state.families.get(key).into_iter().flatten();
        let requests = workloads.filter_map(|workload| state.requests.get(workload));
        let here = requests
            .flatten()
            .filter(|own| *own.namespace == *namespace);
        here.filter(|own| own.family() == Some(key))
            .cloned()
            .collect()
    }

    /// Returns all requests.
    pub fn all(&self) -> Vec<Arc<CapacityRequest>> {
        self.state().requests.values().flatten().cloned().collect()
    }

    /// Returns true if an autoscaler has ever accepted a request of `class`.
    pub fn is_class_handled(&self, class: &str) -> bool {
        let state = self.state();
        let mut all = state.requests.values().flatten();
        all.any(|request| &*request.class == class && request.phase != Phase::New)
    }

    /// Returns the PodTemplates that `workload` owns.
    pub fn templates(&self, workload: &Uid) -> Vec<OwnTemplate> {
        let state = self.state();
        state
            .templates
            .get(workload)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    pub(crate) fn put_template(&self, workload: &Uid, template: OwnTemplate) {
        let mut state = self.state();
        let same = |known: &OwnTemplate| known.is(&template.namespace, &template.name);
        let known = state.templates.get(workload);
        if !known.is_some_and(|own| own.iter().any(same)) {
            // A Workload that was created again under its name takes the template over.
            state.remove_template(&template);
        }
        let own = state.templates.entry(workload.clone()).or_default();
        own.retain(|known| !same(known));
        own.insert(template);
    }

    pub(crate) fn drop_template(&self, workload: &Uid, namespace: &str, name: &str) {
        let mut state = self.state();
        if let Some(own) = state.templates.get_mut(workload) {
            own.retain(|known| !known.is(namespace, name));
            if own.is_empty() {
                state.templates.remove(workload);
            }
        }
    }

    /// Stores `request` unless the index has a newer version. Returns true if anything changed.
    pub fn put(&self, request: CapacityRequest) -> bool {
        let mut state = self.state();
        let place = (request.workload.clone(), request.family().cloned());
        if let Some(before) = state
            .places
            .get(&request.uid)
            .filter(|known| **known != place)
        {
            let of_workload = state.requests.get(&before.0).into_iter().flatten();
            let mut known = of_workload.filter(|known| known.uid == request.uid);
            if known.any(|known| request.version.is_older_than(&known.version)) {
                return false;
            }
            state.forget(&request.uid);
        }
        state.places.insert(request.uid.clone(), place);
        if let Some(family) = request.family() {
            let workloads = state.families.entry(family.clone()).or_default();
            workloads.insert(request.workload.clone());
        }
        let of_workload = state.requests.entry(request.workload.clone()).or_default();
        match of_workload
            .iter_mut()
            .find(|known| known.uid == request.uid)
        {
            Some(known) if request.version.is_older_than(&known.version) => false,
            Some(known) => {
                let same = CapacityRequest {
                    version: known.version.clone(),
                    ..request.clone()
                } == **known;
                *known = Arc::new(request);
                !same
            }
            None => {
                of_workload.push(Arc::new(request));
                of_workload.shrink_to_fit();
                true
            }
        }
    }

    /// Marks `request` as being deleted after its deletion was requested. It no longer counts,
    /// although it may exist for some time.
    pub(crate) fn going(&self, request: &CapacityRequest) {
        let mut state = self.state();
        let known = state
            .requests
            .get_mut(&request.workload)
            .into_iter()
            .flatten();
        for known in known.filter(|known| known.uid == request.uid) {
            *known = Arc::new(CapacityRequest {
                deleting: true,
                ..CapacityRequest::clone(known)
            });
        }
    }

    /// Handles a watch event for a request. `None` is an object that is no request of a Workload.
    pub(super) fn take(&self, event: Event<Option<CapacityRequest>>) -> Trigger {
        match event {
            Event::Init => {
                self.state().listing = Some(HashSet::new());
                Trigger::Ignore
            }
            Event::InitApply(Some(request)) => {
                if let Some(listing) = &mut self.state().listing {
                    listing.insert(request.uid.clone());
                }
                self.put_and_trigger(request)
            }
            Event::Apply(Some(request)) => self.put_and_trigger(request),
            Event::Delete(Some(request)) => {
                self.remove(&request);
                Trigger::Uid(request.workload)
            }
            Event::InitDone => {
                let vanished = self.drop_unlisted();
                self.listed.send_modify(|listed| listed.0 = true);
                if vanished {
                    Trigger::AllWorkloads
                } else {
                    Trigger::Ignore
                }
            }
            Event::InitApply(None) | Event::Apply(None) | Event::Delete(None) => Trigger::Ignore,
        }
    }

    /// Handles a request whose annotations no longer name a Workload.
    pub(super) fn remove_by_uid(&self, uid: &Uid) -> Trigger {
        let mut state = self.state();
        let before = state.places.get(uid).map(|(workload, _)| workload.clone());
        state.forget(uid);
        before.map_or(Trigger::Ignore, Trigger::Uid)
    }

    fn put_and_trigger(&self, request: CapacityRequest) -> Trigger {
        let moved = {
            let state = self.state();
            let before = state.places.get(&request.uid);
            before.is_some_and(|(workload, _)| *workload != request.workload)
        };
        let trigger = match request.family() {
            _ if moved => Trigger::AllWorkloads,
            Some(family) => Trigger::Family(family.clone()),
            None => Trigger::Uid(request.workload.clone()),
        };
        if self.put(request) {
            trigger
        } else {
            Trigger::Ignore
        }
    }

    fn remove(&self, request: &CapacityRequest) {
        self.state().forget(&request.uid);
    }

    /// Removes objects missing in a complete list. Returns true if there was any.
    fn drop_unlisted(&self) -> bool {
        let mut state = self.state();
        let Some(listed) = state.listing.take() else {
            return false;
        };
        let known = state.places.keys();
        let gone: Vec<Uid> = known
            .filter(|uid| !listed.contains(*uid))
            .cloned()
            .collect();
        for uid in &gone {
            state.forget(uid);
        }
        !gone.is_empty()
    }

    /// Handles a watch event for a PodTemplate. It triggers no evaluation: the deletion of a
    /// template also deletes the request that it owns, and that triggers one.
    pub(super) fn take_template(&self, event: Event<CachedTemplate>) -> Trigger {
        match event {
            Event::Init => self.state().listing_templates = Some(BTreeMap::new()),
            Event::InitApply(CachedTemplate { workload, template }) => {
                if let (Some(workload), Some(listing)) =
                    (workload, &mut self.state().listing_templates)
                {
                    listing.entry(workload).or_default().insert(template);
                }
            }
            Event::InitDone => {
                let mut state = self.state();
                state.templates = state.listing_templates.take().unwrap_or_default();
                drop(state);
                self.listed.send_modify(|listed| listed.1 = true);
            }
            Event::Apply(CachedTemplate {
                workload: Some(workload),
                template,
            }) => self.put_template(&workload, template),
            Event::Apply(CachedTemplate { template, .. })
            | Event::Delete(CachedTemplate { template, .. }) => {
                self.state().remove_template(&template);
            }
        }
        Trigger::Ignore
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kueue_check::api::ResourceVersion;

    use super::*;
    use crate::request::{FailureCounts, RequestAnnotations};

    /// Any user of the request may change its annotations.
    #[test]
    fn a_request_whose_annotations_change_has_one_place() {
        let index = Index::default();
        let request = |workload: &str, family: Option<&str>, version: &str| CapacityRequest {
            namespace: "n".into(),
            name: "r".into(),
            uid: Uid::new("r"),
            version: ResourceVersion::new(version),
            workload: Uid::new(workload),
            workload_name: "w".into(),
            mark: Some(RequestAnnotations {
                controller: "c".into(),
                check: "check".into(),
                attempt: 1,
                reserved: 1,
                family: family.map(Uid::new),
                tally: FailureCounts::default(),
                keep_failed: false,
                merged: BTreeMap::new(),
            }),
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            class: "class".into(),
            parameters: BTreeMap::new(),
            pods: Box::new([]),
            phase: Phase::New,
            details: BTreeMap::new(),
        };
        let [one, other] = ["1", "2"].map(Uid::new);
        let found = |index: &Index| {
            let of_workloads = [&one, &other].map(|uid| index.requests("n", uid).len());
            (of_workloads, index.of_family("n", &Uid::new("f")).len())
        };
        index.put(request("1", Some("f"), "1"));
        assert_eq!(found(&index), ([1, 0], 1));
        index.put(request("2", Some("f"), "3"));
        assert_eq!(found(&index), ([0, 1], 1));
        index.put(request("1", Some("f"), "2"));
        assert_eq!(found(&index), ([0, 1], 1), "an older version");
        index.put(request("2", None, "4"));
        assert_eq!(found(&index), ([0, 1], 0));
        let moved = index.take(Event::Apply(Some(request("1", None, "5"))));
        assert_eq!((moved, found(&index)), (Trigger::AllWorkloads, ([1, 0], 0)));
        assert_eq!(
            index.remove_by_uid(&Uid::new("r")),
            Trigger::Uid(one.clone())
        );
        assert_eq!(found(&index), ([0, 0], 0));
        index.put(request("2", None, "6"));
        index.take(Event::Delete(Some(request("2", None, "7"))));
        assert_eq!(found(&index), ([0, 0], 0));
        let state = index.state();
        assert!(state.places.is_empty() && state.families.is_empty());
    }

    /// Otherwise the release of the earlier Workload deletes it.
    #[test]
    fn a_template_belongs_to_the_workload_that_took_it_over() {
        let index = Index::default();
        let template = |name: &str| OwnTemplate {
            namespace: "n".into(),
            name: name.into(),
            check: None,
        };
        let [first, second] = ["1", "2"].map(Uid::new);
        for name in ["a", "b"] {
            index.put_template(&first, template(name));
        }
        index.put_template(&second, template("b"));
        assert_eq!(index.templates(&first), [template("a")]);
        assert_eq!(index.templates(&second), [template("b")]);
        index.put_template(&second, template("a"));
        assert!(index.templates(&first).is_empty());
    }
}
