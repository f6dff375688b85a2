//! One element of `podSetUpdates`, as it is stored.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::Toleration;
use serde::{Deserialize, Serialize};

/// An update of the pods of one pod set, which a check adds when the job starts.
///
/// This is the stored form, which is not validated; [`PodSetUpdates`](crate::PodSetUpdates) is the
/// validated form.
///
/// ```
/// use kueue_check::api::PodSetUpdate;
///
/// let stored = serde_json::json!({"name": "workers", "nodeSelector": {"topology.kubernetes.io/zone": "eu-1a"}});
/// let update: PodSetUpdate = serde_json::from_value(stored.clone())?;
/// assert_eq!(update.node_selector["topology.kubernetes.io/zone"], "eu-1a");
/// assert_eq!(serde_json::to_value(update)?, stored);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSetUpdate {
    /// The pod set's name.
    #[serde(default)]
    pub name: String,
    /// Labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Node labels that the pods' nodes must have besides those of the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// The place of a key in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FingerprintKind {
    Label,
    Annotation,
    NodeSelector,
}

impl FingerprintKind {
    /// Returns the name of the place, for messages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Annotation => "annotation",
            Self::NodeSelector => "node selector",
        }
    }
}

/// A key and its value in the pods of one pod set, in eight bytes.
///
/// Kueue finishes a job as FailedToStart when two sources set one key to different values. Two
/// fingerprints with equal keys and different values indicate this without pod templates in memory;
/// the whole object then confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint {
    pub(crate) key: u32,
    pub(crate) value: u32,
}

/// Returns the fingerprint of `key: value` as `kind` in `pod_set`.
pub(crate) fn fingerprint(
    pod_set: &str,
    kind: FingerprintKind,
    key: &str,
    value: &str,
) -> Fingerprint {
    Fingerprint {
        key: fold(digest(&(pod_set, kind, key))),
        value: fold(digest(&value)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of a hash")]
fn fold(hash: u64) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}

/// Returns a hash that is the same in each run of one build; it is never stored or sent.
pub(crate) fn digest<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the same in four bytes: enough to detect that something differs.
pub(crate) fn short_digest<T: Hash + ?Sized>(value: &T) -> u32 {
    fold(digest(value))
}

/// Returns the digest of a whole list. For the API, no list and an empty list are the same.
pub(crate) fn updates_digest(updates: &[PodSetUpdate]) -> u32 {
    let mut hasher = DefaultHasher::new();
    for update in updates {
        (
            &update.name,
            &update.labels,
            &update.annotations,
            &update.node_selector,
        )
            .hash(&mut hasher);
        for toleration in &update.tolerations {
            let Toleration {
                effect,
                key,
                operator,
                toleration_seconds,
                value,
            } = toleration;
            (effect, key, operator, toleration_seconds, value).hash(&mut hasher);
        }
    }
    fold(hasher.finish())
}

/// Returns the keys that a whole list sets, as a slim entry stores them: boxed twice, because most
/// have none.
pub(crate) fn fingerprints(updates: &[PodSetUpdate]) -> Option<Box<Box<[Fingerprint]>>> {
    let keys: Box<[Fingerprint]> = updates
        .iter()
        .flat_map(PodSetUpdate::fingerprints)
        .collect();
    (!keys.is_empty()).then(|| Box::new(keys))
}

impl PodSetUpdate {
    /// Returns every key that the update sets.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (FingerprintKind, &str, &str)> {
        let maps = [
            (FingerprintKind::Label, &self.labels),
            (FingerprintKind::Annotation, &self.annotations),
            (FingerprintKind::NodeSelector, &self.node_selector),
        ];
        maps.into_iter().flat_map(|(kind, map)| {
            map.iter()
                .map(move |(key, value)| (kind, key.as_str(), value.as_str()))
        })
    }

    /// Returns the fingerprint of every key that the update sets.
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        self.keys()
            .map(|(kind, key, value)| fingerprint(&self.name, kind, key, value))
    }
}
