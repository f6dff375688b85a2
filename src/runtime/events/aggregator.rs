//! Aggregation of recent events: repetitions, and limits for each object.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::{EventRecord, Regarding};

/// Time within which an equal event is a repetition, and the number of events kept.
const REPETITION: Duration = Duration::from_mins(10);
const MAX_ENTRIES: usize = 1024;
/// Maximum length of a note in bytes (kube-apiserver 1.36, `pkg/apis/core/validation/events.go`).
const NOTE_BYTES: usize = 1024;
/// Burst of different events about one object, and the interval until one more is allowed.
const BURST: u32 = 20;
const REFILL: Duration = Duration::from_secs(30);

/// An aggregator of the events of the last 10 min.
pub(super) struct EventAggregator {
    controller: String,
    instance: String,
    entries: BTreeMap<Key, Entry>,
    /// Keys in the order in which they were entered, to remove the oldest.
    order: VecDeque<Key>,
    allowances: BTreeMap<Regarding, TokenBucket>,
    written: u64,
}

type Key = (Regarding, &'static str, String);

fn key(record: &EventRecord) -> Key {
    let (regarding, note) = (record.regarding.clone(), record.event.note.to_string());
    (regarding, record.event.reason, note)
}

struct Entry {
    name: String,
    first: Instant,
    count: i32,
}

/// A bucket of tokens for one object.
struct TokenBucket {
    tokens: u32,
    filled: Instant,
}

pub(super) enum Aggregation {
    New(Box<Event>),
    Repeated {
        namespace: String,
        name: String,
        series: EventSeries,
    },
    /// A repetition that need not be sent yet.
    Deduplicated,
    RateLimited,
}

impl EventAggregator {
    pub(super) fn new(controller: &str, instance: &str) -> Self {
        // The API allows 128 bytes for the instance.
        let instance = instance.chars().take(128).collect();
        Self {
            controller: controller.to_owned(),
            instance,
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            allowances: BTreeMap::new(),
            written: 0,
        }
    }

    pub(super) fn aggregate(
        &mut self,
        record: &EventRecord,
        now: Instant,
        stamp: Timestamp,
    ) -> Aggregation {
        let key = key(record);
        if let Some(entry) = self
            .entries
            .get_mut(&key)
            .filter(|entry| now.duration_since(entry.first) < REPETITION)
        {
            entry.count = entry.count.saturating_add(1);
            // Sent at 2, 4, 8, …: 1,000 repetitions are ten requests.
            if entry.count.count_ones() != 1 {
                return Aggregation::Deduplicated;
            }
            let series = EventSeries {
                count: entry.count,
                last_observed_time: MicroTime(stamp),
            };
            return Aggregation::Repeated {
                namespace: namespace(&record.regarding),
                name: entry.name.clone(),
                series,
            };
        }
        if !self.allow(&record.regarding, now) {
            return Aggregation::RateLimited;
        }
        self.written += 1;
        let name = event_name(&record.regarding.name, stamp, self.written);
        self.remember(
            key,
            Entry {
                name: name.clone(),
                first: now,
                count: 1,
            },
        );
        Aggregation::New(Box::new(self.event(record, name, stamp)))
    }

    fn allow(&mut self, regarding: &Regarding, now: Instant) -> bool {
        if self.allowances.len() >= MAX_ENTRIES {
            self.allowances
                .retain(|_, allowance| now.duration_since(allowance.filled) < REFILL * BURST);
        }
        let allowance = self
            .allowances
            .entry(regarding.clone())
            .or_insert(TokenBucket {
                tokens: BURST,
                filled: now,
            });
        let refills =
            u32::try_from(now.duration_since(allowance.filled).as_secs() / REFILL.as_secs())
                .unwrap_or(BURST);
        if refills > 0 {
            allowance.tokens = allowance.tokens.saturating_add(refills).min(BURST);
            allowance.filled = now;
        }
        let allowed = allowance.tokens > 0;
        allowance.tokens = allowance.tokens.saturating_sub(1);
        allowed
    }

    /// Drops the event of `record`, which was not created: its next occurrence is a new one.
    pub(super) fn drop_event(&mut self, record: &EventRecord) {
        let key = key(record);
        self.entries.remove(&key);
        self.order.retain(|known| *known != key);
    }

    fn remember(&mut self, key: Key, entry: Entry) {
        if self.entries.insert(key.clone(), entry).is_none() {
            self.order.push_back(key);
        }
        while self.entries.len() > MAX_ENTRIES
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    fn event(&self, record: &EventRecord, name: String, stamp: Timestamp) -> Event {
        let EventRecord { regarding, event } = record;
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace(regarding)),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(stamp)),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(event.reason.to_owned()),
            action: Some(event.action.to_owned()),
            note: Some(event.note.cut_to_bytes(NOTE_BYTES).into_owned()),
            regarding: Some(ObjectReference {
                api_version: Some(regarding.api_version.clone()),
                kind: Some(regarding.kind.clone()),
                namespace: regarding.namespace.clone(),
                name: Some(regarding.name.clone()),
                uid: Some(regarding.uid.clone()),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }
}

/// Returns the namespace of an event. Events about objects without a namespace are in `default`, as
/// those of Kubernetes itself.
fn namespace(regarding: &Regarding) -> String {
    regarding
        .namespace
        .clone()
        .unwrap_or_else(|| "default".to_owned())
}

/// Returns a unique name, of at most 253 characters.
fn event_name(object: &str, stamp: Timestamp, number: u64) -> String {
    let unique = format!(".{:x}.{number:x}", stamp.as_nanosecond());
    let object: String = object.chars().take(253 - unique.len()).collect();
    format!("{}{unique}", object.trim_end_matches(['.', '-']))
}

/// Returns an event about a Workload.
#[cfg(test)]
pub(super) fn record(name: &str, note: &str, warning: bool) -> EventRecord {
    use crate::api::{ApiVersion, Uid};
    use crate::check::CheckEvent;
    let uid = Uid::new(name);
    let reservation = crate::check::Reservation::new("ns", name, uid, "c", Timestamp::UNIX_EPOCH);
    EventRecord {
        regarding: Regarding::workload(&reservation, ApiVersion::V1beta2),
        event: CheckEvent {
            warning,
            ..CheckEvent::normal("CheckReady", note)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regarding(name: &str, note: &str) -> EventRecord {
        record(name, note, false)
    }

    fn enter(aggregator: &mut EventAggregator, record: &EventRecord) -> String {
        match aggregator.aggregate(
            record,
            Instant::now(),
            "2026-11-21T09:00:00Z".parse().unwrap(),
        ) {
            Aggregation::New(event) => format!("new {}", event.note.unwrap()),
            Aggregation::Repeated { series, .. } => format!("repeated {}", series.count),
            Aggregation::Deduplicated => "counted".to_owned(),
            Aggregation::RateLimited => "too many".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repetitions_become_one_event_that_is_rarely_updated() {
        let mut aggregator = EventAggregator::new("example.com/c", "pod-1");
        let results: Vec<String> = (0..8)
            .map(|_| enter(&mut aggregator, &regarding("w", "ok")))
            .collect();
        assert_eq!(
            results,
            [
                "new ok",
                "repeated 2",
                "counted",
                "repeated 4",
                "counted",
                "counted",
                "counted",
                "repeated 8"
            ]
        );
        assert_eq!(
            enter(&mut aggregator, &regarding("w", "other")),
            "new other"
        );
        tokio::time::advance(REPETITION).await;
        assert_eq!(enter(&mut aggregator, &regarding("w", "ok")), "new ok");
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_fits_in_bytes_and_an_event_that_was_not_created_is_new_again() {
        let mut aggregator = EventAggregator::new("example.com/c", "pod-1");
        for letter in ["x", "語"] {
            let record = record("w", &letter.repeat(2000), false);
            for _ in 0..2 {
                let now = Instant::now();
                let Aggregation::New(event) =
                    aggregator.aggregate(&record, now, Timestamp::UNIX_EPOCH)
                else {
                    panic!("it is new");
                };
                let note = event.note.unwrap();
                assert!(note.len() <= NOTE_BYTES && note.len() > NOTE_BYTES - 6);
                assert!(note.ends_with('…'));
                aggregator.drop_event(&record);
                assert!(aggregator.order.is_empty());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_cannot_flood_the_events() {
        let mut aggregator = EventAggregator::new("example.com/c", "pod-1");
        let limited = (0..100)
            .filter(|n| enter(&mut aggregator, &regarding("w", &n.to_string())) == "too many")
            .count();
        assert_eq!(limited, 80);
        assert_eq!(
            enter(&mut aggregator, &regarding("other", "ok")),
            "new ok",
            "others may"
        );
        tokio::time::advance(REFILL).await;
        assert_eq!(
            enter(&mut aggregator, &regarding("w", "later")),
            "new later"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_entries_is_bounded() {
        let mut aggregator = EventAggregator::new("example.com/c", "pod-1");
        for n in 0..5000 {
            enter(&mut aggregator, &regarding(&format!("w{n}"), "ok"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(
            aggregator.entries.len() <= MAX_ENTRIES
                && aggregator.order.len() <= MAX_ENTRIES
                && aggregator.allowances.len() <= MAX_ENTRIES
        );
    }

    #[test]
    fn names_are_unique_and_fit() {
        let name = event_name(&"w".repeat(253), "2026-11-21T09:00:00Z".parse().unwrap(), 7);
        assert_eq!(name.len(), 253);
        assert!(name.ends_with(".7"));
    }
}
