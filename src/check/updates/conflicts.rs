//! Conflicts of updates with a Workload: its pod sets, templates, flavors and other checks.

use std::collections::BTreeMap;

use super::{KeyConflict, PodSetUpdate, PodSetUpdates, PodSetUpdatesError};

use crate::api::{
    AdmissionCheckState, Fingerprint, FingerprintKind, PodSet, ResourceFlavor, Workload,
    fingerprint,
};

/// The result of comparing the updates with the slim view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Conflicts {
    /// They fit.
    None,
    /// They certainly conflict.
    Certain(PodSetUpdatesError),
    /// The template or another check seems to set a key to another value. The view has only
    /// fingerprints of those, so the whole object must be compared.
    Suspected,
    /// An assigned flavor is not in the cache yet, so its node labels are unknown.
    UnknownFlavor(String),
}

type Flavors = BTreeMap<String, ResourceFlavor>;

impl PodSetUpdates {
    /// Returns whether these updates of the check `own` can be merged into the pods of `workload`.
    pub(crate) fn conflicts(&self, workload: &Workload, own: &str, flavors: &Flavors) -> Conflicts {
        let others: Vec<&AdmissionCheckState> = workload
            .checks()
            .iter()
            .filter(|entry| entry.name() != own)
            .collect();
        let mut suspected = false;
        for update in &self.0 {
            let Some(pod_set) = workload
                .pod_sets()
                .iter()
                .find(|pod_set| pod_set.name() == update.name)
            else {
                let known = workload
                    .pod_sets()
                    .iter()
                    .map(|pod_set| pod_set.name().to_owned())
                    .collect();
                return Conflicts::Certain(PodSetUpdatesError::UnknownPodSet {
                    pod_set: update.name.clone(),
                    known,
                });
            };
            match flavor_conflict(update, pod_set, flavors) {
                Conflicts::None => {}
                found => return found,
            }
            let mut set = pod_set
                .template()
                .chain(others.iter().flat_map(|entry| entry.fingerprints()));
            suspected |= set.any(|set| update.fingerprints().any(|own| contradicts(own, set)));
        }
        if suspected {
            Conflicts::Suspected
        } else {
            Conflicts::None
        }
    }

    /// Returns the updates that `object`, a whole Workload, has in the entry of the check `own`.
    pub(crate) fn in_object(object: &serde_json::Value, own: &str) -> Self {
        let entries = object.pointer("/status/admissionChecks");
        let updates = entries
            .and_then(serde_json::Value::as_array)
            .and_then(|entries| entries.iter().find(|entry| entry["name"] == own))
            .and_then(updates_of);
        Self(updates.unwrap_or_default())
    }

    /// Compares with the whole Workload, as JSON. Returns the conflict that fingerprints indicated,
    /// or none.
    pub(crate) fn conflict_in_object(
        &self,
        object: &serde_json::Value,
        own: &str,
    ) -> Option<PodSetUpdatesError> {
        self.0.iter().find_map(|update| {
            template_conflict(update, object).or_else(|| other_check_conflict(update, object, own))
        })
    }
}

/// Returns true if updates that the entry of the check `own` has already seem to contradict an
/// assigned flavor or another check. Only their fingerprints are compared.
pub(crate) fn written_updates_are_suspected(
    workload: &Workload,
    own: &str,
    flavors: &Flavors,
) -> bool {
    let entries = workload.checks().iter();
    let others = entries.filter(|entry| entry.name() != own);
    let by_others = others.flat_map(AdmissionCheckState::fingerprints);
    let by_flavors = workload.pod_sets().iter().flat_map(|pod_set| {
        let assigned = pod_set.flavors().filter_map(|name| flavors.get(name));
        let labels = assigned.flat_map(ResourceFlavor::node_labels);
        labels.map(|(key, value)| {
            fingerprint(pod_set.name(), FingerprintKind::NodeSelector, key, value)
        })
    });
    let mut set = by_others.chain(by_flavors);
    let written = workload.check(own);
    set.any(|set| {
        let mut written = written
            .into_iter()
            .flat_map(AdmissionCheckState::fingerprints);
        written.any(|written| contradicts(written, set))
    })
}

fn contradicts(own: Fingerprint, set: Fingerprint) -> bool {
    own.key == set.key && own.value != set.value
}

fn flavor_conflict(update: &PodSetUpdate, pod_set: &PodSet, flavors: &Flavors) -> Conflicts {
    if update.node_selector.is_empty() {
        return Conflicts::None;
    }
    for name in pod_set.flavors() {
        let Some(flavor) = flavors.get(name) else {
            return Conflicts::UnknownFlavor(name.to_owned());
        };
        let clash = update.node_selector.iter().find_map(|(key, wanted)| {
            let set = flavor.node_labels().get(key).filter(|set| *set != wanted)?;
            Some(conflict(
                update,
                FingerprintKind::NodeSelector,
                key,
                wanted,
                set,
                format!("the ResourceFlavor `{name}`"),
            ))
        });
        if let Some(error) = clash {
            return Conflicts::Certain(error);
        }
    }
    Conflicts::None
}

fn template_conflict(
    update: &PodSetUpdate,
    object: &serde_json::Value,
) -> Option<PodSetUpdatesError> {
    let pod_sets = object.pointer("/spec/podSets")?.as_array()?;
    let template = pod_sets
        .iter()
        .find(|pod_set| pod_set["name"] == update.name.as_str())?
        .get("template")?;
    update.keys().find_map(|(kind, key, wanted)| {
        let map = match kind {
            FingerprintKind::Label => template.pointer("/metadata/labels"),
            FingerprintKind::Annotation => template.pointer("/metadata/annotations"),
            FingerprintKind::NodeSelector => template.pointer("/spec/nodeSelector"),
        };
        let set = map?.get(key)?.as_str().filter(|set| *set != wanted)?;
        Some(conflict(
            update,
            kind,
            key,
            wanted,
            set,
            "the job's pod template".to_owned(),
        ))
    })
}

/// Returns the updates of an entry, if it has any that can be read.
fn updates_of(entry: &serde_json::Value) -> Option<Vec<PodSetUpdate>> {
    serde_json::from_value(entry.get("podSetUpdates")?.clone()).ok()
}

fn other_check_conflict(
    update: &PodSetUpdate,
    object: &serde_json::Value,
    own: &str,
) -> Option<PodSetUpdatesError> {
    let entries = object.pointer("/status/admissionChecks")?.as_array()?;
    entries
        .iter()
        .filter(|entry| entry["name"] != own)
        .find_map(|entry| {
            let updates = updates_of(entry)?;
            let others: Vec<_> = updates
                .iter()
                .filter(|other| other.name == update.name)
                .flat_map(PodSetUpdate::keys)
                .collect();
            update.keys().find_map(|(kind, key, wanted)| {
                let (_, _, set) = others
                    .iter()
                    .find(|(other, name, set)| *other == kind && *name == key && *set != wanted)?;
                Some(conflict(
                    update,
                    kind,
                    key,
                    wanted,
                    set,
                    format!("the admission check {}", entry["name"]),
                ))
            })
        })
}

pub(super) fn conflict(
    update: &PodSetUpdate,
    kind: FingerprintKind,
    key: &str,
    wanted: &str,
    set: &str,
    setter: String,
) -> PodSetUpdatesError {
    PodSetUpdatesError::Conflict(Box::new(KeyConflict {
        pod_set: update.name.clone(),
        place: kind.as_str(),
        key: key.to_owned(),
        wanted: wanted.to_owned(),
        set: set.to_owned(),
        setter,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::PodSetUpdateBuilder;

    fn object() -> serde_json::Value {
        json!({
            "metadata": {"name": "w", "namespace": "n", "uid": "u", "resourceVersion": "1"},
            "spec": {"podSets": [
                {"name": "main", "count": 1, "template": {
                    "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
                    "spec": {"nodeSelector": {"zone": "a"}, "containers": [{"resources": {"requests": {"cpu": "1"}}}]}}},
                {"name": "side", "count": 1, "template": {}},
            ]},
            "status": {
                "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "spot"}}]},
                "admissionChecks": [
                    {"name": "own", "state": "Ready", "podSetUpdates": [{"name": "main", "labels": {"mine": "old"}}]},
                    {"name": "other", "state": "Ready", "podSetUpdates": [{"name": "main", "labels": {"theirs": "1"}, "nodeSelector": {"rack": "7"}}]},
                ],
            },
        })
    }

    fn flavors() -> Flavors {
        let spot = ResourceFlavor {
            name: "spot".to_owned(),
            node_labels: [("pool".to_owned(), "spot".to_owned())].into(),
            ..ResourceFlavor::default()
        };
        [("spot".to_owned(), spot)].into()
    }

    type Build = fn(PodSetUpdateBuilder) -> PodSetUpdateBuilder;

    /// Returns the conflict: from the view, or from the object if the view only suspects one.
    fn found(pod_set: &str, build: Build) -> Option<String> {
        let updates = PodSetUpdates::builder()
            .pod_set(pod_set, build)
            .build()
            .unwrap();
        let workload = Workload::from_json(object()).unwrap();
        match updates.conflicts(&workload, "own", &flavors()) {
            Conflicts::None => None,
            Conflicts::Certain(error) => Some(error.to_string()),
            Conflicts::Suspected => Some(
                updates
                    .conflict_in_object(&object(), "own")
                    .unwrap()
                    .to_string(),
            ),
            Conflicts::UnknownFlavor(name) => Some(format!("unknown {name}")),
        }
    }

    #[test]
    fn compatible_updates_are_accepted() {
        let fitting: [Build; 6] = [
            |pods| {
                pods.label("new", "1")
                    .annotation("new", "2")
                    .node_selector("new", "3")
            },
            |pods| {
                pods.label("app", "x")
                    .annotation("note", "y")
                    .node_selector("zone", "a")
            },
            |pods| pods.node_selector("pool", "spot"),
            |pods| pods.label("theirs", "1").node_selector("rack", "7"),
            |pods| pods.label("mine", "new"),
            |pods| pods.annotation("app", "not the label"),
        ];
        for (row, build) in fitting.into_iter().enumerate() {
            assert_eq!(found("main", build), None, "row {row}");
        }
        assert_eq!(
            found("side", |pods| pods
                .label("app", "z")
                .node_selector("zone", "b")),
            None
        );
    }

    #[test]
    fn updates_that_would_finish_the_job_as_failed_to_start_are_rejected() {
        let clashing: [(Build, &str); 6] = [
            (
                |pods| pods.label("app", "z"),
                "pod set `main`: label `app` would be `z`, but the job's pod template sets it to `x`",
            ),
            (
                |pods| pods.annotation("note", "z"),
                "pod set `main`: annotation `note` would be `z`, but the job's pod template sets it to `y`",
            ),
            (
                |pods| pods.node_selector("zone", "b"),
                "pod set `main`: node selector `zone` would be `b`, but the job's pod template sets it to `a`",
            ),
            (
                |pods| pods.node_selector("pool", "x"),
                "pod set `main`: node selector `pool` would be `x`, but the ResourceFlavor `spot` sets it to `spot`",
            ),
            (
                |pods| pods.label("theirs", "2"),
                "pod set `main`: label `theirs` would be `2`, but the admission check \"other\" sets it to `1`",
            ),
            (
                |pods| pods.node_selector("rack", "8"),
                "pod set `main`: node selector `rack` would be `8`, but the admission check \"other\" sets it to `7`",
            ),
        ];
        for (build, message) in clashing {
            assert_eq!(found("main", build).as_deref(), Some(message));
        }
    }

    #[test]
    fn an_unknown_pod_set_is_named_with_those_that_exist() {
        assert_eq!(
            found("other", |pods| pods.label("a", "b")).as_deref(),
            Some("the Workload has no pod set `other`; it has [\"main\", \"side\"]")
        );
    }

    #[test]
    fn a_flavor_that_is_not_known_yet_is_not_guessed() {
        let updates = PodSetUpdates::builder()
            .pod_set("main", |pods| pods.node_selector("pool", "x"))
            .build()
            .unwrap();
        let workload = Workload::from_json(object()).unwrap();
        assert_eq!(
            updates.conflicts(&workload, "own", &Flavors::new()),
            Conflicts::UnknownFlavor("spot".to_owned())
        );
    }

    #[test]
    fn equal_fingerprints_of_different_texts_only_suspect() {
        let value = fingerprint("main", FingerprintKind::Label, "app", "x");
        let collided = Fingerprint {
            key: value.key,
            value: value.value.wrapping_add(1),
        };
        assert!(contradicts(collided, value) && !contradicts(value, value));
        let updates = PodSetUpdates::builder()
            .pod_set("main", |pods| pods.label("app", "x"))
            .build()
            .unwrap();
        assert_eq!(updates.conflict_in_object(&object(), "own"), None);
    }
}
