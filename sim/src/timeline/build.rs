//! Construction of spans from snapshots.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kueue_check::api::CheckState;

use super::phase::TimelineValue;
use super::read::{self, text};
use super::{Phase, Span, Timeline, Track, WorkloadSnapshot};

impl Timeline {
    /// Returns the timeline from the first of `sightings` to `until`, without later snapshots.
    /// Snapshots may come in any order; those of one moment keep their order.
    pub fn new(sightings: impl IntoIterator<Item = WorkloadSnapshot>, until: Timestamp) -> Self {
        let mut sightings: Vec<_> = sightings
            .into_iter()
            .filter(|sighting| sighting.at <= until)
            .collect();
        sightings.sort_by_key(|sighting| sighting.at);
        let from = sightings.first().map_or(until, |sighting| sighting.at);
        Self {
            from,
            until,
            tracks: tracks(&sightings, until),
        }
    }
}

fn tracks(sightings: &[WorkloadSnapshot], until: Timestamp) -> Vec<Track> {
    let mut drafts: BTreeMap<(String, String, String), Draft> = BTreeMap::new();
    for sighting in sightings {
        let metadata = &sighting.workload["metadata"];
        let key = (
            text(&metadata["namespace"]),
            text(&metadata["name"]),
            text(&metadata["uid"]),
        );
        drafts
            .entry(key)
            .or_insert_with(|| Draft::new(sighting.at))
            .see(sighting);
    }
    // The sort is stable and the map is ordered: tracks of one moment stay ordered by name.
    let mut drafts: Vec<_> = drafts.into_iter().collect();
    drafts.sort_by_key(|(_, draft)| draft.born);
    drafts
        .into_iter()
        .map(|(key, draft)| draft.finish(key, until))
        .collect()
}

/// An unfinished track.
struct Draft {
    born: Timestamp,
    queue: String,
    phases: Lane<Phase>,
    checks: BTreeMap<String, Lane<CheckState>>,
    deleted: Option<Timestamp>,
}

impl Draft {
    fn new(born: Timestamp) -> Self {
        Self {
            born,
            queue: String::new(),
            phases: Lane::default(),
            checks: BTreeMap::new(),
            deleted: None,
        }
    }

    fn see(&mut self, sighting: &WorkloadSnapshot) {
        if sighting.deleted {
            self.deleted = Some(sighting.at);
            self.close(sighting.at);
            return;
        }
        let workload = &sighting.workload;
        self.queue = text(&workload["spec"]["queueName"]);
        let (phase, message) = read::phase(workload);
        self.phases.see(sighting.at, phase, message);
        let entries = read::checks(workload);
        for (name, lane) in &mut self.checks {
            if !entries.iter().any(|(entry, ..)| entry == name) {
                lane.close(sighting.at);
            }
        }
        for (name, state, message) in entries {
            let lane = self.checks.entry(name).or_default();
            lane.see(sighting.at, state, message);
        }
    }

    fn close(&mut self, at: Timestamp) {
        self.phases.close(at);
        self.checks.values_mut().for_each(|lane| lane.close(at));
    }

    fn finish(mut self, key: (String, String, String), until: Timestamp) -> Track {
        // A span that began at the end is the current state: it stays although it has no duration.
        self.phases.end(until);
        self.checks.values_mut().for_each(|lane| lane.end(until));
        let (namespace, name, uid) = key;
        Track {
            namespace,
            name,
            uid,
            queue: self.queue,
            phases: self.phases.spans,
            checks: self
                .checks
                .into_iter()
                .map(|(name, lane)| (name, lane.spans))
                .collect(),
            deleted: self.deleted,
        }
    }
}

/// One row of spans, of which the last may be open.
struct Lane<T> {
    spans: Vec<Span<T>>,
    open: Option<Span<T>>,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            spans: Vec::new(),
            open: None,
        }
    }
}

impl<T: TimelineValue> Lane<T> {
    fn see(&mut self, at: Timestamp, what: T, message: String) {
        if let Some(open) = self.open.as_mut().filter(|open| open.what == what) {
            open.message = message;
            return;
        }
        self.close(at);
        self.open = Some(Span {
            from: at,
            until: at,
            what,
            message,
        });
    }

    fn close(&mut self, at: Timestamp) {
        if self
            .open
            .as_ref()
            .is_some_and(|span| span.from == at && !span.what.is_notable())
        {
            self.open = None;
        }
        self.end(at);
    }

    fn end(&mut self, at: Timestamp) {
        if let Some(mut span) = self.open.take() {
            span.until = at;
            self.spans.push(span);
        }
    }
}
