//! Workload slices of an elastic job: selection of the current slice, and the end of the others.
//!
//! The rules are those of Kueue 0.19.2: `pkg/workloadslicing/workloadslicing.go`.

use serde_json::Value;

use crate::kueue::KueueVersion;
use crate::kueue::objects::Workload;
use crate::kueue::reconcile::SLICE_REPLACED;

/// The annotation of an elastic job and of its slices.
pub(crate) const ELASTIC: &str = "kueue.x-k8s.io/elastic-job";
/// The annotation of a slice with the key of the slice that it replaces.
pub(super) const REPLACES: &str = "kueue.x-k8s.io/workload-slice-replacement-for";
/// The annotation of all slices of a job and of its Pods, with the name of the first slice.
pub(super) const SLICE_NAME: &str = "kueue.x-k8s.io/workload-slice-name";
/// The gate of the Pods of an elastic job.
pub(crate) const GATE: &str = "kueue.x-k8s.io/elastic-job";

/// Returns true if Kueue treats the job as elastic.
pub(crate) fn is_elastic(object: &Value, version: KueueVersion) -> bool {
    version.elastic_jobs && is_annotated(object)
}

/// Returns true if the job has the annotation of elastic jobs.
pub(super) fn is_annotated(object: &Value) -> bool {
    object["metadata"]["annotations"][ELASTIC] == "true"
}

/// The next action for the slices of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next<'a> {
    /// Create a slice for the current job; it replaces this slice, if any.
    New(Option<&'a Workload>),
    /// This slice is the job's Workload.
    Current(&'a Workload),
    /// This slice is the job's Workload, and its count changes to that of the job.
    Rescale(&'a Workload),
    /// Finish this slice, with a reason and a message.
    Finish(&'a Workload, &'static str, &'static str),
}

/// Returns the next action for the slices of a job that requires `count` Pods. `slices`: the
/// unfinished ones, the oldest first.
pub(super) fn next<'a>(slices: &[&'a Workload], count: i64, version: KueueVersion) -> Next<'a> {
    let selected = match slices {
        [] => return Next::New(None),
        [only] => *only,
        several => match normalize(several) {
            Normal::Finish(slice, replaced) => {
                return finish(slice, replaced && version.revised_slices);
            }
            Normal::Selected(Some(slice)) => slice,
            Normal::Selected(None) => return Next::New(None),
        },
    };
    let has = selected.spec.pod_sets.first().map_or(0, |set| set.count);
    if has == count {
        Next::Current(selected)
    } else if !selected.has_quota() || count < has {
        Next::Rescale(selected)
    } else {
        Next::New(Some(selected))
    }
}

fn finish(slice: &Workload, replaced: bool) -> Next<'_> {
    if replaced {
        let message = "Replaced to accommodate a new workload slice";
        Next::Finish(slice, SLICE_REPLACED, message)
    } else {
        let message = "The workload slice is out of sync with its parent job";
        Next::Finish(slice, "OutOfSync", message)
    }
}

enum Normal<'a> {
    /// A superfluous slice; whether another one replaces it.
    Finish(&'a Workload, bool),
    /// The current slice.
    Selected(Option<&'a Workload>),
}

/// Keeps at most one slice with quota, and at most one replacement of it that waits for quota.
fn normalize<'a>(slices: &[&'a Workload]) -> Normal<'a> {
    let live = || slices.iter().copied().filter(|slice| !slice.is_evicted());
    let replacement = |of: &Workload| {
        let key = of.metadata.key();
        let claims = || live().filter(|slice| slice.replaces() == Some(key.as_str()));
        claims()
            .find(|slice| slice.has_quota())
            .or_else(|| claims().next())
    };
    let holds = |slice: &&Workload| {
        let next = replacement(slice);
        slice.has_quota() && !next.is_some_and(Workload::has_quota)
    };
    let holder = live().rfind(holds);
    let waiting = holder
        .and_then(&replacement)
        .filter(|slice| !slice.has_quota());
    let selected = waiting.or(holder).or_else(|| live().next_back());
    let is = |one: Option<&Workload>, slice: &Workload| {
        one.is_some_and(|one| one.metadata.name == slice.metadata.name)
    };
    let extra = slices
        .iter()
        .find(|slice| !is(selected, slice) && !is(holder, slice));
    match extra {
        Some(slice) => Normal::Finish(slice, replacement(slice).is_some()),
        None => Normal::Selected(selected),
    }
}

/// Returns the slice with quota that is kept until its replacement `slice` has quota: the newest
/// (Kueue 0.19.2, `syncWorkloadSlicePriority` in `pkg/controller/jobframework/reconciler.go`).
pub(super) fn kept_behind<'a>(slice: &Workload, slices: &[&'a Workload]) -> Option<&'a Workload> {
    newest_holder(slices).filter(|known| known.metadata.name != slice.metadata.name)
}

/// Returns the newest slice that has quota and is not evicted, if it is admitted; before
/// `revised_slices` the newest with quota. Pods lose their gate up to its count.
pub(super) fn latest_active<'a>(
    slices: &[&'a Workload],
    version: KueueVersion,
) -> Option<&'a Workload> {
    if version.revised_slices {
        newest_holder(slices).filter(|slice| slice.is_admitted())
    } else {
        slices.iter().copied().rfind(|slice| slice.has_quota())
    }
}

fn newest_holder<'a>(slices: &[&'a Workload]) -> Option<&'a Workload> {
    let holds = |slice: &&Workload| slice.has_quota() && !slice.is_evicted();
    slices.iter().copied().rfind(holds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Creates a slice: name, Pods, `q` with quota, `a` admitted, `e` evicted, and the name of the
    /// slice it replaces.
    fn slice((name, count, state, replaces): (&str, i64, &str, &str)) -> Workload {
        let condition = |kind: &str, letter: char| {
            let status = if state.contains(letter) {
                "True"
            } else {
                "False"
            };
            json!({"type": kind, "status": status})
        };
        let mut workload = json!({
            "metadata": {"namespace": "t", "name": name, "annotations": {ELASTIC: "true"}},
            "spec": {"podSets": [{"name": "main", "count": count}]},
            "status": {"conditions": [
                condition("QuotaReserved", 'q'),
                condition("Admitted", 'a'),
                condition("Evicted", 'e'),
            ]},
        });
        if !replaces.is_empty() {
            workload["metadata"]["annotations"][REPLACES] = json!(format!("t/{replaces}"));
        }
        serde_json::from_value(workload).unwrap()
    }

    fn decided(slices: &[(&str, i64, &str, &str)], count: i64) -> String {
        let slices: Vec<Workload> = slices.iter().copied().map(slice).collect();
        let slices: Vec<&Workload> = slices.iter().collect();
        let name = |slice: &Workload| slice.metadata.name.clone();
        match next(&slices, count, KueueVersion::V0_19) {
            Next::New(of) => format!("new {}", of.map(name).unwrap_or_default()),
            Next::Current(slice) => format!("current {}", name(slice)),
            Next::Rescale(slice) => format!("rescale {}", name(slice)),
            Next::Finish(slice, reason, _) => format!("finish {} {reason}", name(slice)),
        }
    }

    #[test]
    fn growth_is_a_new_slice_and_anything_less_is_not() {
        let waits = ("b", 4, "", "a");
        let table: [(&[_], i64, &str); 13] = [
            (&[], 2, "new "),
            (&[("a", 2, "q", "")], 2, "current a"),
            (&[("a", 2, "q", "")], 4, "new a"),
            (&[("a", 2, "", "")], 4, "rescale a"),
            (&[("a", 4, "q", "")], 3, "rescale a"),
            // An evicted slice that still has quota is replaced, too.
            (&[("a", 2, "qe", "")], 4, "new a"),
            // While a scale-up waits for quota, both stay, and the job follows the new slice.
            (&[("a", 2, "q", ""), waits], 4, "current b"),
            (&[("a", 2, "q", ""), waits], 6, "rescale b"),
            // Once the new slice has quota, the old one is finished.
            (
                &[("a", 2, "q", ""), ("b", 4, "q", "a")],
                4,
                "finish a WorkloadSliceReplaced",
            ),
            // The old slice is evicted while the scale-up waits: the leak that leaves Pods without
            // quota.
            (
                &[("a", 2, "qe", ""), waits],
                4,
                "finish a WorkloadSliceReplaced",
            ),
            // The new slice is evicted: it no longer belongs to the job.
            (
                &[("a", 2, "q", ""), ("b", 4, "qe", "a")],
                4,
                "finish b OutOfSync",
            ),
            (
                &[("a", 2, "e", ""), ("b", 4, "e", "a")],
                4,
                "finish a OutOfSync",
            ),
            // Two slices replace the same one: the one with quota counts.
            (
                &[("a", 2, "q", ""), waits, ("c", 4, "q", "a")],
                4,
                "finish a WorkloadSliceReplaced",
            ),
        ];
        for (slices, count, expected) in table {
            assert_eq!(decided(slices, count), expected, "{slices:?} {count}");
        }
    }

    #[test]
    fn pods_are_let_go_by_the_newest_slice_with_quota() {
        let table: [(&[_], Option<&str>, Option<&str>); 5] = [
            (
                &[("a", 2, "qa", ""), ("b", 4, "", "a")],
                Some("a"),
                Some("a"),
            ),
            (
                &[("a", 2, "qa", ""), ("b", 4, "qa", "a")],
                Some("b"),
                Some("b"),
            ),
            (
                &[("a", 2, "qa", ""), ("b", 4, "qae", "a")],
                Some("a"),
                Some("b"),
            ),
            (&[("a", 2, "qa", ""), ("b", 4, "q", "a")], None, Some("b")),
            (&[("a", 2, "", "")], None, None),
        ];
        for (slices, expected, before) in table {
            let all: Vec<Workload> = slices.iter().copied().map(slice).collect();
            let all: Vec<&Workload> = all.iter().collect();
            let found = [KueueVersion::V0_19, KueueVersion::V0_18].map(|version| {
                latest_active(&all, version).map(|slice| slice.metadata.name.as_str())
            });
            assert_eq!(found, [expected, before], "{slices:?}");
        }
    }
}
