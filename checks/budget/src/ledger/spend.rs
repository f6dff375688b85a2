//! Spend of an account, as the source reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Watermarks;
use crate::money::Amount;
use crate::period::Period;

/// One usable answer of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// About which period.
    pub period: Period,
    /// Up to when it is complete.
    pub as_of: Timestamp,
    /// What was spent since the period began, by namespace. One that is missing has spent nothing.
    pub spent: BTreeMap<Arc<str>, Amount>,
    /// Namespaces whose figure was unusable.
    pub unknown: BTreeSet<Arc<str>>,
    /// Whether the source has figures of the period's beginning.
    pub covered: bool,
    /// The namespaces of which something is measured now; `None` if the source cannot tell.
    pub current: Option<BTreeSet<Arc<str>>>,
}

impl Observation {
    /// That nothing was spent in `period` up to `as_of`.
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

/// What was published of spending: a process without other data does not assume less.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// In which period.
    pub period: Period,
    /// What was known to be spent, by namespace.
    pub spent: BTreeMap<Arc<str>, Amount>,
    /// Up to when, in seconds since 1970.
    pub as_of: Option<i64>,
}

/// What is known of spending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spend {
    period: Option<Period>,
    spent: BTreeMap<Arc<str>, Amount>,
    watermarks: Watermarks,
    /// Up to when the [`Floor`] was known.
    published: Option<i64>,
    /// Whether the last observation had nothing of the period's beginning.
    uncovered: bool,
}

/// What was odd about an observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendUpdate {
    /// Namespaces of which less was reported than before: the higher figure stays.
    pub decreased: Vec<Arc<str>>,
    /// Namespaces of which nothing is measured, though jobs run there.
    pub unmeasured: Vec<Arc<str>>,
    /// Whether the observation was of use: it is not if it is about an earlier period.
    pub used: bool,
}

impl Spend {
    /// Takes in what was published, of the current period.
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

    /// Takes in `observation`, seen at `now`. What is known never becomes less within a period, and
    /// the watermark never goes back. In `working` jobs have run for long enough to be measured.
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
        // What became less, or stands still while jobs run, is as unusable as what is no number:
        // since the last good figure, only estimates are known.
        let before = self.watermarks.common.or(self.published);
        let before = before.unwrap_or(i64::MIN);
        let unknown = observation.unknown.iter().chain(&taken.decreased);
        let unusable: BTreeSet<&Arc<str>> = unknown.chain(&taken.unmeasured).collect();
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

    /// What `namespace` has spent in `period`, as far as is known.
    pub fn spent(&self, namespace: &str, period: Period) -> Amount {
        if self.period == Some(period) {
            self.spent.get(namespace).copied().unwrap_or_default()
        } else {
            Amount::ZERO
        }
    }

    /// Whether the source has figures of the period's beginning.
    pub fn is_covered(&self) -> bool {
        !self.uncovered
    }

    /// What is known in `period`, by namespace.
    pub fn by_namespace(&self, period: Period) -> impl Iterator<Item = (&Arc<str>, Amount)> {
        let all = self
            .spent
            .iter()
            .filter(move |_| self.period == Some(period));
        all.map(|(namespace, spent)| (namespace, *spent))
    }

    /// Up to when that is known.
    pub fn watermarks(&self) -> &Watermarks {
        &self.watermarks
    }

    /// The namespaces of which something is known in `period`.
    pub fn namespaces(&self, period: Period) -> impl Iterator<Item = &Arc<str>> {
        self.spent
            .keys()
            .filter(move |_| self.period == Some(period))
    }
}

/// Whether `now` is less than `before` by more than the noise of a sum of floats.
fn is_less(now: Amount, before: Amount) -> bool {
    let noise = Amount::millionths((before.in_millionths() / 1000).max(10_000));
    now + noise < before
}
