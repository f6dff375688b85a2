//! Tests of flavor assignment and preemption.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::assign::Capacity;
use super::node_affinity::Flavors;
use super::{
    Assignment, AssignmentInput, Candidate, Cause, Contender, Contest, Fit, LastTried, Tree, Usage,
    fairest, victims,
};
use crate::kueue::KueueVersion;
use crate::kueue::objects::{
    ClusterQueue, Cohort, FlavorFungibility, PreemptionPolicy, ResourceFlavor, Workload,
};
use crate::kueue::pods_ready::RequeuingTimestamp;

fn workload(name: &str, priority: i64, cpu: &str) -> Workload {
    serde_json::from_value(json!({
        "metadata": {"namespace": "t", "name": name, "uid": name, "creationTimestamp": "2026-11-21T09:00:00Z"},
        "spec": {"priority": priority, "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        ]}}}]},
    }))
    .unwrap()
}

fn queue(flavors: Value, preemption: &str) -> ClusterQueue {
    serde_json::from_value(json!({"metadata": {"name": "cq"}, "spec": {
        "preemption": {"withinClusterQueue": preemption},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
    }}))
    .unwrap()
}

fn flavors(names: &[&str]) -> Flavors {
    names
        .iter()
        .map(|name| ((*name).to_owned(), ResourceFlavor::default()))
        .collect::<BTreeMap<_, _>>()
}

/// Returns the tree of these ClusterQueues with their usage.
fn tree(queues: &[(&ClusterQueue, &Usage)]) -> Tree {
    let each = queues.iter();
    let named = each
        .clone()
        .map(|(q, _)| (q.metadata.name.clone(), (*q).clone()));
    let taken = each.map(|(q, usage)| (q.metadata.name.clone(), (*usage).clone()));
    Tree::new(&named.collect(), &BTreeMap::new(), &taken.collect())
}

fn assign(
    workload: &Workload,
    queue: &ClusterQueue,
    taken: &Usage,
    flavors: &Flavors,
) -> Assignment {
    assign_in(
        &tree(&[(queue, taken)]),
        workload,
        queue,
        flavors,
        &LastTried::new(),
    )
}

fn assign_in(
    tree: &Tree,
    workload: &Workload,
    queue: &ClusterQueue,
    flavors: &Flavors,
    last_tried: &LastTried,
) -> Assignment {
    let preempts = queue.spec.preemption.within_cluster_queue != PreemptionPolicy::Never;
    let ground = AssignmentInput {
        queue,
        node: tree.queue(&queue.metadata.name).unwrap(),
        tree,
        flavors,
        simulate: &|_, _| {
            if preempts {
                (Fit::Preempt, 0)
            } else {
                (Fit::NoCandidates, 0)
            }
        },
        last_tried,
        counts: None,
        version: KueueVersion::V0_19,
        replaced: None,
    };
    super::assign(workload, &ground)
}

/// Returns a ClusterQueue of a cohort, with cpu of one flavor.
fn member(name: &str, quota: Value, preemption: Value) -> ClusterQueue {
    let mut resource = json!({"name": "cpu"});
    for (field, value) in quota.as_object().unwrap() {
        resource[field] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
        "cohortName": "all", "preemption": preemption, "resourceGroups": [{
            "coveredResources": ["cpu"],
            "flavors": [{"name": "default", "resources": [resource]}],
        }],
    }}))
    .unwrap()
}

fn cpu(cores: i64) -> Usage {
    let mut usage = Usage::default();
    usage.add(&("default".to_owned(), "cpu".to_owned()), cores * 1000);
    usage
}

fn quota(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]})
}

#[test]
fn what_is_missing_is_reported() {
    let queue = queue(json!([quota("default", "1")]), "Never");
    let all = flavors(&["default"]);
    let first = assign(&workload("a", 0, "1"), &queue, &Usage::default(), &all);
    let second = assign(&workload("b", 0, "500m"), &queue, &first.usage, &all);
    assert_eq!(
        second.message,
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 500m more needed"
    );
}

#[test]
fn the_fewest_of_the_lowest_priority_are_preempted() {
    let queue = queue(json!([quota("default", "2")]), "LowerPriority");
    let all = flavors(&["default"]);
    let mut taken = Usage::default();
    let mut holders: Vec<Workload> = Vec::new();
    for (name, priority) in [("low", 1), ("lower", 0)] {
        let mut holder = workload(name, priority, "1");
        let assigned = assign(&holder, &queue, &taken, &all);
        taken.add_all(&assigned.usage);
        holder.status.admission = Some(assigned.admission);
        holders.push(holder);
    }
    let preemptor = workload("high", 5, "1");
    let wanted = assign(&preemptor, &queue, &taken, &all);
    assert_eq!(wanted.fit, Fit::Preempt);
    let tree = tree(&[(&queue, &taken)]);
    let node = tree.queue("cq").unwrap();
    let candidates: Vec<Candidate<'_>> = holders
        .iter()
        .map(|workload| Candidate {
            workload,
            queue: node,
            usage: super::usage_of(workload),
            arrival: 0,
        })
        .collect();
    let contest = Contest {
        preemptor: &preemptor,
        by: RequeuingTimestamp::Eviction,
        fair_sharing: None,
        nominal_first: true,
        queue: &queue,
        node,
        wanted: &wanted.usage,
        cells: &wanted.without_capacity,
        candidates: &candidates,
    };
    let chosen = victims(&contest, &tree);
    let names: Vec<(&str, Cause)> = chosen
        .iter()
        .map(|(at, cause)| (holders[*at].metadata.name.as_str(), *cause))
        .collect();
    assert_eq!(names, [("lower", Cause::InClusterQueue)]);
}

#[test]
fn quota_is_borrowed_up_to_the_limits() {
    let lender = |lending| {
        member(
            "a",
            json!({"nominalQuota": "4", "lendingLimit": lending}),
            json!({}),
        )
    };
    let borrower = |limit| {
        member(
            "b",
            json!({"nominalQuota": "1", "borrowingLimit": limit}),
            json!({}),
        )
    };
    // Lending limit, borrowing limit, largest amount that fits.
    let table = [
        (json!(null), json!(null), 5),
        (json!("2"), json!(null), 3),
        (json!(null), json!("1"), 2),
        (json!("0"), json!(null), 1),
    ];
    let all = flavors(&["default"]);
    for (lending, borrowing, most) in table {
        let (lender, borrower) = (lender(lending.clone()), borrower(borrowing.clone()));
        let none = Usage::default();
        let tree = tree(&[(&lender, &none), (&borrower, &none)]);
        let fit = |cores: i64| {
            let wanted = workload("w", 0, &cores.to_string());
            let given = assign_in(&tree, &wanted, &borrower, &all, &LastTried::new());
            (given.fit, given.borrowing)
        };
        let level = usize::from(most > 1);
        assert_eq!(fit(most), (Fit::Fits, level), "{lending} {borrowing}");
        assert_eq!(fit(most + 1).0, Fit::No, "{lending} {borrowing}");
    }
}

#[test]
fn what_is_borrowed_is_reclaimed_and_what_is_not_is_left() {
    let quota = || json!({"nominalQuota": "2"});
    let owner = member("a", quota(), json!({"reclaimWithinCohort": "Any"}));
    let other = member("b", quota(), json!({}));
    let holder = workload("borrows", 100, "3");
    let preemptor = workload("w", 0, "2");
    for (taken, expected) in [(3, vec![(0, Cause::Reclamation)]), (2, vec![])] {
        // The owner uses the rest.
        let rest = cpu(4 - taken);
        let tree = tree(&[(&owner, &rest), (&other, &cpu(taken))]);
        let (node, theirs) = (tree.queue("a").unwrap(), tree.queue("b").unwrap());
        let candidates = [Candidate {
            workload: &holder,
            queue: theirs,
            usage: cpu(taken),
            arrival: 0,
        }];
        let wanted = cpu(1);
        let contest = Contest {
            preemptor: &preemptor,
            by: RequeuingTimestamp::Eviction,
            fair_sharing: None,
            nominal_first: true,
            queue: &owner,
            node,
            wanted: &wanted,
            cells: &wanted.iter().map(|(cell, _)| cell.clone()).collect(),
            candidates: &candidates,
        };
        assert_eq!(victims(&contest, &tree), expected, "{taken} cores");
    }
}

#[test]
fn the_search_goes_on_after_the_last_flavor_that_was_tried() {
    let queue = queue(
        json!([quota("spot", "2"), quota("on-demand", "2")]),
        "Never",
    );
    let all = flavors(&["spot", "on-demand"]);
    let none = Usage::default();
    let tree = tree(&[(&queue, &none)]);
    let wanted = workload("w", 0, "1");
    let first = assign_in(&tree, &wanted, &queue, &all, &LastTried::new());
    assert_eq!(first.last_tried.len(), 1);
    let second = assign_in(&tree, &wanted, &queue, &all, &first.last_tried);
    let set = &second.admission.pod_set_assignments[0];
    assert_eq!(set.flavors["cpu"], "on-demand");
    assert!(second.last_tried.is_empty());
}

#[test]
fn the_preference_ranks_flavors_as_each_version_does() {
    let capacity = |fit, borrowing| Capacity { fit, borrowing };
    // Without candidates, and with some, but by borrowing.
    let (hopeless, reclaims) = (capacity(Fit::NoCandidates, 0), capacity(Fit::Reclaim, 1));
    // With preemption, and by borrowing.
    let (preempts, borrows) = (capacity(Fit::Preempt, 0), capacity(Fit::Fits, 1));
    let table = [
        (KueueVersion::V0_19, "PreemptionOverBorrowing", false, true),
        (KueueVersion::V0_19, "BorrowingOverPreemption", false, false),
        (KueueVersion::V0_18, "PreemptionOverBorrowing", true, true),
        (KueueVersion::V0_18, "BorrowingOverPreemption", false, false),
        (KueueVersion::V0_15, "PreemptionOverBorrowing", false, false),
        (KueueVersion::V0_15, "BorrowingOverPreemption", true, true),
        (KueueVersion::V0_15, "", false, false),
    ];
    for (version, preference, hopeless_first, preemption_first) in table {
        let by: FlavorFungibility =
            serde_json::from_value(json!({"preference": preference})).unwrap();
        let found = [(hopeless, reclaims), (preempts, borrows)]
            .map(|(one, other)| one.is_better_than(other, &by, version));
        let expected = [hopeless_first, preemption_first];
        assert_eq!(found, expected, "{preference} {version:?}");
    }
}

/// Returns the tree of `lender`, which lends all its quota of `cpus` to `all`, of `direct`, which is
/// in `all`, too, and of `nested`, which is in the cohort `team` below it; these two have no quota.
fn tree_of_two_levels(cpus: &str, taken: &BTreeMap<String, Usage>) -> Tree {
    let queue = |name: &str, cohort: &str, cpus: &str| {
        let mut queue = member(name, json!({"nominalQuota": cpus}), json!({}));
        cohort.clone_into(&mut queue.spec.cohort_name);
        (name.to_owned(), queue)
    };
    let queues = [
        queue("direct", "all", "0"),
        queue("lender", "all", cpus),
        queue("nested", "team", "0"),
    ];
    let team: Cohort = serde_json::from_value(json!({"spec": {"parentName": "all"}})).unwrap();
    let cohorts = BTreeMap::from([("team".to_owned(), team)]);
    Tree::new(&BTreeMap::from(queues), &cohorts, taken)
}

#[test]
fn with_equal_shares_the_workload_below_a_cohort_is_the_first() {
    let tree = tree_of_two_levels("2", &BTreeMap::new());
    let wanted = cpu(1);
    let contender = |(name, priority, arrival)| Contender {
        node: tree.queue(name).unwrap(),
        wanted: &wanted,
        priority,
        since: jiff::Timestamp::UNIX_EPOCH,
        arrival,
    };
    for (contenders, first) in [
        ([("direct", 0, 1), ("nested", 0, 2)], 1),
        ([("nested", 0, 2), ("direct", 0, 1)], 0),
        ([("direct", 1, 1), ("nested", 0, 2)], 0),
    ] {
        assert_eq!(
            fairest(&contenders.map(contender), &tree, true),
            Some(first)
        );
    }
}

/// `rich` has its own quota of what both request, and borrows more of another flavor than `poor`.
#[test]
fn before_0_17_quota_of_ones_own_does_not_come_first() {
    let queue = |name: &str, quotas: [(&str, &str); 2]| {
        let flavors = quotas.map(|(flavor, cpus)| json!({"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpus}]}));
        let queue = json!({"metadata": {"name": name}, "spec": {
            "cohortName": "all", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        }});
        (name.to_owned(), serde_json::from_value(queue).unwrap())
    };
    let queues = BTreeMap::from([
        queue("poor", [("default", "0"), ("spot", "4")]),
        queue("rich", [("default", "2"), ("spot", "0")]),
    ]);
    let mut spot = Usage::default();
    spot.add(&("spot".to_owned(), "cpu".to_owned()), 2000);
    let taken = BTreeMap::from([("rich".to_owned(), spot)]);
    let tree = Tree::new(&queues, &BTreeMap::new(), &taken);
    let wanted = cpu(1);
    let contenders = ["poor", "rich"].map(|name| Contender {
        node: tree.queue(name).unwrap(),
        wanted: &wanted,
        priority: 0,
        since: jiff::Timestamp::UNIX_EPOCH,
        arrival: 0,
    });
    let first = [false, true].map(|nominal_first| fairest(&contenders, &tree, nominal_first));
    assert_eq!(first, [Some(0), Some(1)]);
}

#[test]
fn a_cohort_borrows_nothing_of_a_flavor_of_which_it_has_no_quota() {
    // The ClusterQueue has lost the flavor since.
    let mut left = Usage::default();
    left.add(&("gone".to_owned(), "cpu".to_owned()), 1000);
    for (usage, borrows) in [(cpu(1), true), (left, false)] {
        let taken = BTreeMap::from([("nested".to_owned(), usage)]);
        let tree = tree_of_two_levels("2", &taken);
        let team = tree.path(tree.queue("nested").unwrap()).next().unwrap();
        assert_eq!(tree.share(team).borrows(), borrows);
    }
}
