//! Series of repeated events.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

/// The time after its last repeat when a series ends, in seconds, as in client-go's recorder.
const SERIES: i64 = 360;
/// The maximum number of cached events. Beyond it the oldest are removed.
const MAX_ENTRIES: usize = 10_000;

#[derive(Clone, Debug)]
struct Event {
    last: Timestamp,
    count: u64,
    name: String,
}

/// A cache of event series. Its cost per event does not depend on the number of cached events.
#[derive(Clone, Debug)]
pub(crate) struct EventSeriesCache {
    /// Whether a series ends some time after its last repeat.
    ends: bool,
    events: BTreeMap<String, Event>,
    /// The events in the order in which they are checked, with the time that is checked. An expired
    /// event is then removed; an event that was repeated meanwhile is added again.
    order: VecDeque<(Timestamp, String)>,
}

impl EventSeriesCache {
    pub(crate) fn new(ends: bool) -> Self {
        Self {
            ends,
            events: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Counts a repeated event. Returns its name and its count, this time included. Returns `None`
    /// if the event is new.
    pub(crate) fn again(&mut self, key: &str, now: Timestamp) -> Option<(&str, u64)> {
        let event = self.events.get_mut(key)?;
        if self.ends && is_over(event.last, now) {
            return None;
        }
        event.last = now;
        event.count += 1;
        Some((event.name.as_str(), event.count))
    }

    /// Adds a new event.
    pub(crate) fn insert(&mut self, key: String, name: String, now: Timestamp) {
        self.expire(now);
        self.order.push_back((now, key.clone()));
        let event = Event {
            last: now,
            count: 1,
            name,
        };
        self.events.insert(key, event);
    }

    fn expire(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.order.front() {
            let full = self.order.len() >= MAX_ENTRIES;
            let over = self.ends && is_over(*at, now);
            if !full && !over {
                return;
            }
            let Some((_, key)) = self.order.pop_front() else {
                return;
            };
            match self.events.get(&key).map(|event| event.last) {
                Some(last) if !full && !is_over(last, now) => self.order.push_back((last, key)),
                _ => {
                    self.events.remove(&key);
                }
            }
        }
    }
}

fn is_over(last: Timestamp, now: Timestamp) -> bool {
    now.duration_since(last).as_secs() >= SERIES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn an_event_repeated_within_six_minutes_is_a_series() {
        let mut cache = EventSeriesCache::new(true);
        assert_eq!(cache.again("key", at(0)), None);
        cache.insert("key".to_owned(), "name".to_owned(), at(0));
        assert_eq!(cache.again("key", at(359)), Some(("name", 2)));
        assert_eq!(cache.again("key", at(718)), Some(("name", 3)));
        assert_eq!(cache.again("key", at(718 + 360)), None);
    }

    #[test]
    fn a_series_that_continues_is_kept_and_one_that_ended_is_removed() {
        let mut cache = EventSeriesCache::new(true);
        cache.insert("goes on".to_owned(), "a".to_owned(), at(0));
        cache.insert("is over".to_owned(), "b".to_owned(), at(0));
        assert_eq!(cache.again("goes on", at(300)), Some(("a", 2)));
        cache.insert("new".to_owned(), "c".to_owned(), at(400));
        assert_eq!(cache.events.len(), 2);
        assert_eq!(cache.again("goes on", at(500)), Some(("a", 3)));
    }

    #[test]
    fn no_more_than_ten_thousand_are_kept() {
        let mut cache = EventSeriesCache::new(true);
        for number in 0..3 * MAX_ENTRIES {
            cache.insert(number.to_string(), String::new(), at(0));
            assert!(cache.events.len() <= MAX_ENTRIES && cache.order.len() <= MAX_ENTRIES);
        }
        assert_eq!(cache.again("0", at(0)), None);
        assert!(
            cache
                .again(&(3 * MAX_ENTRIES - 1).to_string(), at(0))
                .is_some()
        );
    }
}
