//! The store: objects and their history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::call::Resource;
use super::kinds::{Kind, Registry, TableKey, builtin};
use super::metadata::owners;
use super::notifications::{ChangeNotifier, ChangeReceiver};

pub use super::history::{Change, ChangeVerb};

/// All data of a server: kinds, objects and changes.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) registry: Registry,
    tables: BTreeMap<TableKey, Table>,
    version: u64,
    /// Exact lists need a newer version than this; watches start at this one or later.
    compacted: u64,
    uids: u64,
    names: u64,
    log: VecDeque<Arc<Change>>,
    /// The maximum number of kept changes.
    limit: usize,
    changed: ChangeNotifier,
    /// The number of restored backups: a restore ends all watches.
    restores: u64,
    /// Places of dependents, by the uid of their owner.
    dependents: BTreeMap<String, BTreeSet<(TableKey, String)>>,
    /// Places of objects, by their uid.
    places: BTreeMap<String, (TableKey, String)>,
}

/// The objects of one kind, by `namespace/name`, in the order of the real server.
#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<String, Arc<Value>>,
    log: VecDeque<Arc<Change>>,
    changed: ChangeNotifier,
}

/// Returns the key of an object in the table of its kind. Without a `name` it is what the keys of a
/// Namespace's objects begin with, or of all objects.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            registry: builtin().0.clone(),
            tables: BTreeMap::new(),
            version: 1,
            compacted: 0,
            uids: 0,
            names: 0,
            log: VecDeque::new(),
            limit: usize::MAX,
            changed: ChangeNotifier::default(),
            restores: 0,
            dependents: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Compacts the history up to this version.
    pub(crate) fn compact(&mut self, version: u64) {
        self.compacted = self.compacted.max(version.min(self.version));
    }

    /// Limits the number of kept changes; older ones are compacted.
    pub(crate) fn keep(&mut self, changes: usize) {
        self.limit = changes;
        self.trim();
    }

    pub(crate) fn changed(&self) -> ChangeReceiver {
        self.changed.subscribe()
    }

    /// Returns a receiver of the changes to objects of this kind.
    pub(crate) fn table_changed(&mut self, table: &TableKey) -> ChangeReceiver {
        self.table(table).changed.subscribe()
    }

    fn table(&mut self, key: &TableKey) -> &mut Table {
        self.tables.entry(key.clone()).or_default()
    }

    /// Returns a valid UUID that has not been used.
    pub(crate) fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// Returns five characters, for `generateName`.
    pub(crate) fn next_suffix(&mut self) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut number = self.names;
        self.names += 1;
        let mut suffix = String::with_capacity(5);
        for _ in 0..5 {
            suffix.push(char::from(LETTERS[(number % 27) as usize]));
            number /= 27;
        }
        suffix
    }

    pub(crate) fn get(&self, table: &TableKey, key: &str) -> Option<Arc<Value>> {
        self.tables.get(table)?.objects.get(key).cloned()
    }

    /// Returns the objects of a kind whose keys start with `prefix`, in order.
    pub(crate) fn list(
        &self,
        table: &TableKey,
        prefix: &str,
    ) -> impl Iterator<Item = (&String, &Arc<Value>)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let table = self.tables.get(table);
        let objects = table.map(|table| table.objects.range::<str, _>(from));
        let objects = objects.into_iter().flatten();
        objects.take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Returns the same objects as they were at an older version.
    pub(crate) fn list_at(
        &self,
        table: &TableKey,
        prefix: &str,
        version: u64,
    ) -> Vec<(String, Arc<Value>)> {
        let now = self.list(table, prefix);
        let now = now.map(|(key, object)| (key.clone(), Arc::clone(object)));
        let Some(table) = self.tables.get(table).filter(|_| version < self.version) else {
            return now.collect();
        };
        let mut objects: BTreeMap<String, Arc<Value>> = now.collect();
        let later = table
            .log
            .iter()
            .rev()
            .take_while(|c| c.resource_version > version);
        for change in later.filter(|c| c.key.starts_with(prefix)) {
            match &change.previous {
                Some(previous) => objects.insert(change.key.clone(), Arc::clone(previous)),
                None => objects.remove(&change.key),
            };
        }
        objects.into_iter().collect()
    }

    /// Returns the version at the time `then`. It is at most the last one before the newest change
    /// of this kind, and at least the compacted one.
    pub(crate) fn version_without_newest(&self, table: &TableKey, then: Timestamp) -> u64 {
        let before = self.log.partition_point(|change| change.at <= then);
        let of_then = match before.checked_sub(1).and_then(|last| self.log.get(last)) {
            Some(change) => change.resource_version,
            None => 1,
        };
        let newest = self
            .tables
            .get(table)
            .and_then(|table| table.log.back())
            .map_or(self.version, |change| change.resource_version - 1);
        of_then.min(newest).max(self.compacted)
    }

    /// Stores an initial object, which is not in the history.
    pub(crate) fn seed(&mut self, table: &TableKey, key: String, object: Value) {
        self.table(table).objects.insert(key, Arc::new(object));
    }

    /// Stores a new or changed object (or removes it, if it is deleted) and notifies all receivers.
    /// Sets its `resourceVersion`.
    pub(crate) fn commit(&mut self, write: Write) -> Arc<Value> {
        self.version += 1;
        let version = self.version;
        let mut object = write.object;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let object = Arc::new(object);
        let table = self.tables.entry(write.kind.table()).or_default();
        let previous = if write.verb == ChangeVerb::Deleted {
            table.objects.remove(&write.key)
        } else {
            table.objects.insert(write.key.clone(), Arc::clone(&object))
        };
        let place = (write.kind.table(), write.key.clone());
        if let Some(previous) = &previous {
            for uid in owners(previous) {
                if let Some(places) = self.dependents.get_mut(uid) {
                    places.remove(&place);
                }
            }
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if write.verb == ChangeVerb::Deleted {
            self.places.remove(uid);
        } else {
            if previous.is_none() {
                self.places.insert(uid.to_owned(), place.clone());
            }
            for uid in owners(&object) {
                self.dependents
                    .entry(uid.to_owned())
                    .or_default()
                    .insert(place.clone());
            }
        }
        let change = Arc::new(Change {
            at: write.at,
            resource: Resource::new(
                write.kind.table().0,
                &write.kind.stored,
                &write.kind.resource.plural,
            ),
            verb: write.verb,
            object: Arc::clone(&object),
            agent: write.agent,
            resource_version: version,
            previous,
            key: write.key,
        });
        table.log.push_back(Arc::clone(&change));
        self.log.push_back(change);
        self.trim();
        if let Some(table) = self.tables.get(&write.kind.table()) {
            table.changed.notify();
        }
        self.changed.notify();
        object
    }

    /// Returns a backup of all objects.
    pub(crate) fn backup(&self) -> Backup {
        let tables = self.tables.iter();
        Backup {
            version: self.version,
            tables: tables
                .map(|(key, table)| (key.clone(), table.objects.clone()))
                .collect(),
        }
    }

    /// Restores the objects and the version of a backup. Watches end, and no watch shows the
    /// changes. The history records them as changes by `etcd`.
    pub(crate) fn restore(&mut self, backup: &Backup, at: Timestamp) {
        self.version = backup.version;
        self.restores += 1;
        for key in self.tables.keys().cloned().collect::<Vec<_>>() {
            self.table(&key).changed.notify();
            let Some(resource) = self.stored_as(&key) else {
                continue;
            };
            let then = backup.tables.get(&key).cloned().unwrap_or_default();
            let table = self.table(&key);
            let now = std::mem::replace(&mut table.objects, then.clone());
            let known = table
                .log
                .partition_point(|change| change.resource_version <= backup.version);
            table.log.truncate(known);
            let names: BTreeSet<&String> = now.keys().chain(then.keys()).collect();
            for name in names {
                let (before, after) = (now.get(name), then.get(name));
                let verb = match (before, after) {
                    (Some(before), Some(after)) if before == after => continue,
                    (_, None) => ChangeVerb::Deleted,
                    (None, _) => ChangeVerb::Added,
                    _ => ChangeVerb::Modified,
                };
                let Some(object) = after.or(before) else {
                    continue;
                };
                let version = object["metadata"]["resourceVersion"].as_str();
                self.log.push_back(Arc::new(Change {
                    at,
                    resource: resource.clone(),
                    verb,
                    object: Arc::clone(object),
                    agent: "etcd".to_owned(),
                    resource_version: version
                        .and_then(|version| version.parse().ok())
                        .unwrap_or_default(),
                    previous: before.cloned(),
                    key: name.clone(),
                }));
            }
        }
        self.index();
        self.changed.notify();
    }

    /// Rebuilds the indexes of places and owners.
    fn index(&mut self) {
        self.places.clear();
        self.dependents.clear();
        for (key, table) in &self.tables {
            for (name, object) in &table.objects {
                let place = (key.clone(), name.clone());
                if let Some(uid) = object["metadata"]["uid"].as_str() {
                    self.places.insert(uid.to_owned(), place.clone());
                }
                for uid in owners(object) {
                    let places = self.dependents.entry(uid.to_owned()).or_default();
                    places.insert(place.clone());
                }
            }
        }
    }

    /// Returns the number of restored backups.
    pub(crate) fn restores(&self) -> u64 {
        self.restores
    }

    fn trim(&mut self) {
        while self.log.len() > self.limit {
            let Some(oldest) = self.log.pop_front() else {
                return;
            };
            self.compacted = self.compacted.max(oldest.resource_version);
            let table = (
                oldest.resource.group.clone(),
                oldest.resource.plural.clone(),
            );
            if let Some(table) = self.tables.get_mut(&table)
                && let Some(first) = table.log.front()
                && Arc::ptr_eq(first, &oldest)
            {
                table.log.pop_front();
            }
        }
    }

    pub(crate) fn history(&self) -> Vec<Arc<Change>> {
        self.log.iter().cloned().collect()
    }

    /// Returns the changes of a kind after a version, in order.
    pub(crate) fn changes_after(&self, table: &TableKey, version: u64) -> Vec<Arc<Change>> {
        let Some(table) = self.tables.get(table) else {
            return Vec::new();
        };
        let from = table
            .log
            .partition_point(|change| change.resource_version <= version);
        table.log.range(from..).cloned().collect()
    }

    /// Returns the object with this uid.
    pub(crate) fn find(&self, uid: &str) -> Option<(TableKey, Arc<Value>)> {
        let (table, key) = self.places.get(uid)?;
        Some((table.clone(), self.get(table, key)?))
    }

    /// Returns the objects that this one owns.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(TableKey, Arc<Value>)> {
        let places = self.dependents.get(uid).into_iter().flatten();
        places
            .filter_map(|(table, key)| Some((table.clone(), self.get(table, key)?)))
            .collect()
    }

    /// Returns the objects of all kinds in a namespace.
    pub(crate) fn contents(&self, namespace: &str) -> Vec<(TableKey, Arc<Value>)> {
        let prefix = key(namespace, "");
        let mut found = Vec::new();
        for table in self.tables.keys() {
            let objects = self.list(table, &prefix);
            found.extend(objects.map(|(_, object)| (table.clone(), Arc::clone(object))));
        }
        found
    }

    /// Returns the resource of this kind: in its storage version, or another if that is not served.
    pub(crate) fn stored_as(&self, table: &TableKey) -> Option<Resource> {
        let mut kinds = self.registry.iter().filter(|k| k.table() == *table);
        let first = kinds.next()?;
        let stored = |kind: &&Arc<Kind>| kind.resource.version == kind.stored;
        let kind = Some(first).filter(stored).or_else(|| kinds.find(stored));
        let version = &kind.unwrap_or(first).resource.version;
        Some(Resource::new(&table.0, version, &table.1))
    }
}

/// A backup of all objects: see [`ApiServer::backup`](super::ApiServer::backup).
///
/// ```
/// use kueue_check_apiserver::{ApiServer, system_time};
///
/// let server = ApiServer::new(system_time());
/// let (backup, version) = (server.backup(), server.resource_version());
/// server.restore(&backup);
/// assert_eq!(server.resource_version(), version);
/// ```
#[derive(Clone, Debug)]
pub struct Backup {
    version: u64,
    tables: BTreeMap<TableKey, BTreeMap<String, Arc<Value>>>,
}

/// A write to the store.
pub(crate) struct Write {
    pub(crate) kind: Arc<Kind>,
    pub(crate) key: String,
    pub(crate) verb: ChangeVerb,
    pub(crate) object: Value,
    pub(crate) agent: String,
    pub(crate) at: jiff::Timestamp,
}
