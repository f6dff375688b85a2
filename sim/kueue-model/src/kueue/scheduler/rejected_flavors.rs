//! The flavors that were tried, as the event of a quota reservation lists them.

use std::collections::{BTreeMap, BTreeSet};

use super::fit::Fit;
use crate::kueue::KueueVersion;

/// The rejected flavors of each pod set.
#[derive(Clone, Debug)]
pub(super) struct RejectedFlavors {
    explains_preemptions: bool,
    sets: Vec<(String, BTreeMap<String, String>)>,
}

impl RejectedFlavors {
    pub(super) fn new(version: KueueVersion) -> Self {
        Self {
            explains_preemptions: version.explains_preemptions,
            sets: Vec::new(),
        }
    }

    /// Starts the list of a pod set.
    pub(super) fn pod_set(&mut self, name: &str) {
        self.sets.push((name.to_owned(), BTreeMap::new()));
    }

    /// Records an attempted flavor, unless it fits without borrowing.
    pub(super) fn tried(&mut self, name: &str, fit: Fit, borrowing: usize, reasons: &[String]) {
        let mode = match fit {
            Fit::Fits if borrowing == 0 => return,
            Fit::Fits => "Fit",
            Fit::No => "NoFit",
            _ if !self.explains_preemptions => "Preempt",
            Fit::Reclaim => "preemptionMode=Reclaim",
            Fit::Preempt => "preemptionMode=Preempt",
            Fit::NoCandidates => "preemptionMode=NoCandidates",
        };
        let mut parts = vec![mode.to_owned()];
        if borrowing > 0 {
            parts.push(format!("borrow={borrowing}"));
        }
        let unique: BTreeSet<&String> = reasons.iter().collect();
        parts.extend(unique.into_iter().cloned());
        let text = format!("{name}({})", parts.join(";"));
        if let Some((_, flavors)) = self.sets.last_mut() {
            flavors.insert(name.to_owned(), text);
        }
    }

    /// Returns `main: a(NoFit;why), b(NoFit;why) | other: c(NoFit;why)`, or an empty text. The
    /// flavors are sorted by name.
    pub(super) fn text(&self) -> String {
        let sets = self.sets.iter().filter(|(_, flavors)| !flavors.is_empty());
        let texts: Vec<String> = sets
            .map(|(name, flavors)| {
                let flavors: Vec<&str> = flavors.values().map(String::as_str).collect();
                format!("{name}: {}", flavors.join(", "))
            })
            .collect();
        texts.join(" | ")
    }
}
