//! What else wakes Workloads.

use std::fmt;
use std::sync::Arc;

use futures::stream::{BoxStream, Stream, StreamExt};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::api::Uid;

/// Which Workloads to look at again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wake {
    /// One, by name.
    Workload {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// One, by `metadata.uid`: what an owner reference has.
    Uid(Uid),
    /// All that wait for this AdmissionCheck, or are watched by it while they run.
    AdmissionCheck(String),
    /// All.
    Everything,
    /// None.
    Nothing,
}

impl Wake {
    /// The Workload that owns `object` (by an owner reference of kind Workload); else nothing.
    pub fn owner_of<K: Resource>(object: &K) -> Self {
        let owners = object
            .meta()
            .owner_references
            .as_deref()
            .unwrap_or_default();
        let owner = owners.iter().find(|owner| {
            owner.kind == "Workload" && owner.api_version.starts_with("kueue.x-k8s.io/")
        });
        owner.map_or(Self::Nothing, |owner| Self::Uid(Uid::new(&owner.uid)))
    }
}

/// The sources of wake-ups of one check.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kueue_check::{Wake, Watches};
///
/// let watches = Watches::none()
///     .objects::<ConfigMap>(kube::runtime::watcher::Config::default().labels("example.com/licences"), |_| Wake::Everything)
///     .stream("hourly", futures::stream::pending());
/// ```
#[derive(Default)]
#[must_use]
pub struct Watches(pub(crate) Vec<WatchSource>);

/// One source.
pub(crate) struct WatchSource {
    pub(crate) name: String,
    pub(crate) start: Start,
}

pub(crate) enum Start {
    /// Objects in the cluster, as often as the watch has to be begun again.
    Objects {
        permission: Box<PolicyRule>,
        begin: Arc<
            dyn Fn(Client) -> BoxStream<'static, watcher::Result<watcher::Event<Wake>>>
                + Send
                + Sync,
        >,
    },
    /// A stream of the author's, as long as it lasts.
    Stream(BoxStream<'static, Wake>),
}

impl Watches {
    /// No sources.
    pub fn none() -> Self {
        Self::default()
    }

    /// The objects of kind `K` in the whole cluster. `wake` says which Workloads a change or a deletion of one concerns. The generated ClusterRole lets the
    /// check list and watch them.
    pub fn objects<K>(
        self,
        config: watcher::Config,
        wake: impl Fn(&K) -> Wake + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    {
        self.add(config, Arc::new(wake), Api::all)
    }

    /// Adds a stream of the author's under a name for diagnostics. When it ends, it is over: the others go on.
    pub fn stream(
        mut self,
        name: impl Into<String>,
        wakes: impl Stream<Item = Wake> + Send + 'static,
    ) -> Self {
        self.0.push(WatchSource {
            name: name.into(),
            start: Start::Stream(wakes.boxed()),
        });
        self
    }

    fn add<K>(
        mut self,
        config: watcher::Config,
        wake: Arc<dyn Fn(&K) -> Wake + Send + Sync>,
        api: fn(Client) -> Api<K>,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let permission = PolicyRule {
            api_groups: Some(vec![K::group(&()).into_owned()]),
            resources: Some(vec![K::plural(&()).into_owned()]),
            verbs: vec!["list".into(), "watch".into()],
            ..PolicyRule::default()
        };
        let begin = Arc::new(move |client| {
            let wake = Arc::clone(&wake);
            watcher(api(client), config.clone())
                .map(move |event| event.map(|event| wakes(event, &*wake)))
                .boxed()
        });
        self.0.push(WatchSource {
            name: K::plural(&()).into_owned(),
            start: Start::Objects {
                permission: Box::new(permission),
                begin,
            },
        });
        self
    }
}

fn wakes<K>(
    event: watcher::Event<K>,
    wake: &(dyn Fn(&K) -> Wake + Send + Sync),
) -> watcher::Event<Wake> {
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(wake(&object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(wake(&object)),
        watcher::Event::InitApply(object) => watcher::Event::InitApply(wake(&object)),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|source| &source.name))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_owner_reference_leads_to_the_workload() {
        let object = |owner: serde_json::Value| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"name": "x", "ownerReferences": [owner]}}))
                .unwrap()
        };
        let owned = object(
            json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "name": "w", "uid": "u-1"}),
        );
        assert_eq!(Wake::owner_of(&owned), Wake::Uid(Uid::new("u-1")));
        let other = object(
            json!({"apiVersion": "example.com/v1", "kind": "Workload", "name": "w", "uid": "u-1"}),
        );
        assert_eq!(Wake::owner_of(&other), Wake::Nothing);
    }
}
