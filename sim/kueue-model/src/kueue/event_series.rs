//! Series of repeated events.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

/// So long after it was last told an event goes on as a series, in seconds, as client-go's recorder
/// has it.
const SERIES: i64 = 360;
/// So many are remembered; beyond them the oldest are forgotten.
const REMEMBERED: usize = 10_000;

#[derive(Clone, Debug)]
struct Event {
    last: Timestamp,
    count: u64,
    name: String,
}

/// The memory of a recorder. What it costs does not depend on how many events it remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventSeriesCache {
    events: BTreeMap<String, Event>,
    /// When each was to be looked at again: it is forgotten then, or was told again meanwhile.
    order: VecDeque<(Timestamp, String)>,
}

impl EventSeriesCache {
    /// Counts an event that is told again: its name, and how often it was told with this time.
    /// `None` if it is a new one.
    pub(crate) fn again(&mut self, key: &str, now: Timestamp) -> Option<(&str, u64)> {
        let event = self.events.get_mut(key)?;
        if is_over(event.last, now) {
            return None;
        }
        event.last = now;
        event.count += 1;
        Some((event.name.as_str(), event.count))
    }

    /// Remembers a new event.
    pub(crate) fn remember(&mut self, key: String, name: String, now: Timestamp) {
        self.forget(now);
        self.order.push_back((now, key.clone()));
        let event = Event {
            last: now,
            count: 1,
            name,
        };
        self.events.insert(key, event);
    }

    fn forget(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.order.front() {
            let full = self.order.len() >= REMEMBERED;
            if !full && !is_over(*at, now) {
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
    fn what_is_told_again_within_six_minutes_is_a_series() {
        let mut told = EventSeriesCache::default();
        assert_eq!(told.again("key", at(0)), None);
        told.remember("key".to_owned(), "name".to_owned(), at(0));
        assert_eq!(told.again("key", at(359)), Some(("name", 2)));
        assert_eq!(told.again("key", at(718)), Some(("name", 3)));
        assert_eq!(told.again("key", at(718 + 360)), None);
    }

    #[test]
    fn what_goes_on_is_remembered_and_what_is_over_is_forgotten() {
        let mut told = EventSeriesCache::default();
        told.remember("goes on".to_owned(), "a".to_owned(), at(0));
        told.remember("is over".to_owned(), "b".to_owned(), at(0));
        assert_eq!(told.again("goes on", at(300)), Some(("a", 2)));
        told.remember("new".to_owned(), "c".to_owned(), at(400));
        assert_eq!(told.events.len(), 2);
        assert_eq!(told.again("goes on", at(500)), Some(("a", 3)));
    }

    #[test]
    fn no_more_than_ten_thousand_are_remembered() {
        let mut told = EventSeriesCache::default();
        for number in 0..3 * REMEMBERED {
            told.remember(number.to_string(), String::new(), at(0));
            assert!(told.events.len() <= REMEMBERED && told.order.len() <= REMEMBERED);
        }
        assert_eq!(told.again("0", at(0)), None);
        assert!(
            told.again(&(3 * REMEMBERED - 1).to_string(), at(0))
                .is_some()
        );
    }
}
