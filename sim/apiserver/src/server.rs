//! The handle of an API server.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::Core;
use super::call::{ApiRequest, ApiResponse, Resource, Verb};
use super::hooks::{Admission, Faults};
use super::kinds::{Registry, builtin, custom_kinds, table_of};
use super::notifications::ChangeReceiver;
use super::status::Status;
use super::store::{Backup, Change, key};
use super::watch::{Watch, WatchOptions};

/// The wall clock of a server: the machine's, or a test's own.
///
/// ```
/// use kueue_check_apiserver::{ApiServer, TimeSource, system_time};
///
/// let fixed = "2026-11-21T09:00:00Z".parse()?;
/// let nine: TimeSource = std::sync::Arc::new(move || fixed);
/// assert_eq!(ApiServer::new(nine).now(), fixed);
/// assert_ne!(ApiServer::new(system_time()).now(), fixed);
/// # Ok::<(), jiff::Error>(())
/// ```
pub type TimeSource = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns the machine's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the caller requests the machine's clock"
)]
pub fn system_time() -> TimeSource {
    Arc::new(Timestamp::now)
}

/// An in-memory API server. Clones are handles of the same server.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::Api;
/// use kueue_check_apiserver::{ApiServer, Resource, system_time};
///
/// let server = ApiServer::new(system_time());
/// let limits: Api<ConfigMap> = Api::namespaced(server.client_as("admin/1.0"), "default");
/// limits.create(&Default::default(), &serde_json::from_value(serde_json::json!({"metadata": {"name": "limits"}}))?).await?;
///
/// assert!(server.get(&Resource::new("", "v1", "configmaps"), "default", "limits").is_some());
/// let missing = limits.get("limit").await.unwrap_err();
/// assert!(missing.to_string().contains("configmaps \"limit\" not found"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) core: Arc<Core>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer")
            .field("resource_version", &self.resource_version())
            .finish_non_exhaustive()
    }
}

/// Kinds compiled once, for many servers. Reading large definitions takes longer than a small test.
///
/// ```
/// # let pool = serde_json::from_value(serde_json::json!({
/// #     "metadata": {"name": "pools.example.com"},
/// #     "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "pools", "kind": "Pool"},
/// #         "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
/// # }))?;
/// use kueue_check_apiserver::{ApiServer, ApiRequest, CompiledDefinitions, Resource, Verb, system_time};
///
/// let prepared = CompiledDefinitions::new(vec![pool]); // a CustomResourceDefinition
/// let list = ApiRequest::new(Verb::List, &Resource::new("example.com", "v1", "pools"));
/// assert_eq!(ApiServer::with_definitions(system_time(), &prepared).call(&list).code, 200);
/// // A new server has the built-in kinds only.
/// assert_eq!(ApiServer::new(system_time()).call(&list).code, 404);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompiledDefinitions {
    registry: Registry,
}

impl CompiledDefinitions {
    /// Compiles the built-in kinds and those of `definitions`.
    pub fn new(definitions: Vec<CustomResourceDefinition>) -> Self {
        let mut registry = builtin().0.clone();
        add(&mut registry, definitions);
        Self { registry }
    }

    /// Returns the same kinds without one version of a group.
    ///
    /// ```
    /// use kueue_check_apiserver::{ApiServer, ApiRequest, CompiledDefinitions, Resource, Verb, system_time};
    ///
    /// let list = ApiRequest::new(Verb::List, &Resource::new("batch", "v1", "jobs"));
    /// let without_jobs = CompiledDefinitions::new(Vec::new()).without("batch", "v1");
    /// assert_eq!(ApiServer::with_definitions(system_time(), &without_jobs).call(&list).code, 404);
    /// ```
    #[must_use]
    pub fn without(&self, group: &str, version: &str) -> Self {
        let registry = self.registry.without(group, version);
        Self { registry }
    }
}

fn add(registry: &mut Registry, definitions: Vec<CustomResourceDefinition>) {
    for mut definition in definitions {
        // Conversion webhooks are not called: versions that need one are not served at all.
        let converts = definition
            .spec
            .conversion
            .take()
            .is_some_and(|c| c.strategy == "Webhook");
        if converts {
            definition.spec.versions.retain(|version| version.storage);
        }
        let value = serde_json::to_value(&definition).unwrap_or_default();
        if let Some((group, plural, kinds)) = custom_kinds(&value) {
            registry.set(&group, &plural, kinds);
        }
    }
}

impl ApiServer {
    /// Creates a server with the built-in kinds and the four Namespaces that every cluster has.
    pub fn new(clock: impl Into<TimeSource>) -> Self {
        Self {
            core: Arc::new(Core::new(clock.into())),
        }
    }

    /// Creates a server with compiled kinds.
    pub fn with_definitions(clock: impl Into<TimeSource>, prepared: &CompiledDefinitions) -> Self {
        let server = Self::new(clock);
        server.core.store().registry = prepared.registry.clone();
        server
    }

    /// Serves the kinds of these definitions, without creating objects of the definitions. If a
    /// webhook converts a definition's versions, only the stored version is served.
    pub fn install(&self, definitions: Vec<CustomResourceDefinition>) {
        add(&mut self.core.store().registry, definitions);
    }

    /// Offers clients these kinds only, from now on; `None` offers all again. Calls in process
    /// still reach all kinds. A running watch continues to its end.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::Api;
    /// use kueue_check_apiserver::{ApiServer, CompiledDefinitions, system_time};
    ///
    /// let server = ApiServer::new(system_time());
    /// let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    /// server.offer(Some(&CompiledDefinitions::new(Vec::new()).without("", "v1")));
    /// assert!(maps.list(&Default::default()).await.is_err());
    /// server.offer(None);
    /// assert!(maps.list(&Default::default()).await.is_ok());
    /// # }
    /// ```
    pub fn offer(&self, kinds: Option<&CompiledDefinitions>) {
        self.core.offer(kinds.map(|kinds| kinds.registry.clone()));
    }

    /// Processes a call: the whole server, without HTTP, faults or waiting.
    pub fn call(&self, call: &ApiRequest) -> ApiResponse {
        self.core.process(call)
    }

    /// Returns an object, or `None`. It is shared, not copied, for frequent reads.
    pub fn object(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.core.stored().object(resource, namespace, name)
    }

    /// Returns all objects of a kind, sorted by namespace and name. A `namespace` that is not empty
    /// selects its objects only. Objects are shared, not copied.
    pub fn objects(&self, resource: &Resource, namespace: &str) -> Vec<Arc<Value>> {
        let prefix = key(namespace, "");
        let store = self.core.store();
        let table = table_of(resource);
        let found = store.list(&table, &prefix);
        found.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Starts a watch, without HTTP or faults.
    pub fn watch(&self, options: WatchOptions) -> Result<Watch, Status> {
        Watch::start(Arc::clone(&self.core), options)
    }

    /// Returns all [kept](Self::keep_changes) changes, oldest first. The initial Namespaces are not
    /// among them.
    pub fn history(&self) -> Vec<Arc<Change>> {
        self.core.store().history()
    }

    /// Returns the time of the server's clock.
    pub fn now(&self) -> Timestamp {
        self.core.now()
    }

    /// Returns the newest `resourceVersion`.
    pub fn resource_version(&self) -> u64 {
        self.core.store().version()
    }

    /// Returns a receiver of changes, for a controller that waits until anything happens.
    pub fn changes(&self) -> ChangeReceiver {
        self.core.store().changed()
    }

    /// Limits the number of kept changes; lists and watches of older versions then get 410. By
    /// default all changes are kept.
    pub fn keep_changes(&self, changes: usize) {
        self.core.store().keep(changes);
    }

    /// Compacts the history up to this version. Lists of this version or an older one, and watches
    /// from an older one, get 410 from now on.
    pub fn compact(&self, version: u64) {
        self.core.store().compact(version);
    }

    /// Returns a backup of all stored objects, as a backup of etcd.
    pub fn backup(&self) -> Backup {
        self.core.store().backup()
    }

    /// Restores a backup with its versions, as a restore of etcd does. Versions go back, and
    /// watches end. A watch from a later version shows nothing until that version is reached again.
    /// UIDs that were given since are not reused.
    ///
    /// ```
    /// # use serde_json::json;
    /// use kueue_check_apiserver::{ApiRequest, ApiServer, Resource, Verb, system_time};
    ///
    /// let server = ApiServer::new(system_time());
    /// let maps = Resource::new("", "v1", "configmaps");
    /// let backup = server.backup();
    /// server.call(&ApiRequest::new(Verb::Create, &maps).namespace("default").body(json!({"metadata": {"name": "limits"}})));
    /// server.restore(&backup);
    /// assert!(server.get(&maps, "default", "limits").is_none());
    /// ```
    pub fn restore(&self, backup: &Backup) {
        let now = self.core.now();
        self.core.store().restore(backup, now);
    }

    /// Sets the admission hook.
    pub fn set_admission(&self, admission: Arc<dyn Admission>) {
        self.core.set_admission(Some(admission));
    }

    /// Removes the admission hook.
    pub fn clear_admission(&self) {
        self.core.set_admission(None);
    }

    /// Sets the faults to inject into HTTP requests and watch events.
    pub fn set_faults(&self, faults: Arc<dyn Faults>) {
        self.core.set_faults(Some(faults));
    }

    /// Stops fault injection.
    pub fn clear_faults(&self) {
        self.core.set_faults(None);
    }

    /// Switches garbage collection on or off. If it is on, owned objects are removed with their
    /// owners and deleted Namespaces are emptied, both at once. Off by default, as on a cluster
    /// without a controller manager.
    pub fn collect_garbage(&self, collects: bool) {
        self.core.set_collects(collects);
    }

    /// Reads one object, for short. `None` if it does not exist.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        let call = ApiRequest::new(Verb::Get, resource)
            .namespace(namespace)
            .name(name);
        let response = self.call(&call);
        (response.code == 200).then(|| Arc::unwrap_or_clone(response.body))
    }
}
