//! The projection of a decoded object to the stored view.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};

use super::object::{
    Assignment, Condition, Entry, EntryUpdate, Spec, SpecPodSet, Status, WorkloadObject,
};
use super::pod_set::{Counts, Shape, ShapeResource};
use super::requests::per_pod;
use super::{
    Data, Owner, PodSet, PriorityClassKind, Slice, Variant, Workload, WorkloadCondition,
    WorkloadConditions,
};
use crate::api::pod_set_update::{
    Fingerprint, FingerprintKind, PodSetUpdate, digest, fingerprint, fingerprints, short_digest,
    updates_digest,
};
use crate::api::quantity::Compact;
use crate::api::{AdmissionCheckState, CheckState, Lenient, Name, Names, ResourceVersion, Uid};

/// `metadata.labels` that repeat what the view has elsewhere.
const REDUNDANT_LABEL: &str = "kueue.x-k8s.io/job-uid";

/// `metadata.annotations` by which Kueue links the slices of an elastic job.
const ELASTIC: &str = "kueue.x-k8s.io/elastic-job";
const SLICE_NAME: &str = "kueue.x-k8s.io/workload-slice-name";
const REPLACES: &str = "kueue.x-k8s.io/workload-slice-replacement-for";
/// The flavors that a variant may be given.
const ALLOWED_FLAVORS: &str = "kueue.x-k8s.io/workload-allowed-resource-flavors";
/// The reason of `Finished` on a slice that another one has replaced.
const REPLACED: &str = "WorkloadSliceReplaced";
/// The same on some of them, up to Kueue 0.18 (measured on 0.18.3).
const OUT_OF_SYNC: &str = "OutOfSync";

/// Turns decoded objects into views that share their common strings.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    names: Names,
    shapes: Pool<Shape>,
    pod_sets: Pool<[PodSet]>,
    /// The annotations to keep; `None` keeps all.
    annotations: Option<BTreeSet<String>>,
}

/// Returns `example.com/` of `example.com/key`: that name keeps all annotations of a domain.
fn prefix_of(key: &str) -> &str {
    key.find('/').map_or("", |slash| &key[..=slash])
}

type Map = Lenient<BTreeMap<String, Lenient<String>>>;

/// Returns the kind of the priority class: v1beta2 has a reference with a group, v1beta1 one word
/// for both.
fn priority_class_kind(spec: &Spec) -> Option<PriorityClassKind> {
    let reference = &spec.priority_class_ref.0;
    if reference.name.0.is_some() {
        return match (reference.group.0.as_str(), reference.kind.0.as_str()) {
            ("kueue.x-k8s.io", "WorkloadPriorityClass") => {
                Some(PriorityClassKind::WorkloadPriorityClass)
            }
            ("scheduling.k8s.io", "PriorityClass") => Some(PriorityClassKind::PriorityClass),
            _ => None,
        };
    }
    match spec.priority_class_source.0.as_deref() {
        Some("kueue.x-k8s.io/workloadpriorityclass") => {
            Some(PriorityClassKind::WorkloadPriorityClass)
        }
        Some("scheduling.k8s.io/priorityclass") => Some(PriorityClassKind::PriorityClass),
        _ => None,
    }
}

impl Projection {
    /// Keeps `annotations` of each Workload and no others.
    pub(crate) fn new(annotations: BTreeSet<String>) -> Self {
        Self {
            annotations: Some(annotations),
            ..Self::default()
        }
    }

    /// Keeps all annotations; for one Workload at a time, not for an index.
    pub(crate) fn all_annotations() -> Self {
        Self::default()
    }

    /// Returns the view of `object`.
    pub(crate) fn project(&mut self, object: WorkloadObject) -> Workload {
        let WorkloadObject {
            metadata,
            spec,
            status,
            ..
        } = object;
        let admission = status
            .admission
            .0
            .as_ref()
            .filter(|admission| !admission.cluster_queue.0.is_empty());
        let priority_class_kind = priority_class_kind(&spec);
        let cluster_queue =
            admission.map(|admission| self.names.intern(&admission.cluster_queue.0));
        let pod_sets: Vec<PodSet> = spec
            .pod_sets
            .0
            .iter()
            .map(|pod_set| self.pod_set(&pod_set.0, &status))
            .collect();
        let pod_sets = self.pod_sets.intern(pod_sets);
        let checks = status
            .admission_checks
            .0
            .iter()
            .map(|entry| self.entry(&entry.0))
            .collect();
        let annotations = metadata.annotations.unwrap_or_default();
        let slice = slice(&annotations);
        let flavor = annotations
            .get(ALLOWED_FLAVORS)
            .cloned()
            .unwrap_or_default();
        let kept: Vec<_> = annotations
            .into_iter()
            .filter(|(key, _)| {
                self.annotations
                    .as_ref()
                    .is_none_or(|kept| kept.contains(key) || kept.contains(prefix_of(key)))
            })
            .collect();
        let mut labels = metadata.labels.unwrap_or_default();
        let job = labels.remove(REDUNDANT_LABEL);
        let owner = self.owner(metadata.owner_references.unwrap_or_default());
        let variant = owner
            .as_ref()
            .filter(|owner| owner.is_workload())
            .map(|parent| {
                Box::new(Variant {
                    family: job.map_or_else(|| parent.uid.clone(), |job| Uid::new(&job)),
                    flavor: flavor.into(),
                })
            });
        Workload(Arc::new(Data {
            namespace: self.names.intern(&metadata.namespace.unwrap_or_default()),
            name: metadata.name.unwrap_or_default().into(),
            uid: Uid::new(&metadata.uid.unwrap_or_default()),
            version: ResourceVersion::new(&metadata.resource_version.unwrap_or_default()),
            created: metadata.creation_timestamp.map(|Time(at)| at).into(),
            queue: spec
                .queue_name
                .0
                .filter(|name| !name.is_empty())
                .map(|name| self.names.intern(&name)),
            cluster_queue,
            priority: spec.priority.0.unwrap_or_default(),
            priority_class: spec
                .priority_class_ref
                .0
                .name
                .0
                .or(spec.priority_class_name.0)
                .filter(|name| !name.is_empty())
                .map(|name| self.names.intern(&name)),
            priority_class_kind,
            active: spec.active.0.unwrap_or(true),
            deleting: metadata.deletion_timestamp.is_some(),
            max_execution_seconds: spec.maximum_execution_time_seconds.0,
            past_execution_seconds: status
                .accumulated_past_execution_time_seconds
                .0
                .or(status.misspelled_past_execution_time_seconds.0)
                .unwrap_or_default(),
            owner,
            labels: self.pairs(labels),
            annotations: self.pairs(kept),
            slice,
            variant,
            pod_sets,
            conditions: conditions(&status.conditions.0),
            checks,
        }))
    }

    fn owner(&mut self, mut owners: Vec<OwnerReference>) -> Option<Owner> {
        let at = owners
            .iter()
            .position(|owner| owner.controller == Some(true))
            .unwrap_or(0);
        let owner = (at < owners.len()).then(|| owners.swap_remove(at))?;
        Some(Owner {
            api_version: self.names.intern(&owner.api_version),
            kind: self.names.intern(&owner.kind),
            name: owner.name.into(),
            uid: Uid::new(&owner.uid),
            controls: owner.controller == Some(true),
        })
    }

    fn pairs(
        &mut self,
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Box<[(Name, Box<str>)]> {
        pairs
            .into_iter()
            .map(|(key, value)| (self.names.intern(&key), value.into()))
            .collect()
    }

    fn pod_set(&mut self, spec: &SpecPodSet, status: &Status) -> PodSet {
        let name = &spec.name.0;
        let assignments = status
            .admission
            .0
            .iter()
            .flat_map(|admission| &admission.pod_set_assignments.0);
        let assignment = assignments
            .map(|assignment| &assignment.0)
            .find(|assignment| assignment.name.0 == *name);
        let reclaimable = status
            .reclaimable_pods
            .0
            .iter()
            .find(|pods| pods.0.name.0 == *name);
        let counts = Counts {
            spec: spec.count.0,
            assigned: assignment.and_then(|assignment| assignment.count.0),
            reclaimable: reclaimable.map_or(0, |pods| pods.0.count.0),
        };
        let (resources, usage) = self.resources(spec, assignment, counts);
        let shape = Shape {
            name: self.names.intern(name),
            resources,
            template: template_fingerprints(spec),
            termination_grace: termination_grace(spec),
        };
        PodSet {
            shape: self.shapes.intern(shape),
            counts,
            usage,
        }
    }

    /// Returns every resource that is requested or assigned, and the usage of its pod set.
    fn resources(
        &mut self,
        spec: &SpecPodSet,
        assignment: Option<&Assignment>,
        counts: Counts,
    ) -> (Box<[ShapeResource]>, Box<[Compact]>) {
        let requests = per_pod(&spec.template.0.spec.0);
        let mut names: BTreeSet<&str> = requests.keys().map(String::as_str).collect();
        if let Some(assignment) = assignment {
            names.extend(
                assignment
                    .flavors
                    .0
                    .keys()
                    .chain(assignment.resource_usage.0.keys())
                    .map(String::as_str),
            );
        }
        let usage =
            |name: &str| assignment.and_then(|assignment| assignment.resource_usage.0.get(name));
        let flavor = |name: &str| assignment.and_then(|assignment| assignment.flavors.0.get(name));
        let resource = |name: &str| {
            let shape = ShapeResource {
                name: self.names.intern(name),
                flavor: flavor(name).map(|flavor| self.names.intern(&flavor.0)),
                per_pod: requests.get(name).copied().unwrap_or_default().into(),
            };
            (
                shape,
                usage(name).map_or_else(Compact::default, |amount| counts.scale(amount.0.0).into()),
            )
        };
        let (shapes, usage): (Vec<_>, Vec<_>) = names.into_iter().map(resource).unzip();
        (shapes.into(), usage.into())
    }

    fn entry(&mut self, entry: &Entry) -> AdmissionCheckState {
        let updates: Vec<PodSetUpdate> = entry
            .pod_set_updates
            .0
            .iter()
            .map(|update| stored_update(&update.0))
            .collect();
        AdmissionCheckState {
            name: self.names.intern(&entry.name.0),
            state: CheckState::new(&entry.state.0),
            since: entry.last_transition_time.0.into(),
            retries: entry
                .retry_count
                .0
                .map_or(0, |count| count.saturating_add(1)),
            message_digest: short_digest(entry.message.0.as_str()),
            updates_digest: updates_digest(&updates),
            updates: fingerprints(&updates),
        }
    }
}

/// A pool of values that many Workloads share, because jobs come in batches. Each is stored once.
#[derive(Debug)]
struct Pool<T: ?Sized> {
    known: BTreeMap<u64, Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            sweep_at: 0,
        }
    }
}

impl<T: ?Sized + Hash + Eq> Pool<T> {
    fn intern(&mut self, value: impl Into<Arc<T>>) -> Arc<T> {
        let value = value.into();
        let digest = digest(&*value);
        if let Some(known) = self.known.get(&digest).filter(|known| ***known == *value) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, value| Arc::strong_count(value) > 1);
            self.sweep_at = (self.known.len() * 2).max(64);
        }
        self.known.insert(digest, Arc::clone(&value));
        value
    }
}

fn stored_update(update: &EntryUpdate) -> PodSetUpdate {
    PodSetUpdate {
        name: update.name.0.clone(),
        labels: plain(&update.labels),
        annotations: plain(&update.annotations),
        node_selector: plain(&update.node_selector),
        tolerations: update
            .tolerations
            .0
            .iter()
            .map(|toleration| toleration.0.0.clone())
            .collect(),
    }
}

fn plain(map: &Map) -> BTreeMap<String, String> {
    map.0
        .iter()
        .map(|(key, value)| (key.clone(), value.0.clone()))
        .collect()
}

/// Kubernetes' default, which templates in custom resources may leave out.
const TERMINATION_GRACE: i64 = 30;

/// Returns the grace period in seconds. A value too large for the field becomes the largest, not
/// the default.
fn termination_grace(spec: &SpecPodSet) -> u32 {
    let grace = spec.template.0.spec.0.termination_grace_period_seconds.0;
    let grace = grace.unwrap_or(TERMINATION_GRACE).max(0);
    u32::try_from(grace).unwrap_or(u32::MAX)
}

fn template_fingerprints(spec: &SpecPodSet) -> Box<[Fingerprint]> {
    let (meta, pod) = (&spec.template.0.metadata.0, &spec.template.0.spec.0);
    let maps = [
        (FingerprintKind::Label, &meta.labels),
        (FingerprintKind::Annotation, &meta.annotations),
        (FingerprintKind::NodeSelector, &pod.node_selector),
    ];
    let keys = maps
        .into_iter()
        .flat_map(|(kind, map)| map.0.iter().map(move |(key, value)| (kind, key, value)));
    keys.map(|(kind, key, value)| fingerprint(&spec.name.0, kind, key, &value.0))
        .collect()
}

/// Reads the annotation `namespace/name` of the replaced slice, which is in the same namespace.
fn slice(annotations: &BTreeMap<String, String>) -> Slice {
    if let Some(key) = annotations.get(REPLACES) {
        let name = key.rsplit('/').next().unwrap_or_default();
        return Slice::Replaces(name.into());
    }
    let elastic = annotations.get(ELASTIC).map(String::as_str) == Some("true");
    if elastic || annotations.contains_key(SLICE_NAME) {
        Slice::First
    } else {
        Slice::None
    }
}

fn conditions(list: &[Lenient<Condition>]) -> WorkloadConditions {
    let mut conditions = WorkloadConditions::default();
    for Lenient(condition) in list {
        if condition.kind.0 == "Finished" {
            let is = |reason| condition.status.0 == "True" && condition.reason.0 == reason;
            conditions.out_of_sync = is(OUT_OF_SYNC);
            conditions.replaced = is(REPLACED) || is(OUT_OF_SYNC);
        }
        let slot = match condition.kind.0.as_str() {
            "QuotaReserved" => &mut conditions.quota_reserved,
            "Admitted" => &mut conditions.admitted,
            "Evicted" => &mut conditions.evicted,
            "Finished" => &mut conditions.finished,
            _ => continue,
        };
        let status = match condition.status.0.as_str() {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        };
        *slot = WorkloadCondition {
            status,
            at: condition.last_transition_time.0.into(),
        };
    }
    conditions
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload() -> serde_json::Value {
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {
                "namespace": "team-a", "name": "job-train-1", "uid": "0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4", "resourceVersion": "42",
                "creationTimestamp": "2026-11-21T09:00:00Z",
                "labels": {"team": "a", "kueue.x-k8s.io/job-uid": "x"}, "annotations": {"keep": "1", "drop": "2"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"},
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": true},
                ],
                "managedFields": [{"manager": "kueue", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {
                "queueName": "lq", "priority": 100, "maximumExecutionTimeSeconds": 3600,
                "podSets": [
                    {"name": "driver", "count": 1, "template": {
                        "metadata": {"labels": {"app": "x"}},
                        "spec": {"nodeSelector": {"zone": "a"}, "containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}},
                    {"name": "workers", "count": 8, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "2", "nvidia.com/gpu": 1}}}]}}},
                ],
            },
            "status": {
                "conditions": [
                    {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:05Z", "reason": "QuotaReserved", "message": ""},
                    {"type": "PodsReady", "status": "False"},
                ],
                "admission": {"clusterQueue": "cq", "podSetAssignments": [
                    {"name": "driver", "count": 1, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "500m"}},
                    {"name": "workers", "count": 6, "flavors": {"cpu": "spot", "nvidia.com/gpu": "a100"}, "resourceUsage": {"cpu": "12", "nvidia.com/gpu": "6"}},
                ]},
                "admissionChecks": [
                    {"name": "budget", "state": "Ready", "message": "m", "lastTransitionTime": "2026-11-21T09:00:07Z",
                     "podSetUpdates": [{"name": "workers", "labels": {"a": "b"}}]},
                    {"name": "window", "state": "Retry", "message": "", "lastTransitionTime": "2026-11-21T09:00:06Z", "retryCount": 2, "requeueAfterSeconds": 30},
                ],
                "reclaimablePods": [{"name": "workers", "count": 2}],
            },
        })
    }

    #[test]
    fn a_domain_names_all_of_its_annotations() {
        let object = json!({"metadata": {"name": "w", "annotations": {
            "a.example/x": "1", "a.example/y": "2", "b.example/x": "3", "plain": "4",
        }}});
        let kept = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let object = serde_json::from_value(object.clone()).unwrap();
            let workload = Projection::new(names).project(object);
            let kept: Vec<String> = workload
                .annotations()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            kept.join(" ")
        };
        assert_eq!(kept(&["a.example/"]), "a.example/x=1 a.example/y=2");
        assert_eq!(kept(&["b.example/x", "plain"]), "b.example/x=3 plain=4");
        assert_eq!(
            kept(&["a.example", ""]),
            "plain=4",
            "no domain: all without one"
        );
    }

    #[test]
    fn a_workload_is_read_whole() {
        let object: WorkloadObject = serde_json::from_value(workload()).unwrap();
        assert_eq!(object.malformed_fields, 0);
        let workload = Projection::new(["keep".to_owned()].into()).project(object);
        assert_eq!(workload.to_string(), "team-a/job-train-1");
        assert_eq!(
            (
                workload.queue(),
                workload.cluster_queue(),
                workload.priority()
            ),
            (Some("lq"), Some("cq"), 100)
        );
        assert_eq!(
            workload.owner().map(|owner| (owner.kind(), owner.name())),
            Some(("Job", "train"))
        );
        assert_eq!(
            (
                workload.label("team"),
                workload.label("kueue.x-k8s.io/job-uid")
            ),
            (Some("a"), None)
        );
        assert_eq!(
            (workload.annotation("keep"), workload.annotation("drop")),
            (Some("1"), None)
        );
        assert!(workload.holds_quota() && !workload.is_admitted() && workload.is_active());
        assert_eq!(
            workload
                .conditions()
                .quota_reserved()
                .last_transition_time(),
            Some("2026-11-21T09:00:05Z".parse().unwrap())
        );
        let workers = &workload.pod_sets()[1];
        assert_eq!(
            (workers.count(), workers.spec_count(), workers.reclaimable()),
            (6, 8, 2)
        );
        assert_eq!(workers.flavors().collect::<Vec<_>>(), ["spot", "a100"]);
        assert_eq!(workload.requests("cpu"), "12.5".parse().unwrap());
        assert_eq!(workload.usage("nvidia.com/gpu").units(), 6);
        let window = workload.check("window").unwrap();
        assert_eq!(
            (window.state(), window.retry_count()),
            (&CheckState::Retry, Some(2))
        );
        assert_eq!(workload.check("budget").unwrap().fingerprints().count(), 1);
        assert!(workload.check("other").is_none());
    }

    /// Makes a pod set of `spec` pods with 500m CPU each, as far as they are assigned.
    fn counted(spec: u32, assigned: Option<u32>, reclaimable: u32) -> Workload {
        let assignment = assigned.map(|assigned| {
            json!([{"name": "main", "count": assigned, "flavors": {"cpu": "spot"},
                "resourceUsage": {"cpu": format!("{}m", assigned * 500)}}])
        });
        Workload::from_json(json!({
            "metadata": {"name": "w"},
            "spec": {"podSets": [{"name": "main", "count": spec, "template":
                {"spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}}]},
            "status": {
                "admission": {"clusterQueue": "cq", "podSetAssignments": assignment},
                "reclaimablePods": [{"name": "main", "count": reclaimable}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_pods_that_are_left_are_counted_as_kueue_counts_them() {
        for (case, spec, assigned, reclaimable, left) in [
            ("not assigned yet", 4, None, 0, 4),
            (
                "evicted with two succeeded, not assigned yet",
                4,
                None,
                2,
                2,
            ),
            ("all run", 4, Some(4), 0, 4),
            ("two have succeeded", 4, Some(4), 2, 2),
            (
                "evicted with two succeeded, assigned again",
                4,
                Some(2),
                2,
                2,
            ),
            ("and then one more", 4, Some(2), 3, 1),
            ("partially admitted", 4, Some(3), 0, 3),
            ("partially admitted, two have succeeded", 4, Some(3), 2, 2),
            ("an elastic job shrank from 4 to 1", 1, Some(4), 0, 1),
            ("and grows within its assignment", 2, Some(4), 0, 2),
            (
                "more reclaimable than pods, after a shrink",
                1,
                Some(4),
                3,
                0,
            ),
            ("none is assigned", 4, Some(0), 0, 0),
        ] {
            let workload = counted(spec, assigned, reclaimable);
            let pods = &workload.pod_sets()[0];
            assert_eq!(pods.count(), left, "{case}");
            assert_eq!(
                (pods.spec_count(), pods.assigned_count(), pods.reclaimable()),
                (spec, assigned, reclaimable),
                "{case}"
            );
            let used = assigned.map_or(0, |_| i64::from(left) * 500);
            assert_eq!(workload.usage("cpu").millis(), used, "{case}");
            let requested = i64::from(left) * 500;
            assert_eq!(workload.requests("cpu").millis(), requested, "{case}");
        }
    }

    #[test]
    fn a_pod_may_go_on_for_the_grace_period_of_its_template() {
        for (spec, seconds) in [
            (json!({}), 30),
            (json!({"terminationGracePeriodSeconds": 0}), 0),
            (json!({"terminationGracePeriodSeconds": 86_400}), 86_400),
            (json!({"terminationGracePeriodSeconds": -1}), 0),
            (
                json!({"terminationGracePeriodSeconds": i64::MAX}),
                u64::from(u32::MAX),
            ),
        ] {
            let pods = json!({"name": "main", "count": 1, "template": {"spec": spec}});
            let object = json!({"metadata": {"name": "w"}, "spec": {"podSets": [pods]}});
            let workload = Workload::from_json(object).unwrap();
            let grace = workload.pod_sets()[0].termination_grace();
            assert_eq!(grace.as_secs(), seconds, "{spec}");
        }
    }

    #[test]
    fn an_assignment_without_a_count_is_of_the_whole_pod_set() {
        let workload = Workload::from_json(json!({
            "metadata": {"name": "w"},
            "spec": {"podSets": [{"name": "main", "count": 4}]},
            "status": {
                "admission": {"clusterQueue": "cq", "podSetAssignments":
                    [{"name": "main", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "8"}}]},
                "reclaimablePods": [{"name": "main", "count": 3}],
            },
        }));
        let workload = workload.unwrap();
        assert_eq!(workload.pod_sets()[0].count(), 1);
        assert_eq!(workload.usage("cpu"), "2".parse().unwrap());
    }

    #[test]
    fn what_the_two_versions_name_differently_is_read_from_both() {
        for (spec, status) in [
            (
                json!({"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}}),
                json!({"accumulatedPastExecutionTimeSeconds": 90}),
            ),
            (
                json!({"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}),
                json!({"accumulatedPastExexcutionTimeSeconds": 90}),
            ),
        ] {
            let object = json!({"metadata": {}, "spec": spec, "status": status});
            let workload = Workload::from_json(object).unwrap();
            assert_eq!(
                (
                    workload.priority_class(),
                    workload.past_execution_time().as_secs()
                ),
                (Some("high"), 90)
            );
        }
    }

    #[test]
    fn a_priority_class_is_of_the_kind_that_group_and_kind_name() {
        use PriorityClassKind::{PriorityClass, WorkloadPriorityClass};
        let reference = |group: &str, kind: &str| json!({"priorityClassRef": {"group": group, "kind": kind, "name": "high"}});
        let source =
            |source: &str| json!({"priorityClassName": "high", "priorityClassSource": source});
        for (spec, expected) in [
            (
                reference("kueue.x-k8s.io", "WorkloadPriorityClass"),
                Some(WorkloadPriorityClass),
            ),
            (
                reference("scheduling.k8s.io", "PriorityClass"),
                Some(PriorityClass),
            ),
            (
                reference("scheduling.k8s.io", "WorkloadPriorityClass"),
                None,
            ),
            (reference("kueue.x-k8s.io", "PriorityClass"), None),
            (json!({"priorityClassRef": {"name": "high"}}), None),
            (
                source("kueue.x-k8s.io/workloadpriorityclass"),
                Some(WorkloadPriorityClass),
            ),
            (
                source("scheduling.k8s.io/priorityclass"),
                Some(PriorityClass),
            ),
            (source(""), None),
            (json!({}), None),
        ] {
            let object = json!({"metadata": {}, "spec": spec});
            let workload = Workload::from_json(object).unwrap();
            assert_eq!(workload.priority_class_kind(), expected, "{spec}");
        }
    }

    #[test]
    fn a_malformed_workload_is_read_as_one_without_quota() {
        let object: WorkloadObject = serde_json::from_value(json!({
            "metadata": {"name": "odd", "namespace": "n", "uid": "u", "resourceVersion": "1"},
            "spec": {"podSets": [7, {"name": "a", "count": "many", "template": []}], "active": "yes", "priority": {}},
            "status": {"conditions": {"QuotaReserved": true}, "admission": "cq", "admissionChecks": [[], {"name": 1, "state": {}}]},
        }))
        .unwrap();
        assert!(object.malformed_fields >= 9, "{}", object.malformed_fields);
        let workload = Projection::all_annotations().project(object);
        assert!(!workload.holds_quota() && workload.is_active());
        assert_eq!(workload.pod_sets().len(), 2);
    }

    #[test]
    fn a_field_of_another_shape_at_any_depth_costs_itself() {
        for odd in [
            json!({"metadata": {"ownerReferences": [{"controller": [], "uid": "7"}]}}),
            json!({"metadata": {"labels": {"odd": [1, {"deep": 2}], "team": "a"}}}),
            json!({"metadata": {"annotations": {"odd": {"deep": [1]}}}}),
            json!({"metadata": {}, "status": {"accumulatedPastExecutionTimeSeconds": 0,
                "accumulatedPastExexcutionTimeSeconds": []}}),
            json!({"metadata": {}, "status": {"admissionChecks": [{"name": "window", "podSetUpdates":
                [{"name": "a", "tolerations": [{"key": [1], "value": {"a": 1}, "effect": "NoSchedule"}]}]}]}}),
        ] {
            let mut object = odd.clone();
            object["metadata"]["name"] = json!("odd");
            object["spec"] = json!({"queueName": "main"});
            let text = object.to_string();
            let (workload, malformed) = Workload::from_slice(text.as_bytes()).unwrap();
            assert_eq!(
                (workload.name(), workload.queue()),
                ("odd", Some("main")),
                "{odd}"
            );
            assert!(malformed > 0, "{odd}");
            assert!(workload.label("team").is_some() || odd.pointer("/metadata/labels").is_none());
        }
    }

    #[test]
    fn only_inputs_of_a_check_cause_a_new_evaluation() {
        let project =
            |value| Projection::all_annotations().project(serde_json::from_value(value).unwrap());
        let base = project(workload());
        let changed = |path: &str, value| {
            let mut object = workload();
            *object.pointer_mut(path).unwrap() = value;
            !base.decides_like(&project(object))
        };
        assert!(!changed("/metadata/resourceVersion", json!("43")));
        assert!(!changed("/status/conditions", json!([])));
        assert!(!changed("/status/admissionChecks", json!([])));
        assert!(changed("/spec/priority", json!(1)));
        assert!(changed("/metadata/labels", json!({})));
        assert!(changed("/spec/podSets/0/count", json!(3)));
        assert!(changed(
            "/status/admission/podSetAssignments/1/flavors/cpu",
            json!("on-demand")
        ));
    }

    #[test]
    fn updates_differ_by_content_and_not_by_how_absence_is_written() {
        let entry = |updates| {
            let mut object = workload();
            *object
                .pointer_mut("/status/admissionChecks/0/podSetUpdates")
                .unwrap() = updates;
            Projection::all_annotations()
                .project(serde_json::from_value(object).unwrap())
                .check("budget")
                .unwrap()
                .updates_digest
        };
        assert_eq!(entry(json!([])), entry(json!(null)));
        assert_eq!(
            entry(json!([{"name": "a", "labels": {}}])),
            entry(json!([{"name": "a"}]))
        );
        assert_ne!(entry(json!([{"name": "a"}])), entry(json!([])));
        assert_ne!(
            entry(json!([{"name": "a", "labels": {"k": "v"}}])),
            entry(json!([{"name": "a", "annotations": {"k": "v"}}]))
        );
        assert_ne!(
            entry(json!([{"name": "a", "tolerations": [{"key": "k"}]}])),
            entry(json!([{"name": "a", "tolerations": [{"key": "l"}]}]))
        );
    }
}
