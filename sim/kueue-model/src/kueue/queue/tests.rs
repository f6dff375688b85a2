//! The order in which Workloads are tried.

use serde_json::json;

use super::{PendingQueue, Requeue};
use crate::kueue::KueueVersion;
use crate::kueue::objects::{QueueingStrategy, Workload};

fn workload(name: &str, priority: i64, cpu: &str) -> Workload {
    serde_json::from_value(json!({
        "metadata": {"namespace": "t", "name": name, "generation": 1, "creationTimestamp": "2026-11-21T09:00:00Z"},
        "spec": {"priority": priority, "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        ]}}}]},
    }))
    .unwrap()
}

fn now() -> jiff::Timestamp {
    "2026-11-21T09:00:01Z".parse().unwrap()
}

#[test]
fn higher_priority_is_tried_first() {
    let mut queue = PendingQueue::new(KueueVersion::V0_19);
    queue.push(&workload("a", 0, "1"), 1, now());
    queue.push(&workload("b", 5, "1"), 2, now());
    assert_eq!(queue.head(), Some("t/b"));
}

#[test]
fn what_is_like_one_that_does_not_fit_is_not_tried_until_quota_is_free() {
    let mut queue = PendingQueue::new(KueueVersion::V0_19);
    queue.push(&workload("a", 0, "1"), 1, now());
    queue.push(&workload("b", 0, "1"), 2, now());
    queue.push(&workload("small", 0, "100m"), 3, now());
    queue.requeue("t/a", Requeue::NoFit, now());
    assert_eq!(queue.head(), Some("t/small"));
    queue.remove("t/small");
    queue.push(&workload("c", 0, "1"), 4, now());
    assert_eq!(queue.head(), None);
    queue.retry_inadmissible(now(), |_| true);
    assert_eq!(queue.head(), Some("t/a"));
}

#[test]
fn the_last_that_waited_for_preemptions_stays_first_until_it_leaves() {
    let mut queue = PendingQueue::new(KueueVersion::V0_19);
    queue.push(&workload("a", 1, "4"), 1, now());
    queue.requeue("t/a", Requeue::PendingPreemption, now());
    queue.push(&workload("b", 3, "2"), 2, now());
    assert_eq!(queue.first(), Some("t/a"));
    queue.requeue("t/a", Requeue::NoCandidates, now());
    assert_eq!(queue.first(), Some("t/b"));
    queue.retry_inadmissible(now(), |_| true);
    assert_eq!(queue.first(), Some("t/a"));
    queue.remove("t/a");
    queue.push(&workload("a", 1, "4"), 1, now());
    assert_eq!(queue.first(), Some("t/b"));
}

#[test]
fn a_failed_write_is_retried_at_once() {
    let mut queue = PendingQueue::new(KueueVersion::V0_19);
    queue.push(&workload("a", 0, "1"), 1, now());
    queue.requeue("t/a", Requeue::FailedWrite, now());
    assert_eq!(queue.head(), Some("t/a"));
}

#[test]
fn in_strict_order_the_first_blocks() {
    let mut queue = PendingQueue::new(KueueVersion::V0_19);
    queue.set_strategy(QueueingStrategy::StrictFIFO);
    queue.push(&workload("a", 0, "2"), 1, now());
    queue.push(&workload("b", 0, "1"), 2, now());
    queue.requeue("t/a", Requeue::NoFit, now());
    assert_eq!(queue.head(), None);
    queue.unblock();
    assert_eq!(queue.head(), Some("t/a"));
}

#[test]
fn in_strict_order_one_with_a_delay_does_not_block() {
    let mut queue = PendingQueue::new(KueueVersion::V0_19);
    queue.set_strategy(QueueingStrategy::StrictFIFO);
    let mut first = workload("a", 0, "2");
    queue.push(&first, 1, now());
    queue.push(&workload("b", 0, "1"), 2, now());
    let later = now().saturating_add(jiff::SignedDuration::from_secs(5));
    first
        .status
        .requeue_state
        .get_or_insert_default()
        .requeue_at = later.ok();
    queue.push(&first, 1, now());
    assert_eq!(queue.head(), Some("t/a"));
    queue.requeue("t/a", Requeue::Other, now());
    assert_eq!(queue.head(), Some("t/b"));
}
