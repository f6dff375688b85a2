//! The flavors that were tried and not taken, as the event of a reservation tells them.

use super::assign::{Fit, Tried};

/// A list by pod set.
#[derive(Clone, Debug, Default)]
pub(super) struct Considered {
    sets: Vec<(String, Vec<String>)>,
}

impl Considered {
    /// What follows is about this pod set.
    pub(super) fn pod_set(&mut self, name: &str) {
        self.sets.push((name.to_owned(), Vec::new()));
    }

    /// One flavor was tried. That it fits is not told.
    pub(super) fn tried(&mut self, tried: &Tried<'_>) {
        let mode = match tried.fit {
            Fit::Fits => return,
            Fit::Preempt => "preemptionMode=Preempt",
            Fit::NoCandidates => "preemptionMode=NoCandidates",
            Fit::No => "NoFit",
        };
        let parts = std::iter::once(mode).chain(tried.reasons.iter().map(String::as_str));
        let parts: Vec<&str> = parts.collect();
        let text = format!("{}({})", tried.flavor.name, parts.join(";"));
        if let Some((_, flavors)) = self.sets.last_mut() {
            flavors.push(text);
        }
    }

    /// `main: a(NoFit;why), b(NoFit;why) | other: c(NoFit;why)`, or nothing.
    pub(super) fn text(&self) -> String {
        let told = self.sets.iter().filter(|(_, flavors)| !flavors.is_empty());
        let told: Vec<String> = told
            .map(|(name, flavors)| format!("{name}: {}", flavors.join(", ")))
            .collect();
        told.join(" | ")
    }
}
