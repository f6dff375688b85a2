//! Kueue's objects, as the API server sends them.

use kueue_check::api::{AdmissionCheck, PodSet, Quantity, ResourceFlavor, Workload};
use serde_json::{Value, json};

use super::{Form, KEPT, Outcome, Target, magnitude, outcome, shape};
use crate::target::DictionaryWords::Of;

pub(super) const WORKLOAD: Target = Target {
    name: "workload",
    about: "Workloads: what is well formed is read, whatever else is not",
    form: Form::Json,
    dictionary: &[Of("
        metadata spec status name namespace uid labels annotations ownerReferences controller
        podSets count template containers initContainers restartPolicy Always resources requests
        limits cpu nvidia.com/gpu overhead admission clusterQueue podSetAssignments flavors
        resourceUsage reclaimablePods admissionChecks state message lastTransitionTime retryCount
        podSetUpdates tolerations conditions type QuotaReserved Admitted Evicted Finished True
        priority priorityClassRef active maximumExecutionTimeSeconds 2026-11-21T09:00:00Z 500m 1e400
        kueue.x-k8s.io/elastic-job kueue.x-k8s.io/concurrent-admission-parent
        kueue.x-k8s.io/workload-slice-replacement-for kueue.x-k8s.io/job-uid
        terminationGracePeriodSeconds accumulatedPastExexcutionTimeSeconds
    ")],
    memory: KEPT,
    run: workload,
};

fn workload(input: &[u8]) -> Outcome {
    let read = Workload::from_slice(input);
    let tree = serde_json::from_slice::<Value>(input);
    let (workload, malformed) = match read {
        Ok(read) => read,
        Err(error) => {
            // An object fails as a whole only if it is no JSON, has no metadata or a malformed
            // name.
            if let Ok(tree) = &tree {
                assert!(!has_metadata(tree) || has_twins(input, tree), "{error}");
            }
            return outcome(shape(&error.to_string()));
        }
    };
    if let Ok(tree) = &tree
        && tree["metadata"].is_object()
        && !has_twins(input, tree)
    {
        assert_eq!(
            Workload::from_json(tree.clone()).ok().as_ref(),
            Some(&workload)
        );
        fields_are_kept(tree, &workload);
        one_malformed_field_costs_itself(tree, &workload);
    }
    let seen = read_all(&workload);
    outcome((malformed.min(20), seen))
}

/// Returns true if an object has the metadata that each object of an API server has.
fn has_metadata(tree: &Value) -> bool {
    let text =
        |field: &str| tree["metadata"][field].is_string() || tree["metadata"][field].is_null();
    tree["metadata"].is_object()
        && ["name", "namespace", "uid", "resourceVersion"]
            .iter()
            .all(|field| text(field))
        && (tree["metadata"]["generation"].is_i64() || tree["metadata"]["generation"].is_null())
}

/// Returns true if a field comes twice, of which the tree keeps one: no API server sends that.
fn has_twins(input: &[u8], tree: &Value) -> bool {
    let pieces = |text: &[u8]| text.split(|byte| *byte == b'"').count();
    pieces(input) != pieces(tree.to_string().as_bytes()) || escapes(input)
}

fn escapes(input: &[u8]) -> bool {
    input.contains(&b'\\')
}

/// Asserts that the lenient reader has all fields that a strict reader has.
fn fields_are_kept(tree: &Value, workload: &Workload) {
    let text = |pointer: &str| tree.pointer(pointer).and_then(Value::as_str);
    assert_eq!(workload.name(), text("/metadata/name").unwrap_or_default());
    assert_eq!(
        workload.namespace(),
        text("/metadata/namespace").unwrap_or_default()
    );
    assert_eq!(
        workload.uid().to_string(),
        text("/metadata/uid").unwrap_or_default()
    );
    assert_eq!(
        workload.queue(),
        text("/spec/queueName").filter(|name| !name.is_empty())
    );
    assert_eq!(
        workload.cluster_queue(),
        text("/status/admission/clusterQueue").filter(|name| !name.is_empty())
    );
    let priority = tree.pointer("/spec/priority").and_then(Value::as_i64);
    let priority = priority.and_then(|priority| i32::try_from(priority).ok());
    assert_eq!(workload.priority(), priority.unwrap_or_default());
    let active = tree.pointer("/spec/active").and_then(Value::as_bool);
    assert_eq!(workload.is_active(), active.unwrap_or(true));
    let list = |pointer: &str| tree.pointer(pointer).and_then(Value::as_array);
    let pod_sets = list("/spec/podSets").map_or(&[][..], Vec::as_slice);
    assert_eq!(workload.pod_sets().len(), pod_sets.len());
    for (seen, strict) in workload.pod_sets().iter().zip(pod_sets) {
        assert_eq!(seen.name(), strict["name"].as_str().unwrap_or_default());
        let count = strict["count"]
            .as_u64()
            .and_then(|count| u32::try_from(count).ok());
        assert_eq!(seen.spec_count(), count.unwrap_or_default());
        assert!(
            seen.count()
                <= seen
                    .spec_count()
                    .max(seen.assigned_count().unwrap_or_default())
        );
    }
    let checks = list("/status/admissionChecks").map_or(&[][..], Vec::as_slice);
    assert_eq!(workload.checks().len(), checks.len());
    for (seen, strict) in workload.checks().iter().zip(checks) {
        assert_eq!(seen.name(), strict["name"].as_str().unwrap_or_default());
        let state = strict["state"].as_str().filter(|state| !state.is_empty());
        assert_eq!(seen.state().as_str(), state.unwrap_or("Pending"));
    }
}

/// Asserts that a field of another shape becomes its default, and changes nothing else.
fn one_malformed_field_costs_itself(tree: &Value, workload: &Workload) {
    for (pointer, wrong) in [
        ("/spec/priority", json!({"deep": [1]})),
        ("/status/conditions", json!("none")),
        ("/status/admissionChecks", json!(7)),
        ("/metadata/annotations", json!([["a", "b"]])),
    ] {
        let mut odd = tree.clone();
        let Some(field) = odd.pointer_mut(pointer) else {
            continue;
        };
        *field = wrong;
        let Ok(odd) = Workload::from_json(odd) else {
            panic!("{pointer} costs the whole object");
        };
        assert_eq!(odd.name(), workload.name(), "{pointer}");
        assert_eq!(odd.pod_sets().len(), workload.pod_sets().len(), "{pointer}");
        assert_eq!(odd.cluster_queue(), workload.cluster_queue(), "{pointer}");
        let usage = |workload: &Workload| workload.usage("cpu");
        assert_eq!(usage(&odd), usage(workload), "{pointer}");
        assert!(pointer == "/spec/priority" || odd.priority() == workload.priority());
    }
}

/// Reads everything that a check can read.
fn read_all(workload: &Workload) -> impl std::hash::Hash + use<> {
    let mut names = 0;
    for pod_set in workload.pod_sets() {
        for resource in pod_set.resources() {
            let requested = pod_set.requests(resource.name()) * pod_set.count();
            assert!(requested + Quantity::ZERO == requested);
            assert!(requested.as_f64().is_finite());
            let _ = (
                workload.requests(resource.name()),
                workload.usage(resource.name()),
            );
            names += 1;
        }
    }
    let updates = workload
        .checks()
        .iter()
        .filter(|check| check.since().is_some())
        .count();
    let waits = workload
        .pod_sets()
        .iter()
        .map(PodSet::termination_grace)
        .max();
    (
        workload.holds_quota(),
        workload.is_admitted(),
        workload.conditions().evicted().is_true(),
        workload.owner().is_some(),
        workload.priority_class_kind().is_some(),
        workload.labels().count().min(5),
        magnitude(names),
        updates.min(5),
        waits.map(|wait| wait.as_secs().checked_ilog10()),
        workload.family_key() == workload.uid(),
    )
}

pub(super) const OBJECTS: Target = Target {
    name: "objects",
    about: "AdmissionChecks and ResourceFlavors",
    form: Form::Json,
    dictionary: &[Of("
        metadata name spec status controllerName parameters apiGroup kind retryDelayMinutes
        conditions type Active True observedGeneration nodeLabels annotations labels generation
        deletionTimestamp 2026-11-21T09:00:00Z
    ")],
    memory: KEPT,
    run: objects,
};

fn objects(input: &[u8]) -> Outcome {
    let Ok(tree) = serde_json::from_slice::<Value>(input) else {
        return 0;
    };
    let check = AdmissionCheck::from_json(tree.clone());
    let flavor = ResourceFlavor::from_json(tree.clone());
    assert!(
        !has_metadata(&tree) || (check.is_ok() && flavor.is_ok()),
        "{check:?} {flavor:?}"
    );
    let text = |pointer: &str| tree.pointer(pointer).and_then(Value::as_str);
    if !tree["metadata"].is_object() {
        return outcome((check.is_ok(), flavor.is_ok()));
    }
    let mut seen = (false, false, 0);
    if let Ok(check) = check {
        assert_eq!(check.name(), text("/metadata/name").unwrap_or_default());
        let named = check.controller_name();
        assert_eq!(named, text("/spec/controllerName").unwrap_or_default());
        seen.0 = check.parameters().is_some();
        seen.1 = check.is_being_deleted();
    }
    if let Ok(flavor) = flavor {
        assert_eq!(flavor.name(), text("/metadata/name").unwrap_or_default());
        seen.2 = magnitude(flavor.node_labels().len());
    }
    outcome(seen)
}
