//! The positions at which the flavor searches of requeued Workloads continue.

use std::collections::{BTreeMap, BTreeSet};

use crate::kueue::KueueVersion;
use crate::kueue::scheduler::LastTried;

/// The unfinished flavor searches, by the Workloads' keys.
#[derive(Debug, Default)]
pub(super) struct FlavorSearches {
    last_tried: BTreeMap<String, LastTried>,
    /// Before 0.19, the versions of Workloads that the scheduler has written with its last message.
    own_writes: BTreeMap<String, String>,
    /// Before 0.19, the Workloads whose search continued although the scheduler had written its
    /// message.
    continued: BTreeSet<String>,
}

impl FlavorSearches {
    /// Removes the position of a search, which is being continued.
    pub(super) fn take(&mut self, key: &str) -> LastTried {
        self.last_tried.remove(key).unwrap_or_default()
    }

    pub(super) fn keep(&mut self, key: String, last_tried: LastTried) {
        self.last_tried.insert(key, last_tried);
    }

    /// Records that the scheduler has written its message to a Workload.
    pub(super) fn record_own_write(&mut self, key: &str, resource_version: String) {
        if self.last_tried.contains_key(key) {
            self.own_writes.insert(key.to_owned(), resource_version);
        }
    }

    /// Starts the search of a changed Workload anew, before 0.19. The scheduler's own message is
    /// such a change if the queue receives it before the next attempt. Mostly it does so every
    /// other time, with `slow_scheduler` always (measured on 0.18.3; `PushOrUpdate` in
    /// `pkg/cache/queue/cluster_queue.go`).
    pub(super) fn changed(&mut self, key: &str, resource_version: &str, kueue: KueueVersion) {
        if kueue.keeps_flavor_progress {
            return;
        }
        let own = self.own_writes.remove(key);
        let quick = own.is_some_and(|own| own == resource_version) && !kueue.slow_scheduler;
        if quick && self.continued.insert(key.to_owned()) {
            return;
        }
        self.continued.remove(key);
        self.last_tried.remove(key);
    }

    /// Removes the state of a deleted Workload.
    pub(super) fn remove(&mut self, key: &str) {
        self.last_tried.remove(key);
        self.own_writes.remove(key);
        self.continued.remove(key);
    }
}
