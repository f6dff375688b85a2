//! Watched objects, which expressions can read.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::Event;
use serde_json::Value as Json;

use crate::cel::Value;

/// A watched resource: `configmaps`, or `GROUP/VERSION/RESOURCE` for one outside of the core group.
///
/// ```
/// use kueue_check_rule::celcheck::watched::Watched;
///
/// let jobs: Watched = "kubeflow.org/v1/pytorchjobs".parse()?;
/// assert_eq!(jobs.name(), "pytorchjobs.kubeflow.org");
/// assert_eq!("nodes".parse::<Watched>()?.name(), "nodes");
/// assert!("secrets".parse::<Watched>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    group: String,
    version: String,
    plural: String,
}

impl Watched {
    /// Returns the name by which expressions use it: `configmaps`, `pytorchjobs.kubeflow.org`.
    pub fn name(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    pub(super) fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(&self.group, &self.version, "");
        ApiResource::from_gvk_with_plural(&kind, &self.plural)
    }
}

/// Writes the resource as it is parsed.
impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.plural)
        } else {
            write!(f, "{}/{}/{}", self.group, self.version, self.plural)
        }
    }
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split('/').collect();
        let (group, version, plural) = match parts[..] {
            [plural] | ["v1", plural] => ("", "v1", plural),
            [group, version, plural] => (group, version, plural),
            _ => {
                return Err(
                    "expected a resource such as `configmaps`, or GROUP/VERSION/RESOURCE such as `kubeflow.org/v1/pytorchjobs`"
                        .to_owned(),
                );
            }
        };
        let label = |text: &str| {
            let mut bytes = text.bytes();
            !text.is_empty()
                && text.len() <= 63
                && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        };
        if !(label(plural) && label(version) && (group.is_empty() || group.split('.').all(label))) {
            return Err(format!(
                "`{text}` is no resource: expected its plural in small letters, such as `configmaps`"
            ));
        }
        if group.is_empty() && plural == "secrets" {
            return Err(
                "secrets can't be watched: a rule's message shows to everybody what it reads"
                    .to_owned(),
            );
        }
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
        })
    }
}

/// The objects of one resource, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    known: BTreeMap<Key, Value>,
    /// The objects of a list that is not complete yet.
    listed: Option<BTreeMap<Key, Value>>,
    is_complete: bool,
}

type Key = (String, String);

impl Objects {
    /// Handles a watch event. Returns true if expressions may have other values.
    pub(crate) fn handle(&mut self, event: Event<DynamicObject>) -> bool {
        match event {
            Event::Init => {
                self.listed = Some(BTreeMap::new());
                false
            }
            Event::InitApply(object) => {
                let (key, value) = kept(object);
                self.listed.get_or_insert_default().insert(key, value);
                false
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let changed = !self.is_complete || listed != self.known;
                (self.known, self.is_complete) = (listed, true);
                changed
            }
            Event::Apply(object) => {
                let (key, value) = kept(object);
                let before = self.known.insert(key.clone(), value);
                before.as_ref() != self.known.get(&key)
            }
            Event::Delete(object) => self.known.remove(&kept(object).0).is_some(),
        }
    }

    /// Returns true if the first list is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(crate) fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Value> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        self.known.get(&key)
    }

    /// Returns all objects, or those of a namespace.
    pub(crate) fn all(&self, namespace: Option<&str>) -> Vec<Value> {
        let wanted = |(of, _): &Key| namespace.is_none_or(|namespace| namespace == of);
        let objects = self.known.iter().filter(|(key, _)| wanted(key));
        objects.map(|(_, object)| object.clone()).collect()
    }

    /// Returns the number of objects, and their approximate size in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let bytes = self.known.values().map(Value::size).sum();
        (self.known.len(), bytes)
    }
}

/// Returns the stored part of an object: without fields that change although no content does.
fn kept(mut object: DynamicObject) -> (Key, Value) {
    object.metadata.managed_fields = None;
    object.metadata.resource_version = None;
    object.metadata.generation = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    let key = (
        object.metadata.namespace.clone().unwrap_or_default(),
        object.metadata.name.clone().unwrap_or_default(),
    );
    let json: Json = serde_json::to_value(&object).unwrap_or_default();
    (key, Value::of(&json))
}
