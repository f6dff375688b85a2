//! Pod set updates: additions of a check to the pods of a job.

mod conflicts;
mod slices;
mod syntax;

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::Toleration;

pub(crate) use conflicts::{Conflicts, written_updates_are_suspected};
#[cfg(feature = "cli")]
pub(crate) use syntax::metadata_errors;

use crate::api::{Fingerprint, FingerprintKind, PodSetUpdate, fingerprints, updates_digest};

/// The most pod sets that updates may name (limit of Kueue's CRD).
pub const MAX_UPDATES: usize = 18;
/// The most tolerations that one update may add (limit of Kueue's CRD).
pub const MAX_TOLERATIONS: usize = 8;

/// Pod set updates that the API server, Kueue's webhook and Kueue's merge accept, as far as the
/// updates alone determine that.
///
/// Whether they fit a Workload is checked before they are written: its pod sets' names, and the
/// keys that its template, its flavors or another check set. A conflict there would *finish* the
/// job as FailedToStart, so the SDK keeps the check Pending and reports why.
///
/// ```
/// use kueue_check::{PodSetUpdates, Verdict};
///
/// # fn main() -> Result<(), kueue_check::PodSetUpdatesError> {
/// let updates = PodSetUpdates::builder()
///     .pod_set("workers", |pods| pods.annotation("example.com/licence", "lic-42").node_selector("topology.kubernetes.io/zone", "eu-1a"))
///     .build()?;
/// let verdict = Verdict::ready("licence lic-42 is yours").with_updates(updates);
/// # Ok(()) }
/// ```
///
/// For gated plain Pods, Kubernetes' own rules apply too (KEP-3838): node selectors are only added,
/// which is all that updates can do. See
/// [`scheduling_directives_may_change`](crate::scheduling_directives_may_change).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSetUpdates(Vec<PodSetUpdate>);

/// Builds [`PodSetUpdates`].
///
/// ```
/// use kueue_check::PodSetUpdates;
///
/// let updates = PodSetUpdates::builder()
///     .pod_sets(["driver", "workers"], |pods| pods.annotation("example.com/licence", "lic-42"))
///     .build()?;
/// assert_eq!(updates.as_slice().iter().map(|update| update.name.as_str()).collect::<Vec<_>>(), ["driver", "workers"]);
/// # Ok::<(), kueue_check::PodSetUpdatesError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PodSetUpdatesBuilder(Vec<PodSetUpdate>);

/// Builds the additions to the pods of one pod set.
///
/// ```
/// use k8s_openapi::api::core::v1::Toleration;
/// use kueue_check::PodSetUpdates;
///
/// let spot = Toleration { key: Some("spot".into()), operator: Some("Exists".into()), ..Toleration::default() };
/// let updates = PodSetUpdates::builder()
///     .pod_set("workers", |pods| pods.node_selector("topology.kubernetes.io/zone", "eu-1a").toleration(spot))
///     .build()?;
/// assert_eq!(updates.as_slice()[0].tolerations.len(), 1);
/// # Ok::<(), kueue_check::PodSetUpdatesError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PodSetUpdateBuilder(PodSetUpdate);

/// The reason why updates are rejected.
///
/// ```
/// use kueue_check::PodSetUpdates;
///
/// let refused = PodSetUpdates::builder()
///     .pod_set("workers", |pods| pods.label("zone", "a"))
///     .pod_set("workers", |pods| pods.label("rack", "7"))
///     .build();
/// assert_eq!(refused.unwrap_err().to_string(), "pod set `workers` is updated twice: put everything into one update");
///
/// let refused = PodSetUpdates::builder().pod_set("workers", |pods| pods.label("kueue.x-k8s.io/queue-name", "mine")).build();
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "pod set `workers`: label `kueue.x-k8s.io/queue-name`: keys under kueue.x-k8s.io/ belong to Kueue"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PodSetUpdatesError {
    /// Kueue applies only the first of several updates for one pod set, and ignores the others
    /// without an error.
    #[error("pod set `{pod_set}` is updated twice: put everything into one update")]
    Duplicate {
        /// The pod set.
        pod_set: String,
    },
    /// More than [`MAX_UPDATES`].
    #[error("{count} pod sets are updated, at most {MAX_UPDATES} may be")]
    TooManyPodSets {
        /// The number of pod sets.
        count: usize,
    },
    /// More than [`MAX_TOLERATIONS`].
    #[error("pod set `{pod_set}`: {count} tolerations are added, at most {MAX_TOLERATIONS} may be")]
    TooManyTolerations {
        /// The pod set.
        pod_set: String,
        /// The number of tolerations.
        count: usize,
    },
    /// A key or a value that Kubernetes rejects.
    #[error("pod set `{pod_set}`: {place} `{text}`: {problem}")]
    Syntax {
        /// The pod set.
        pod_set: String,
        /// Its place, such as `label key`.
        place: &'static str,
        /// The key or value.
        text: String,
        /// The syntax error.
        problem: &'static str,
    },
    /// A key in Kueue's own domain.
    #[error("pod set `{pod_set}`: {place} `{key}`: keys under kueue.x-k8s.io/ belong to Kueue")]
    KueueKey {
        /// The pod set.
        pod_set: String,
        /// Its place.
        place: &'static str,
        /// The key.
        key: String,
    },
    /// A pod set that the Workload does not have.
    #[error("the Workload has no pod set `{pod_set}`; it has {known:?}")]
    UnknownPodSet {
        /// The pod set.
        pod_set: String,
        /// The pod sets that it has.
        known: Vec<String>,
    },
    /// A key that another source sets to another value.
    #[error("{0}")]
    Conflict(Box<KeyConflict>),
}

/// A conflict: a key that another source sets to another value.
///
/// ```
/// use kueue_check::{KeyConflict, PodSetUpdatesError};
///
/// let conflict = PodSetUpdatesError::Conflict(Box::new(KeyConflict {
///     pod_set: "workers".into(),
///     place: "node selector",
///     key: "pool".into(),
///     wanted: "gold".into(),
///     set: "spot".into(),
///     setter: "the ResourceFlavor `spot`".into(),
/// }));
/// assert_eq!(
///     conflict.to_string(),
///     "pod set `workers`: node selector `pool` would be `gold`, but the ResourceFlavor `spot` sets it to `spot`"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConflict {
    /// The pod set.
    pub pod_set: String,
    /// Its place, such as `label`.
    pub place: &'static str,
    /// The key.
    pub key: String,
    /// The value in the update.
    pub wanted: String,
    /// The present value.
    pub set: String,
    /// The source that set it.
    pub setter: String,
}

impl fmt::Display for KeyConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pod_set,
            place,
            key,
            wanted,
            set,
            setter,
        } = self;
        write!(
            f,
            "pod set `{pod_set}`: {place} `{key}` would be `{wanted}`, but {setter} sets it to `{set}`"
        )
    }
}

impl PodSetUpdates {
    /// Returns a builder without updates.
    pub fn builder() -> PodSetUpdatesBuilder {
        PodSetUpdatesBuilder::default()
    }

    /// Returns true if nothing is added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the updates, one for each pod set.
    pub fn as_slice(&self) -> &[PodSetUpdate] {
        &self.0
    }

    pub(crate) fn digest(&self) -> u32 {
        updates_digest(&self.0)
    }

    /// Returns the keys that they set, in the form of a decoded entry.
    pub(crate) fn fingerprints(&self) -> Option<Box<Box<[Fingerprint]>>> {
        fingerprints(&self.0)
    }
}

impl TryFrom<Vec<PodSetUpdate>> for PodSetUpdates {
    type Error = PodSetUpdatesError;

    fn try_from(mut updates: Vec<PodSetUpdate>) -> Result<Self, Self::Error> {
        if updates.len() > MAX_UPDATES {
            return Err(PodSetUpdatesError::TooManyPodSets {
                count: updates.len(),
            });
        }
        let mut names = BTreeSet::new();
        for update in &mut updates {
            // To Kubernetes an empty value is none, but Kueue's definition rejects some.
            for toleration in &mut update.tolerations {
                for value in [
                    &mut toleration.key,
                    &mut toleration.operator,
                    &mut toleration.value,
                    &mut toleration.effect,
                ] {
                    value.take_if(|value| value.is_empty());
                }
            }
        }
        for update in &updates {
            if !names.insert(update.name.as_str()) {
                return Err(PodSetUpdatesError::Duplicate {
                    pod_set: update.name.clone(),
                });
            }
            syntax::check(update)?;
        }
        Ok(Self(updates))
    }
}

impl PodSetUpdatesBuilder {
    /// Adds the result of `build` to the pods of pod set `name`.
    pub fn pod_set(
        mut self,
        name: impl Into<String>,
        build: impl FnOnce(PodSetUpdateBuilder) -> PodSetUpdateBuilder,
    ) -> Self {
        let empty = PodSetUpdateBuilder(PodSetUpdate {
            name: name.into(),
            ..PodSetUpdate::default()
        });
        self.0.push(build(empty).0);
        self
    }

    /// Does the same for each of the pod sets `names`.
    pub fn pod_sets<N: Into<String>>(
        self,
        names: impl IntoIterator<Item = N>,
        build: impl Fn(PodSetUpdateBuilder) -> PodSetUpdateBuilder,
    ) -> Self {
        names
            .into_iter()
            .fold(self, |builder, name| builder.pod_set(name, &build))
    }

    /// Validates the updates, and returns them.
    pub fn build(self) -> Result<PodSetUpdates, PodSetUpdatesError> {
        self.0.try_into()
    }
}

impl PodSetUpdateBuilder {
    /// Adds a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.labels.insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.annotations.insert(key.into(), value.into());
        self
    }

    /// Requires the nodes to have a label.
    pub fn node_selector(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.node_selector.insert(key.into(), value.into());
        self
    }

    /// Adds a toleration.
    pub fn toleration(mut self, toleration: Toleration) -> Self {
        self.0.tolerations.push(toleration);
        self
    }
}

impl FingerprintKind {
    fn key_place(self) -> &'static str {
        match self {
            Self::Label => "label key",
            Self::Annotation => "annotation key",
            Self::NodeSelector => "node selector key",
        }
    }
}
