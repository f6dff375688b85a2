//! Partial admission: the number of Pods with which a Workload may start.
//!
//! The rules are those of Kueue 0.19.2: `pkg/scheduler/flavorassigner/podset_reducer.go`.

use crate::kueue::objects::Workload;

/// Searches the largest counts that fit, by bisection between all Pods and the minimum counts. Each
/// pod set is reduced by the same share of the Pods above its minimum. `fits` receives the counts
/// of all pod sets.
pub(crate) fn largest_that_fits<T>(
    workload: &Workload,
    mut fits: impl FnMut(&[i64]) -> Option<T>,
) -> Option<T> {
    let sets = workload.spec.pod_sets.iter();
    let spare: Vec<(i64, i64)> = sets
        .map(|set| (set.count, set.count - set.min_count.unwrap_or(set.count)))
        .collect();
    let total: i64 = spare.iter().map(|(_, spare)| spare).sum();
    if total == 0 {
        return None;
    }
    let counts = |step: i64| -> Vec<i64> {
        let each = spare.iter();
        each.map(|(count, spare)| count - spare * step / total)
            .collect()
    };
    let mut best = None;
    let (mut low, mut high) = (0, total + 1);
    while low < high {
        let middle = i64::midpoint(low, high);
        if let Some(found) = fits(&counts(middle)) {
            best = Some((middle, found));
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    best.filter(|(step, _)| *step == low)
        .map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn as_many_pods_start_as_fit() {
        // Pods, minimum, Pods that fit; Pods that start.
        let table = [
            (4, Some(2), 3, Some(3)),
            (4, Some(2), 4, Some(4)),
            (4, Some(2), 2, Some(2)),
            (4, Some(2), 1, None),
            (4, None, 3, None),
            (100, Some(1), 37, Some(37)),
        ];
        for (count, least, capacity, expected) in table {
            let workload: Workload = serde_json::from_value(json!({"spec": {"podSets": [
                {"name": "main", "count": count, "minCount": least},
            ]}}))
            .unwrap();
            let fits = |counts: &[i64]| (counts[0] <= capacity).then(|| counts[0]);
            assert_eq!(
                largest_that_fits(&workload, fits),
                expected,
                "{count} {least:?} {capacity}"
            );
        }
    }
}
