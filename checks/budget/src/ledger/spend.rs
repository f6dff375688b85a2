//! Spend of an account, as the source reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Watermarks;
use crate::money::Amount;
use crate::period::Period;

/// An observation: one usable response of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The period.
    pub period: Period,
    /// The time up to which it is complete.
    pub as_of: Timestamp,
    /// The spend since the period began, by namespace. A missing namespace has spent nothing.
    pub spent: BTreeMap<Arc<str>, Amount>,
    /// Namespaces whose figure was unusable.
    pub unknown: BTreeSet<Arc<str>>,
    /// Whether the source has figures of the period's beginning.
    pub covered: bool,
    /// The namespaces with a current sample; `None` if the source cannot report that.
    pub current: Option<BTreeSet<Arc<str>>>,
}

impl Observation {
    /// Creates an observation that nothing was spent in `period` up to `as_of`.
    pub fn of(period: Period, as_of: Timestamp) -> Self {
        Self {
            period,
            as_of,
            spent: BTreeMap::new(),
            unknown: BTreeSet::new(),
            covered: true,
            current: None,
        }
    }
}

/// Published spend. A process without other data assumes no less.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// The period.
    pub period: Period,
    /// The spend that was known, by namespace.
    pub spent: BTreeMap<Arc<str>, Amount>,
    /// The time up to which it was known, in seconds since 1970.
    pub as_of: Option<i64>,
}

/// The known spend, and the time up to which it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spend {
    period: Option<Period>,
    spent: BTreeMap<Arc<str>, Amount>,
    watermarks: Watermarks,
    /// The time up to which the [`Floor`] was known.
    published: Option<i64>,
    /// Whether the last observation had nothing of the period's beginning.
    uncovered: bool,
    /// Namespaces whose last figure is usable but for a current sample, while others have one.
    unmeasured: BTreeSet<Arc<str>>,
}

/// The anomalies of an observation, and whether it was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendUpdate {
    /// Namespaces with less reported spend than before: the higher figure stays.
    pub decreased: Vec<Arc<str>>,
    /// Namespaces without a current sample, though jobs run there.
    pub unmeasured: Vec<Arc<str>>,
    /// Whether the observation was used: one of an earlier period is not.
    pub used: bool,
}

impl Spend {
    /// Raises the spend of the current period to the published one.
    pub fn at_least(&mut self, floor: &Floor) {
        match self.period {
            Some(known) if known.start > floor.period.start => return,
            Some(known) if known == floor.period => {}
            _ => {
                self.period = Some(floor.period);
                self.spent.clear();
            }
        }
        self.published = self.published.max(floor.as_of);
        for (namespace, spent) in &floor.spent {
            let known = self.spent.entry(Arc::clone(namespace)).or_default();
            *known = (*known).max(*spent);
        }
    }

    /// Applies `observation` at `now`.
    ///
    /// Known spend never decreases within a period, and the watermark never moves back. `working`
    /// are the namespaces in which jobs have run for long enough to be measured.
    pub fn apply(
        &mut self,
        observation: &Observation,
        working: &BTreeSet<Arc<str>>,
        now: Timestamp,
    ) -> SpendUpdate {
        let mut taken = SpendUpdate::default();
        match self.period {
            Some(known) if known == observation.period => {}
            Some(known) if known.start >= observation.period.start => return taken,
            _ => {
                self.period = Some(observation.period);
                self.spent.clear();
            }
        }
        taken.used = true;
        self.uncovered = !observation.covered;
        if let Some(current) = &observation.current {
            taken.unmeasured = working.difference(current).cloned().collect();
        }
        let as_of = observation.as_of.min(now).as_second();
        for (namespace, spent) in &observation.spent {
            let known = self.spent.entry(Arc::clone(namespace)).or_default();
            if is_less(*spent, *known) {
                taken.decreased.push(Arc::clone(namespace));
            }
            *known = (*known).max(*spent);
        }
        let missing = self.spent.iter().filter(|(namespace, spent)| {
            is_less(Amount::ZERO, **spent)
                && !observation.spent.contains_key(*namespace)
                && !observation.unknown.contains(*namespace)
        });
        taken
            .decreased
            .extend(missing.map(|(namespace, _)| Arc::clone(namespace)));
        // A figure that decreased, or has no current sample while jobs run, is as unusable as one
        // that is not a number. After the last usable figure only estimates are known.
        let before = self.watermarks.common.or(self.published);
        let before = before.unwrap_or(i64::MIN);
        let unknown = observation.unknown.iter().chain(&taken.decreased);
        let mut unusable: BTreeSet<&Arc<str>> = unknown.collect();
        let current = &observation.current;
        let others = current.as_ref().is_some_and(|names| !names.is_empty());
        let unmeasured = taken.unmeasured.iter().filter(|_| others);
        self.unmeasured = unmeasured
            .filter(|namespace| !unusable.contains(namespace))
            .cloned()
            .collect();
        unusable.extend(&taken.unmeasured);
        self.watermarks
            .behind
            .retain(|namespace, _| unusable.contains(namespace));
        for namespace in &unusable {
            self.watermarks
                .behind
                .entry(Arc::clone(namespace))
                .or_insert(before);
        }
        self.watermarks.common = self.watermarks.common.max(Some(as_of));
        taken
    }

    /// Returns the known spend of `namespace` in `period`.
    pub fn spent(&self, namespace: &str, period: Period) -> Amount {
        if self.period == Some(period) {
            self.spent.get(namespace).copied().unwrap_or_default()
        } else {
            Amount::ZERO
        }
    }

    /// Returns true if the source has figures of the period's beginning.
    pub fn is_covered(&self) -> bool {
        !self.uncovered
    }

    /// Returns true if the last figure of `namespace` only lacks a current sample, while other
    /// namespaces have one: its jobs may not be scheduled.
    pub(super) fn is_only_unmeasured(&self, namespace: &str) -> bool {
        self.unmeasured.contains(namespace)
    }

    /// Returns the known spend in `period`, by namespace.
    pub fn by_namespace(&self, period: Period) -> impl Iterator<Item = (&Arc<str>, Amount)> {
        let all = self
            .spent
            .iter()
            .filter(move |_| self.period == Some(period));
        all.map(|(namespace, spent)| (namespace, *spent))
    }

    /// Returns the times up to which spend is known.
    pub fn watermarks(&self) -> &Watermarks {
        &self.watermarks
    }

    /// Returns the namespaces with known spend in `period`.
    pub fn namespaces(&self, period: Period) -> impl Iterator<Item = &Arc<str>> {
        self.spent
            .keys()
            .filter(move |_| self.period == Some(period))
    }
}

/// Returns true if `now` is less than `before` by more than the noise of a sum of floats.
fn is_less(now: Amount, before: Amount) -> bool {
    let noise = Amount::millionths((before.in_millionths() / 1000).max(10_000));
    now + noise < before
}
