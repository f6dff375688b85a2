//! What an autoscaler remembers between two loops.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Nodes, Settings};

/// What is remembered between two loops: the little that a real autoscaler keeps in memory, the
/// nodes, and how far scripts have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// By uid, as all that follows.
    pub(super) backoff: BTreeMap<String, Duration>,
    /// Requests that were accepted and whose outcome is still to come: when.
    pub(super) due: BTreeMap<String, Timestamp>,
    pub(super) nodes: Nodes,
    /// In which order requests were first seen, from 1.
    pub(super) numbers: BTreeMap<String, usize>,
    pub(super) attempts: BTreeMap<String, usize>,
    pub(super) conflicts: BTreeMap<String, u32>,
}

impl Memory {
    /// An autoscaler that has just started beside the nodes of `settings`.
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

    /// The autoscaler starts anew: backoffs and outcomes to come are forgotten, nodes stay.
    pub fn restart(&mut self) {
        self.backoff.clear();
        self.due.clear();
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Forgets requests that are gone, and counts new ones.
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
