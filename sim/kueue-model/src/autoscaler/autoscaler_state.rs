//! The state of an autoscaler between two loops.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Nodes, Settings};

/// The state kept between two loops: the little that a real autoscaler keeps in memory, the nodes,
/// and the progress of scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscalerState {
    /// Backoff by UID, as all maps below.
    pub(super) backoff: BTreeMap<String, Duration>,
    /// When the outcome of each accepted request is due.
    pub(super) due: BTreeMap<String, Timestamp>,
    pub(super) nodes: Nodes,
    /// The order in which requests were first observed, from 1.
    pub(super) numbers: BTreeMap<String, usize>,
    pub(super) attempts: BTreeMap<String, usize>,
    pub(super) conflicts: BTreeMap<String, u32>,
}

impl AutoscalerState {
    /// Creates the state of an autoscaler that has just started with the nodes of `settings`.
    pub fn new(settings: &Settings) -> Self {
        Self {
            backoff: BTreeMap::new(),
            due: BTreeMap::new(),
            nodes: Nodes::new(&settings.pools),
            numbers: BTreeMap::new(),
            attempts: BTreeMap::new(),
            conflicts: BTreeMap::new(),
        }
    }

    /// Restarts the autoscaler: backoffs and pending outcomes are lost, nodes stay.
    pub fn restart(&mut self) {
        self.backoff.clear();
        self.due.clear();
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Removes the state of deleted requests, and numbers new ones.
    pub(super) fn meet<'a>(&mut self, uids: impl Iterator<Item = &'a str> + Clone) {
        for uid in uids.clone() {
            let next = self.numbers.len() + 1;
            self.numbers.entry(uid.to_owned()).or_insert(next);
        }
        let here: std::collections::BTreeSet<_> = uids.collect();
        self.backoff.retain(|uid, _| here.contains(uid.as_str()));
        self.due.retain(|uid, _| here.contains(uid.as_str()));
        self.attempts.retain(|uid, _| here.contains(uid.as_str()));
        self.conflicts.retain(|uid, _| here.contains(uid.as_str()));
    }
}
