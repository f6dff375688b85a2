//! What runs of an elastic job while a growth of it waits. Pure.
//!
//! A growth is a Workload of its own, which asks for all pods of the job and replaces the Workload
//! before (a *slice*). Kueue finishes the replaced slice as soon as the growth has quota, before
//! its checks are evaluated, and the pods run on. An eviction of the growth stops them all the same
//! (measured on 0.19.2, traces `elastic-grow-retry` and `elastic-grow-rejected`).

use std::collections::{BTreeMap, BTreeSet};

use kube::runtime::watcher::Event;

use crate::api::{Slice, Workload};

/// A Workload that waits, of a job of which an earlier slice runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    /// How many pods run; `None` if the slice that runs is not known.
    pub(crate) running: Option<u32>,
}

/// The slices of all elastic jobs, as the watch of Workloads shows them, those that have been
/// replaced among them.
///
/// Nothing is remembered beyond the objects that exist, so a restart loses nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    known: BTreeMap<Place, Known>,
    /// While a list is under way: what it has named.
    listed: Option<BTreeSet<Place>>,
}

/// Namespace and name.
type Place = (Box<str>, Box<str>);

/// What is known of a slice.
#[derive(Clone, Debug)]
struct Known {
    replaces: Option<Box<str>>,
    phase: Phase,
    pods: u32,
}

/// What a slice says about the pods of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has been admitted, and its pods run, also when a growth has replaced it.
    Runs,
    /// It has not been admitted: what runs is of an earlier slice.
    Waits,
    /// Its eviction has stopped the whole job, or the job has finished.
    Ended,
}

impl Phase {
    fn of(workload: &Workload) -> Self {
        let conditions = workload.conditions();
        if conditions.finished().is_true() && !conditions.replaced {
            Self::Ended
        } else if workload.is_admitted() {
            Self::Runs
        } else if conditions.evicted().status.is_some() {
            // Kueue sets the condition to False when quota is reserved again.
            Self::Ended
        } else {
            Self::Waits
        }
    }
}

impl Slices {
    /// Takes in an event of the watch of Workloads.
    pub(crate) fn take(&mut self, event: &Event<Workload>) {
        match event {
            Event::Init => self.listed = Some(BTreeSet::new()),
            Event::InitApply(workload) | Event::Apply(workload) => self.apply(workload),
            Event::Delete(workload) => {
                self.known
                    .remove(&place(workload.namespace(), workload.name()));
            }
            Event::InitDone => {
                if let Some(listed) = self.listed.take() {
                    self.known.retain(|place, _| listed.contains(place));
                }
            }
        }
    }

    fn apply(&mut self, workload: &Workload) {
        let replaces = match workload.slice() {
            Slice::None => return,
            Slice::First => None,
            Slice::Replaces(name) => Some(name.clone()),
        };
        let place = place(workload.namespace(), workload.name());
        if let Some(listed) = &mut self.listed {
            listed.insert(place.clone());
        }
        let known = Known {
            replaces,
            phase: Phase::of(workload),
            pods: workload.pods(),
        };
        self.known.insert(place, known);
    }

    /// Returns what `workload` grows, if it is a growth that waits and nothing says that no pod of
    /// its job runs.
    ///
    /// From the growth back, the first slice that has been admitted is the one whose pods run.
    /// Where a slice is unknown, pods are assumed to run.
    pub(crate) fn growth(&self, workload: &Workload) -> Option<Growth> {
        let Slice::Replaces(replaced) = workload.slice() else {
            return None;
        };
        if Phase::of(workload) != Phase::Waits {
            return None;
        }
        let mut next = replaced;
        // Bounded, whatever the annotations say.
        for _ in 0..=self.known.len() {
            let Some(slice) = self.known.get(&place(workload.namespace(), next)) else {
                break;
            };
            match (slice.phase, &slice.replaces) {
                (Phase::Runs, _) => {
                    let running = Some(slice.pods);
                    return Some(Growth { running });
                }
                (Phase::Ended, _) | (Phase::Waits, None) => return None,
                (Phase::Waits, Some(earlier)) => next = earlier,
            }
        }
        Some(Growth { running: None })
    }
}

fn place(namespace: &str, name: &str) -> Place {
    (namespace.into(), name.into())
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;
