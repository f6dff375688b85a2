//! Which approvals are of the pods that a Workload has now. Pure.
//!
//! While a Workload has no quota, Kueue writes a changed job into it (0.19.2,
//! `updateWorkloadToMatchJob` in `pkg/controller/jobframework/reconciler.go`), so the same Workload
//! may have other pods than at the time of an approval. An approval counts if it is younger than
//! the last write of the pods. If it has counted before, it counts as long as the pods are the
//! same, or fewer.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kueue_check::Request;
use kueue_check::api::{ResourceVersion, Uid};
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// The maximum number of stored Workloads. For one that is not stored, a write of any field of its
/// spec by Kueue counts as one of its pods.
const STORED: usize = 10_000;
/// The unit of times in the API: what happened within one is in no order.
const SECOND: Duration = Duration::from_secs(1);

/// The Workloads that were read, by AdmissionCheck.
#[derive(Default)]
pub(super) struct Pods(BTreeMap<(Uid, String), CachedPods>);

/// An approval to validate: its uid, and when it was created.
pub(super) type Candidate = (String, Timestamp);

/// Whether approvals are of the current pods, by the uid of the approval.
pub(super) type Validity = BTreeMap<String, bool>;

/// What was read of a Workload.
struct CachedPods {
    version: ResourceVersion,
    pod_sets: Vec<PodSet>,
    /// The last recorded write of the pod sets.
    written: Option<Timestamp>,
    /// Approvals that were created at this time or later are of these pod sets.
    since: Timestamp,
    validity: Validity,
}

/// One pod set.
struct PodSet {
    count: Option<i64>,
    /// A digest of all other fields.
    rest: Vec<u8>,
}

impl Pods {
    /// Returns which of the `candidates` are of the pods of the Workload of `request`, if all were
    /// validated against this version of the Workload or a later one.
    pub(super) fn validity(&self, request: &Request, candidates: &[Candidate]) -> Option<Validity> {
        let read = self.0.get(&key(request))?;
        let version = request.workload().resource_version();
        let current = read.version == *version || version.is_older_than(&read.version);
        let known = |(uid, _): &Candidate| read.validity.contains_key(uid);
        (current && candidates.iter().all(known)).then(|| read.validity.clone())
    }

    /// Validates the `candidates` against `object`, the Workload of `request`, which was read after
    /// they were created.
    pub(super) fn validate(
        &mut self,
        request: &Request,
        object: &Value,
        candidates: &[Candidate],
    ) -> Validity {
        let key = key(request);
        let version = object["metadata"]["resourceVersion"].as_str();
        let version = ResourceVersion::new(version.unwrap_or_default());
        let mut read = match self.0.remove(&key) {
            Some(before) if version.is_older_than(&before.version) => before,
            before => CachedPods::of(object, version, before, request),
        };
        let validity = candidates.iter().map(|(uid, made)| {
            let counted = read.validity.get(uid) == Some(&true);
            (uid.clone(), counted || *made >= read.since)
        });
        read.validity = validity.collect();
        let validity = read.validity.clone();
        if self.0.len() >= STORED {
            self.0.pop_first();
        }
        self.0.insert(key, read);
        validity
    }
}

fn key(request: &Request) -> (Uid, String) {
    let check = request.admission_check().to_owned();
    (request.workload().uid().clone(), check)
}

impl CachedPods {
    fn of(
        object: &Value,
        version: ResourceVersion,
        before: Option<Self>,
        request: &Request,
    ) -> Self {
        let (pod_sets, written) = (pod_sets(object), written(object));
        // No write of the spec has followed the creation.
        let first = object["metadata"]["generation"].as_i64() == Some(1);
        let created = request.workload().created().filter(|_| first);
        let last = before.as_ref().and_then(|before| before.written);
        let same = before.filter(|before| is_within(&pod_sets, &before.pod_sets));
        let since = match (created, written.filter(|_| written > last), &same) {
            (Some(created), ..) => after(created),
            (None, Some(written), _) => after(written),
            (None, None, Some(same)) => same.since,
            // A write that only removes fields has no recorded time.
            (None, None, None) => after(request.now()),
        };
        let mut validity = same.map_or_else(Validity::new, |same| same.validity);
        validity.retain(|_, counted| *counted);
        Self {
            version,
            pod_sets,
            written,
            since,
            validity,
        }
    }
}

/// Returns the first time at which an approval is certainly later than `time`.
fn after(time: Timestamp) -> Timestamp {
    time.checked_add(SECOND).unwrap_or(Timestamp::MAX)
}

/// Returns when the spec was last written by a client that has written the pod sets.
fn written(object: &Value) -> Option<Timestamp> {
    let entries = object["metadata"]["managedFields"].as_array()?.iter();
    let owners = entries.filter(|entry| {
        let subresource = entry["subresource"].as_str().unwrap_or_default();
        subresource.is_empty() && !entry["fieldsV1"]["f:spec"]["f:podSets"].is_null()
    });
    let times = owners.filter_map(|entry| entry["time"].as_str()?.parse::<Timestamp>().ok());
    times.max()
}

fn pod_sets(object: &Value) -> Vec<PodSet> {
    let sets = object["spec"]["podSets"].as_array();
    let sets = sets.into_iter().flatten().map(|set| {
        let mut rest = set.clone();
        let count = rest.as_object_mut().and_then(|set| set.remove("count"));
        PodSet {
            count: count.and_then(|count| count.as_i64()),
            rest: digest(&SHA256, rest.to_string().as_bytes())
                .as_ref()
                .to_vec(),
        }
    });
    sets.collect()
}

/// Returns true if `own` are the pod sets `earlier`, or fewer pods of them: an elastic job shrinks
/// in the same Workload.
fn is_within(own: &[PodSet], earlier: &[PodSet]) -> bool {
    let mut pairs = own.iter().zip(earlier);
    own.len() == earlier.len()
        && pairs.all(|(own, earlier)| own.rest == earlier.rest && own.count <= earlier.count)
}

#[cfg(test)]
mod tests {
    use kueue_check::api::Workload;
    use kueue_check::{NoParameters, RequestBuilder};
    use serde_json::json;

    use super::*;

    fn time(minute: u32) -> Timestamp {
        format!("2026-11-20T00:{minute:02}:00Z").parse().unwrap()
    }

    /// The Workload was created in minute 0.
    fn request(version: u32, minute: u32) -> Request {
        let workload = Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": "w", "uid": "u", "creationTimestamp": time(0), "resourceVersion": version.to_string()},
            "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": time(1)}]},
        }));
        let request = RequestBuilder::new(workload.unwrap(), "approval").now(time(minute));
        request.build(NoParameters).request().clone()
    }

    /// Returns a Workload with `count` pods of `image`, whose spec Kueue wrote in `minute`.
    fn object(version: u32, minute: u32, count: u32, image: &str) -> Value {
        let podsets = json!({"f:spec": {"f:podSets": {}}});
        json!({
            "metadata": {"resourceVersion": version.to_string(), "generation": if minute == 0 { 1 } else { 2 }, "managedFields": [
                {"manager": "kueue", "operation": "Update", "time": time(minute), "fieldsV1": podsets},
                {"manager": "kubectl", "operation": "Update", "time": time(50), "fieldsV1": {"f:spec": {"f:active": {}}}},
                {"manager": "kueue", "operation": "Update", "subresource": "status", "time": time(50), "fieldsV1": podsets},
            ]},
            "spec": {"podSets": [{"name": "main", "count": count, "template": {"image": image}}]},
        })
    }

    fn made(minutes: &[u32]) -> Vec<Candidate> {
        let minutes = minutes.iter();
        minutes.map(|at| (at.to_string(), time(*at))).collect()
    }

    /// Returns the minutes of the approvals that count.
    fn counted(validity: &Validity) -> Vec<&str> {
        let counted = validity.iter().filter(|(_, counts)| **counts);
        counted.map(|(uid, _)| uid.as_str()).collect()
    }

    #[test]
    fn an_approval_counts_for_the_pods_of_its_time() {
        // The minute of the last write, the pods and the image, the minutes of approvals, and those
        // that count. Each row is a read of the same Workload.
        type Row = (
            u32,
            u32,
            &'static str,
            &'static [u32],
            &'static [&'static str],
        );
        let tables: [&[Row]; 7] = [
            // The first one may be of an earlier Workload of that name.
            &[(0, 1, "a", &[0, 10, 20], &["10", "20"])],
            // The pods were written after the first approval, and in the minute of the second.
            &[(20, 9, "a", &[10, 20, 30], &["30"])],
            // Another write of Kueue, such as one of the priority.
            &[(0, 1, "a", &[10], &["10"]), (20, 1, "a", &[10], &["10"])],
            // Other pods, and then the first ones again: who approved the others is not counted.
            &[
                (0, 9, "a", &[10], &["10"]),
                (20, 9, "b", &[10, 25], &["25"]),
                (30, 9, "a", &[10, 25, 35], &["35"]),
            ],
            &[
                (0, 9, "a", &[10], &["10"]),
                (30, 9, "a", &[10, 25, 35], &["10", "35"]),
            ],
            // Fewer pods are approved, another image is not, nor are more pods again.
            &[
                (0, 9, "a", &[10], &["10"]),
                (20, 5, "a", &[10], &["10"]),
                (30, 9, "a", &[10], &[]),
            ],
            // A write without a recorded time: what only removes fields.
            &[(5, 1, "a", &[10], &["10"]), (5, 1, "b", &[10], &[])],
        ];
        for table in tables {
            let mut pods = Pods::default();
            for (version, (written, count, image, approvals, expected)) in (1..).zip(table) {
                let (request, approvals) = (request(version, 40), made(approvals));
                assert!(pods.validity(&request, &approvals).is_none(), "it is read");
                let object = object(version, *written, *count, image);
                let validity = pods.validate(&request, &object, &approvals);
                assert_eq!(counted(&validity), *expected, "{table:?}, {version}");
                assert_eq!(pods.validity(&request, &approvals), Some(validity));
            }
        }
    }

    #[test]
    fn a_workload_without_recorded_times_counts_what_is_approved_after_it_was_read() {
        let mut pods = Pods::default();
        let mut object = object(1, 20, 1, "a");
        object["metadata"]["managedFields"].take();
        let first = pods.validate(&request(1, 40), &object, &made(&[30]));
        assert!(counted(&first).is_empty());
        let second = pods.validate(&request(1, 45), &object, &made(&[30, 42]));
        assert_eq!(counted(&second), ["42"]);
    }

    #[test]
    fn a_workload_is_read_for_each_new_approval_and_version() {
        let mut pods = Pods::default();
        pods.validate(&request(2, 40), &object(2, 0, 1, "a"), &made(&[10]));
        let known = |version, approvals: &[u32]| {
            let validity = pods.validity(&request(version, 40), &made(approvals));
            validity.is_some()
        };
        assert!(known(2, &[10]) && known(1, &[10]));
        assert!(!known(2, &[10, 20]) && !known(3, &[10]));
    }
}
